"""Credit: rewards -> advantages. Tensors in, detached tensors out; advantages are evidence, never a path for gradients.

| name | equation | paper | file |
|---|---|---|---|
| `discounted_returns` | `G_t = r_t + γ(1−d_t) G_{t+1}` | Sutton & Barto, 3.9 | `credit/returns.py` |
| `reward_to_go` | `G_t`, or `γ^t G_t` | Sutton & Barto, 13.3 | `credit/returns.py` |
| `generalized_advantage_estimation` | `A_t = δ_t + γλ(1−d_t) A_{t+1}` | GAE 1506.02438 Eq. 16 | `credit/gae.py` |
| `skip_observation_generalized_advantage_estimation` | the same per semantic action | SAO 2607.07508 Eq. 4, 5 | `credit/gae.py` |
| `n_step_advantages` | `Σ_{k<n} γ^k r_{t+k} + γ^n V_{t+n} − V_t` | Sutton & Barto, 7.1 | `credit/nstep.py` |
| `v_trace` | `δ_t = ρ̄_t(r_t + γV_{t+1} − V_t)`, carried back with `γc̄_t` | IMPALA 1802.01561 Eq. 1 | `credit/vtrace.py` |
| `length_adaptive_lambda` | `λ = clip(1 − 1/(αl), 0, 1)` | VAPO 2504.05118 | `credit/lambdas.py` |
| `cross_segment_advantages` | `(γλ)^(later policy tokens) · A_local` | CompactionRL 2607.05378 Eq. 12-15 | `credit/compaction.py` |
| `compaction_token_weights` | `1/N`, `1/(R N_r)` or `1/(R K_r n_s)` | the same | `credit/compaction.py` |
| `potential_shaping` | `r_t + γ(1−d_t)Φ_{t+1} − Φ_t` | Ng, Harada & Russell 1999 | `credit/shaping.py` |
| `explained_variance` | `1 − Var(R − V)/Var(R)` | – | `credit/values.py` |
| `leave_one_out_advantages` | `R_i − mean of the others` | RLOO 2402.14740 | `credit/group.py` |
| `group_standardized_advantages` | `(R_i − mean) / (population std + ε)` | GRPO 2402.03300, 4.1.2 | `credit/group.py` |
| `broadcast_turn_advantages` | `A_t` = A of the turn of token t | 2505.11821 | `credit/turns.py` |
| `turn_generalized_advantage_estimation` | GAE over turns, given to their tokens | 2512.17008 | `credit/turns.py` |
| `turn_values` | mean over the turn's tokens, or its last | SAO 2607.07508, appendix | `credit/values.py` |

In all of them time is the last dimension (the group by default, too) and everything before it is batch; half precision is computed
and returned in float32, float64 stays; what a mask leaves out is never read. What the time rows have in common (termination,
truncation, absent time, packed episodes) is defined once, in ``credit/timeline.py``.
"""

from __future__ import annotations

from rosellm.roserlhf.credit.compaction import compaction_token_weights as compaction_token_weights
from rosellm.roserlhf.credit.compaction import cross_segment_advantages as cross_segment_advantages
from rosellm.roserlhf.credit.gae import generalized_advantage_estimation as generalized_advantage_estimation
from rosellm.roserlhf.credit.gae import (
    skip_observation_generalized_advantage_estimation as skip_observation_generalized_advantage_estimation,
)
from rosellm.roserlhf.credit.group import group_standardized_advantages as group_standardized_advantages
from rosellm.roserlhf.credit.group import leave_one_out_advantages as leave_one_out_advantages
from rosellm.roserlhf.credit.lambdas import length_adaptive_lambda as length_adaptive_lambda
from rosellm.roserlhf.credit.nstep import n_step_advantages as n_step_advantages
from rosellm.roserlhf.credit.returns import discounted_returns as discounted_returns
from rosellm.roserlhf.credit.returns import reward_to_go as reward_to_go
from rosellm.roserlhf.credit.shaping import potential_shaping as potential_shaping
from rosellm.roserlhf.credit.turns import broadcast_turn_advantages as broadcast_turn_advantages
from rosellm.roserlhf.credit.turns import turn_generalized_advantage_estimation as turn_generalized_advantage_estimation
from rosellm.roserlhf.credit.values import explained_variance as explained_variance
from rosellm.roserlhf.credit.values import turn_values as turn_values
from rosellm.roserlhf.credit.vtrace import v_trace as v_trace

__all__ = [
    "broadcast_turn_advantages",
    "compaction_token_weights",
    "cross_segment_advantages",
    "discounted_returns",
    "explained_variance",
    "generalized_advantage_estimation",
    "group_standardized_advantages",
    "leave_one_out_advantages",
    "length_adaptive_lambda",
    "n_step_advantages",
    "potential_shaping",
    "reward_to_go",
    "skip_observation_generalized_advantage_estimation",
    "turn_generalized_advantage_estimation",
    "turn_values",
    "v_trace",
]
