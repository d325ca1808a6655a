"""Policy losses: log-probabilities and advantages in, a scalar to minimise and its addable statistics out.

| name | maximised, or computed | paper | file |
|---|---|---|---|
| `reinforce_policy_loss` | `A ℓ` | Williams 1992 | `objective/reinforce.py` |
| `clipped_policy_loss` | `min(ρ A, clip(ρ) A) - β k(ℓ - ℓ_ref)` | PPO 1707.06347 Eq. 7, GRPO 2402.03300 | `objective/clipped.py` |
| `decoupled_policy_loss` | `π_p / π_b min(u A, clip(u) A)`, `u = π / π_p` | AReaL 2505.24298 | `objective/decoupled.py` |
| `cispo_policy_loss` | `sg[clip(ρ)] A ℓ` | MiniMax-M1 2506.13585 | `objective/cispo.py` |
| `total_variation_policy_loss` | `ρ A` where `π - π_old` is within its bound | DPPO 2602.04879 | `objective/variation.py` |
| `gspo_policy_loss` | `min(s A, clip(s) A)` per sequence | GSPO 2507.18071 Eq. 5, 7 | `objective/gspo.py` |
| `gspo_token_policy_loss` | `min(s A, clip(s) A)` per token | GSPO 2507.18071 Eq. 13, 14 | `objective/gspo.py` |
| `sapo_policy_loss` | `4/τ σ(τ (ρ - 1)) A` | SAPO 2511.20347 Eq. 5, 6 | `objective/sapo.py` |
| `sao_policy_loss` | `ρ A ℓ` where `1 - low < ρ < 1 + high` | SAO 2607.07508 Eq. 3 | `objective/sao.py` |
| `sao_reasoning`, `sao_coding` | the same with (0.3, 5.0) and (0.8, 3.0) | SAO 2607.07508 | `objective/sao.py` |
| `value_loss` | minimised: `max((V - R)², (clip(V) - R)²) / 2` | PPO 1707.06347 Eq. 9 | `objective/value.py` |
| `merged_explained_variance` | `1 - Var[R - V] / Var[R]` of partials | | `objective/value.py` |
| `log_linear_proximal` | `ℓ_b + α (ℓ - ℓ_b)` | A-3PO 2512.06547 | `objective/proximal.py` |
| `kl_loss` | minimised: `k(ℓ - ℓ_ref)` | GRPO 2402.03300 Eq. 4, DeepSeek-V3.2 2512.02556 | `objective/kl.py` |
| `kl_penalty` | `r - β k(ℓ - ℓ_ref)` | InstructGPT 2203.02155 Eq. 2 | `objective/kl.py` |
| `kl_estimate` | `l`, `l²/2`, `exp(-l) - 1 + l` with `l = ℓ - ℓ_ref` | Schulman 2020 | `objective/kl.py` |
| `exact_kl` | `Σ π (log π - log π_ref)` over the vocabulary | Kullback & Leibler 1951 | `objective/kl.py` |
| `mismatch_correction` | weights of `A`: `clip(ρ)` or `ρ 1[low ≤ ρ ≤ high]` | TIS 2025, ROLL | `objective/mismatch/` |
| `tis` | `min(ρ, cap)` per token | TIS 2025 | `objective/mismatch/presets.py` |
| `icepop` | `ρ 1[low ≤ ρ ≤ high]` per token | Ring-1T 2510.18855 | `objective/mismatch/presets.py` |
| `mis` | `1[low ≤ ρ ≤ high]` per sequence and per token | Step-3.5 2602.10604 | `objective/mismatch/filters.py` |
| `opsm` | 0 where `A < 0` and mean `ℓ_old - ℓ > δ` | DeepSeek-V3.2 2512.02556 | `objective/mismatch/filters.py` |
| `effective_sample_size` | `(Σ w)² / Σ w²` | Kish 1965 | `objective/mismatch/correction.py` |
| `direct_double_sided_mask` | `1 - low < ρ < 1 + high` | SAO 2607.07508 Eq. 3 | `objective/sao.py` |
| `reverse_kl_distillation_loss` | `-Σ π (log π - log E)`, from hidden states | GKD 2306.13649 | `objective/reverse_kl.py` |
| `logits_distillation_loss` | minus reverse or forward KL, from logits | GKD 2306.13649 | `objective/reverse_kl.py` |
| `multi_teacher_distillation_loss` | `-Σ w KL(π ‖ E)` | MiMo-V2-Flash 2601.02780 | `objective/teachers.py` |
| `route_weights`, `align_policy_spans` | who teaches what, and where it stands | | `objective/teacher_spans.py` |
| `distillation_advantages` | `-(log π - log E)` per sampled token | Thinking Machines 2025 | `objective/distillation.py` |
| `dpo_loss` | `log σ(β h)` | DPO 2305.18290 Eq. 7 | `objective/preference.py` |
| `ipo_loss` | `-(h - 1 / 2β)²` | IPO 2310.12036 Eq. 17 | `objective/preference.py` |
| `response_logprobs` | `Σ m ℓ` per response | DPO 2305.18290 | `objective/preference.py` |
| `sequence_log_ratio` | sum or mean of `ℓ - ℓ_old` | GSPO 2507.18071 Eq. 7 | `objective/ratios.py` |
| `gather_token_logprobs` | `ℓ = z[x] - log Σ exp(z)` | Williams 1992 | `objective/logprobs.py` |
| `selected_logprobs` | the same, from hidden states | Cut Cross-Entropy 2411.09009 | `objective/selected.py` |
| `policy_logprobs` | `log π(x[t] given x[<t])`, the one shift | Williams 1992 | `objective/policy_logprobs.py` |
| `KeptSupport` | the ids that top-p, top-k kept | DeepSeek-V3.2 2512.02556 §3.1 | `objective/support.py` |
| `aggregate` | `Σ m w x / D` | GRPO, DAPO, Dr. GRPO | `objective/aggregation.py` |
| `step_denominator` | `D` over the whole optimizer step | DAPO 2503.14476 Eq. 12 | `objective/denominator.py` |
| `rollout_denominators` | `D` times the length of the rollout, per token | slime | `objective/denominator.py` |
| `masked_mean` | `Σ m x / Σ m` | | `masked.py` |

`ℓ` log-probability, `ρ = exp(ℓ - ℓ_old)` importance ratio, `s` its geometric mean over a sequence, `A` advantage, `m` mask, `w`
weight of the aggregation. Advantages and recorded log-probabilities are evidence: no gradient reaches them. A masked position may
hold anything, NaN included. Arguments are checked as `checks` describes; on an accelerator call `checks.raise_deferred()` once per
step.
"""

