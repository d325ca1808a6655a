"""A whole tiny run: what is trained is what was sampled, every token has its place, and the same seed gives the same numbers."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import math
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from loop_models import full_logprobs
from loop_worlds import Lookup, lines, outcome, tiny
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from rosellm.roserlhf.advantages import group_standardized_advantages
from rosellm.roserlhf.batching.credit import total_reward
from rosellm.roserlhf.batching.rows import row_of
from rosellm.roserlhf.batching.scored import PerGroup
from rosellm.roserlhf.engine.llama import LlamaStep
from rosellm.roserlhf.environment.tasks import split_of, tasks
from rosellm.roserlhf.errors import ConfigError, GroupError, RangeError, RoseError, ShapeError
from rosellm.roserlhf.models.causal import load_weights, weights, weights_hash
from rosellm.roserlhf.store import EventLog, StoredTrajectory
from rosellm.roserlhf.store.ledger import Ledger
from rosellm.roserlhf.trainer.account import row_hash
from rosellm.roserlhf.trainer.checkpoint import checkpoint_steps
from rosellm.roserlhf.trainer.progress import Progress
from rosellm.roserlhf.trainer.run import Run, train
from rosellm.roserlhf.trainer.world import World
from rosellm.roserlhf.trajectory import CopySpan, PolicyAction, Trajectory, TransitionRecord

RECIPE = tiny(checkpoint_every=1, keep_checkpoints=9, collect={"temperature": 0.8})


@dataclasses.dataclass(frozen=True)
class Finished:
    """A finished run, read once for many tests."""

    run: Run
    told: list[Progress]
    records: list[StoredTrajectory]
    world: World

    def of(self, phase: str) -> list[Trajectory]:
        return [stored.trajectory for stored in self.records if stored.phase == phase]

    def train_lines(self) -> list[dict[str, Any]]:
        return [line for line in lines(self.run.folder) if line["phase"] == "train"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder, told = tmp_path_factory.mktemp("runs") / "tiny", list[Progress]()
    run = train(RECIPE, out=folder, on_progress=told.append)
    with EventLog.read(folder / "events.db") as log:
        return Finished(run, told, list(log.trajectories()), World.build(RECIPE.config, "tiny"))


# ---- what is trained is what was sampled


def test_before_its_first_update_a_batch_has_ratio_one_for_the_learner(finished: Finished) -> None:
    seen = [line["max_abs_log_ratio_before_update"] for line in finished.train_lines()]
    assert len(seen) == 4
    assert all(0 <= value < 1e-4 for value in seen)


def test_stored_ids_fed_to_model_and_engine_again_give_the_stored_logprobs(finished: Finished) -> None:
    model = finished.world.new_model()
    checked = 0
    for trajectory in finished.of("train"):
        (version,) = trajectory.behavior_policy_versions
        load_weights(model, load_file(finished.run.folder / "checkpoints" / version.removeprefix("v") / "model.safetensors"))
        step = LlamaStep(model, positions=model.config.max_position_embeddings, precision="float32")
        ids: list[int] = []
        places: dict[int, float] = {}
        for span in trajectory.spans():
            if isinstance(span, PolicyAction):
                places.update(enumerate(span.old_logprobs, start=len(ids)))
            assert not isinstance(span, CopySpan)
            ids += span.token_ids
        del ids[max(places) + 1 :]  # an observation after the last action may overflow the window
        exact = full_logprobs(model, ids, temperature=0.8)
        by_engine = _engine_logprobs(step, ids, temperature=0.8)
        for place, recorded in places.items():
            assert abs(float(exact[place - 1]) - recorded) < 1e-4
            assert abs(float(by_engine[place - 1]) - recorded) < 1e-4
            checked += 1
    assert checked == sum(line["tokens"]["sampled"] for line in finished.train_lines())


def _engine_logprobs(step: LlamaStep, ids: list[int], *, temperature: float) -> Tensor:
    """Log-probabilities by the engine's arithmetic: one token after the other over its cache."""
    cache, found = step.new_cache(), []
    cache.reserve(1, len(ids))
    with torch.inference_mode():
        for place, following in enumerate(ids[1:]):
            logits = step.forward(
                torch.tensor([[ids[place]]]), torch.tensor([[place]]), [0], cache, torch.tensor([0]), span=place + 1
            )
            found.append((logits[0] / temperature).log_softmax(-1)[following])
    return torch.stack(found)


