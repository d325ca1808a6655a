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
| `group_centered_advantages` | `R_i − mean` | Dr. GRPO 2503.20783 | `credit/group.py` |
| `grouped_advantages` | the three above, ragged groups by id | the same | `credit/grouped.py` |
| `batch_standardized_advantages` | `(A_t − mean) / √(var + ε)` over all tokens | REINFORCE++ 2501.03262 | `credit/batch.py` |
| `RunningMeanBaseline` | `R_i − mean of the task's last rewards` | SAO 2607.07508, ablation | `credit/baselines.py` |
| `variance_optimal_baseline` | `E[‖∇ log π‖² R] / E[‖∇ log π‖²]` | Greensmith et al. 2004 | `credit/baselines.py` |
| `dynamic_sampling_mask` | `0 < number correct < n` | DAPO 2503.14476 Eq. 11 | `credit/sampling.py` |
| `overlong_penalty` | `(L_max − L_cache − L) / L_cache` in [−1, 0] | DAPO 2503.14476 Eq. 13 | `credit/overlong.py` |
| `overlong_filter`, `OverlongFilter` | truncated rows leave the loss | DAPO 2503.14476, 3.4 | `credit/overlong.py` |
| `LagrangeMultiplier` | `λ ← max(0, λ + η (C − d))`; `A_R − λ A_C` | Altman 1999 | `credit/constraint.py` |
| `broadcast_turn_advantages` | `A_t` = A of the turn of token t | 2505.11821 | `credit/turns.py` |
| `gdpo_advantages` | `whiten(Σ_k w_k (r_k − mean_k) / (std_k + ε))` | GDPO 2601.05242 | `credit/gdpo.py` |
| `gd2po_advantages`, `Gd2poAdvantages` | `q m Σ_k w_k A_k`, q = mean m of the task | GD²PO 2606.16771 | `credit/gd2po.py` |
| `filter_reward_conflicts` | the same from the A_k | GD²PO 2606.16771 | `credit/gd2po.py` |
| `gigpo_advantages`, `GigpoAdvantages` | `A_trajectory + ω A_state(R_t)` | GiGPO 2505.10978 Eq. 3-8 | `credit/gigpo.py` |
| `exact_state_key`, `canonical_text_key` | which states count as the same |  | `credit/states.py` |
| `similarity_clusters`, `text_similarity` | connected components of `s ≥ θ` | GiGPO 2505.10978 | `credit/states.py` |
| `tree_advantages`, `TreeAdvantages` | `A_tree + A_task` | Tree-GRPO 2509.21240 | `credit/tree.py` |
| `tree_budget`, `TreeBudget` | `G = M(LN + 1)`, `E[B] = M + LNM/2` | Tree-GRPO 2509.21240 | `credit/tree.py` |
| `tree_token_weights`, `TreeTokenWeights` | `c_t = A_owner` or `Σ A` of leaves | Tree-GRPO 2509.21240 | `credit/prefix.py` |
| `turn_generalized_advantage_estimation` | GAE over turns, given to their tokens | 2512.17008 | `credit/turns.py` |
| `turn_values` | mean over the turn's tokens, or its last | SAO 2607.07508, appendix | `credit/values.py` |

