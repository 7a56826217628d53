"""`naproxy estimate` and what could have been saved: a box simulated over requests."""
