"""Notifications: the events worth a message, once each, and the channels (docs/notify.md).

`events.py`, `outbox.py` and `letter.py` are pure. `notifier.py` runs in the controller; `sender.py`
and `figures.py` are processes of their own, so that a hanging mail server cannot block it.
"""
