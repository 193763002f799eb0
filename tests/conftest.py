"""What all tests share."""

from hypothesis import HealthCheck, settings

# How long an example takes, or its making, says more of the machine than of what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
