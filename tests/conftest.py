"""How many cases hypothesis tries: HYPOTHESIS_PROFILE=ci (the default; the same ones in every run) or nightly."""

import os

from hypothesis import HealthCheck, settings

# A busy machine is no bug: nothing is judged by its time.
unhurried = settings(
    settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", unhurried, max_examples=500, derandomize=True)
settings.register_profile("nightly", unhurried, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
