"""The `rosellm` distribution; the library itself is :mod:`rosellm.roserlhf`."""
