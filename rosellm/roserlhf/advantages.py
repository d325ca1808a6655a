"""Credit: rewards -> advantages. Tensors in, detached tensors out; advantages are evidence, never a path for gradients.

| name | equation | paper | file |
|---|---|---|---|
| `discounted_returns` | `G_t = r_t + γ(1−d_t) G_{t+1}` | Sutton & Barto, 3.9 | `credit/returns.py` |
| `generalized_advantage_estimation` | `A_t = δ_t + γλ(1−d_t) A_{t+1}` | GAE 1506.02438 Eq. 16 | `credit/gae.py` |
| `skip_observation_generalized_advantage_estimation` | the same per semantic action | SAO 2607.07508 Eq. 4, 5 | `credit/gae.py` |
| `leave_one_out_advantages` | `R_i − mean of the others` | RLOO 2402.14740 | `credit/group.py` |
| `group_standardized_advantages` | `(R_i − mean) / (population std + ε)` | GRPO 2402.03300, 4.1.2 | `credit/group.py` |
| `broadcast_turn_advantages` | `A_t` = A of the turn of token t | 2505.11821 | `credit/turns.py` |

In all of them time is the last dimension (the group by default, too) and everything before it is batch; half precision is computed
and returned in float32, float64 stays; what a mask leaves out is never read. What the time rows have in common (termination,
truncation, absent time, packed episodes) is defined once, in ``credit/timeline.py``.
"""

from __future__ import annotations

from rosellm.roserlhf.credit.gae import generalized_advantage_estimation as generalized_advantage_estimation
from rosellm.roserlhf.credit.gae import (
    skip_observation_generalized_advantage_estimation as skip_observation_generalized_advantage_estimation,
)
from rosellm.roserlhf.credit.group import group_standardized_advantages as group_standardized_advantages
from rosellm.roserlhf.credit.group import leave_one_out_advantages as leave_one_out_advantages
from rosellm.roserlhf.credit.returns import discounted_returns as discounted_returns
from rosellm.roserlhf.credit.turns import broadcast_turn_advantages as broadcast_turn_advantages

__all__ = [
    "broadcast_turn_advantages",
    "discounted_returns",
    "generalized_advantage_estimation",
    "group_standardized_advantages",
    "leave_one_out_advantages",
    "skip_observation_generalized_advantage_estimation",
]
