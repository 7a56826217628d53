from hypothesis import HealthCheck, settings

# A machine that does something else beside makes inputs slowly; that is no fault of theirs.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
