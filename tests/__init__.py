"""Tests that cross rooms, the virtual office they run in, and the benchmarks."""
