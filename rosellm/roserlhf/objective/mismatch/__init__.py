r"""Proximal and behaviour log-probabilities -> constant token weights that correct for what really sampled the tokens.

The engine that samples is not the trainer: kernels, precision, truncated sampling and stale weights make its policy another one,
even before any update. With `rho = pi_proximal / pi_behaviour` a correction chooses

| choice | values |
|---|---|
| level: whose ratio | `token`; `geometric_sequence`, the mean of the log-ratios; `product_sequence`, their sum; `segment`, a turn |
| action: outside the bounds | `truncate` to the nearest bound; `mask` to 0 |
| weight: inside the bounds | `ratio`, an importance weight; `one`, a filter |
| bounds: on a bound | `closed` keeps; `open` rejects |

Every objective here is linear in a non-negative constant that multiplies the advantage, so a correction composes with all of them:
`credit, mask = correction.apply(advantages, action_mask)`, then any loss. Where proximal and behaviour agree, every weight is 1.

Peers differ under one name. verl: a single threshold `u` means the bounds (1/u, u); its statistic `token_k1` is minus the
log-ratio, so that bounds apply to the inverse ratio; `seq_mean_k1` is geometric. TRL's sequence modes use the product. OpenRLHF's
`seq-mask-tis` filters by the geometric mean and does not truncate the token ratio, although its comment says so. slime and AReaL
leave rejected tokens in the denominator, verl takes them out.
"""

from __future__ import annotations

from rosellm.roserlhf.objective.mismatch.bounds import mismatch_correction as mismatch_correction
from rosellm.roserlhf.objective.mismatch.correction import MismatchCorrection as MismatchCorrection
from rosellm.roserlhf.objective.mismatch.correction import effective_sample_size as effective_sample_size
from rosellm.roserlhf.objective.mismatch.filters import mis as mis
from rosellm.roserlhf.objective.mismatch.filters import opsm as opsm
from rosellm.roserlhf.objective.mismatch.presets import icepop as icepop
from rosellm.roserlhf.objective.mismatch.presets import tis as tis
