"""Named runs: each function returns a `Recipe`, a frozen configuration bound to credit and objective.

| recipe | credit | objective | file |
|---|---|---|---|
| `grpo` | standardised inside the group | clipped token ratio, mean over tokens | `clipped.py` |
| `dr_grpo` | centred inside the group | clipped token ratio, sum over a constant | `clipped.py` |
| `dapo` | standardised, with a soft overlong penalty | clip-higher, mean over tokens | `clipped.py` |
| `reinforce` | minus the mean of the others | log-probability, mean over tokens | `on_policy.py` |
| `rloo` | minus the mean of the others | log-probability, sum over an episode | `on_policy.py` |
| `gspo` | standardised inside the group | clipped ratio of the episode | `sequence.py` |
| `gspo_token` | standardised inside the group | the same, with an advantage per token | `sequence.py` |
| `sapo` | standardised inside the group | smooth gate, mean over episodes | `weighted.py` |
| `cispo` | standardised inside the group | capped weight, mean over tokens | `weighted.py` |
| `gigpo` | per turn: of the episode and of its state | clipped token ratio, mean over tokens | `within.py` |
| `gdpo` | each component standardised, then the sums | clipped token ratio, mean over tokens | `within.py` |
"""

from rosellm.roserlhf.recipes.clipped import DapoConfig, DrGrpoConfig, GrpoConfig, dapo, dr_grpo, grpo
from rosellm.roserlhf.recipes.on_policy import ReinforceConfig, RlooConfig, reinforce, rloo
from rosellm.roserlhf.recipes.registry import (
    RECIPES,
    RecipeConfig,
    kind_of,
    load_recipe,
    named,
    options_to_config,
    other_kinds,
    recipe_from,
)
from rosellm.roserlhf.recipes.sequence import GspoConfig, GspoTokenConfig, gspo, gspo_token
from rosellm.roserlhf.recipes.weighted import CispoConfig, SapoConfig, cispo, sapo
from rosellm.roserlhf.recipes.within import GdpoConfig, GigpoConfig, gdpo, gigpo

__all__ = [
    "RECIPES",
    "CispoConfig",
    "DapoConfig",
    "DrGrpoConfig",
    "GdpoConfig",
    "GigpoConfig",
    "GrpoConfig",
    "GspoConfig",
    "GspoTokenConfig",
    "RecipeConfig",
    "ReinforceConfig",
    "RlooConfig",
    "SapoConfig",
    "cispo",
    "dapo",
    "dr_grpo",
    "gdpo",
    "gigpo",
    "grpo",
    "gspo",
    "gspo_token",
    "kind_of",
    "load_recipe",
    "named",
    "options_to_config",
    "other_kinds",
    "recipe_from",
    "reinforce",
    "rloo",
    "sapo",
]
