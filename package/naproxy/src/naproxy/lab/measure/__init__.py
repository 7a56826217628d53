"""`naproxy measure`: experiments with a meter, as the thesis did them."""
