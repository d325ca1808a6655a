"""The fault table: one function plants one mistake in a healthy batch, and one check must name it.

`FAULTS` says for each fault in which batches it can be planted, which check names it, and which other findings above `info` are its
real consequences. A fault function changes the arguments in place and returns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from oracles_audit import (
    FIRST,
    STOP,
    TOOL,
    Shape,
    World,
    _gather,
    _scatter,
    log_distribution,
    make_world,
    mean_of,
    with_critic,
    with_loss,
)
from torch import Tensor

BASE = Shape(groups=4, members=4)
LARGE = Shape(groups=6, members=4, longest_action=16)
ONE_TURN = Shape(groups=5, members=4, turns=1, longest_action=20, filler="nan")
CERTAIN = Shape(groups=4, members=6, certain=0.6)
LEFT = Shape(groups=4, members=4, left_padded=True)
FORWARD = Shape(groups=4, members=4, filler="forward")
FILLED = (BASE, ONE_TURN, CERTAIN, LEFT)
ANY = (BASE, ONE_TURN, LEFT, FORWARD)


@dataclass(frozen=True)
class Fault:
    """One mistake and who must name it."""

    plant: Callable[[World], None]
    check: str
    shapes: tuple[Shape, ...] = ANY
    prepare: Callable[[World], World] = lambda world: world
    also: tuple[str, ...] = ()
    """Other findings above `info` that are true as well."""
    without: tuple[str, ...] = ()
    """Arguments that this user does not have."""

    def world(self, seed: int, shape: Shape) -> World:
        """Make the batch with the mistake in it."""
        world = self.prepare(make_world(seed, shape))
        self.plant(world)
        for argument in self.without:
            world.arguments.pop(argument)
        return world


def _moved(mask: Tensor, by: int) -> Tensor:
    moved = torch.zeros_like(mask)
    if by > 0:
        moved[:, by:] = mask[:, :-by]
    else:
        moved[:, :by] = mask[:, -by:]
    return moved


def mask_right(world: World) -> None:
    world.arguments["action_mask"] = _moved(world.arguments["action_mask"], 1)


def mask_left(world: World) -> None:
    world.arguments["action_mask"] = _moved(world.arguments["action_mask"], -1)


def advantages_as_mask(world: World) -> None:
    a = world.arguments
    a["action_mask"] = a["advantages"][:, None].expand(a["action_mask"].shape) * a["action_mask"]


def tool_results_trained(world: World) -> None:
    world.arguments["action_mask"] = world.arguments["action_mask"] | (world.arguments["roles"] == TOOL)


def everything_after_the_prompt_trained(world: World) -> None:
    a = world.arguments
    a["action_mask"] = (a["action_mask"].cumsum(1) > 0) & a["valid_mask"]


def padding_trained(world: World) -> None:
    a = world.arguments
    a["action_mask"] = a["action_mask"] | ~a["valid_mask"]


def stop_tokens_dropped(world: World) -> None:
    a = world.arguments
    a["action_mask"] = a["action_mask"] & (a["input_ids"] != STOP)


def empty_row(world: World) -> None:
    a = world.arguments
    row = int((a["advantages"] != 0).nonzero()[0])
    a["action_mask"] = a["action_mask"].clone()
    a["action_mask"][row] = False
    a["truncated"][row], a["terminated"][row] = False, True


def reasoning_masked(world: World) -> None:
    a = world.arguments
    a["action_mask"] = a["action_mask"] & ~a["reasoning_mask"]


def header_trained(world: World) -> None:
    a = world.arguments
    scaffold = a["roles"] == 5
    before = torch.zeros_like(scaffold)
    before[:, :-1] = a["action_mask"][:, 1:] & ~a["action_mask"][:, :-1] & scaffold[:, :-1]
    a["content_mask"] = ~scaffold
    a["action_mask"] = a["action_mask"] | before
    a.pop("roles")


def _trained_places(world: World, count: int) -> list[list[int]]:
    places = world.arguments["action_mask"].nonzero().tolist()
    return [places[i] for i in torch.randperm(len(places), generator=world.generator)[:count].tolist()]


def nan_logprob(world: World) -> None:
    for row, place in _trained_places(world, 1):
        world.arguments["old_logprobs"][row, place] = math.nan


def zero_for_nan(world: World) -> None:
    """R13: the obvious patch for a missing log-probability."""
    a = world.arguments
    unlikely = (a["action_mask"] & (a["current_logprobs"] < -1.5)).nonzero()
    for row, place in unlikely[:3].tolist():
        a["old_logprobs"][row, place] = 0.0


def probabilities(world: World) -> None:
    world.arguments["old_logprobs"] = world.arguments["old_logprobs"].exp()


def negated_logprobs(world: World) -> None:
    world.arguments["current_logprobs"] = -world.arguments["current_logprobs"]


def _resample(world: World, temperature: float = 1.0, top_p: float = 1.0) -> None:
    """Sample the actions again from another distribution, and record its log-probabilities; the learner does not know."""
    a, mask = world.arguments, world.arguments["action_mask"]
    logprobs = log_distribution(world.logits, temperature, top_p)
    world.chosen = torch.multinomial(logprobs.exp(), 1, generator=world.generator)[:, 0]
    a["input_ids"] = a["input_ids"].clone()
    a["input_ids"][mask] = world.chosen
    a.pop("stop_ids")
    a["old_logprobs"] = _scatter(_gather(logprobs, world.chosen), mask, world.shape.filler, world.generator)
    a["current_logprobs"] = _scatter(_gather(log_distribution(world.logits), world.chosen), mask, "forward", world.generator)


def temperature_ignored(world: World) -> None:
    _resample(world, temperature=0.6)


def high_temperature_ignored(world: World) -> None:
    _resample(world, temperature=1.5)


def top_p_ignored(world: World) -> None:
    _resample(world, top_p=0.8)


def recomputed_while_stale(world: World) -> None:
    a = world.arguments
    a["old_logprobs"] = torch.where(a["action_mask"], a["current_logprobs"], a["old_logprobs"])
    a["lag"] = 3


def recomputed_with_versions(world: World) -> None:
    recomputed_while_stale(world)
    world.arguments.pop("lag")
    world.arguments |= {"versions": ["v7"] * len(world.arguments["rewards"]), "current_version": "v9"}


def ratio_against_itself(world: World) -> None:
    a = world.arguments
    a["old_logprobs"] = torch.where(a["action_mask"], a["current_logprobs"], a["old_logprobs"])
    a |= {"lag": 0, "before_update": False}


def stale_called_fresh(world: World) -> None:
    moved = world.logits + 0.6 * torch.randn(world.logits.shape, generator=world.generator)
    current = _gather(log_distribution(moved), world.chosen)
    world.arguments["current_logprobs"] = _scatter(current, world.arguments["action_mask"], "forward", world.generator)


def retokenised(world: World) -> None:
    """A few recorded log-probabilities belong to other tokens."""
    a = world.arguments
    count = max(4, int(0.04 * int(a["action_mask"].sum())))
    a["sampled_ids"] = a["input_ids"].clone()
    for row, place in _trained_places(world, count):
        a["input_ids"][row, place] = FIRST + (a["input_ids"][row, place] + 1) % 20


def retokenised_unseen(world: World) -> None:
    """The same without the sampled ids: the current log-probability is another token's."""
    a = world.arguments
    for row, place in _trained_places(world, max(4, int(0.04 * int(a["action_mask"].sum())))):
        a["current_logprobs"][row, place] = a["old_logprobs"][row, place] - 6 - torch.rand((), generator=world.generator)


