"""Whole servers' programs behind the box, asked by their own clients: docs/recipes/.

`make test-recipes` and `make faults-office`. They need the Debian packages of packages.txt.
"""
