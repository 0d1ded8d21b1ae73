"How many examples hypothesis tries in each test: `ci` (fixed, quick), or `long` by HYPOTHESIS_PROFILE=long and --hypothesis-seed=N: thousands in a run."
import os
from hypothesis import HealthCheck, settings

common = dict(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile('ci', max_examples=200, derandomize=True, **common)
settings.register_profile('long', max_examples=1000, **common)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'ci'))