def mixed_versions(world: World) -> None:
    a = world.arguments
    versions = torch.full(a["action_mask"].shape, 8)
    versions[:, : versions.shape[1] // 2] = 7
    a |= {"versions": versions, "current_version": 9, "lag": 1, "before_update": False}


def group_per_rollout(world: World) -> None:
    a = world.arguments
    a["group_ids"] = list(a["rollout_ids"])
    a["advantages"] = a["rewards"].clone()


def groups_by_row_number(world: World) -> None:
    world.arguments["group_ids"] = torch.arange(len(world.arguments["rewards"]))


def _permuted(world: World, order: Tensor, *, keep: tuple[str, ...]) -> None:
    for name, value in world.arguments.items():
        if name not in keep and isinstance(value, Tensor) and value.ndim and len(value) == len(order):
            world.arguments[name] = value[order]
        elif name not in keep and isinstance(value, list) and len(value) == len(order):
            world.arguments[name] = [value[i] for i in order.tolist()]


def group_ids_by_position(world: World) -> None:
    """Rows were sorted by length; the ids were dealt out afterwards. Advantages are right."""
    order = world.arguments["action_mask"].sum(1).argsort(stable=True)
    _permuted(world, order, keep=("group_ids",))


def advantages_by_position(world: World) -> None:
    """Rows were shuffled; the estimator reshaped the rewards to [groups, members] all the same."""
    a = world.arguments
    size = world.shape.members
    order = torch.arange(len(a["rewards"])).view(-1, size).T.flatten()
    a["rewards"][::size] = 1.0
    a["rewards"][1::size] = 0.0
    a["rewards"][2] = 0.0 if float(a["rewards"][2]) else 1.0
    _permuted(world, order, keep=())
    grouped = a["rewards"].view(-1, size)
    a["advantages"] = (grouped - grouped.mean(1, keepdim=True)).flatten()


def rows_vote(world: World) -> None:
    """R20: one rollout per group consists of two rows and counts twice."""
    a = world.arguments
    size = world.shape.members
    rollouts = [name if index % size != 1 else a["rollout_ids"][index - 1] for index, name in enumerate(a["rollout_ids"])]
    rewards = a["rewards"].clone()
    rewards[1::size] = rewards[::size]
    rewards[2], rewards[3] = 1 - rewards[0], rewards[0]
    grouped = rewards.view(-1, size)
    spread = grouped.std(1, keepdim=True).clamp(min=1e-6)
    a |= {"rollout_ids": rollouts, "rewards": rewards, "advantages": ((grouped - grouped.mean(1, keepdim=True)) / spread).flatten()}


def uniform_residue(world: World) -> None:
    """R18: the standard deviation of a uniform group is a rounding residue."""
    a, size = world.arguments, world.shape.members
    a["rewards"] = a["rewards"].clone()
    a["rewards"][-size:] = 0.35
    a["advantages"][-size:] = -1000.0


def all_uniform(world: World) -> None:
    a, size = world.arguments, world.shape.members
    a["rewards"] = torch.arange(len(a["rewards"])).div(size, rounding_mode="floor") % 2 * 1.0
    a["advantages"] = torch.zeros_like(a["rewards"])


def flipped_advantages(world: World) -> None:
    world.arguments["advantages"] = -world.arguments["advantages"]


def nan_advantages(world: World) -> None:
    world.arguments["advantages"][0] = math.nan


def advantage_differs_within(world: World) -> None:
    a = world.arguments
    a["advantages"] = a["advantages"][:, None] + torch.randn(a["action_mask"].shape, generator=world.generator)


def whitened_over_padding(world: World) -> None:
    a = world.arguments
    mask = a["action_mask"]
    raw = torch.where(mask, torch.randn(mask.shape, generator=world.generator) + 1.0, 0.0)
    a["advantages"] = (raw - raw.mean()) / raw.std()
    a["credit"] = "token"


def failure_as_zero(world: World) -> None:
    """R58: two graders failed; their rollouts were scored 0 and averaged in."""
    a, size = world.arguments, world.shape.members
    rewards = a["rewards"].clone()
    rewards[:size] = torch.tensor([1.0, 0.0, *([1.0, 0.0] * size)][:size])
    rewards[1] = 0.0
    scored = torch.ones(len(rewards), dtype=torch.bool)
    scored[1] = False
    grouped = rewards.view(-1, size)
    a |= {"rewards": rewards, "scored": scored, "advantages": (grouped - grouped.mean(1, keepdim=True)).flatten()}


def _ends(world: World, *, bootstrap_truncated: bool, bootstrap_terminated: bool) -> None:
    a = world.arguments
    a["truncated"][:3], a["terminated"][:3] = True, False
    a["truncated"][3:6], a["terminated"][3:6] = False, True
    a["bootstrap_values"] = a["bootstrap_values"] + 2.0
    wrong = torch.where(a["truncated"], bootstrap_truncated, bootstrap_terminated)
    real = a["truncated"], a["terminated"]
    a["truncated"] = wrong
    a["rewards"] = a["rewards"].sum(1)
    with_critic_again(world)
    a["truncated"], a["terminated"] = real


def with_critic_again(world: World) -> None:
    """Recompute advantages with the flags as they stand, keeping the bootstrap values."""
    bootstrap = world.arguments["bootstrap_values"]
    original = torch.randn
    try:
        torch.randn = lambda *shape, **how: bootstrap.double() if shape == (len(bootstrap),) else original(*shape, **how)
        with_critic(world)
    finally:
        torch.randn = original


def truncation_as_terminal(world: World) -> None:
    _ends(world, bootstrap_truncated=False, bootstrap_terminated=False)


def terminal_bootstrapped(world: World) -> None:
    _ends(world, bootstrap_truncated=True, bootstrap_terminated=True)


def truncated_by_width(world: World) -> None:
    """R28: whatever fills the width is called cut; here the longest row ended with its stop token."""
    a = world.arguments
    places = torch.arange(a["action_mask"].shape[1])
    last = (places * a["action_mask"]).amax(1)
    row = int(last.argmax())
    a["input_ids"][row, int(last[row])] = STOP
    a["truncated"] = last == last.max()
    a["terminated"] = ~a["truncated"]


def critic_late(world: World) -> None:
    world.arguments["values"] = world.arguments["values"].roll(1, 1)


def critic_early(world: World) -> None:
    world.arguments["values"] = world.arguments["values"].roll(-1, 1)


def mean_of_means(world: World) -> None:
    a = world.arguments
    half = len(a["rewards"]) // 2
    halves = (slice(0, half), slice(half, None))
    a["loss"] = torch.stack([mean_of(a["token_loss"][part], a["action_mask"][part], "token") for part in halves]).mean()
    a["micro_batches"] = [half, len(a["rewards"]) - half]


def mean_over_padding(world: World) -> None:
    a = world.arguments
    a["loss"] = torch.where(a["action_mask"], a["token_loss"], 0.0).mean()


def bf16_evidence(world: World) -> None:
    world.arguments["old_logprobs"] = world.arguments["old_logprobs"].bfloat16()


def labels_as_ids(world: World) -> None:
    a = world.arguments
    for row, place in _trained_places(world, 3):
        a["input_ids"][row, place] = -100


def contradicting_ends(world: World) -> None:
    world.arguments["truncated"][0] = world.arguments["terminated"][0] = True


def alien_logprobs(world: World) -> None:
    for row, place in _trained_places(world, 2):
        world.arguments["old_logprobs"][row, place] = -91.0


_LOSS: dict[str, Any] = {"prepare": with_loss}
_CRITIC: dict[str, Any] = {"prepare": with_critic, "shapes": (BASE, ONE_TURN, LARGE)}

FAULTS: dict[str, Fault] = {
    "R01 mask one to the right, by log-probabilities": Fault(mask_right, "mask_shifted", FILLED, without=("roles", "stop_ids")),
    "mask one to the left, by log-probabilities": Fault(mask_left, "mask_shifted", FILLED, without=("roles", "stop_ids")),
    "R01 mask one to the right, by roles": Fault(mask_right, "mask_shifted", without=("old_logprobs",)),
    "mask one to the left, by roles": Fault(mask_left, "mask_shifted", without=("old_logprobs",)),
    "mask one to the right, everything given": Fault(mask_right, "mask_shifted"),
    "R04 advantages as the mask": Fault(advantages_as_mask, "mask_values", also=("empty_rows", "groups_uniform")),
    "R03 tool results trained": Fault(tool_results_trained, "foreign_tokens_trained", (BASE, LARGE, LEFT, FORWARD)),
    "R03 everything after the prompt trained": Fault(
        everything_after_the_prompt_trained, "foreign_tokens_trained", (BASE, LARGE, LEFT, FORWARD)
    ),
    "mask covers padding": Fault(padding_trained, "padding_trained", without=("roles",), also=("groups_mixed",)),
    "R02 stop tokens dropped": Fault(stop_tokens_dropped, "stop_tokens_dropped"),
    "R02 stop tokens dropped, by log-probabilities": Fault(
        stop_tokens_dropped,
        "stop_tokens_dropped",
        tuple(Shape(**{**vars(shape), "truncated": 0.0}) for shape in FILLED[:2]),
        without=("stop_ids", "roles", "valid_mask"),
    ),
    "R26 a row trains nothing": Fault(empty_row, "empty_rows", without=("scored",), prepare=lambda world: _token_advantages(world)),
    "reasoning masked": Fault(reasoning_masked, "reasoning_masked"),
    "scaffold trained": Fault(header_trained, "scaffold_trained", (FORWARD,), also=()),
    "R13 no log-probability": Fault(nan_logprob, "logprob_nonfinite"),
    "R13 no log-probability, patched with 0.0": Fault(zero_for_nan, "logprob_filler"),
    "probabilities for log-probabilities": Fault(probabilities, "logprob_positive"),
    "negative log-likelihoods": Fault(negated_logprobs, "logprob_positive"),
    "R15 bfloat16 evidence": Fault(bf16_evidence, "logprob_bf16", (BASE, ONE_TURN, LARGE)),
    "labels as ids": Fault(labels_as_ids, "token_ids_invalid"),
    "R11 temperature ignored": Fault(temperature_ignored, "temperature_mismatch", (LARGE, ONE_TURN)),
    "R11 high temperature ignored": Fault(high_temperature_ignored, "temperature_mismatch", (LARGE, ONE_TURN)),
    "top-p ignored": Fault(top_p_ignored, "top_p_mismatch", (LARGE, ONE_TURN)),
    "R43 recomputed while stale": Fault(recomputed_while_stale, "ratio_one_while_stale"),
    "R43 recomputed, versions say so": Fault(recomputed_with_versions, "ratio_one_while_stale"),
    "R38 ratio against itself": Fault(ratio_against_itself, "ratio_one_after_update"),
    "stale weights called fresh": Fault(stale_called_fresh, "ratio_not_one_when_fresh", (LARGE, ONE_TURN)),
    "R37 another token's log-probability": Fault(alien_logprobs, "ratio_extreme"),
    "R42 one version per request": Fault(mixed_versions, "lag_understated", also=("ratio_one_after_update",)),
    "R07 history encoded anew": Fault(retokenised, "history_retokenised"),
    "R07 history encoded anew, ids unknown": Fault(retokenised_unseen, "history_retokenised", (LARGE, ONE_TURN)),
    "R16 group id per rollout": Fault(group_per_rollout, "groups_singleton", also=("advantage_grouping",)),
    "R16 group id is the row number": Fault(groups_by_row_number, "groups_singleton"),
    "group ids by position": Fault(group_ids_by_position, "groups_mixed"),
    "advantages by position": Fault(advantages_by_position, "advantage_grouping", also=("advantage_in_uniform_group",)),
    "R20 rows vote instead of rollouts": Fault(rows_vote, "advantage_grouping", also=("advantage_in_uniform_group",)),
    "R18 advantage of a uniform group": Fault(uniform_residue, "advantage_in_uniform_group"),
    "R76 no group has a signal": Fault(all_uniform, "groups_uniform"),
    "advantages negated": Fault(flipped_advantages, "advantage_sign"),
    "R17 R56 advantage NaN": Fault(nan_advantages, "advantage_nonfinite"),
    "advantage differs within a rollout": Fault(advantage_differs_within, "advantage_varies"),
    "whitened over padding": Fault(whitened_over_padding, "padding_in_statistics"),
    "R58 grader failure as zero": Fault(failure_as_zero, "unscored_as_zero"),
    "truncation as terminal": Fault(truncation_as_terminal, "truncation_as_terminal", **_CRITIC),
    "terminal bootstrapped": Fault(terminal_bootstrapped, "truncation_as_terminal", **_CRITIC),
    "R28 truncation by width": Fault(truncated_by_width, "truncation_from_width", (BASE, ONE_TURN)),
    "terminated and truncated": Fault(contradicting_ends, "ends_contradict"),
    "critic one late": Fault(critic_late, "critic_shifted", **_CRITIC),
    "critic one early": Fault(critic_early, "critic_shifted", **_CRITIC),
    "R23 mean of micro-batch means": Fault(mean_of_means, "aggregation_mismatch", **_LOSS),
    "mean over padding": Fault(mean_over_padding, "aggregation_mismatch", **_LOSS),
}


def _token_advantages(world: World) -> World:
    """Advantages per token say nothing about a row of zero advantage being left out."""
    world.arguments["advantages"] = world.arguments["advantages"] + 0.1
    world.arguments.pop("rewards")
    return world
