"""An environment whose module draws from the global random state and prints while it is imported."""

import random

from doctored_environments import Sum

random.seed(0)
print("hello")


class Importing(Sum):
    """Sound, once it is there."""
