"""Policy losses: log-probabilities and advantages in, a scalar to minimise and its addable statistics out.

| name | maximised, or computed | paper | file |
|---|---|---|---|
| `reinforce_policy_loss` | `A ℓ` | Williams 1992 | `objective/reinforce.py` |
| `clipped_policy_loss` | `min(ρ A, clip(ρ) A)` | PPO 1707.06347 Eq. 7 | `objective/clipped.py` |
| `gspo_policy_loss` | `min(s A, clip(s) A)` per sequence | GSPO 2507.18071 Eq. 5, 7 | `objective/gspo.py` |
| `gspo_token_policy_loss` | `min(s A, clip(s) A)` per token | GSPO 2507.18071 Eq. 13, 14 | `objective/gspo.py` |
| `sapo_policy_loss` | `4/τ σ(τ (ρ - 1)) A` | SAPO 2511.20347 Eq. 5, 6 | `objective/sapo.py` |
| `sao_policy_loss` | `ρ A ℓ` where `1 - low < ρ < 1 + high` | SAO 2607.07508 Eq. 3 | `objective/sao.py` |
| `direct_double_sided_mask` | `1 - low < ρ < 1 + high` | SAO 2607.07508 Eq. 3 | `objective/sao.py` |
| `sequence_log_ratio` | sum or mean of `ℓ - ℓ_old` | GSPO 2507.18071 Eq. 7 | `objective/ratios.py` |
| `gather_token_logprobs` | `ℓ = z[x] - log Σ exp(z)` | Williams 1992 | `objective/logprobs.py` |
| `aggregate` | `Σ m w x / D` | GRPO, DAPO, Dr. GRPO | `objective/aggregation.py` |
| `step_denominator` | `D` over the whole optimizer step | DAPO 2503.14476 Eq. 12 | `objective/denominator.py` |
| `rollout_denominators` | `D` times the length of the rollout, per token | slime | `objective/denominator.py` |
| `masked_mean` | `Σ m x / Σ m` | | `masked.py` |

`ℓ` log-probability, `ρ = exp(ℓ - ℓ_old)` importance ratio, `s` its geometric mean over a sequence, `A` advantage, `m` mask, `w`
weight of the aggregation. Advantages and recorded log-probabilities are evidence: no gradient reaches them. A masked position may
hold anything, NaN included. Arguments are checked as `checks` describes; on an accelerator call `checks.raise_deferred()` once per
step.
"""

from rosellm.roserlhf.masked import Partial as Partial
from rosellm.roserlhf.masked import masked_mean as masked_mean
from rosellm.roserlhf.objective.aggregation import Aggregation as Aggregation
from rosellm.roserlhf.objective.aggregation import aggregate as aggregate
from rosellm.roserlhf.objective.clipped import clipped_policy_loss as clipped_policy_loss
from rosellm.roserlhf.objective.denominator import rollout_denominators as rollout_denominators
from rosellm.roserlhf.objective.denominator import step_denominator as step_denominator
from rosellm.roserlhf.objective.gspo import gspo_policy_loss as gspo_policy_loss
from rosellm.roserlhf.objective.gspo import gspo_token_policy_loss as gspo_token_policy_loss
from rosellm.roserlhf.objective.layout import Layout as Layout
from rosellm.roserlhf.objective.logprobs import gather_token_logprobs as gather_token_logprobs
from rosellm.roserlhf.objective.outputs import GspoPolicyLossOutput as GspoPolicyLossOutput
from rosellm.roserlhf.objective.outputs import PolicyLossOutput as PolicyLossOutput
from rosellm.roserlhf.objective.outputs import ReinforcePolicyLossOutput as ReinforcePolicyLossOutput
from rosellm.roserlhf.objective.outputs import SaoPolicyLossOutput as SaoPolicyLossOutput
from rosellm.roserlhf.objective.outputs import SapoPolicyLossOutput as SapoPolicyLossOutput
from rosellm.roserlhf.objective.ratios import sequence_log_ratio as sequence_log_ratio
from rosellm.roserlhf.objective.reinforce import reinforce_policy_loss as reinforce_policy_loss
from rosellm.roserlhf.objective.sao import direct_double_sided_mask as direct_double_sided_mask
from rosellm.roserlhf.objective.sao import sao_policy_loss as sao_policy_loss
from rosellm.roserlhf.objective.sapo import sapo_policy_loss as sapo_policy_loss

__all__ = [
    "Aggregation",
    "GspoPolicyLossOutput",
    "Layout",
    "Partial",
    "PolicyLossOutput",
    "ReinforcePolicyLossOutput",
    "SaoPolicyLossOutput",
    "SapoPolicyLossOutput",
    "aggregate",
    "clipped_policy_loss",
    "direct_double_sided_mask",
    "gather_token_logprobs",
    "gspo_policy_loss",
    "gspo_token_policy_loss",
    "masked_mean",
    "reinforce_policy_loss",
    "rollout_denominators",
    "sao_policy_loss",
    "sapo_policy_loss",
    "sequence_log_ratio",
    "step_denominator",
]