def test_R11_the_temperature_is_stored_with_the_action(finished: Finished) -> None:
    for phase, temperature in (("train", 0.8), ("evaluate-sampled", 0.8), ("evaluate-greedy", 0.0)):
        used = {action.sampling.temperature for t in finished.of(phase) for action in t.actions if action.sampling is not None}
        assert used == {temperature}


def test_every_episode_was_sampled_by_the_policy_of_the_step_before(finished: Finished) -> None:
    with EventLog.read(finished.run.folder / "events.db") as log:
        table = log.policies()
    assert [(p.version, p.step, p.parent) for p in table] == [
        ("v0", 0, None),
        ("v1", 1, "v0"),
        ("v2", 2, "v1"),
        ("v3", 3, "v2"),
        ("v4", 4, "v3"),
    ]
    for policy in table:
        saved = load_file(finished.run.folder / "checkpoints" / str(policy.step) / "model.safetensors")
        assert policy.content_hash == weights_hash(saved)
    assert len({policy.content_hash for policy in table}) == 5  # every step moved the weights
    for stored in finished.records:
        if stored.phase == "train":
            assert stored.trajectory.behavior_policy_versions == (f"v{stored.step - 1}",)


def test_demonstrations_and_evaluations_are_kept_but_are_not_trainable(finished: Finished) -> None:
    counts = Counter(stored.phase for stored in finished.records)
    assert counts == {"demonstration": 16, "train": 4 * 3 * 4, "evaluate-sampled": 8 + 5 + 8, "evaluate-greedy": 8 + 5 + 8}
    for stored in finished.records:
        assert stored.trajectory.trainable == (stored.phase == "train")


# ---- the law


def test_the_law_balances_against_the_event_log(finished: Finished) -> None:
    with EventLog.read(finished.run.folder / "events.db") as log:
        ledger, recorded = Ledger(log.ledger()), log.sampled_tokens(phase="train")
    ledger.balance(recorded=recorded)
    for line in finished.train_lines():
        counts = ledger.tokens(line["step"])
        assert counts.pending == 0
        assert line["tokens"] == {"sampled": counts.sampled, "trained": counts.trained, "excluded": counts.excluded}
        assert counts.sampled == counts.trained + sum(counts.excluded.values())
    total = ledger.tokens()
    assert finished.run.summary is not None
    assert finished.run.summary["tokens"] == {"sampled": total.sampled, "trained": total.trained, "excluded": total.excluded}
    assert total.trained > 0


def test_R16_R19_the_logged_advantages_are_those_of_the_public_function(finished: Finished) -> None:
    with EventLog.read(finished.run.folder / "events.db") as log:
        logged = {e.attempt_id: e.detail["advantage"] for e in log.ledger() if e.state == "trained"}
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in finished.of("train"):
        groups.setdefault(trajectory.group_id or "", []).append(trajectory)
    assert {len(group) for group in groups.values()} == {4}
    for group in groups.values():
        rewards = [total_reward(t, Lookup.reward_weights) for t in group]
        expected = group_standardized_advantages(torch.tensor(rewards, dtype=torch.float64)).tolist()
        if len(set(rewards)) == 1:
            assert not any(t.trajectory_id in logged for t in group)
        else:
            assert [logged[t.trajectory_id] for t in group] == expected
    assert logged


