"""Slow oracles of the policy losses: obvious loops over plain Python floats, one row is one sequence.

Each objective returns `values[i][t]`, the objective of token t of row i (0 where masked), and `slopes[i][t][u]`, its derivative
with respect to the current log-probability of token u of the same row. `weights` gives what each token counts in the reduced loss,
and `loss_and_gradient` puts the two together. Nothing here is shared with the package.
"""

from __future__ import annotations

import math
from typing import NamedTuple

Rows = list[list[float]]
Mask = list[list[int]]


class Tokens(NamedTuple):
    values: Rows
    slopes: list[list[list[float]]]


def reinforce(current: Rows, advantages: Rows, mask: Mask) -> Tokens:
    """A * l."""
    out = _empty(mask)
    for i, t in _live(mask):
        out.values[i][t] = advantages[i][t] * current[i][t]
        out.slopes[i][t][t] = advantages[i][t]
    return out


def clipped(current: Rows, old: Rows, advantages: Rows, mask: Mask, low: float, high: float) -> Tokens:
    """min(r A, clip(r) A): the gradient is r A unless the clipped branch is strictly smaller."""
    out = _empty(mask)
    for i, t in _live(mask):
        ratio, advantage = math.exp(current[i][t] - old[i][t]), advantages[i][t]
        unclipped, clip = ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage
        out.values[i][t] = min(unclipped, clip)
        out.slopes[i][t][t] = 0.0 if clip < unclipped else unclipped
    return out


def dual_clipped(current: Rows, old: Rows, advantages: Rows, mask: Mask, low: float, high: float, dual: float) -> Tokens:
    """The same, but a negative advantage costs no more than dual * A."""
    out = clipped(current, old, advantages, mask, low, high)
    for i, t in _live(mask):
        if advantages[i][t] < 0 and out.values[i][t] < dual * advantages[i][t]:
            out.values[i][t] = dual * advantages[i][t]
            out.slopes[i][t][t] = 0.0
    return out


def less_divergence(tokens: Tokens, current: Rows, reference: Rows, mask: Mask, beta: float, *, gradient: str) -> Tokens:
    """Minus beta (e^-l - 1 + l) with its own gradient 1 - e^-l (`k3`), or with the gradient l (`k2`)."""
    for i, t in _live(mask):
        log = current[i][t] - reference[i][t]
        tokens.values[i][t] -= beta * (math.exp(-log) - 1 + log)
        tokens.slopes[i][t][t] -= beta * (log if gradient == "k2" else 1 - math.exp(-log))
    return tokens


def cispo(current: Rows, old: Rows, advantages: Rows, mask: Mask, ratio_min: float, ratio_max: float) -> Tokens:
    """clip(r) A l with the gradient clip(r) A, also of clipped tokens."""
    out = _empty(mask)
    for i, t in _live(mask):
        weight = min(max(math.exp(current[i][t] - old[i][t]), ratio_min), ratio_max)
        out.values[i][t] = weight * advantages[i][t] * current[i][t]
        out.slopes[i][t][t] = weight * advantages[i][t]
    return out


def total_variation(
    current: Rows, old: Rows, advantages: Rows, mask: Mask, up: float, down: float, ratio_max: float = math.inf, square: float = 0.0
) -> Tokens:
    """r A unless the probability moved too far with A, less the square of the log-ratio; value and gradient of r stop at a cap."""
    out = _empty(mask)
    for i, t in _live(mask):
        log, advantage = current[i][t] - old[i][t], advantages[i][t]
        moved = math.exp(current[i][t]) - math.exp(old[i][t])
        dropped = (advantage > 0 and moved > up) or (advantage < 0 and -moved > down)
        kept = 0.0 if dropped else min(math.exp(log), ratio_max) * advantage
        out.values[i][t] = kept - square * log * log
        out.slopes[i][t][t] = kept - square * 2 * log
    return out


def decoupled(
    current: Rows,
    proximal: Rows,
    behaviour: Rows,
    advantages: Rows,
    mask: Mask,
    low: float,
    high: float,
    cap: float,
    truncate: bool,
) -> Tokens:
    """The clipped surrogate around the proximal policy, times the capped ratio of proximal to behaviour."""
    out = clipped(current, proximal, advantages, mask, low, high)
    for i, t in _live(mask):
        weight = math.exp(proximal[i][t] - behaviour[i][t])
        if weight > cap:
            weight = cap if truncate else 0.0
        out.values[i][t] *= weight
        out.slopes[i][t][t] *= weight
    return out


def value(values: Rows, returns: Rows, mask: Mask, old: Rows | None = None, clip: float = math.inf) -> Tokens:
    """Minus half the larger of two squared errors; the clipped one has no gradient once the value left the interval."""
    out = _empty(mask)
    for i, t in _live(mask):
        error = values[i][t] - returns[i][t]
        out.values[i][t], out.slopes[i][t][t] = -error * error / 2, -error
        if old is not None:
            moved = values[i][t] - old[i][t]
            other = old[i][t] + min(max(moved, -clip), clip) - returns[i][t]
            if other * other > error * error:
                out.values[i][t] = -other * other / 2
                out.slopes[i][t][t] = -other if abs(moved) <= clip else 0.0
    return out


