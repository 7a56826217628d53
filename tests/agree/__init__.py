"""The simulator against the box: `make test-agree`."""