def test_the_hash_of_a_row_takes_every_legal_id() -> None:
    def hashed(token: int) -> str:
        action = PolicyAction(0, [token], [-0.5], "v1", "")
        return row_hash(row_of(Trajectory("t", "task", "e", "tok", [action], [TransitionRecord(0, None, terminated=True)])))

    assert len({hashed(token) for token in (0, 2**40, 2**63 - 1, 2**63, 2**64)}) == 5


def test_train_and_held_out_tasks_are_disjoint(finished: Finished) -> None:
    trained_on = {t.task_id for phase in ("train", "demonstration") for t in finished.of(phase)}
    evaluated = {t.task_id for phase in ("evaluate-sampled", "evaluate-greedy") for t in finished.of(phase)}
    assert trained_on
    assert len(evaluated) == 8
    assert not trained_on & evaluated
    for side, ids in (("train", trained_on), ("held_out", evaluated)):
        stream = tasks(Lookup, side, "another stream")  # type: ignore[arg-type]
        assert all(split_of(next(stream)) == side for _ in range(200))
        assert ids


def test_the_held_out_set_is_the_same_before_during_and_after(finished: Finished) -> None:
    by_step: dict[int, list[str]] = {}
    for stored in finished.records:
        if stored.phase == "evaluate-greedy":
            by_step.setdefault(stored.step, []).append(stored.trajectory.task_id)
    assert by_step[0] == by_step[4]
    assert by_step[2] == by_step[0][:5]


# ---- metrics, summary, progress


def test_metrics_are_the_logs_and_hold_plain_numbers(finished: Finished) -> None:
    with EventLog.read(finished.run.folder / "events.db") as log:
        found = [{"phase": m.phase, "step": m.step, **m.values} for m in log.metrics()]
    assert [row["phase"] for row in found[:2]] == ["process", "warm_start"]  # the process has entered itself, in the log only
    assert found[1:] == lines(finished.run.folder)
    first, *_ = finished.train_lines()
    assert first["rollouts"] == 12
    assert set(first["reward"]) == {"total", "std", "correct", "parity"}
    assert sum(first["groups"][name] for name in ("all_fail", "all_pass", "mixed", "unscored")) == first["groups"]["total"] == 3
    assert sum(first["ratio_histogram"]["counts"]) > 0
    assert sum(first["ended"].values()) == 12
    assert first["updates"] == {"made": 2, "skipped": []}


def test_the_learning_rate_rises_and_decays_linearly(finished: Finished) -> None:
    # from 0.01 to a tenth of it: 0.01 * (1 - 0.9 * k / 3) = 0.01, 0.007, 0.004, 0.001; half of it in the first of two warm-up steps
    assert [line["learning_rate"] for line in finished.train_lines()] == pytest.approx([0.005, 0.007, 0.004, 0.001])


def test_the_summary_holds_what_was_promised(finished: Finished) -> None:
    summary = finished.run.summary
    assert summary is not None
    evaluations = {(line["step"], line["mode"]): line for line in lines(finished.run.folder) if line["phase"] == "evaluate"}
    for name, step in (("success_before", 0), ("success_after", 4)):
        expected = {mode: evaluations[step, mode]["success"] for mode in ("sampled", "greedy")}
        assert summary[name] == {**expected, "n": 8}
    assert set(summary["seconds"]) == {"total", "warm_start", "rollout", "learn", "evaluate"}
    parts = sum(value for name, value in summary["seconds"].items() if name != "total")
    assert 0 < parts <= summary["seconds"]["total"]
    assert summary["peak_rss_bytes"] > 2**26
    assert (summary["seed"], summary["steps"], summary["status"]) == (0, 4, "finished")
    assert {"python", "torch", "transformers"} <= set(summary["versions"])
    assert (finished.run.folder / "report.html").stat().st_size > 10_000


def test_the_exported_model_and_tokenizer_are_those_of_the_last_step(finished: Finished) -> None:
    folder = finished.run.folder / "model"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert weights_hash(weights(model)) == outcome(finished.run.folder)["model"]
    assert tokenizer("Digit of a 7")["input_ids"] == finished.world.tokenizer("Digit of a 7")["input_ids"]


