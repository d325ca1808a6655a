"""Is a turn right? The ground truth is carried out on a world of its own; then states are compared, and results looked for.

```
policy's calls of the turn  → world of the policy       ─┐ same public state, class by class, and
ground truth of the turn    → world of the ground truth ─┘ every result of the ground truth is among the policy's results so far
```
As in the benchmark, a turn without ground truth (nothing can be done yet) is right whatever happens: what it changed is seen at the
next turn; and a turn with ground truth is wrong if nothing was called.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rosellm.roserlhf.environment.bfcl.literals import read_call
from rosellm.roserlhf.environment.bfcl.world import World


class TurnVerifier:
    """Verifies the turns of one task in order.

    Args:
        entry: one of `files.entries()`.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._entry = entry
        self._truth: Sequence[Sequence[str]] = entry["ground_truth"]
        self.passed: list[bool] = []
        """What was found, turn by turn."""

    @functools.cached_property
    def _world(self) -> World:
        """Made when the first turn is verified; many episodes end before."""
        return World(self._entry)

    def verify(self, world: World, results: Sequence[str], *, called: bool) -> bool:
        """Verify the next turn.

        Args:
            world: the policy's, after this turn.
            results: what its calls returned in this turn and all before.
            called: whether it called anything in this turn.
        """
        calls = [read_call(text) for text in self._truth[len(self.passed)]]
        expected = [self._world.call(call.name, call.arguments, call.positional) for call in calls]
        right = not calls or (called and not Counter(expected) - Counter(results) and self._world.equals(world))
        self.passed.append(right)
        return right
