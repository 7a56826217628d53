"""`make five`: the thesis' five configurations, one after another on the same requests."""
