"""Settings that all tests share."""

import os

# Before scikit-learn is imported: lets its array API checks run.
os.environ["SCIPY_ARRAY_API"] = "1"

from hypothesis import settings

# deadline: the first call of a torch kernel may take longer than hypothesis allows.
# derandomize: the same examples on every run, so that a red test stays red.
settings.register_profile("skvn", deadline=None, derandomize=True)
settings.load_profile("skvn")
