"""What the box does for itself: network, time, name, backup, logs, restart (docs/box.md).

What belongs to the machine and not to Naproxy is done only where `box.platform` says that the
whole machine is ours; elsewhere the API says whose it is.
"""
