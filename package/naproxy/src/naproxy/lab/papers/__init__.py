"""Computations of the papers, their experiments, and the numbers of the thesis' items."""
