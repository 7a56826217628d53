"""What is computed of the papers themselves, and the numbers that the thesis' items have."""
