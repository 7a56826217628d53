"""The fault campaign, `make faults`: many cycles of sleep and wake, a fault in each.

What is drawn, what counts as lost and what as wrong: docs/faults.md.
"""