def sapo(current: Rows, old: Rows, advantages: Rows, mask: Mask, tau_positive: float, tau_negative: float) -> Tokens:
    """(4 / tau) sigmoid(tau (r - 1)) A with the gradient 4 p (1 - p) r A."""
    out = _empty(mask)
    for i, t in _live(mask):
        ratio, advantage = math.exp(current[i][t] - old[i][t]), advantages[i][t]
        tau = tau_positive if advantage > 0 else tau_negative
        p = 1 / (1 + math.exp(-tau * (ratio - 1)))
        out.values[i][t] = 4 / tau * p * advantage
        out.slopes[i][t][t] = 4 * p * (1 - p) * ratio * advantage
    return out


def sao(current: Rows, old: Rows, advantages: Rows, mask: Mask, low: float, high: float, detach_ratio: bool = True) -> Tokens:
    """r A l strictly inside (1 - low, 1 + high), else 0; gradient r A, or r A (1 + l) with the ratio attached."""
    out = _empty(mask)
    for i, t in _live(mask):
        logprob = current[i][t]
        ratio = math.exp(logprob - old[i][t])
        if 1 - low < ratio < 1 + high:
            weighted = ratio * advantages[i][t]
            out.values[i][t] = weighted * logprob
            out.slopes[i][t][t] = weighted if detach_ratio else weighted * (1 + logprob)
    return out


def gspo(current: Rows, old: Rows, sequence_advantages: list[float], mask: Mask, low: float, high: float) -> Tokens:
    """Every live token carries min(s A, clip(s) A); ds / dl = s / n for each live token of the row."""
    out = _empty(mask)
    for i, t in _live(mask):
        live = [u for u in range(len(mask[i])) if mask[i][u]]
        ratio = _geometric_mean(current[i], old[i], live)
        advantage = sequence_advantages[i]
        unclipped, clip = ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage
        out.values[i][t] = min(unclipped, clip)
        for u in live:
            out.slopes[i][t][u] = 0.0 if clip < unclipped else unclipped / len(live)
    return out


def gspo_token(current: Rows, old: Rows, advantages: Rows, mask: Mask, low: float, high: float) -> Tokens:
    """min(s A_t, clip(s) A_t); the gradient s A_t goes to token t alone."""
    out = _empty(mask)
    for i, t in _live(mask):
        ratio = _geometric_mean(current[i], old[i], [u for u in range(len(mask[i])) if mask[i][u]])
        unclipped = ratio * advantages[i][t]
        clip = min(max(ratio, 1 - low), 1 + high) * advantages[i][t]
        out.values[i][t] = min(unclipped, clip)
        out.slopes[i][t][t] = 0.0 if clip < unclipped else unclipped
    return out


def weights(mask: Mask, aggregation: str, rollouts: list[int] | None = None, horizon: float | None = None) -> Rows:
    """What one live token counts in the reduced loss."""
    lengths = [sum(row) for row in mask]
    sequences = sum(1 for length in lengths if length)
    table: Rows = [[0.0] * len(row) for row in mask]
    for i, t in _live(mask):
        if aggregation == "token":
            table[i][t] = 1 / sum(lengths)
        elif aggregation == "sequence_mean":
            table[i][t] = 1 / lengths[i] / sequences
        elif aggregation == "sequence_sum":
            table[i][t] = 1 / sequences
        elif aggregation == "horizon":
            assert horizon is not None
            table[i][t] = 1 / horizon / len(mask)
        else:
            assert rollouts is not None
            of_rollout = sum(length for length, rollout in zip(lengths, rollouts, strict=True) if rollout == rollouts[i])
            alive = {rollout for length, rollout in zip(lengths, rollouts, strict=True) if length}
            table[i][t] = 1 / of_rollout / len(alive)
    return table


def loss_and_gradient(tokens: Tokens, table: Rows) -> tuple[float, Rows]:
    """Minus the weighted sum of the objective, and its derivative."""
    loss = 0.0
    gradient: Rows = [[0.0] * len(row) for row in table]
    for i, row in enumerate(table):
        for t, weight in enumerate(row):
            loss -= weight * tokens.values[i][t]
            for u in range(len(row)):
                gradient[i][u] -= weight * tokens.slopes[i][t][u]
    return loss, gradient


def mean_divergence(current: Rows, old: Rows, mask: Mask) -> float:
    """Mean of r - 1 - log r over live tokens."""
    logs = [current[i][t] - old[i][t] for i, t in _live(mask)]
    return sum(math.exp(log) - 1 - log for log in logs) / len(logs)


def _geometric_mean(current: list[float], old: list[float], live: list[int]) -> float:
    product = 1.0
    for u in live:
        product *= math.exp(current[u] - old[u])
    return float(product ** (1 / len(live)))


def _live(mask: Mask) -> list[tuple[int, int]]:
    return [(i, t) for i, row in enumerate(mask) for t, on in enumerate(row) if on]


def _empty(mask: Mask) -> Tokens:
    return Tokens([[0.0] * len(row) for row in mask], [[[0.0] * len(row) for _ in row] for row in mask])
