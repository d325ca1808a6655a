"""`reasoning-gym:<dataset>`: the right answer is paid, hostile ones are not, and no scorer that runs answers is let in."""

from __future__ import annotations

import asyncio
import random
from itertools import islice
from typing import Any

import pytest

from rosellm.roserlhf.environment.conformance import HOSTILE
from rosellm.roserlhf.environment.named import environment_class
from rosellm.roserlhf.environment.protocol import StepResult
from rosellm.roserlhf.environment.reasoning_gym import ReasoningGym, dataset_environment
from rosellm.roserlhf.environment.reasoning_gym.datasets import CLEAN, MADE_AHEAD, REFUSED
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.submit import submit
from rosellm.roserlhf.environment.tasks import tasks
from rosellm.roserlhf.errors import ConfigError, MissingExtraError, RangeError
from rosellm.roserlhf.trainer.world import path_of
from rosellm.roserlhf.trajectory import ParsedAction, ParseFailure, ToolCall

ChainSum = dataset_environment("chain_sum")
TASK = ChainSum.task_from({"question": "What is 3 + 4 - 5?", "answer": "2", "metadata": {}})


def started(kind: type[ReasoningGym] = ChainSum, task: Any = TASK) -> ReasoningGym:
    environment = kind()
    environment.start(task, seed=0)
    return environment


def take(environment: ReasoningGym, action: ParsedAction | ParseFailure) -> StepResult:
    return asyncio.run(environment.step(action, DirectRunner(environment.tools)))


@pytest.mark.parametrize("start", "abcdefgijklmnopqrstwz")
def test_every_clean_scorer_pays_for_the_answer_and_for_nothing_hostile(start: str) -> None:
    for dataset in sorted(name for name in CLEAN if name[0] == start):
        kind = dataset_environment(dataset)
        task = kind.task_from(kind.make_task(random.Random(f"{dataset}/0")))
        right = str(task.payload["answer"])
        environment = started(kind, task)
        assert take(environment, ParsedAction(right)).terminated
        assert environment.score() == {"correct": 1.0, "partial": 1.0, "format": 0.0}, dataset
        for text in HOSTILE:
            environment = started(kind, task)
            take(environment, ParsedAction(text))
            assert environment.score()["correct"] == 0.0, (dataset, text)


def test_the_lists_do_not_overlap() -> None:
    assert not CLEAN & set(REFUSED)
    assert MADE_AHEAD < CLEAN
    assert len(CLEAN) == 69


def test_partial_credit_is_its_own_component() -> None:
    environment = started()
    take(environment, ParsedAction("It is 2."))
    # the data set pays len("2") / len("It is 2.") = 1/8 for containing the answer
    assert environment.score() == {"correct": 0.0, "partial": 0.125, "format": 0.0}
    assert ChainSum.reward_weights == {"correct": 1.0}


def test_the_whole_reply_is_the_answer() -> None:
    environment = started()
    assert environment.prompt() == "What is 3 + 4 - 5?\nReply with the answer alone."
    assert environment.tools.schemas() == []
    result = take(environment, ParsedAction(" 2\n"))
    assert (result.terminated, result.cause, environment.answer) == (True, "finished", "2")
    environment = started()
    assert take(environment, ParseFailure("not a call of the form name(argument)", raw="2")).terminated
    assert environment.score()["correct"] == 1.0


@pytest.mark.parametrize(
    ("action", "mistakes"),
    [
        (ParsedAction(""), -1.0),
        (ParsedAction(" \n"), -1.0),
        (ParseFailure("cut off", raw="2", cut=True), 0.0),
        (ParsedAction("2", calls=(ToolCall("call-0", "submit", {"answer": "2"}),)), -1.0),
    ],
)
def test_what_is_no_answer_goes_on(action: ParsedAction | ParseFailure, mistakes: float) -> None:
    environment = started()
    assert not take(environment, action).terminated
    assert environment.score() == {"correct": 0.0, "partial": 0.0, "format": mistakes}