def test_progress_tells_the_phases_in_order_with_their_numbers(finished: Finished) -> None:
    phases = [progress.phase for progress in finished.told]
    changes = [phase for before, phase in zip(["", *phases], phases, strict=False) if phase != before]
    assert changes == ["warm_start", "evaluate", "train", "evaluate", "train", "evaluate", "done"]
    warm = [p for p in finished.told if p.phase == "warm_start"]
    assert [p.step for p in warm] == list(range(1, 13))
    assert [p.step for p in warm if p.success is not None] == [4, 8, 12]
    steps = [p for p in finished.told if p.phase == "train"]
    assert [(p.step, p.steps) for p in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for p in steps:
        for number in (p.success, p.reward, p.kl, p.tokens_per_second, p.seconds_left):
            assert number is not None
            assert math.isfinite(number)
    said = [p.message for p in finished.told if p.phase == "evaluate" and p.message]
    assert [m.split(":")[0] for m in said] == ["step 0", "step 0", "step 2", "step 2", "step 4", "step 4"]
    assert all("held-out success" in m for m in said)
    log = (finished.run.folder / "log.txt").read_text().splitlines()
    assert [line[20:] for line in log] == [line for m in said for line in m.splitlines()]


def test_the_same_seed_gives_the_same_run_and_another_does_not(finished: Finished, tmp_path: Path) -> None:
    train(RECIPE, out=tmp_path / "again")
    assert outcome(tmp_path / "again") == outcome(finished.run.folder)
    other = tiny(seed=1, checkpoint_every=1, keep_checkpoints=9, collect={"temperature": 0.8})
    train(other, out=tmp_path / "other")
    assert outcome(tmp_path / "other")["model"] != outcome(finished.run.folder)["model"]


# ---- steps without a signal, and steps that go wrong


def test_R76_the_log_tells_a_step_without_signal_from_a_loss_of_zero(tmp_path: Path) -> None:
    class Uniform(Lookup):
        """Everyone gets the same."""

        def score(self) -> Mapping[str, float | None]:
            return {"correct": 0.0, "parity": 0.35}

    Uniform.__name__ = Uniform.__qualname__ = "Lookup"  # the same tasks
    told: list[Progress] = []
    short = {"steps": 1, "warm_start": {"max_steps": 0}, "evaluate": {"every": 0}}
    dropped = train(tiny(**short), environment=Uniform, out=tmp_path / "dropped", on_progress=told.append)
    kept = train(tiny(**short, drop_uniform_groups=False), environment=Uniform, out=tmp_path / "kept")
    for run, trained in ((dropped, 0), (kept, 1)):
        (line,) = [line for line in lines(run.folder) if line["phase"] == "train"]
        assert line["zero_variance_share"] == 1.0
        assert line["gradient_norm"] == 0.0
        assert line["reward"]["std"] == 0.0
        assert line["reward"]["total"] == pytest.approx(0.175)
        assert bool(line["tokens"]["trained"]) == bool(trained)
    (line,) = [line for line in lines(dropped.folder) if line["phase"] == "train"]
    assert line["updates"] == {"made": 0, "skipped": ["no tokens to train"]}
    assert line["loss"] is None
    assert [p.message for p in told if p.phase == "train"] == ["step 1: no update, no tokens to train"]
    (line,) = [line for line in lines(kept.folder) if line["phase"] == "train"]
    assert line["updates"] == {"made": 2, "skipped": []}
    assert line["loss"] == 0.0


def test_R69_an_advantage_that_is_no_number_stops_the_run_and_names_the_step(tmp_path: Path) -> None:
    recipe, calls, told = tiny(steps=6, evaluate={"every": 0}), [0], list[Progress]()

    def credit(rewards: Tensor) -> Tensor:
        calls[0] += 1
        spoilt = group_standardized_advantages(rewards)
        return spoilt * math.nan if 12 < calls[0] <= 15 else spoilt  # the three groups of step 5

    with pytest.raises(RoseError, match="step 5: "):
        train(dataclasses.replace(recipe, credit=PerGroup(credit)), out=tmp_path / "run", on_progress=told.append)
    assert told[-1].phase == "failed"
    assert told[-1].message.startswith("stopped: step 5: ")
    folder = tmp_path / "run" / "checkpoints"
    assert checkpoint_steps(folder) == [0, 2, 4]
    for name in ("model", "optimizer"):
        for tensor in load_file(folder / "4" / f"{name}.safetensors").values():
            assert bool(tensor.isfinite().all())
    # with a sound credit the same run goes on, to where it would have come without the fault
    train(recipe, out=tmp_path / "run", resume=True)
    train(recipe, out=tmp_path / "whole")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_R55_a_credit_of_the_wrong_length_stops_the_run_before_any_update(tmp_path: Path) -> None:
    def credit(rewards: Tensor) -> Tensor:
        return group_standardized_advantages(rewards)[:1]

    with pytest.raises(ShapeError, match=r"step 1: .*4"):
        train(dataclasses.replace(tiny(warm_start={"max_steps": 0}), credit=PerGroup(credit)), out=tmp_path / "run")
    with EventLog.read(tmp_path / "run" / "events.db") as log:
        assert [policy.version for policy in log.policies()] == ["v0"]


def test_R69_a_gradient_that_is_not_finite_is_skipped_logged_and_balanced(tmp_path: Path) -> None:
    recipe, told, seen = tiny(steps=3, evaluate={"every": 0}), list[Progress](), [0]

    def objective(*args: Any, **options: Any) -> Any:
        output = recipe.objective(*args, **options)
        seen[0] += 1
        return dataclasses.replace(output, loss=output.loss * math.inf) if seen[0] <= 1 else output

    run = train(dataclasses.replace(recipe, objective=objective), out=tmp_path / "run", on_progress=told.append)
    first, *others = [line for line in lines(run.folder) if line["phase"] == "train"]
    assert first["updates"] == {"made": 1, "skipped": ["the gradient is not finite"]}
    assert first["tokens"]["excluded"]["update refused"] > 0
    assert all(line["updates"]["made"] == 2 for line in others)
    assert [p.message for p in told if p.phase == "train"] == ["step 1: no update, the gradient is not finite", "", ""]
    with EventLog.read(run.folder / "events.db") as log:
        Ledger(log.ledger()).balance(recorded=log.sampled_tokens(phase="train"))
    for tensor in load_file(run.folder / "model" / "model.safetensors").values():
        assert bool(tensor.isfinite().all())


class Flaky(Lookup):
    """The verifier breaks for a third of the episodes, the tool for some others."""

    def score(self) -> Mapping[str, float | None]:
        if len(self.said) % 3 == 0:
            raise KeyError("grader")
        return super().score()


def test_R58_failed_graders_are_unscored_counted_and_balanced(tmp_path: Path) -> None:
    run = train(tiny(steps=2, evaluate={"every": 0}), environment=Flaky, out=tmp_path / "run")
    excluded: Counter[str] = Counter()
    for line in lines(run.folder):
        if line["phase"] == "train":
            excluded.update(line["tokens"]["excluded"])
        if line["phase"] == "evaluate":
            assert line["n"] + line["unscored"] == 8
    assert excluded["unscored"] > 0
    with EventLog.read(run.folder / "events.db") as log:
        Ledger(log.ledger()).balance(recorded=log.sampled_tokens(phase="train"))


def test_R58_an_environment_that_scores_nobody_stops_the_run(tmp_path: Path) -> None:
    class Broken(Lookup):
        """Its verifier always raises."""

        def score(self) -> Mapping[str, float | None]:
            raise RuntimeError("grader\x1b[2J")

    with pytest.raises(
        GroupError, match=r"step 1: rewards must be known for some episode .*none of 12, most often: score raised RuntimeError"
    ):
        train(tiny(warm_start={"max_steps": 0}), environment=Broken, out=tmp_path / "run")
    *_, last = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert "stopped: step 1: rewards must be known" in last
    assert last.isprintable()


# ---- what is refused before anything is made


class NoDemonstrations(Lookup):
    """Nothing to clone."""

    demonstrate = Lookup.__mro__[1].demonstrate  # type: ignore[attr-defined]


class OneTask(Lookup):
    """A task space of a single task."""

    @staticmethod
    def make_task(rng: Any) -> Mapping[str, Any]:
        return {"letter": "a", "digit": 1, "noise": 0}


@pytest.mark.parametrize(
    ("options", "environment", "error", "message"),
    [
        ({"environment": "shopp"}, None, ConfigError, "did you mean shop"),
        ({"environment": "loop_worlds:Lokup"}, None, ConfigError, "environment must be importable"),
        ({"device": "cuda:99"}, None, ConfigError, "device must be usable, got 'cuda:99': "),
        ({}, NoDemonstrations, ConfigError, "define demonstrate"),
        ({}, OneTask, RangeError, "environment must draw held_out tasks"),
    ],
)
def test_what_a_run_lacks_is_said_before_its_folder_is_made(
    tmp_path: Path, options: dict[str, Any], environment: Any, error: type[RoseError], message: str
) -> None:
    with pytest.raises(error, match=message):
        train(tiny(**options), environment=environment, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_warm_start_no_demonstrations_are_needed(tmp_path: Path) -> None:
    run = train(tiny(steps=1, warm_start={"max_steps": 0}), environment=NoDemonstrations, out=tmp_path / "run")
    with EventLog.read(run.folder / "events.db") as log:
        assert not list(log.trajectories(phase="demonstration"))


def test_without_training_steps_before_and_after_are_the_same(tmp_path: Path) -> None:
    run = train(tiny(steps=0), out=tmp_path / "run")
    assert run.summary is not None
    assert run.summary["success_before"] == run.summary["success_after"]
    assert run.summary["tokens"] == {"sampled": 0, "trained": 0, "excluded": {}}


def test_reinforce_runs_too(tmp_path: Path) -> None:
    run = train(tiny(recipe="reinforce", steps=2, optimizer={"minibatches": 1}), out=tmp_path / "run")
    assert [line["updates"]["made"] for line in lines(run.folder) if line["phase"] == "train"] == [1, 1]


# ---- beside other things


def test_it_runs_inside_a_running_event_loop_and_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    async def notebook() -> Run:
        return train(tiny(steps=1, warm_start={"max_steps": 8}), out=tmp_path / "run")

    threads = torch.get_num_threads()
    assert asyncio.run(notebook()).status == "finished"
    assert set(threading.enumerate()) == before
    assert torch.get_num_threads() == threads


def test_R71_memory_does_not_grow_with_the_steps(tmp_path: Path) -> None:
    seen: dict[int, tuple[int, int]] = {}
    pages: dict[int, int] = {}
    statm = Path("/proc/self/statm")

    def measure(progress: Progress) -> None:
        if progress.phase == "train" and progress.step in (30, 120):
            gc.collect()
            alive = gc.get_objects()
            tensors, records = (sum(issubclass(type(o), kind) for o in alive) for kind in (Tensor, Trajectory))
            seen[progress.step] = (tensors, records)
            pages[progress.step] = int(statm.read_text().split()[1]) if statm.exists() else 1

    options = {"warm_start": {"max_steps": 0}, "evaluate": {"tasks": 1, "every": 0}, "checkpoint_every": 100}
    small = {"tasks": 1, "group_size": 2, "max_turns": 1, "max_turn_tokens": 3}
    train(tiny(steps=120, **options, collect=small, optimizer={"minibatches": 1}), out=tmp_path / "run", on_progress=measure)
    assert seen[120][0] <= seen[30][0] + 5
    assert seen[120][1] <= seen[30][1] + 2
    assert pages[120] <= 1.05 * pages[30]
