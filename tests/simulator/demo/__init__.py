"""`make demo`: the whole appliance in a virtual office, live."""
