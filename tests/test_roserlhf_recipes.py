"""Recipes: a name and options become callables, or one line that says what is wrong; the callables are the published formulas."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from rosellm.roserlhf import ConfigError, recipes
from rosellm.roserlhf.batching.scored import PerGroup, ScoredRollouts
from rosellm.roserlhf.config import dump_toml, fields_of
from rosellm.roserlhf.errors import GroupError, ShapeError
from rosellm.roserlhf.recipes import grpo, reinforce
from rosellm.roserlhf.recipes.credit import Overlong
from rosellm.roserlhf.trainer.config import ModelConfig
from rosellm.roserlhf.trainer.recipe import Recipe


def one_group(*rewards: float) -> ScoredRollouts:
    return ScoredRollouts.of(torch.tensor(rewards), torch.zeros(len(rewards)))


def test_grpo_standardises_inside_the_group_and_clips_the_ratio() -> None:
    recipe = grpo(clip_low=0.25, clip_high=0.5)
    # population standard deviation of [1, 0, 0, 1] is 1/2: (1 - 1/2) / (1/2) = 1
    assert recipe.credit(one_group(1.0, 0.0, 0.0, 1.0)).tolist() == pytest.approx([1, -1, -1, 1])
    # ratios 2 and 1/2 with advantages +1 and -1: min(2, 1.5) = 1.5 and min(-0.5, -0.75) = -0.75; the loss is -(1.5 - 0.75) / 4
    old = torch.tensor([[-3.0, -3.0]])
    current = old + torch.tensor([[math.log(2.0), -math.log(2.0)]])
    out = recipe.objective(current, old, torch.tensor([[1.0, -1.0]]), torch.ones(1, 2, dtype=torch.bool), denominator=4.0)
    assert out.loss.item() == pytest.approx(-0.1875, abs=1e-6)


def test_reinforce_leaves_one_out_and_weighs_log_probabilities() -> None:
    recipe = reinforce()
    # each minus the mean of the other two: 1 - (4 + 1)/2, 4 - (1 + 1)/2, 1 - (1 + 4)/2
    assert recipe.credit(one_group(1.0, 4.0, 1.0)).tolist() == [-1.5, 3.0, -1.5]
    current = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    out = recipe.objective(
        current, torch.tensor([[-1.5, -2.0]]), torch.tensor([[3.0, -1.5]]), torch.tensor([[True, True]]), denominator=2.0
    )
    # -(3 * -1 + -1.5 * -2) / 2 = 0, and the gradient is -A / 2 whatever the value is
    assert out.loss.item() == pytest.approx(0.0)
    out.loss.backward()
    assert current.grad is not None
    assert current.grad.tolist() == [[-1.5, 0.75]]


@pytest.mark.parametrize("name", ["epochs", "minibatches"])
def test_reinforce_refuses_updates_for_which_it_has_no_ratio(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^optimizer\.{name} must be 1 for recipe reinforce, got 2; .* grpo has$"):
        reinforce(optimizer={name: 2})


def test_a_partial_section_keeps_the_recipes_own_defaults() -> None:
    assert reinforce(optimizer={"learning_rate": 1e-4}).config.optimizer.minibatches == 1
    assert grpo(optimizer={"learning_rate": 1e-4}).config.optimizer.minibatches == 2


def test_a_run_file_gives_back_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    recipe = reinforce(seed=4, collect={"tasks": 3})
    file.write_text(dump_toml(recipe.config, about={"torch": "2.13.0"}), encoding="utf-8")
    assert recipes.load_recipe(file).config == recipe.config


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_a_run_file_holds_every_option_of_every_recipe(name: str) -> None:
    config = recipes.options_to_config({"recipe": name})
    written = tomllib.loads(dump_toml(config))
    for key, _ in fields_of(type(config)):
        value: Any = written
        for part in key.split("."):
            value = value[part]
    assert recipes.options_to_config(written) == config


def test_R73_an_option_of_another_recipe_and_an_unknown_recipe_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^tau_positive is an option of recipe sapo; recipe reinforce does not use it$"):
        reinforce(tau_positive=0.1)
    owners = "recipes grpo, dr_grpo, dapo, gspo, gspo_token, gigpo and gdpo"
    with pytest.raises(ConfigError, match=rf"^clip_low is an option of {owners}; recipe cispo does not use it$"):
        recipes.cispo(clip_low=0.1)
    with pytest.raises(ConfigError, match=r"^unknown key ratio_mx; did you mean ratio_max\?$"):
        recipes.cispo(ratio_mx=0.1)
    every = ", ".join(recipes.RECIPES)
    with pytest.raises(ConfigError, match=rf"^recipe must be one of {every}, got 'grop'; did you mean grpo\?$"):
        recipes.options_to_config({"recipe": "grop"})
    with pytest.raises(ConfigError, match=rf"^recipe must be one of {every}, got 3$"):
        recipes.options_to_config({"recipe": 3})


def test_a_model_whose_heads_do_not_fit_its_width_is_refused_before_it_is_built() -> None:
    with pytest.raises(ConfigError, match=r"^model\.hidden_size must be a multiple of 2 \* heads = 8, got 132$"):
        grpo(model={"hidden_size": 132})
    assert grpo(model=ModelConfig(hidden_size=136)).config.model.hidden_size == 136


def gradient(recipe: Recipe, ratios: list[list[float]], advantages: list[list[float]], denominator: float) -> list[list[float]]:
    """Derivative of the loss with respect to the current log-probabilities; a ratio of 0 stands for padding."""
    mask = torch.tensor(ratios) > 0
    current = torch.tensor(ratios).masked_fill(~mask, 1.0).log().requires_grad_()
    out = recipe.objective(current, torch.zeros_like(current), torch.tensor(advantages), mask, denominator=denominator)
    return [[round(value, 5) for value in row] for row in torch.autograd.grad(out.loss, current)[0].tolist()]


def test_rloo_sums_over_an_episode_and_divides_by_episodes() -> None:
    recipe = recipes.rloo()
    assert recipe.credit(one_group(1.0, 4.0, 1.0)).tolist() == [-1.5, 3.0, -1.5]
    # -A / 2 episodes for each token, however many an episode has and whatever the ratio
    assert gradient(recipe, [[1, 2, 1], [1, 0, 0]], [[3.0] * 3, [-1.5] * 3], 2.0) == [[-1.5] * 3, [0.75, 0, 0]]
    with pytest.raises(ConfigError, match=r"^optimizer\.epochs must be 1 for recipe rloo, got 2"):
        recipes.rloo(optimizer={"epochs": 2})


def test_dr_grpo_centres_and_divides_by_a_constant() -> None:
    recipe = recipes.dr_grpo(collect={"max_turns": 2, "max_turn_tokens": 4})
    assert recipe.credit(one_group(1.0, 0.0, 0.0, 1.0)).tolist() == [0.5, -0.5, -0.5, 0.5]
    # -r A / (2 episodes * horizon 8), and nothing above the upper bound
    assert gradient(recipe, [[1, 1.1, 1.5], [1, 0, 0]], [[0.5] * 3, [-0.5] * 3], 2.0) == [
        [-0.03125, -0.03438, 0.0],
        [0.03125, 0, 0],
    ]
    assert gradient(recipes.dr_grpo(horizon=4), [[1]], [[0.5]], 1.0) == [[-0.125]]
    assert (recipe.denominator_mode, recipe.config.drop_uniform_groups) == ("horizon", False)


def test_dapo_clips_higher_and_punishes_long_episodes() -> None:
    recipe = recipes.dapo(max_length=20, cache_length=4)
    # lengths 16, 18, 20, 30 cost 0, 1/2, 1, 1: rewards 1, 1/2, 0, 0 of mean 3/8 and deviation sqrt(0.171875)
    scored = dataclasses.replace(one_group(1.0, 1.0, 1.0, 1.0), lengths=torch.tensor([16, 18, 20, 30]))
    assert recipe.credit(scored).tolist() == pytest.approx([1.50756, 0.30151, -0.90453, -0.90453], abs=1e-5)
    assert gradient(recipe, [[1.25, 1.3]], [[1.0, 1.0]], 2.0) == [[-0.625, 0.0]]  # 1.25 < 1.28 < 1.3
    assert isinstance(recipes.dapo(cache_length=0).credit, PerGroup)
    budget = recipes.dapo(collect={"max_turns": 5, "max_turn_tokens": 20}).credit
    assert isinstance(budget, Overlong)
    assert (budget.max_length, budget.cache_length) == (100, 20)


def test_dapo_punishes_by_default_however_small_the_budget_is() -> None:
    credit = recipes.dapo(collect={"max_turns": 2, "max_turn_tokens": 2}).credit
    assert isinstance(credit, Overlong)
    assert (credit.max_length, credit.cache_length) == (4, 1)


def test_dapo_refuses_a_penalty_that_begins_before_the_first_token() -> None:
    with pytest.raises(ConfigError, match=r"^cache_length must be at most max_length = 20, got 21$"):
        recipes.dapo(max_length=20, cache_length=21)
    with pytest.raises(ConfigError, match=r"^cache_length must be at most max_length = 100, got 101$"):
        recipes.dapo(cache_length=101, collect={"max_turns": 5, "max_turn_tokens": 20})
    assert isinstance(recipes.dapo(max_length=20, cache_length=20).credit, Overlong)


def test_gspo_clips_whole_episodes() -> None:
    for recipe in (recipes.gspo(clip_low=0.25, clip_high=0.25), recipes.gspo_token(clip_low=0.25, clip_high=0.25)):
        # ratios 4 and 1/4: geometric mean 1, so both tokens get A / (2 tokens * 2 episodes); 4 and 1: 2 > 1.25, nothing
        assert gradient(recipe, [[4, 0.25], [4, 1]], [[1.0] * 2, [1.0] * 2], 2.0) == [[-0.25, -0.25], [0.0, 0.0]]
        assert recipe.denominator_mode == "sequence_mean"
    assert (recipes.gspo().config.clip_low, recipes.gspo().config.clip_high) == (3e-4, 4e-4)  # type: ignore[attr-defined]


def test_gspo_refuses_advantages_that_differ_inside_an_episode_and_gspo_token_uses_them() -> None:
    with pytest.raises(ShapeError, match=r"^advantages must be the same for all tokens of an episode, got .* gspo_token$"):
        gradient(recipes.gspo(), [[1, 1]], [[1.0, -2.0]], 1.0)
    assert gradient(recipes.gspo_token(), [[1, 1]], [[1.0, -2.0]], 1.0) == [[-0.5, 1.0]]


def test_sapo_gates_and_averages_episodes() -> None:
    # at ratio 1 the gate has slope 1: A / n / 2 episodes, for any temperature
    recipe = recipes.sapo(tau_positive=2.0)
    assert gradient(recipe, [[1, 1], [1, 0]], [[1.0] * 2, [-1.0] * 2], 2.0) == [[-0.25, -0.25], [0.5, 0.0]]
    # elsewhere sech^2(tau (r - 1) / 2) r: tau 2, r 2 gives sech^2(1) * 2
    assert gradient(recipe, [[2]], [[1.0]], 1.0) == [[round(-2 / math.cosh(1.0) ** 2, 5)]]


def test_cispo_caps_the_weight_and_keeps_the_gradient() -> None:
    # min(r, 1.2) A / 4 tokens
    assert gradient(recipes.cispo(ratio_max=1.2), [[0.5, 1, 1.5, 4]], [[1.0] * 4], 4.0) == [[-0.125, -0.25, -0.3, -0.3]]


def test_gigpo_adds_the_advantage_among_visits_of_a_state() -> None:
    # two episodes of two turns from the same state 0; the first goes to 1 and is paid 1, the other to 2 and is not
    scored = ScoredRollouts(
        rewards=torch.tensor([1.0, 0.0]).double(),
        group_ids=torch.tensor([0, 0]),
        turn_rollouts=torch.tensor([0, 0, 1, 1]),
        turn_rewards=torch.tensor([0.0, 1.0, 0.0, 0.0]).double(),
        turn_states=torch.tensor([0, 1, 0, 2]),
    )
    # episodes: +1 and -1. State 0: returns gamma and 0, so +1 and -1 once more; states 1 and 2 were visited once: 0
    assert recipes.gigpo().credit(scored).tolist() == pytest.approx([2, 1, -2, -1])
    assert recipes.gigpo(omega=0.5, normalization="none", gamma=0.5).credit(scored).tolist() == [0.625, 0.5, -0.625, -0.5]
    with pytest.raises(GroupError, match=r"^turn_states must be known to this credit function, got None; .* state_key\(\)"):
        recipes.gigpo().credit(dataclasses.replace(scored, turn_states=None))


def test_gdpo_standardises_each_component_before_it_adds_them_up() -> None:
    scored = ScoredRollouts(
        rewards=torch.tensor([0.0, 1.0, 0.0, 2.0]).double(),
        group_ids=torch.tensor([0, 0, 1, 1]),
        components=torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]).double(),
        weights=torch.tensor([1.0, 1.0]).double(),
        lengths=torch.tensor([1, 1, 1, 1]),
    )
    # one component differs in the first group, both in the second: sums -1, 1, -2, 2 of deviation sqrt(2.5)
    assert recipes.gdpo(whiten="none").credit(scored).tolist() == pytest.approx([-1, 1, -2, 2])
    wanted = [value / math.sqrt(2.5) for value in (-1, 1, -2, 2)]
    assert recipes.gdpo().credit(scored).tolist() == pytest.approx(wanted)
    assert recipes.gdpo(whiten="token").credit(scored).tolist() == pytest.approx(wanted)
    assert recipes.gdpo().credit(dataclasses.replace(scored, weights=torch.tensor([0.0, 3.0]).double())).tolist() == pytest.approx(
        [0, 0, -math.sqrt(2), math.sqrt(2)]
    )
    with pytest.raises(GroupError, match="components must be known"):
        recipes.gdpo().credit(one_group(1.0, 0.0))


@pytest.mark.parametrize("name", recipes.RECIPES)
def test_every_recipe_is_a_function_with_its_formula_and_source(name: str, tmp_path: Path) -> None:
    build = getattr(recipes, name)
    for part in (".. math::", "Source: ", "https://arxiv.org/abs/", "Example:"):
        assert part in build.__doc__
    recipe = build(seed=4)
    assert recipe.config.recipe == name
    file = tmp_path / "run.toml"
    file.write_text(dump_toml(recipe.config), encoding="utf-8")
    assert recipes.load_recipe(file).config == recipe.config
    with pytest.raises(ConfigError, match=r"^unknown key lerning_rate; did you mean"):
        build(lerning_rate=1.0)
