"""`naproxy estimate` and savings in hindsight: a box simulated over requests."""