def test_a_subclass_may_ask_for_submit() -> None:
    class Submitted(ChainSum):  # type: ignore[misc, valid-type]
        toolbox = (submit,)

    environment = started(Submitted)
    assert [schema["function"]["name"] for schema in environment.tools.schemas()] == ["submit"]
    assert not take(environment, ParsedAction("2")).terminated
    assert take(environment, ParsedAction(calls=(ToolCall("call-0", "submit", {"answer": "2"}),))).terminated
    assert environment.score() == {"correct": 1.0, "partial": 1.0, "format": -1.0}
    assert next(environment.demonstrate(random.Random(0), faulty=False)) == "submit(2)"


def test_demonstrations_give_the_answer_or_that_of_another_question() -> None:
    task = ChainSum.task_from(ChainSum.make_task(random.Random(1)))
    environment = started(ChainSum, task)
    assert list(environment.demonstrate(random.Random(0), faulty=False)) == [task.payload["answer"]]
    (wrong,) = environment.demonstrate(random.Random(0), faulty=True)
    assert wrong == ChainSum.make_task(random.Random(0))["answer"] != task.payload["answer"]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("chain_summ", "data set must be one of reasoning-gym's, got 'chain_summ'; did you mean reasoning-gym:chain_sum?"),
        ("", "data set must be one of reasoning-gym's, got ''"),
        ("rush_hour", "got 'rush_hour', which has no reference answer"),
        ("codeio", "got 'codeio', which draws other questions in another process"),
        ("game_of_life_halting", "got 'game_of_life_halting', which pays full reward for answers that are not right"),
        ("pool_matrix", "got 'pool_matrix', which reseeds the random numbers"),
        ("composite", "mixes data sets; name one of them"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_with_its_reason(dataset: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        environment_class(f"reasoning-gym:{dataset}")
    assert message in str(raised.value)


def test_a_data_set_has_one_class_and_one_name() -> None:
    assert environment_class("reasoning-gym:chain_sum") is ChainSum
    assert path_of(ChainSum) == "reasoning-gym:chain_sum"

    class Mine(ChainSum):  # type: ignore[misc, valid-type]
        pass

    assert path_of(Mine).endswith("Mine")
    assert ChainSum.__name__ == "ChainSum"
    assert environment_class("reasoning-gym:lcm").__name__ == "Lcm"


def test_equal_questions_are_one_task_and_sides_do_not_overlap() -> None:
    train = {task.task_id: task for task in islice(tasks(ChainSum, "train", "a"), 200)}
    held_out = {task.task_id for task in islice(tasks(ChainSum, "held_out", "b"), 30)}
    assert not set(train) & held_out
    assert len({task.payload["question"] for task in train.values()}) == len(train)
    assert not any(key.startswith("source") for task in train.values() for key in task.payload["metadata"])


@pytest.mark.parametrize("dataset", ["gsm_symbolic", "bf", "letter_jumble", "polynomial_equations"])
def test_items_come_from_the_seed_alone(dataset: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    kind, before = dataset_environment(dataset), random.getstate()
    items = [kind.make_task(random.Random(seed)) for seed in (3, 4, 3)]
    assert items[0] == items[2] != items[1]
    assert random.getstate() == before
    assert capsys.readouterr() == ("", "")


def test_a_scorer_that_gives_no_number_is_a_failure_and_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = started()
    take(environment, ParsedAction("2"))
    for value in (float("nan"), 1.5, -0.1):
        monkeypatch.setattr(type(environment._source()._set), "score_answer", lambda *_, value=value: value)
        with pytest.raises(RangeError, match="score of chain_sum must be in"):
            environment.score()


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(MissingExtraError, match=r"needs reasoning_gym, which is not installed; pip install 'rosellm\[env\]'"):
        dataset_environment("a_set_that_no_test_has_made")
