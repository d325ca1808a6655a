"""One token, worked out by hand: `Explanation, position -> sections of lines`, every formula with its numbers put in."""

from __future__ import annotations

from rosellm.roserlhf.audit.explanation.explain import Explanation
from rosellm.roserlhf.audit.explanation.numbers import brief
from rosellm.roserlhf.audit.explanation.reward_story import CreditStory
from rosellm.roserlhf.audit.explanation.token_story import TokenStory
from rosellm.roserlhf.audit.explanation.update_story import TokenUpdate, UpdateStory
from rosellm.roserlhf.audit.explanation.verdict import is_the_ratio

Section = tuple[str, tuple[str, ...]]
"""A heading and its lines."""


def precise(value: float) -> str:
    """Write a float32 with the eight digits that tell it from its neighbours."""
    return f"{value + 0.0:.8g}"


def arithmetic(explanation: Explanation, token: TokenStory) -> list[Section]:
    """Work one token out, from its mask to its share of the update.

    Args:
        explanation: of its trajectory.
        token: one of `explanation.tokens`.
    """
    sections: list[Section] = [("token", _token(token))]
    if token.sampled:
        sections += [("reward", _reward(explanation.credit)), ("advantage", _advantage(explanation.credit, token.turn))]
    for update in explanation.updates:
        for one in update.tokens:
            if one.position == token.position:
                sections.append((f"update {update.number} of step {update.step}", _update(explanation, token, update, one)))
    return sections


def _token(token: TokenStory) -> tuple[str, ...]:
    trained = {True: "1", False: "0", None: "not known"}[token.trained]
    lines = [
        f"position {token.position}, id {token.token_id}, role {token.role}"
        + ("" if token.turn is None else f", turn {token.turn}"),
        f"policy mask {int(token.sampled)}, content mask {int(token.content)}, loss mask {trained}: {token.why}",
    ]
    if token.sampled:
        lines.append(f"sampled by {token.version}, prefix cache {token.prefix_cache}")
    if token.guard is not None:
        lines.append(token.guard)
    return tuple(lines)


def _reward(credit: CreditStory) -> tuple[str, ...]:
    lines = [
        f"turn {paid.turn}: " + ", ".join(f"{name} {_scored(value)}" for name, value in paid.components.items())
        for paid in credit.turns
    ]
    if credit.weights is None:
        known = _scored(credit.reward) + ", as the ledger kept it" if credit.reward_is_known else "not known"
        return (*lines, f"R = {known}; the weights of the components are not known")
    parts = [f"{brief(weight)} * {name} {_scored(credit.components.get(name))}" for name, weight in credit.weights.items()]
    return (*lines, f"R = {' + '.join(parts)} = {_scored(credit.reward)}")


def _scored(value: float | None) -> str:
    return "not scored" if value is None else brief(value)


def _advantage(credit: CreditStory, turn: int | None) -> tuple[str, ...]:
    lines = [f"member {member.trajectory_id}: left out, {member.left_out}" for member in credit.members if member.left_out]
    recorded = "not recorded" if credit.recorded is None else f"{credit.recorded!r}"
    agrees = "" if credit.recorded is None or credit.recomputed is None else " (agree)"
    if credit.disagreement:
        agrees = f", but recomputed: {credit.recomputed!r} (THEY DIFFER)"
    mine = credit.of_turn(turn)
    own = (f"of turn {turn}: A = {mine!r}",) if isinstance(credit.advantage, tuple) and mine is not None else ()
    return (*lines, *credit.formula_of_turn(turn), f"recorded: {recorded}{agrees}", *own)


def _update(explanation: Explanation, token: TokenStory, update: UpdateStory, one: TokenUpdate) -> tuple[str, ...]:
    behaviour = token.behaviour_logprob or 0.0
    lines = [
        f"log-probabilities: behaviour {precise(behaviour)}, current {precise(one.current_logprob)}",
        f"ratio = exp(current - behaviour) = exp({precise(one.current_logprob - behaviour)}) = {precise(one.ratio)}",
    ]
    if one.verdict is not None:
        lines.append(f"verdict: {one.verdict.words}; {'gradient kept' if one.verdict.gradient else 'no gradient'}")
    if one.token_loss is not None and one.derivative is not None:
        lines.append(f"token loss x = {precise(one.token_loss)}")
        lines += _derivative(explanation.credit.of_turn(token.turn), update, one)
    if update.absolute and one.share is not None:
        lines.append(
            f"share = |dL/dl| / sum over the update = {abs(one.derivative or 0.0):.6g} / {update.absolute:.6g} = {one.share:.4g}"
        )
    return (*lines, *_whole_update(update))


def _derivative(advantage: float | None, update: UpdateStory, one: TokenUpdate) -> list[str]:
    per_token = "dL/dx"
    if one.token_weight is not None:
        mean = abs(one.token_weight * update.denominator - 1) < 1e-6
        per_token = f"1/{brief(update.denominator)}" if mean else precise(one.token_weight)
    slope = precise(one.derivative or 0.0)
    weight = None if one.verdict is None else one.verdict.weight
    if weight is None or advantage is None:
        return [f"dL/dl = {slope}"]
    factor = precise(advantage) if advantage >= 0 else f"({precise(advantage)})"
    shown, source = precise(weight), "what the objective multiplies the advantage by"
    if is_the_ratio(weight, one.ratio):
        shown, source = precise(one.ratio), "the ratio"
    return [
        f"weight w = {shown} ({source})",
        f"dL/dl = - dL/dx * w * A = - {per_token} * {shown} * {factor} = {slope}: {_direction(one.derivative or 0.0)}",
    ]


def _direction(slope: float) -> str:
    return "pushed up" if slope < 0 else "pushed down" if slope > 0 else "not pushed"


def _whole_update(update: UpdateStory) -> list[str]:
    recomputed = "not recomputed" if update.recomputed_loss is None else f"recomputed {update.recomputed_loss:.8g}"
    scale = "" if update.clip_scale is None else f", scaled by {update.clip_scale:.4g}"
    made = "made" if update.skipped is None else f"NOT MADE: {update.skipped}"
    return [
        f"the update: {update.rows} rows, denominator D = {brief(update.denominator)}, loss {update.loss:.8g} ({recomputed})",
        f"gradient norm {update.gradient_norm:.6g}{scale}, learning rate {update.learning_rate:.6g}, {made}",
    ]
