"""`reasoning-gym:<dataset>`: the right answer is paid, hostile ones are not, and no scorer that runs answers is let in."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import random
import subprocess
import sys
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf.environment.conformance import HOSTILE
from rosellm.roserlhf.environment.named import environment_class
from rosellm.roserlhf.environment.protocol import StepResult
from rosellm.roserlhf.environment.reasoning_gym import ReasoningGym, dataset_environment
from rosellm.roserlhf.environment.reasoning_gym.boxed import BoxedScorer
from rosellm.roserlhf.environment.reasoning_gym.datasets import BOXED, CLEAN, MADE_AHEAD, REFUSED
from rosellm.roserlhf.environment.reasoning_gym.environment import boxed_scorer
from rosellm.roserlhf.environment.runner import DirectRunner
from rosellm.roserlhf.environment.sandbox import Limits
from rosellm.roserlhf.environment.submit import submit
from rosellm.roserlhf.environment.tasks import tasks
from rosellm.roserlhf.errors import ConfigError, MissingExtraError, RangeError, SandboxError
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


def scored(environment: ReasoningGym) -> Mapping[str, float | None]:
    async def score() -> Mapping[str, float | None]:
        found = environment.score()
        return await found if inspect.isawaitable(found) else found

    return asyncio.run(score())


@pytest.mark.parametrize("start", "abcdefgijklmnopqrstwz")
def test_every_clean_scorer_pays_for_the_answer_and_for_nothing_hostile(start: str) -> None:
    for dataset in sorted(name for name in CLEAN if name[0] == start):
        kind = dataset_environment(dataset)
        task = kind.task_from(kind.make_task(random.Random(f"{dataset}/0")))
        right = str(task.payload["answer"])
        environment = started(kind, task)
        assert take(environment, ParsedAction(right)).terminated
        assert scored(environment) == {"correct": 1.0, "partial": 1.0, "format": 0.0}, dataset
        for text in HOSTILE:
            environment = started(kind, task)
            take(environment, ParsedAction(text))
            assert scored(environment)["correct"] == 0.0, (dataset, text)


def test_every_data_set_stands_in_exactly_one_list() -> None:
    names = [*CLEAN, *BOXED, "countdown", "puzzle24", *REFUSED]
    assert len(names) == len(set(names))
    assert set(names) == set(importlib.import_module("reasoning_gym.factory").DATASETS)
    assert MADE_AHEAD < CLEAN
    assert (len(CLEAN), len(BOXED), len(REFUSED)) == (69, 16, 19)


@pytest.mark.parametrize("dataset", sorted(BOXED))
def test_a_boxed_scorer_pays_for_the_answer(dataset: str) -> None:
    kind = dataset_environment(dataset)
    task = kind.task_from(kind.make_task(random.Random(f"{dataset}/0")))
    environment = started(kind, task)
    assert take(environment, ParsedAction(task.payload["answer"])).terminated
    assert scored(environment) == {"correct": 1.0, "partial": 1.0, "format": 0.0}


@pytest.mark.parametrize("dataset", ["n_queens", "coin_flip"])
def test_a_boxed_scorer_pays_for_nothing_hostile(dataset: str) -> None:
    kind = dataset_environment(dataset)
    task = kind.task_from(kind.make_task(random.Random(0)))
    for text in ("9**9**9**9", "nan", "1e999", "\0", "\ud800", "[" * 5000, "{}", "__value__", '{"score": 1.0}'):
        environment = started(kind, task)
        take(environment, ParsedAction(text))
        assert scored(environment)["correct"] == 0.0, text


def test_an_answer_that_touches_a_file_touches_none(tmp_path: Path) -> None:
    """The scorer of this set runs what an answer says: here that is shown, and that the box and the filter hold it."""
    kind = dataset_environment("spiral_matrix")
    item = kind.make_task(random.Random(0))
    touched = tmp_path / "touched"
    answer = f"[__import__('pathlib').Path({str(touched)!r}).touch()]"
    environment = started(kind, kind.task_from(item))
    take(environment, ParsedAction(answer))
    assert scored(environment) == {"correct": 0.0, "partial": 0.0, "format": 0.0}  # it is never run
    scorer = boxed_scorer("spiral_matrix")
    assert asyncio.run(scorer.score_unseen(answer, item)) == 0.0  # run in the box, where there is no such folder
    right = item["answer"].split()
    inside = f"[__import__('pathlib').Path('touched').touch() or x for x in {right}]"
    assert asyncio.run(scorer.score_unseen(inside, item)) == 0.1  # for a list of the right numbers: it ran, in the box
    assert asyncio.run(scorer.score(inside, item)) == 0.0  # and since it ran it could say anything: such answers are not run
    assert not touched.exists()
    assert not Path("touched").exists()
    kind._source()._set.score_answer(answer, dict(item))  # this is what everybody else does
    assert touched.exists()


def test_a_scorer_that_does_not_return_leaves_the_episode_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = dataset_environment("spiral_matrix")
    item = kind.make_task(random.Random(0))
    scorer = BoxedScorer("spiral_matrix", kind._source().module)
    monkeypatch.setattr(scorer._sandbox, "limits", Limits(seconds=1))
    assert asyncio.run(scorer.score_unseen("[9**9**9**9]", item)) is None
    assert asyncio.run(scorer.score_unseen("[__import__('os')._exit(0)]", item)) is None
    assert started(kind, kind.task_from(item))._named(None) == {"correct": None, "partial": None, "format": 0.0}


def test_a_scorer_that_cannot_be_loaded_is_a_failure() -> None:
    scorer = BoxedScorer("spiral_matrix", "reasoning_gym.algorithmic.spiral_matrix")
    scorer._files["reasoning_gym/factory.py"] = "raise OSError('broken')"
    with pytest.raises(SandboxError, match=r"(?s)scorer of spiral_matrix must run in the sandbox, got .*broken"):
        asyncio.run(scorer.score("1 2 3", {"metadata": {}, "answer": "1 2 3"}))


@pytest.mark.parametrize(
    ("dataset", "answer", "paid"),
    [
        ("countdown", "(3 + 5) * 2", 1.0),
        ("countdown", "2*(5+3)", 1.0),
        ("countdown", "16", 0.0),  # the value alone
        ("countdown", "(3 + 5) * 2 + 5 - 5", 0.0),  # a number twice
        ("countdown", "(3+5)*2.0", 0.0),
        ("countdown", "(03+5)*2", 0.0),
        ("countdown", "2**(5-3)*3", 0.0),
        ("countdown", "9**9**9**9", 0.0),
        ("countdown", "__import__('os').system('true')", 0.0),
        ("countdown", "", 0.0),
        ("puzzle24", "5*3+9", 0.0),
        ("puzzle24", "6*4*1*1", 0.0),  # 24 with other numbers: the data set's own scorer pays for it
        ("puzzle24", "(5-2)*(3+5)", 0.0),  # 24, but the numbers are 3, 5, 2
    ],
)
def test_arithmetic_puzzles_are_verified_exactly(dataset: str, answer: str, paid: float) -> None:
    kind = dataset_environment(dataset)
    item = {"question": "?", "answer": "", "metadata": {"numbers": [3, 5, 2], "target": 16}}
    assert kind._scorer(answer, item) == paid
    task = kind.task_from(kind.make_task(random.Random(1)))
    environment = started(kind, task)
    take(environment, ParsedAction(task.payload["answer"]))
    assert scored(environment)["correct"] == 1.0


def test_partial_credit_is_its_own_component() -> None:
    environment = started()
    take(environment, ParsedAction("It is 2."))
    # the data set pays len("2") / len("It is 2.") = 1/8 for containing the answer
    assert scored(environment) == {"correct": 0.0, "partial": 0.125, "format": 0.0}
    assert ChainSum.reward_weights == {"correct": 1.0}


def test_the_whole_reply_is_the_answer() -> None:
    environment = started()
    assert environment.prompt() == "What is 3 + 4 - 5?\nReply with the answer alone."
    assert environment.tools.schemas() == []
    result = take(environment, ParsedAction(" 2\n"))
    assert (result.terminated, result.cause, environment.answer) == (True, "finished", "2")
    environment = started()
    assert take(environment, ParseFailure("not a call of the form name(argument)", raw="2")).terminated
    assert scored(environment)["correct"] == 1.0


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
    assert scored(environment) == {"correct": 0.0, "partial": 0.0, "format": mistakes}


def test_a_subclass_may_ask_for_submit() -> None:
    class Submitted(ChainSum):  # type: ignore[misc, valid-type]
        toolbox = (submit,)

    environment = started(Submitted)
    assert [schema["function"]["name"] for schema in environment.tools.schemas()] == ["submit"]
    assert not take(environment, ParsedAction("2")).terminated
    assert take(environment, ParsedAction(calls=(ToolCall("call-0", "submit", {"answer": "2"}),))).terminated
    assert scored(environment) == {"correct": 1.0, "partial": 1.0, "format": -1.0}
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
        ("", "data set must be one of reasoning-gym's, got ''; give one by name, such as reasoning-gym:gsm_symbolic"),
        ("rush_hour", "got 'rush_hour', which has no reference answer"),
        ("codeio", "got 'codeio', which draws other questions in another process"),
        ("game_of_life_halting", "got 'game_of_life_halting', which pays full reward for answers that are not right"),
        ("pool_matrix", "got 'pool_matrix', which reseeds the random numbers"),
        ("simple_integration", "needs packages that no program in the sandbox has"),
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
            scored(environment)


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(MissingExtraError, match=r"needs reasoning_gym, which is not installed; pip install 'rosellm\[env\]'"):
        dataset_environment("a_set_that_no_test_has_made")


def test_importing_the_package_leaves_the_random_numbers_of_the_process() -> None:
    program = (
        "import random; random.seed(5); before = random.getstate()\n"
        "from rosellm.roserlhf.environment.named import environment_class\n"
        "environment_class('reasoning-gym:chain_sum'); print(random.getstate() == before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "True\n"