Functions of time have it as their last dimension and everything before it is batch; functions with ids take one row per rollout,
leaf or step, `[N]`, in any order (steps of one trajectory in theirs). Half precision is computed and returned in float32, float64
stays; what a mask leaves out is never read. What the rows of time have in common (termination, truncation, absent time, packed
episodes) is defined once, in ``credit/timeline.py``; what groups have in common in ``credit/statistics.py``.
"""

from __future__ import annotations

from rosellm.roserlhf.credit.baselines import RunningMeanBaseline as RunningMeanBaseline
from rosellm.roserlhf.credit.baselines import variance_optimal_baseline as variance_optimal_baseline
from rosellm.roserlhf.credit.batch import batch_standardized_advantages as batch_standardized_advantages
from rosellm.roserlhf.credit.compaction import compaction_token_weights as compaction_token_weights
from rosellm.roserlhf.credit.compaction import cross_segment_advantages as cross_segment_advantages
from rosellm.roserlhf.credit.constraint import LagrangeMultiplier as LagrangeMultiplier
from rosellm.roserlhf.credit.gae import generalized_advantage_estimation as generalized_advantage_estimation
from rosellm.roserlhf.credit.gae import (
    skip_observation_generalized_advantage_estimation as skip_observation_generalized_advantage_estimation,
)
from rosellm.roserlhf.credit.gd2po import Gd2poAdvantages as Gd2poAdvantages
from rosellm.roserlhf.credit.gd2po import filter_reward_conflicts as filter_reward_conflicts
from rosellm.roserlhf.credit.gd2po import gd2po_advantages as gd2po_advantages
from rosellm.roserlhf.credit.gdpo import gdpo_advantages as gdpo_advantages
from rosellm.roserlhf.credit.gigpo import GigpoAdvantages as GigpoAdvantages
from rosellm.roserlhf.credit.gigpo import gigpo_advantages as gigpo_advantages
from rosellm.roserlhf.credit.group import group_centered_advantages as group_centered_advantages
from rosellm.roserlhf.credit.group import group_standardized_advantages as group_standardized_advantages
from rosellm.roserlhf.credit.group import leave_one_out_advantages as leave_one_out_advantages
from rosellm.roserlhf.credit.grouped import grouped_advantages as grouped_advantages
from rosellm.roserlhf.credit.lambdas import length_adaptive_lambda as length_adaptive_lambda
from rosellm.roserlhf.credit.nstep import n_step_advantages as n_step_advantages
from rosellm.roserlhf.credit.overlong import OverlongFilter as OverlongFilter
from rosellm.roserlhf.credit.overlong import overlong_filter as overlong_filter
from rosellm.roserlhf.credit.overlong import overlong_penalty as overlong_penalty
from rosellm.roserlhf.credit.prefix import TreeTokenWeights as TreeTokenWeights
from rosellm.roserlhf.credit.prefix import tree_token_weights as tree_token_weights
from rosellm.roserlhf.credit.returns import discounted_returns as discounted_returns
from rosellm.roserlhf.credit.returns import reward_to_go as reward_to_go
from rosellm.roserlhf.credit.sampling import dynamic_sampling_mask as dynamic_sampling_mask
from rosellm.roserlhf.credit.shaping import potential_shaping as potential_shaping
from rosellm.roserlhf.credit.states import canonical_text_key as canonical_text_key
from rosellm.roserlhf.credit.states import exact_state_key as exact_state_key
from rosellm.roserlhf.credit.states import similarity_clusters as similarity_clusters
from rosellm.roserlhf.credit.states import text_similarity as text_similarity
from rosellm.roserlhf.credit.tree import TreeAdvantages as TreeAdvantages
from rosellm.roserlhf.credit.tree import TreeBudget as TreeBudget
from rosellm.roserlhf.credit.tree import tree_advantages as tree_advantages
from rosellm.roserlhf.credit.tree import tree_budget as tree_budget
from rosellm.roserlhf.credit.turns import broadcast_turn_advantages as broadcast_turn_advantages
from rosellm.roserlhf.credit.turns import turn_generalized_advantage_estimation as turn_generalized_advantage_estimation
from rosellm.roserlhf.credit.values import explained_variance as explained_variance
from rosellm.roserlhf.credit.values import turn_values as turn_values
from rosellm.roserlhf.credit.vtrace import v_trace as v_trace

__all__ = [
    "Gd2poAdvantages",
    "GigpoAdvantages",
    "LagrangeMultiplier",
    "OverlongFilter",
    "RunningMeanBaseline",
    "TreeAdvantages",
    "TreeBudget",
    "TreeTokenWeights",
    "batch_standardized_advantages",
    "broadcast_turn_advantages",
    "canonical_text_key",
    "compaction_token_weights",
    "cross_segment_advantages",
    "discounted_returns",
    "dynamic_sampling_mask",
    "exact_state_key",
    "explained_variance",
    "filter_reward_conflicts",
    "gd2po_advantages",
    "gdpo_advantages",
    "generalized_advantage_estimation",
    "gigpo_advantages",
    "group_centered_advantages",
    "group_standardized_advantages",
    "grouped_advantages",
    "leave_one_out_advantages",
    "length_adaptive_lambda",
    "n_step_advantages",
    "overlong_filter",
    "overlong_penalty",
    "potential_shaping",
    "reward_to_go",
    "similarity_clusters",
    "skip_observation_generalized_advantage_estimation",
    "text_similarity",
    "tree_advantages",
    "tree_budget",
    "tree_token_weights",
    "turn_generalized_advantage_estimation",
    "turn_values",
    "v_trace",
    "variance_optimal_baseline",
]