from __future__ import annotations

from rosellm.roserlhf.masked import Partial as Partial
from rosellm.roserlhf.masked import masked_mean as masked_mean
from rosellm.roserlhf.objective.aggregation import Aggregation as Aggregation
from rosellm.roserlhf.objective.aggregation import aggregate as aggregate
from rosellm.roserlhf.objective.cispo import cispo_policy_loss as cispo_policy_loss
from rosellm.roserlhf.objective.clipped import clipped_policy_loss as clipped_policy_loss
from rosellm.roserlhf.objective.decoupled import decoupled_policy_loss as decoupled_policy_loss
from rosellm.roserlhf.objective.denominator import rollout_denominators as rollout_denominators
from rosellm.roserlhf.objective.denominator import step_denominator as step_denominator
from rosellm.roserlhf.objective.distillation import DistillationAdvantages as DistillationAdvantages
from rosellm.roserlhf.objective.distillation import distillation_advantages as distillation_advantages
from rosellm.roserlhf.objective.gspo import gspo_policy_loss as gspo_policy_loss
from rosellm.roserlhf.objective.gspo import gspo_token_policy_loss as gspo_token_policy_loss
from rosellm.roserlhf.objective.kl import KlEstimator as KlEstimator
from rosellm.roserlhf.objective.kl import KlLossOutput as KlLossOutput
from rosellm.roserlhf.objective.kl import exact_kl as exact_kl
from rosellm.roserlhf.objective.kl import kl_estimate as kl_estimate
from rosellm.roserlhf.objective.kl import kl_loss as kl_loss
from rosellm.roserlhf.objective.kl import kl_penalty as kl_penalty
from rosellm.roserlhf.objective.layout import Layout as Layout
from rosellm.roserlhf.objective.logprobs import gather_token_logprobs as gather_token_logprobs
from rosellm.roserlhf.objective.mismatch import MismatchCorrection as MismatchCorrection
from rosellm.roserlhf.objective.mismatch import effective_sample_size as effective_sample_size
from rosellm.roserlhf.objective.mismatch import icepop as icepop
from rosellm.roserlhf.objective.mismatch import mis as mis
from rosellm.roserlhf.objective.mismatch import mismatch_correction as mismatch_correction
from rosellm.roserlhf.objective.mismatch import opsm as opsm
from rosellm.roserlhf.objective.mismatch import tis as tis
from rosellm.roserlhf.objective.outputs import CispoPolicyLossOutput as CispoPolicyLossOutput
from rosellm.roserlhf.objective.outputs import DecoupledPolicyLossOutput as DecoupledPolicyLossOutput
from rosellm.roserlhf.objective.outputs import GspoPolicyLossOutput as GspoPolicyLossOutput
from rosellm.roserlhf.objective.outputs import PolicyLossOutput as PolicyLossOutput
from rosellm.roserlhf.objective.outputs import ReinforcePolicyLossOutput as ReinforcePolicyLossOutput
from rosellm.roserlhf.objective.outputs import SaoPolicyLossOutput as SaoPolicyLossOutput
from rosellm.roserlhf.objective.outputs import SapoPolicyLossOutput as SapoPolicyLossOutput
from rosellm.roserlhf.objective.outputs import TotalVariationPolicyLossOutput as TotalVariationPolicyLossOutput
from rosellm.roserlhf.objective.outputs import ValueLossOutput as ValueLossOutput
from rosellm.roserlhf.objective.policy_logprobs import policy_logprobs as policy_logprobs
from rosellm.roserlhf.objective.preference import PreferenceLossOutput as PreferenceLossOutput
from rosellm.roserlhf.objective.preference import dpo_loss as dpo_loss
from rosellm.roserlhf.objective.preference import ipo_loss as ipo_loss
from rosellm.roserlhf.objective.preference import response_logprobs as response_logprobs
from rosellm.roserlhf.objective.proximal import log_linear_proximal as log_linear_proximal
from rosellm.roserlhf.objective.ratios import sequence_log_ratio as sequence_log_ratio
from rosellm.roserlhf.objective.reinforce import reinforce_policy_loss as reinforce_policy_loss
from rosellm.roserlhf.objective.reverse_kl import DistillationLossOutput as DistillationLossOutput
from rosellm.roserlhf.objective.reverse_kl import logits_distillation_loss as logits_distillation_loss
from rosellm.roserlhf.objective.reverse_kl import reverse_kl_distillation_loss as reverse_kl_distillation_loss
from rosellm.roserlhf.objective.sao import direct_double_sided_mask as direct_double_sided_mask
from rosellm.roserlhf.objective.sao import sao_coding as sao_coding
from rosellm.roserlhf.objective.sao import sao_policy_loss as sao_policy_loss
from rosellm.roserlhf.objective.sao import sao_reasoning as sao_reasoning
from rosellm.roserlhf.objective.sapo import sapo_policy_loss as sapo_policy_loss
from rosellm.roserlhf.objective.selected import selected_logprobs as selected_logprobs
from rosellm.roserlhf.objective.support import KeptSupport as KeptSupport
from rosellm.roserlhf.objective.teacher_spans import align_policy_spans as align_policy_spans
from rosellm.roserlhf.objective.teacher_spans import route_weights as route_weights
from rosellm.roserlhf.objective.teachers import Teacher as Teacher
from rosellm.roserlhf.objective.teachers import TeacherStatistics as TeacherStatistics
from rosellm.roserlhf.objective.teachers import multi_teacher_distillation_loss as multi_teacher_distillation_loss
from rosellm.roserlhf.objective.value import merged_explained_variance as merged_explained_variance
from rosellm.roserlhf.objective.value import value_loss as value_loss
from rosellm.roserlhf.objective.variation import total_variation_policy_loss as total_variation_policy_loss

