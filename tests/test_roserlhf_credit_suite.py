"""One suite over every public credit function: what all of them promise, whatever they compute.

Tensors in, detached tensors out; inputs as they were; half precision computed in float32; rows in any order; masked positions never
read; finite where there is nothing to compare. Agreement with slow oracles is in the tests of each file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from rosellm.roserlhf import advantages
from rosellm.roserlhf.errors import RangeError, RoseError

ROWS, STEPS, TURNS = 6, 5, 3
GROUPS = torch.tensor([4, 4, 2, 2, 4, 2])
SCORED = torch.tensor([1, 1, 1, 0, 1, 1]).bool()
VALID = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
ACTS = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 0, 1, 0], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 1, 1], [1, 1, 0, 0, 1]]).bool()
TURN_IDS = torch.tensor([0, 0, 1, 1, 2]).expand(ROWS, -1).clone()
ENDED = torch.zeros(ROWS, STEPS, dtype=torch.bool)
ENDED[[0, 4], 4] = True


HOST = "reads the number of groups, or the size of its result, on the host"
IN_PLACE = "writes its results block by block, and the lock of `functools.cached_property` in Python 3.11 is no graph"


def numbers(*shape: int, seed: int) -> Tensor:
    """Numbers that half precision holds exactly: eighths."""
    return torch.randint(-16, 17, shape, generator=torch.Generator().manual_seed(seed)).double() / 8


class Case:
    """A function, its tensors by argument name, the rest of its arguments, and what is known about them."""

    def __init__(
        self,
        call: Callable[..., Any],
        tensors: dict[str, Tensor],
        *,
        masked: dict[str, Tensor] | None = None,
        fixed: tuple[str, ...] = (),
        eager: str = "",
        **options: Any,
    ) -> None:
        self.call, self.tensors, self.options = call, tensors, options
        self.masked = masked or {}
        """Where each tensor is not read."""
        self.fixed = fixed
        """Tensors without a dimension of rows."""
        self.eager = eager
        """Why it need not become one graph; empty if it does."""

    def run(self, **changed: Tensor) -> list[Tensor]:
        return outputs(self.call(**{**self.tensors, **changed}, **self.options))

    def floats(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.tensors.items() if value.is_floating_point()}


def outputs(found: Any) -> list[Tensor]:
    """Return the tensors of a tensor, a tuple or a record."""
    if isinstance(found, Tensor):
        return [found]
    parts = found if isinstance(found, tuple) else [getattr(found, field.name) for field in dataclasses.fields(found)]
    assert all(isinstance(part, Tensor) for part in parts)
    return list(parts)


def in_time(call: Callable[..., Any], *names: str, **options: Any) -> Case:
    tensors = {name: numbers(ROWS, STEPS, seed=seed) for seed, name in enumerate(("rewards", *names))}
    masks = {"valid_mask": VALID, "action_mask": ACTS, "terminated": ENDED}
    masked = {name: ~VALID if name == "rewards" else ~(VALID & ACTS) for name in tensors}
    return Case(call, {**tensors, **masks}, masked=masked, eager=IN_PLACE, **options)


def grouped(call: Callable[..., Any], rewards: Tensor, **more: Any) -> Case:
    unscored = {"rewards": ~SCORED.unsqueeze(-1).expand_as(rewards) if rewards.ndim == 2 else ~SCORED}
    reads = more.pop("eager", HOST)
    return Case(call, {"rewards": rewards, "group_ids": GROUPS, "scored_mask": SCORED}, masked=unscored, eager=reads, **more)


def running_mean(rewards: Tensor, task_ids: Tensor, scored_mask: Tensor) -> Tensor:
    return advantages.RunningMeanBaseline().advantages(rewards, task_ids, scored_mask=scored_mask)


def whole_group(call: Callable[..., Any]) -> Case:
    return Case(call, {"rewards": numbers(ROWS, 4, seed=0)})


ONE, TWO = numbers(ROWS, seed=1), numbers(ROWS, 2, seed=2)
TOKENS = numbers(ROWS, STEPS, seed=3)
CASES: dict[str, Case] = {
    "batch_standardized_advantages": Case(
        advantages.batch_standardized_advantages, {"advantages": TOKENS, "mask": VALID}, masked={"advantages": ~VALID}
    ),
    "broadcast_turn_advantages": Case(
        advantages.broadcast_turn_advantages,
        {"turn_advantages": numbers(ROWS, TURNS, seed=4), "turn_ids": TURN_IDS, "action_mask": ACTS},
    ),
    "compaction_token_weights": Case(
        advantages.compaction_token_weights,
        {"action_mask": ACTS, "rollout_ids": GROUPS},
        weighting="rollout",
    ),
    "cross_segment_advantages": Case(
        advantages.cross_segment_advantages,
        {"rewards": ONE, "values": TOKENS, "rollout_ids": torch.arange(ROWS), "action_mask": ACTS},
        masked={"values": ~ACTS},
        gae_lambda=0.5,
        eager=HOST,
    ),
    "discounted_returns": in_time(advantages.discounted_returns, gamma=0.5),
    "dynamic_sampling_mask": grouped(advantages.dynamic_sampling_mask, (ONE > 0).double()),
    "explained_variance": Case(
        advantages.explained_variance,
        {"values": TOKENS, "returns": numbers(ROWS, STEPS, seed=5), "mask": VALID},
        masked={"values": ~VALID, "returns": ~VALID},
    ),
    "filter_reward_conflicts": Case(
        advantages.filter_reward_conflicts,
        {"per_reward_advantages": TWO, "group_ids": GROUPS, "scored_mask": SCORED},
        masked={"per_reward_advantages": ~SCORED.unsqueeze(-1).expand(-1, 2)},
        eager=HOST,
    ),
    "gd2po_advantages": grouped(advantages.gd2po_advantages, TWO),
    "gdpo_advantages": grouped(advantages.gdpo_advantages, TWO),
    "generalized_advantage_estimation": in_time(
        advantages.generalized_advantage_estimation, "values", gamma=0.5, gae_lambda=0.5, bootstrap_value=1.0
    ),
    "gigpo_advantages": Case(
        advantages.gigpo_advantages,
        {
            "step_rewards": ONE,
            "state_keys": torch.tensor([0, 1, 0, 1, 0, 0]),
            "trajectory_ids": torch.arange(ROWS),
            "group_ids": GROUPS,
            "scored_mask": SCORED,
        },
        masked={"step_rewards": ~SCORED},
        eager=HOST,
    ),
    "group_centered_advantages": whole_group(advantages.group_centered_advantages),
    "group_standardized_advantages": whole_group(advantages.group_standardized_advantages),
    "grouped_advantages": grouped(advantages.grouped_advantages, ONE),
    "LagrangeMultiplier": Case(
        advantages.LagrangeMultiplier(0.5, 0.5, initial=2.0).combine,
        {"reward_advantages": ONE, "cost_advantages": numbers(ROWS, seed=6)},
    ),
    "leave_one_out_advantages": whole_group(advantages.leave_one_out_advantages),
    "length_adaptive_lambda": Case(advantages.length_adaptive_lambda, {"lengths": torch.arange(ROWS)}, alpha=0.5),
    "n_step_advantages": in_time(advantages.n_step_advantages, "values", n=2, gamma=0.5, bootstrap_value=1.0),
    "overlong_filter": Case(advantages.overlong_filter, {"truncated": SCORED, "action_mask": ACTS}),
    "overlong_penalty": Case(advantages.overlong_penalty, {"lengths": torch.arange(ROWS)}, max_length=5, cache_length=2),
    "potential_shaping": in_time(advantages.potential_shaping, "potentials", gamma=0.5, bootstrap_potential=1.0),
    "reward_to_go": in_time(advantages.reward_to_go, gamma=0.5, discount="from_start"),
    "RunningMeanBaseline": Case(
        running_mean,
        {"rewards": ONE, "task_ids": torch.arange(ROWS), "scored_mask": SCORED},
        masked={"rewards": ~SCORED},
        eager=HOST,
    ),
    "similarity_clusters": Case(
        advantages.similarity_clusters,
        {"similarity": (torch.arange(ROWS) // 2 == torch.arange(ROWS).unsqueeze(-1) // 2).double()},
        threshold=0.5,
        fixed=("similarity",),
        eager=HOST,
    ),
    "skip_observation_generalized_advantage_estimation": Case(
        advantages.skip_observation_generalized_advantage_estimation,
        {
            "rewards": TOKENS,
            "action_end_values": numbers(ROWS, STEPS, seed=7),
            "next_action_values": numbers(ROWS, STEPS, seed=8),
            "terminated": ENDED,
            "valid_mask": VALID,
        },
        masked={"rewards": ~VALID, "action_end_values": ~VALID, "next_action_values": ~VALID | ENDED},
        eager=IN_PLACE,
        gae_lambda=0.5,
    ),
    "tree_advantages": grouped(advantages.tree_advantages, ONE, tree_ids=None),
    "tree_token_weights": Case(
        advantages.tree_token_weights,
        {
            "advantages": ONE,
            "own_tokens": torch.tensor([3, 2, 1, 2, 0, 1]),
            "parents": torch.tensor([-1, 0, 0, 1, -1, 3]),
            "shared_tokens": torch.tensor([0, 2, 1, 3, 0, 4]),
        },
        prefix="all_leaves",
        fixed=("advantages",),
        eager=HOST,
    ),
    "turn_generalized_advantage_estimation": Case(
        advantages.turn_generalized_advantage_estimation,
        {
            "turn_rewards": numbers(ROWS, TURNS, seed=9),
            "turn_values": numbers(ROWS, TURNS, seed=10),
            "turn_ids": TURN_IDS.clamp(max=1),
            "action_mask": ACTS,
            "turn_mask": torch.tensor([True, True, False]).expand(ROWS, -1).clone(),
        },
        masked=dict.fromkeys(("turn_rewards", "turn_values"), torch.tensor([False, False, True]).expand(ROWS, -1)),
        eager=IN_PLACE,
        gamma=0.5,
        gae_lambda=0.5,
    ),
    "turn_values": Case(
        advantages.turn_values,
        {"values": TOKENS, "turn_ids": TURN_IDS.clamp(max=0), "action_mask": ACTS},
        masked={"values": ~ACTS},
        turns=1,
    ),
    "v_trace": in_time(advantages.v_trace, "log_ratios", "values", gamma=0.5, bootstrap_value=1.0),
    "variance_optimal_baseline": Case(
        advantages.variance_optimal_baseline, {"rewards": ONE, "squared_score_norms": numbers(ROWS, seed=11).abs() + 0.125}
    ),
}
CASES["tree_advantages"].options.pop("tree_ids")
CASES["tree_advantages"].tensors["tree_ids"] = torch.tensor([7, 7, 1, 1, 8, 1])

NO_TENSORS_IN = ("canonical_text_key", "exact_state_key", "text_similarity", "tree_budget")
"""Keys of states, strings and two counts: nothing that this file could ask of them."""
ONE_NUMBER_OUT = ("explained_variance", "variance_optimal_baseline")
LABELS_OUT = ("similarity_clusters", "tree_token_weights")
"""Numbered in order of appearance, or one entry per token: the tests of their files permute them."""
NEEDS_A_ROW = (
    "compaction_token_weights",
    "filter_reward_conflicts",
    "gd2po_advantages",
    "gdpo_advantages",
    "gigpo_advantages",
    "tree_advantages",
    "variance_optimal_baseline",
)
"""The others return nothing for nothing."""
FLOATS = [name for name, case in CASES.items() if case.floats()]


def test_every_public_function_is_here() -> None:
    results = {"Gd2poAdvantages", "GigpoAdvantages", "OverlongFilter", "TreeAdvantages", "TreeBudget", "TreeTokenWeights"}
    assert {*CASES, *NO_TENSORS_IN} == {*advantages.__all__} - results


def same(seen: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(seen) == len(wanted)
    for one, other in zip(seen, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", FLOATS)
def test_no_gradient_leaves(name: str) -> None:
    case = CASES[name]
    leaves = {key: value.clone().requires_grad_() for key, value in case.floats().items()}
    found = case.run(**leaves)
    assert not any(part.requires_grad for part in found)
    same(found, case.run())


@pytest.mark.parametrize("name", CASES)
def test_inputs_stay_as_they_were(name: str) -> None:
    case = CASES[name]
    before = {key: value.clone() for key, value in case.tensors.items()}
    found = case.run()
    for key, value in case.tensors.items():
        assert torch.equal(value, before[key])
    for part in found:  # nor does what is returned share memory with what was given, so changing one changes the other
        if part.is_floating_point():
            part.add_(1.0)
    for key, value in case.tensors.items():
        assert torch.equal(value, before[key])


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32_and_float64_stays(name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    found = case.run(**{key: value.to(dtype) for key, value in case.floats().items()})
    wanted = torch.float64 if dtype == torch.float64 or name == "explained_variance" else torch.float32
    assert all(part.dtype == wanted for part in found if part.is_floating_point())
    for part, exact in zip(found, case.run(), strict=True):  # the inputs are eighths, exact in every dtype
        torch.testing.assert_close(part.double(), exact.double(), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in CASES if name not in LABELS_OUT])
def test_the_order_of_rows_does_not_matter(name: str) -> None:
    case, order = CASES[name], torch.tensor([3, 0, 5, 1, 4, 2])
    found = case.run(**{key: value[order] for key, value in case.tensors.items() if key not in case.fixed})
    for part, before in zip(found, case.run(), strict=True):
        if part.dtype == torch.int64:
            continue  # groups are numbered in order of appearance
        expected = before if name in ONE_NUMBER_OUT else before[order]
        torch.testing.assert_close(part, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.masked])
@pytest.mark.parametrize("junk", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_what_is_masked_is_never_read(name: str, junk: float) -> None:
    case = CASES[name]
    # rewards on observations are read (they move), so junk stands where nothing is; padding and unscored rows may hold anything
    found = case.run(**{key: case.tensors[key].masked_fill(mask, junk) for key, mask in case.masked.items()})
    same(found, case.run(**{key: case.tensors[key].masked_fill(mask, 0.0) for key, mask in case.masked.items()}))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
def test_all_failed_all_succeeded_and_uniform_are_finite(name: str, value: float) -> None:
    case = CASES[name]
    if name == "dynamic_sampling_mask" and value == 0.1:
        case = Case(case.call, case.tensors, rule="not_uniform")
    found = case.run(
        **{key: torch.full_like(tensor, value) for key, tensor in case.floats().items() if key != "squared_score_norms"}
    )
    if name == "explained_variance":
        assert found[0].isnan()  # no variance to explain
        return
    assert all(part.isfinite().all() for part in found)
    relative = ("grouped_", "group_", "leave_one_out", "gdpo", "batch_", "tree_adv")
    if name.startswith(relative):
        assert all(part.eq(0).all() for part in found)


@pytest.mark.parametrize("name", [name for name in CASES if name not in LABELS_OUT])
@pytest.mark.parametrize("rows", [0, 1], ids=["no row", "one row"])
def test_no_row_and_one_row_are_finite_or_refused_by_name(name: str, rows: int) -> None:
    case = CASES[name]
    few = {key: value[:rows] for key, value in case.tensors.items()}
    if rows == 0 and name in NEEDS_A_ROW:
        with pytest.raises(RoseError):
            case.run(**few)
        return
    undefined = rows == 0 and name == "explained_variance"
    assert all(part.isnan().all() if undefined else part.isfinite().all() for part in case.run(**few))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.masked])
def test_everything_masked_is_finite(name: str) -> None:
    case = CASES[name]
    off = {key: torch.zeros_like(value) for key, value in case.tensors.items() if value.dtype == torch.bool}
    if name == "cross_segment_advantages":  # outcomes would disappear
        with pytest.raises(RangeError, match="rewards must not be given to a segment without a policy token"):
            case.run(**off)
        return
    found = case.run(**off)
    if name in ("explained_variance", "turn_values"):
        assert found[0].isnan().all()  # undefined, and said so
        return
    assert all(part.isfinite().all() for part in found)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.eager])
def test_it_is_one_graph(name: str) -> None:
    assert_same_under_compile(CASES[name], fullgraph=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.eager])
def test_a_graph_that_it_breaks_goes_on_with_the_same_numbers(name: str) -> None:
    assert_same_under_compile(CASES[name], fullgraph=False)


def assert_same_under_compile(case: Case, *, fullgraph: bool) -> None:
    torch.compiler.reset()
    try:
        compiled = torch.compile(case.call, fullgraph=fullgraph, backend="eager")
        found = outputs(compiled(**case.tensors, **case.options))
    finally:
        torch.compiler.reset()
    for part, wanted in zip(found, case.run(), strict=True):
        torch.testing.assert_close(part, wanted, rtol=1e-12, atol=1e-12, equal_nan=True)
