"""n steps, V-trace, λ by length, decoupled λ, turns, shaping, compaction: hand arithmetic, slow oracles and identities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import oracles_credit as oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rosellm.roserlhf import advantages as fast
from rosellm.roserlhf import checks
from rosellm.roserlhf.errors import DtypeError, MaskError, NonFiniteError, RangeError, RoseError, ShapeError

thorough = settings(derandomize=True, max_examples=60, deadline=None)
NAN, INF = float("nan"), float("inf")
gae = fast.generalized_advantage_estimation


def floats(*numbers: Any) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def flags(*bits: Any) -> Tensor:
    return torch.tensor(bits, dtype=torch.bool)


def close(actual: Tensor, expected: Any, atol: float = 1e-10) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=actual.dtype), rtol=0, atol=atol)


def random_row(seed: int, steps: int) -> dict[str, Any]:
    """A packed row with absent steps and terminal steps in it."""
    torch.manual_seed(seed)
    ids = (torch.rand(steps) < 0.1).long().cumsum(0)
    return {
        "rewards": torch.randn(steps).double(),
        "values": torch.randn(steps).double(),
        "valid": torch.rand(steps) < 0.7,
        "terminated": torch.rand(steps) < 0.1,
        "ids": ids,
        "bootstrap": torch.randn(int(ids.max()) + 1).double(),
    }


def lists(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name].tolist() for name in names]


def options(row: dict[str, Any], gamma: float) -> dict[str, Any]:
    return {
        "gamma": gamma,
        "terminated": row["terminated"],
        "valid_mask": row["valid"],
        "bootstrap_value": row["bootstrap"],
        "episode_ids": row["ids"],
    }


rows = st.builds(random_row, st.integers(0, 10**6), st.integers(1, 90))
gammas = st.sampled_from([0.0, 0.5, 0.97, 1.0])


@thorough
@given(rows, gammas, st.sampled_from([1, 2, 3, 5, 8, 1000]))
def test_n_steps_equal_the_oracle(row: dict[str, Any], gamma: float, n: int) -> None:
    actual, targets = fast.n_step_advantages(row["rewards"], row["values"], n=n, **options(row, gamma))
    rewards, values, valid, ends, bootstrap, ids = lists(row, "rewards", "values", "valid", "terminated", "bootstrap", "ids")
    close(actual, oracle.n_step(rewards, values, n, gamma, valid, ends, bootstrap, ids))
    close(targets, torch.where(row["valid"], actual + row["values"], 0.0))


@thorough
@given(rows, gammas, st.sampled_from([(1.0, 1.0, 1.0), (2.0, 1.0, 0.5), (3.0, 1.5, INF)]))
def test_v_trace_equals_the_oracle(row: dict[str, Any], gamma: float, thresholds: tuple[float, float, float]) -> None:
    log_ratios = torch.randn_like(row["rewards"]) / 2
    rho_max, c_max, pg = thresholds
    vs, advantages = fast.v_trace(
        log_ratios, row["rewards"], row["values"], rho_max=rho_max, c_max=c_max, pg_rho_max=pg, **options(row, gamma)
    )
    rewards, values, valid, ends, bootstrap, ids = lists(row, "rewards", "values", "valid", "terminated", "bootstrap", "ids")
    expected = oracle.v_trace(log_ratios.exp().tolist(), rewards, values, gamma, thresholds, valid, ends, bootstrap, ids)
    close(vs, expected[0])
    close(advantages, expected[1])


@thorough
@given(rows, gammas)
def test_returns_from_the_start_equal_the_oracle(row: dict[str, Any], gamma: float) -> None:
    actual = fast.reward_to_go(row["rewards"], discount="from_start", **options(row, gamma))
    rewards, valid, ends, bootstrap, ids = lists(row, "rewards", "valid", "terminated", "bootstrap", "ids")
    close(actual, oracle.from_start(rewards, gamma, valid, ends, bootstrap, ids))
    from_now = fast.reward_to_go(row["rewards"], **options(row, gamma))
    assert from_now.equal(fast.discounted_returns(row["rewards"], **options(row, gamma)))
    if gamma == 1:
        close(actual, from_now)


@thorough
@given(rows, gammas)
def test_on_policy_v_trace_is_the_return(row: dict[str, Any], gamma: float) -> None:
    vs, advantages = fast.v_trace(torch.zeros_like(row["rewards"]), row["rewards"], row["values"], **options(row, gamma))
    returns = fast.discounted_returns(row["rewards"], **options(row, gamma))
    close(vs, returns)
    close(advantages, torch.where(row["valid"], returns - row["values"], 0.0))


@thorough
@given(rows, gammas)
def test_shifting_values_by_the_potential_leaves_gae_as_it_is(row: dict[str, Any], gamma: float) -> None:
    potentials, at_cut = torch.randn_like(row["values"]), torch.randn_like(row["bootstrap"])
    common = options(row, gamma)
    bootstrap = common.pop("bootstrap_value")
    shaped = fast.potential_shaping(row["rewards"], potentials, bootstrap_potential=at_cut, **common)
    before, _ = gae(row["rewards"], row["values"], gae_lambda=0.7, bootstrap_value=bootstrap, **common)
    after, _ = gae(shaped, row["values"] - potentials, gae_lambda=0.7, bootstrap_value=bootstrap - at_cut, **common)
    close(after, before)


@thorough
@given(rows, gammas)
def test_lambda_per_episode_is_that_of_its_steps(row: dict[str, Any], gamma: float) -> None:
    per_episode = torch.rand(len(row["bootstrap"]) + 100).double()  # a longer table than the row has steps
    one = gae(row["rewards"], row["values"], gae_lambda=per_episode, **options(row, gamma))
    other = gae(row["rewards"], row["values"], gae_lambda=per_episode[row["ids"]], **options(row, gamma))
    for a, b in zip(one, other, strict=True):
        close(a, b)


def test_the_finite_mixture_of_n_steps_is_gae() -> None:
    # A_0 = (1-λ)(A1 + λ A2 + λ² A3) + λ³ A4: the mass that is left rests on the Monte-Carlo term
    rewards, values, ends = floats(0.3, -0.2, 1.0, 0.5), floats(0.1, 0.2, 0.3, 0.4), flags(0, 0, 0, 1)
    lam = 0.7
    by_n = [fast.n_step_advantages(rewards, values, n=n, gamma=0.9, terminated=ends)[0] for n in (1, 2, 3, 4)]
    mixture = (1 - lam) * sum(lam ** (n - 1) * by_n[n - 1][0] for n in (1, 2, 3)) + lam**3 * by_n[3][0]
    expected, _ = gae(rewards, values, gamma=0.9, gae_lambda=lam, terminated=ends)
    close(expected, [0.7438187, 0.57749, 1.123, 0.1])
    close(mixture, expected[0])
    many, _ = fast.n_step_advantages(rewards, values, n=10**9, gamma=0.9, terminated=ends)
    close(many, fast.discounted_returns(rewards, gamma=0.9, terminated=ends) - values)


def test_v_trace_by_hand() -> None:
    # ρ = [.5, 2, 1]: δ_2 = 2 + .9*.7 - .3 = 2.33; δ_1 = 1*(0 + .9*.3 - .4) = -.13; δ_0 = .5*(1 + .9*.4 - .5) = .43
    # v_2 = 2.63; v_1 = .4 - .13 + .9*(2.63 - .3) = 2.367; v_0 = .5 + .43 + .9*.5*(2.367 - .4) = 1.81515
    log_ratios = floats(0.5, 2, 1).log()
    vs, advantages = fast.v_trace(log_ratios, floats(1, 0, 2), floats(0.5, 0.4, 0.3), gamma=0.9, bootstrap_value=0.7)
    close(vs, [1.81515, 2.367, 2.63])
    close(advantages, [0.5 * (1 + 0.9 * 2.367 - 0.5), 1.967, 2.33])
    # thresholds apart: ρ = 3 truncated to 2 in the error and the advantage, to 1 in what is carried
    vs, advantages = fast.v_trace(floats(3, 3).log(), floats(1, 1), floats(0, 0), rho_max=2.0, c_max=1.0, pg_rho_max=2.0)
    close(vs, [4, 2])
    close(advantages, [6, 2])


def test_v_trace_saturates_and_ends_at_a_terminal_step() -> None:
    wild = floats(INF, 1e30, -INF, 0)
    vs, advantages = fast.v_trace(wild, floats(1, 1, 1, 1), floats(0, 0, 0, 0), terminated=flags(0, 1, 0, 0), bootstrap_value=5.0)
    close(vs, [2, 1, 0, 6])
    close(advantages, [2, 1, 0, 6])
    vs, _ = fast.v_trace(torch.tensor([1e4, 0.0]), torch.ones(2), torch.ones(2, requires_grad=True))
    assert vs.isfinite().all()
    assert not vs.requires_grad
    with pytest.raises(NonFiniteError, match="log_ratios must give finite weights"):
        fast.v_trace(floats(1e4), floats(1), floats(0), rho_max=INF)
    with pytest.raises(NonFiniteError, match="log_ratios"):
        fast.v_trace(floats(NAN), floats(1), floats(0))


def test_lambda_by_length() -> None:
    lengths = torch.tensor([1, 10, 20, 21, 100])
    # 1 - 1/(0.05 * 10) = -1 below 20 steps: clipped, and shown only on request
    exact = fast.length_adaptive_lambda(lengths, alpha=0.05, dtype=torch.float64)
    close(exact, [0, 0, 0, 1 - 1 / 1.05, 0.8])
    close(fast.length_adaptive_lambda(lengths, alpha=0.05, clamp=False, dtype=torch.float64), [-19, -1, 0, 1 - 1 / 1.05, 0.8])
    close(fast.length_adaptive_lambda(torch.tensor([0, 1]), alpha=1.5, dtype=torch.float64), [0, 1 / 3])
    with pytest.raises(RangeError, match="gae_lambda must be in"):
        gae(
            torch.ones(2, 3),
            torch.ones(2, 3),
            gae_lambda=fast.length_adaptive_lambda(torch.tensor([1, 1]), alpha=0.05, clamp=False),
        )


def test_the_critic_keeps_its_own_lambda() -> None:
    # λ = 0.9: A = [.1+.9*.55, .1+.9*.5, .5]; the targets of λ = 1 are the return 1 everywhere
    call: dict[str, Any] = {"terminated": flags(0, 0, 1), "gae_lambda": 0.9}
    advantages, targets = gae(floats(0, 0, 1), floats(0.3, 0.4, 0.5), critic_lambda=1.0, **call)
    close(advantages, [0.595, 0.55, 0.5])
    close(targets, [1, 1, 1])
    close(gae(floats(0, 0, 1), floats(0.3, 0.4, 0.5), **call)[1], [0.895, 0.95, 1.0])


def test_turns_are_steps_and_tokens_share_them() -> None:
    # A_1 = 1 - .6 = .4; A_0 = .2 + .6 - .5 + .95 * .4 = .68
    ids, mask = torch.tensor([0, 0, 7, 1, 1, 1]), flags(1, 1, 0, 1, 1, 1)
    tokens, targets = fast.turn_generalized_advantage_estimation(
        floats(0.2, 1.0), floats(0.5, 0.6), ids, mask, gae_lambda=0.95, terminated=flags(0, 1)
    )
    close(tokens, [0.68, 0.68, 0, 0.4, 0.4, 0.4])
    close(targets, [1.18, 1.0])
    # a cut row of one turn beside it: its second turn does not exist, and its NaN value is not read
    values = fast.turn_values(floats([0.5] * 6, [0.25] * 6), torch.tensor([[0, 0, 0, 1, 1, 1], [0] * 6]), torch.ones(2, 6))
    assert values[1, 1].isnan()
    tokens, _ = fast.turn_generalized_advantage_estimation(
        floats([0, 1], [0, 0]),
        values,
        torch.tensor([[0, 0, 0, 1, 1, 1], [0] * 6]),
        torch.ones(2, 6),
        turn_mask=flags([1, 1], [1, 0]),
        terminated=flags([0, 1], [0, 0]),
        bootstrap_value=floats(9, 1),
    )
    close(tokens, [[0.5] * 6, [0.75] * 6])


def test_two_readings_of_a_turn_value() -> None:
    values, ids, mask = floats(1, 3, NAN, 5, 8), torch.tensor([0, 0, 0, 1, 1]), flags(1, 1, 0, 1, 1)
    close(fast.turn_values(values, ids, mask), [2, 6.5])
    close(fast.turn_values(values, ids, mask, reading="last_token"), [3, 8])
    assert fast.turn_values(values, ids, mask, turns=3)[2].isnan()
    assert fast.turn_values(values, ids, mask, turns=3, reading="last_token")[2].isnan()


def test_explained_variance_and_where_it_is_undefined() -> None:
    returns, values, all_of = floats(1, 0, 1, 1), floats(0.8, 0.3, 0.6, 0.9), flags(1, 1, 1, 1)
    # errors [.2, -.3, .4, .1], mean .1: sum of squares .30 - 4 * .01 = .26; of the returns .75
    close(fast.explained_variance(values, returns, all_of), 1 - 0.26 / 0.75)
    close(fast.explained_variance(torch.full_like(values, 0.3), returns, all_of), 0.0)
    assert fast.explained_variance(values, torch.full((4,), 0.1), all_of).isnan()
    assert fast.explained_variance(values, returns, flags(1, 0, 0, 0)).isnan()
    assert fast.explained_variance(values, returns, flags(0, 0, 0, 0)).isnan()
    close(fast.explained_variance(floats(0.8, 0.3, 0.6, 0.9, NAN), floats(1, 0, 1, 1, INF), flags(1, 1, 1, 1, 0)), 1 - 0.26 / 0.75)


def test_shaping_telescopes_and_a_terminal_potential_is_zero() -> None:
    # F = [.9*3 - 1, .9*2 - 3, .9*4 - 2]; G' = 2.52 - 1 + .9³ * 4 = 4.436, and 1.52 with a terminal end
    rewards, potentials = floats(0, 1, 2), floats(1, 3, 2)
    shaped = fast.potential_shaping(rewards, potentials, gamma=0.9, bootstrap_potential=4.0)
    close(shaped - rewards, [1.7, -1.2, 1.6])
    close(fast.discounted_returns(shaped, gamma=0.9)[0], 4.436)
    ended = fast.potential_shaping(rewards, potentials, gamma=0.9, bootstrap_potential=4.0, terminated=flags(0, 0, 1))
    close(fast.discounted_returns(ended, gamma=0.9)[0], 1.52)
    with pytest.raises(RangeError, match=r"terminated must be true at the last step of every episode when bootstrap_potential"):
        fast.potential_shaping(rewards, potentials, gamma=0.9)


def test_compaction_by_hand_with_both_readings_of_the_length() -> None:
    mask, ids = flags([1, 1, 0], [1, 1, 1]), torch.tensor([3, 3])
    values, outcome = floats([0.2, 0.3, NAN], [0.4, 0.5, 0.6]), floats(1, 1)
    per_segment, targets = fast.cross_segment_advantages(outcome, values, ids, mask, alpha=1.5)
    # λ = 1 - 1/3 and 1 - 1/4.5: the first segment's local [.56667, .7] times (2/3)³
    close(per_segment, [[0.1679012345679013, 0.20740740740740746, 0], [0.41975308641975306, 0.4111111111111111, 0.4]])
    close(targets[0, 1], 1.0)
    whole, _ = fast.cross_segment_advantages(outcome, values, ids, mask, alpha=1.5, lambda_length="rollout")
    close(whole, [[0.4600138271604939, 0.4556740740740741, 0], [0.4871111111111111, 0.44666666666666666, 0.4]])
    # without values, the distance to the end of all policy tokens: .72^k
    flat, _ = fast.cross_segment_advantages(outcome, torch.zeros(2, 3).double(), ids, mask, gamma=0.9, gae_lambda=0.8)
    close(flat, [[0.72**4, 0.72**3, 0], [0.72**2, 0.72, 1]])


def test_segments_know_their_rollout_wherever_its_rows_stand() -> None:
    mask, zeros = flags([1, 1], [1, 0], [1, 1], [0, 0]), torch.zeros(4, 2).double()
    ids, outcome = torch.tensor([5, 2, 5, 5]), floats(1, 2, 1, 0)
    advantages, _ = fast.cross_segment_advantages(outcome, zeros, ids, mask, gae_lambda=0.5)
    close(advantages, [[0.125, 0.25], [2, 0], [0.5, 1], [0, 0]])
    # only the last segment that acts may be cut; the first hands over, whatever its bootstrap says
    cut, _ = fast.cross_segment_advantages(zeros[:, 0], zeros, ids, mask, gae_lambda=1.0, bootstrap_value=floats(100, 3, 7, NAN))
    close(cut, [[0, 0], [3, 0], [7, 7], [0, 0]])
    with pytest.raises(RangeError, match=r"rewards must not be given to a segment without a policy token, got the value 4\.0"):
        fast.cross_segment_advantages(floats(1, 2, 1, 4), zeros, ids, mask, gae_lambda=0.5)


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        ("token", [[1 / 4, 0], [1 / 4, 1 / 4], [1 / 4, 0], [0, 0]]),
        ("rollout", [[1 / 6, 0], [1 / 6, 1 / 6], [1 / 2, 0], [0, 0]]),
        ("segment", [[1 / 4, 0], [1 / 8, 1 / 8], [1 / 2, 0], [0, 0]]),
    ],
)
def test_token_weights_of_compacted_rollouts(weighting: Any, expected: list[list[float]]) -> None:
    weights = fast.compaction_token_weights(flags([1, 0], [1, 1], [1, 0], [0, 0]), torch.tensor([0, 0, 1, 0]), weighting=weighting)
    close(weights, expected, atol=1e-7)
    assert math.isclose(weights.sum().item(), 1.0, rel_tol=1e-6)


ONE, TWO = torch.ones(3), torch.ones(2, 3)
IDS = torch.zeros(3, dtype=torch.long)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fast.n_step_advantages(ONE, ONE, n=0), RangeError, "n must be at least 1, got 0"),
        (lambda: fast.n_step_advantages(ONE, ONE, n=1.5), DtypeError, "n must be a whole number"),  # type: ignore[arg-type]
        (lambda: fast.v_trace(ONE, ONE, ONE, rho_max=0.5), RangeError, r"rho_max must be at least c_max 1, got 0\.5"),
        (lambda: fast.v_trace(ONE, ONE, ONE, c_max=-1.0), RangeError, "c_max must be in"),
        (lambda: fast.v_trace(TWO, ONE, ONE), ShapeError, "log_ratios must have the shape of rewards"),
        (lambda: fast.reward_to_go(ONE, discount="now"), RangeError, "discount must be one of"),  # type: ignore[arg-type]
        (lambda: gae(ONE, ONE, action_mask=ONE, observation_rewards="drop"), RangeError, "observation_rewards must be one of"),  # type: ignore[arg-type]
        (lambda: gae(ONE, ONE, critic_lambda=2.0), RangeError, "critic_lambda must be in"),
        (lambda: gae(ONE, ONE, action_mask=ONE / 2), MaskError, "action_mask must be boolean or exactly 0/1"),
        (lambda: gae(TWO, TWO, action_mask=ONE), ShapeError, "action_mask must have the shape of rewards"),
        (lambda: fast.length_adaptive_lambda(IDS, alpha=0.0), RangeError, r"alpha must be in \(0"),
        (lambda: fast.length_adaptive_lambda(IDS - 1, alpha=1.0), RangeError, "lengths must be in"),
        (lambda: fast.length_adaptive_lambda(ONE, alpha=1.0), DtypeError, "lengths must be an integer tensor"),
        (lambda: fast.turn_values(ONE, IDS + 3, ONE, turns=3), RangeError, r"turn_ids must be in \[0, 3\)"),
        (lambda: fast.turn_values(ONE, IDS, 0 * ONE), MaskError, "empty mask"),
        (lambda: fast.explained_variance(ONE * NAN, ONE, ONE), NonFiniteError, "values must be finite"),
        (lambda: fast.potential_shaping(ONE, ONE * NAN, gamma=1.0), NonFiniteError, "potentials must be finite"),
        (lambda: fast.cross_segment_advantages(TWO, TWO, IDS[:2], TWO), RangeError, "gae_lambda must be given, or else alpha"),
        (lambda: fast.cross_segment_advantages(TWO, TWO, IDS, TWO, alpha=1.5), ShapeError, r"rollout_ids must be \[2\]"),
        (
            lambda: fast.cross_segment_advantages(ONE, TWO, IDS[:2], TWO, alpha=1.5),
            ShapeError,
            r"rewards must be \[2, 3\] or \[2\]",
        ),
        (lambda: fast.compaction_token_weights(0 * TWO, IDS[:2], weighting="token"), MaskError, "empty mask"),
    ],
)
def test_bad_input_is_refused_by_name(call: Callable[[], Any], error: type[RoseError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 2, 65, 3000])
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_gae_is_exact_to_its_dtype_at_any_length(dtype: torch.dtype, steps: int, lam: float) -> None:
    torch.manual_seed(steps)
    rewards, values = torch.zeros(2, steps, dtype=dtype), torch.rand(2, steps).to(dtype)
    rewards[:, -1] = 1.0
    valid = torch.rand(2, steps) < 0.9
    gamma = (
        1 - 2.0**-10
    )  # a discount that float32 holds: another would be rounded, and its thousandth power off by a thousand roundings
    advantages, targets = gae(rewards, values, gamma=gamma, gae_lambda=lam, valid_mask=valid, bootstrap_value=0.5)
    assert advantages.dtype == torch.promote_types(dtype, torch.float32)
    for row in range(2):
        sums = oracle_by_recursion(rewards[row].tolist(), values[row].tolist(), valid[row].tolist(), gamma, lam, 0.5)
        atol = 1e-10 if dtype == torch.float64 else 2e-6
        close(advantages[row], sums, atol=atol)
    close(targets, torch.where(valid, advantages + values, 0.0), atol=1e-6)


def oracle_by_recursion(
    rewards: list[float], values: list[float], valid: list[bool], gamma: float, lam: float, after: float
) -> list[float]:
    result, advantage = [0.0] * len(rewards), 0.0
    for t in reversed(range(len(rewards))):
        if valid[t]:
            advantage = rewards[t] + gamma * after - values[t] + gamma * lam * advantage
            after, result[t] = values[t], advantage
    return result


def test_an_overflow_in_one_episode_stays_there() -> None:
    rewards = torch.tensor([1.0, 1.0, 3e38, 3e38])
    returns = fast.discounted_returns(rewards, terminated=flags(0, 1, 0, 1))
    assert returns.tolist() == [2.0, 1.0, INF, rewards[3].item()]


def test_on_an_accelerator_nothing_reads_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """A meta tensor has no values: reading one, as every wait for a device does, would raise here."""
    monkeypatch.setattr(checks, "_deferred", {})
    row, ids = torch.ones(2, 100, device="meta"), torch.zeros(2, 100, dtype=torch.long, device="meta")
    given: dict[str, Any] = {"terminated": row, "valid_mask": row, "action_mask": row, "episode_ids": ids}
    results = [
        *gae(row, row, gae_lambda=row[:, 0], critic_lambda=1.0, bootstrap_value=row, **given),
        fast.reward_to_go(row, discount="from_start", gamma=0.9, **given),
        *fast.n_step_advantages(row, row, n=5, **given),
        *fast.v_trace(row, row, row, **given),
        fast.potential_shaping(row, row, gamma=0.9, **given),
        fast.turn_values(row, ids, row, turns=100),
        *fast.turn_generalized_advantage_estimation(row, row, ids, row),
        *fast.cross_segment_advantages(row[:, 0], row, ids[:, 0], row, alpha=1.5),
        fast.compaction_token_weights(row, ids[:, 0], weighting="segment"),
    ]
    assert all(result.shape == (2, 100) for result in results)
    assert fast.explained_variance(row, row, row).shape == ()