__all__ = [
    "Aggregation",
    "CispoPolicyLossOutput",
    "DecoupledPolicyLossOutput",
    "DistillationAdvantages",
    "DistillationLossOutput",
    "GspoPolicyLossOutput",
    "KeptSupport",
    "KlEstimator",
    "KlLossOutput",
    "Layout",
    "MismatchCorrection",
    "Partial",
    "PolicyLossOutput",
    "PreferenceLossOutput",
    "ReinforcePolicyLossOutput",
    "SaoPolicyLossOutput",
    "SapoPolicyLossOutput",
    "Teacher",
    "TeacherStatistics",
    "TotalVariationPolicyLossOutput",
    "ValueLossOutput",
    "aggregate",
    "align_policy_spans",
    "cispo_policy_loss",
    "clipped_policy_loss",
    "decoupled_policy_loss",
    "direct_double_sided_mask",
    "distillation_advantages",
    "dpo_loss",
    "effective_sample_size",
    "exact_kl",
    "gather_token_logprobs",
    "gspo_policy_loss",
    "gspo_token_policy_loss",
    "icepop",
    "ipo_loss",
    "kl_estimate",
    "kl_loss",
    "kl_penalty",
    "log_linear_proximal",
    "logits_distillation_loss",
    "masked_mean",
    "merged_explained_variance",
    "mis",
    "mismatch_correction",
    "multi_teacher_distillation_loss",
    "opsm",
    "policy_logprobs",
    "reinforce_policy_loss",
    "response_logprobs",
    "reverse_kl_distillation_loss",
    "rollout_denominators",
    "route_weights",
    "sao_coding",
    "sao_policy_loss",
    "sao_reasoning",
    "sapo_policy_loss",
    "selected_logprobs",
    "sequence_log_ratio",
    "step_denominator",
    "tis",
    "total_variation_policy_loss",
    "value_loss",
]
