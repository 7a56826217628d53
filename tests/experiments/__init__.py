"""The papers' experiments between two machines of our own: `make experiment NAME=protocols`."""
