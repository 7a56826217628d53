"""The siege, `make siege`: attacks on a box that serves others meanwhile.

What each attack does, and what must hold for everybody else: docs/siege.md.
"""
