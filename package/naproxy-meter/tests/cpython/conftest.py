from hypothesis import settings

# The same examples every time, however slow the machine is.
settings.load_profile("ci")
