"""Reinforcement learning for LLM agents in which every gradient can be traced to its tokens, policy version, reward and rule.

Importing the package imports nothing heavy, not even torch: a public name is loaded from the module that owns it when it is first
used (PEP 562). Type checkers see the same names through the imports under `TYPE_CHECKING`; a test keeps the two lists equal.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rosellm.roserlhf import advantages as advantages
    from rosellm.roserlhf import audit as audit
    from rosellm.roserlhf import errors as errors
    from rosellm.roserlhf import losses as losses
    from rosellm.roserlhf import recipes as recipes
    from rosellm.roserlhf import trajectory as trajectory
    from rosellm.roserlhf.advantages import *  # noqa: F403
    from rosellm.roserlhf.environment.base import ToolEnvironment as ToolEnvironment
    from rosellm.roserlhf.environment.calculator import calculator as calculator
    from rosellm.roserlhf.environment.protocol import Environment as Environment
    from rosellm.roserlhf.environment.protocol import Observation as Observation
    from rosellm.roserlhf.environment.protocol import StepResult as StepResult
    from rosellm.roserlhf.environment.protocol import Task as Task
    from rosellm.roserlhf.environment.python_tool import PythonTool as PythonTool
    from rosellm.roserlhf.environment.runner import DirectRunner as DirectRunner
    from rosellm.roserlhf.environment.sandbox import Sandbox as Sandbox
    from rosellm.roserlhf.environment.search import search_tool as search_tool
    from rosellm.roserlhf.environment.submit import submit as submit
    from rosellm.roserlhf.environment.tools import ToolSet as ToolSet
    from rosellm.roserlhf.environment.tools import tool as tool
    from rosellm.roserlhf.errors import *  # noqa: F403
    from rosellm.roserlhf.guard.guard import Guard as Guard
    from rosellm.roserlhf.losses import *  # noqa: F403
    from rosellm.roserlhf.trainer.evaluate import evaluate_run as evaluate_run
    from rosellm.roserlhf.trainer.recipe import Recipe as Recipe
    from rosellm.roserlhf.trainer.run import Run as Run
    from rosellm.roserlhf.trainer.run import train as train
    from rosellm.roserlhf.trajectory import *  # noqa: F403

__version__ = "0.1.0"

_NAMES: dict[str, tuple[str, ...]] = {
    "advantages": (
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
    ),
    "losses": (
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
    ),
    "trajectory": (
        "Blame",
        "CopySpan",
        "Ending",
        "Failure",
        "Message",
        "ParentKind",
        "ParentLink",
        "ParseFailure",
        "ParsedAction",
        "PolicyAction",
        "PrefixCache",
        "ResultOrigin",
        "ResultStatus",
        "SCHEMA_VERSION",
        "SamplingParameters",
        "ScoreRecord",
        "StopReason",
        "TokenSpan",
        "ToolCall",
        "ToolResult",
        "Trajectory",
        "TransitionRecord",
        "VersionSpan",
        "naming_trajectory",
    ),
    "errors": (
        "ArgumentError",
        "AuditError",
        "CheckpointError",
        "ConfigError",
        "DeviceError",
        "DtypeError",
        "GraphError",
        "GroupError",
        "MaskError",
        "MissingExtraError",
        "ModelError",
        "NonFiniteError",
        "RangeError",
        "RecordError",
        "RoseError",
        "RunFolderError",
        "SandboxError",
        "ShapeError",
        "StoreError",
        "TeacherError",
        "TemplateError",
        "ToolError",
        "VerifierError",
    ),
    "environment.base": ("ToolEnvironment",),
    "environment.calculator": ("calculator",),
    "environment.protocol": (
        "Environment",
        "Observation",
        "StepResult",
        "Task",
    ),
    "environment.python_tool": ("PythonTool",),
    "environment.runner": ("DirectRunner",),
    "environment.sandbox": ("Sandbox",),
    "environment.search": ("search_tool",),
    "environment.submit": ("submit",),
    "environment.tools": ("ToolSet", "tool"),
    "guard.guard": ("Guard",),
    "trainer.evaluate": ("evaluate_run",),
    "trainer.recipe": ("Recipe",),
    "trainer.run": (
        "Run",
        "train",
    ),
}
"""Public names by the module that owns them."""

_MODULES = ("advantages", "audit", "errors", "losses", "recipes", "trajectory")
_OWNERS = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted([*_OWNERS, *_MODULES, "__version__"])


def _load(module: str) -> ModuleType:
    try:
        return importlib.import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        from rosellm.roserlhf.errors import missing_extra

        raise missing_extra(error) from error


if not TYPE_CHECKING:  # else a checker would accept every misspelled name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return _load(name)
        if name in _OWNERS:
            value = getattr(_load(_OWNERS[name]), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
