"""Settings that all tests share."""

from hypothesis import settings

# deadline: the first call of a torch kernel may take longer than hypothesis allows.
# derandomize: the same examples on every run, so that a red test stays red.
settings.register_profile("skvn", deadline=None, derandomize=True)
settings.load_profile("skvn")
