"""Why a sampled token is not trained, as far as the records alone can tell; batches add reasons of their own.

A token has one reason, the first of these that applies, in this order.
"""

STALE = "stale prefix cache"
"""Sampled over keys and values of an older policy version: no single distribution made it."""
NOT_TRAINABLE = "not trainable"
"""Its record is only context or evidence."""
UNSCORED = "unscored"
"""The infrastructure failed somewhere in the rollout."""
INTERRUPTED = "interrupted"
"""The rollout has no end, and no later record goes on with it: there is no outcome to learn from."""
