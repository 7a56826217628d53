"""Notifications: what is worth telling, once each, and the ways to tell it (docs/notify.md).

`events.py`, `outbox.py` and `letter.py` are pure. `notifier.py` runs in the controller; `sender.py`
and `figures.py` are processes of their own, so that a mail server that hangs holds nothing up.
"""
