"""`explain` on a run made by hand: every number of a token equals the one worked out here, and what is not known is said."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from explained_runs import ADVANTAGE, BEHAVIOUR, REWARDS, broken, make_run, name_of, place, rollout, trained_run, update

from rosellm.roserlhf import ConfigError, RangeError, RunFolderError
from rosellm.roserlhf.audit import Explanation, explain
from rosellm.roserlhf.batching.rows import row_of
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trainer.account import row_hash


def log_of(folder: Path) -> EventLog:
    return EventLog.open(folder / "events.db")


def test_every_number_of_a_token_is_the_one_worked_out_by_hand(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run")
    told = explain(run, name_of("b"))
    # rewards [1, 0, 0, 1]: mean 0.5, population deviation 0.5, A of a 0 = (0 - 0.5) / (0.5 + 1e-8) = -1 / (1 + 2e-8)
    assert told.credit.baseline == 0.5
    assert told.credit.advantage == pytest.approx(-1.0, rel=1e-7)
    assert told.credit.formula[-1] == "A = (R - mean) / (s + 1e-08) = (0 - 0.5) / (0.5 + 1e-08) = -1"
    # the total is 1 x correct = 0; cost has no weight in the shop, so it is told but not counted
    assert told.credit.reward == 0.0
    assert told.credit.components == {"correct": 0.0, "cost": -0.25}
    first, second = told.updates[0].tokens
    # token 2 of the row: behaviour log 0.5, current log 0.75, ratio 1.5; A < 0, so min(-1.5, -1.2) = -1.5: the clip does not bind
    assert (first.position, second.position) == (2, 3)
    assert told.tokens[2].behaviour_logprob == BEHAVIOUR[0]
    assert first.current_logprob == pytest.approx(math.log(0.75), rel=1e-6)
    assert first.ratio == pytest.approx(1.5, rel=1e-6)
    assert first.token_loss == pytest.approx(1.5, rel=1e-6)
    # dL/dl = -(1/8) x 1.5 x (-1) = 0.1875
    assert first.token_weight == 1 / 8
    assert first.derivative == pytest.approx(0.1875, rel=1e-6)
    assert first.verdict is not None
    assert first.verdict.words == "not binding: above 1.2, A < 0"
    assert first.verdict.weight == pytest.approx(1.5, rel=1e-6)
    # token 3: ratio 0.5 is below 0.8 and A < 0: min(-0.5, -0.8) = -0.8 is constant, no gradient
    assert second.ratio == pytest.approx(0.5, rel=1e-6)
    assert second.token_loss == pytest.approx(0.8, rel=1e-6)
    assert second.derivative == 0.0
    assert second.verdict is not None
    assert second.verdict.words == "clip binds: below 0.8, A < 0"
    assert not second.verdict.gradient
    # sum of |dL/dl| over the update: a 0 + 1/8, b 1.5/8 + 0, c and d 2/8 each = 6.5/8 = 0.8125
    assert told.updates[0].absolute == pytest.approx(0.8125, rel=1e-6)
    assert first.share == pytest.approx(0.1875 / 0.8125, rel=1e-6)
    assert second.share == 0.0
    assert told.updates[0].recomputed_loss == pytest.approx(0.0125, abs=1e-7)
    # gradient norm 0.75, bound 0.5: scaled by two thirds
    assert told.updates[0].clip_scale == pytest.approx(2 / 3, rel=1e-5)
    assert (told.updates[0].up, told.updates[0].down) == (0, 1)
    assert told.problems == ()
    assert told.missing == ()


def test_a_positive_advantage_is_clipped_above_and_pushed_up_inside(tmp_path: Path) -> None:
    told = explain(trained_run(tmp_path / "run"), name_of("a"))
    clipped, inside = told.updates[0].tokens
    assert clipped.verdict is not None
    assert clipped.verdict.words == "clip binds: above 1.2, A > 0"
    assert clipped.derivative == 0.0
    assert inside.verdict is not None
    assert inside.verdict.words == "inside"
    assert inside.derivative == pytest.approx(-0.125, rel=1e-6)
    assert (
        told.headline[-1]
        == "The update pushed 1 token up, 1 got no gradient: |dL/dl| sums to 0.125, 15.4 % of the update's (4 rows)."
    )


def test_roles_masks_and_reasons_of_a_row(tmp_path: Path) -> None:
    told = explain(trained_run(tmp_path / "run"), name_of("a"))
    assert [(one.position, one.token_id, one.text) for one in told.tokens] == [
        (0, 1, "What"),
        (1, 2, "<end>"),
        (2, 3, "yes"),
        (3, 2, "<end>"),
    ]
    assert [(one.role, one.content, one.sampled, one.trained) for one in told.tokens] == [
        ("user", True, False, False),
        ("user", False, False, False),
        ("assistant", True, True, True),
        ("assistant", True, True, True),
    ]
    assert [one.why for one in told.tokens[:3]] == ["context of role user", "context of role user, scaffold", "sampled and trained"]
    assert [one.version for one in told.tokens] == [None, None, "v0", "v0"]
    assert [one.turn for one in told.tokens] == [None, None, 0, 0]


def test_the_group_names_its_members_and_the_unscored_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        for member, advantage in {"a": ADVANTAGE, "b": -ADVANTAGE}.items():
            place(log, rollout(member), "trained", advantage=advantage)
        place(log, broken("c"), "rejected", reason="unscored")
    told = explain(run, name_of("a"))
    assert [(one.trajectory_id, one.reward, one.left_out) for one in told.credit.members] == [
        (name_of("a"), 1.0, None),
        (name_of("b"), 0.0, None),
        (name_of("c"), None, "unscored (sandbox lost, infrastructure)"),
    ]
    # only a and b count: mean 0.5, not 1/3
    assert told.credit.baseline == 0.5
    broke = explain(run, name_of("c"))
    assert broke.nothing_moved == "It was left out of the update as “unscored”: its reward is not known, and not known is not 0."
    assert broke.credit.reward is None
    assert broke.updates == ()


def test_two_epochs_are_two_stories(tmp_path: Path) -> None:
    told = explain(trained_run(tmp_path / "run", updates=[update(), update(number=1, epoch=1)]), name_of("a"))
    assert [(one.number, one.epoch, len(one.tokens)) for one in told.updates] == [(0, 0, 2), (1, 1, 2)]


def test_stale_tokens_are_excluded_but_their_ratio_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        place(log, rollout("a", stale=1), "trained", advantage=ADVANTAGE, stale=1)
        place(log, rollout("b"), "trained", advantage=-ADVANTAGE)
        # D = 3: min(1.5, 1.2) of a's live token, -1.5 and -0.8 of b: loss = -(1.2 - 1.5 - 0.8) / 3
        log.append_update(update("ab", denominator=3.0, loss=1.1 / 3))
    told = explain(run, name_of("a"))
    assert told.problems == ()
    assert [one.why for one in told.tokens[2:]] == ["sampled and trained", "sampled; excluded: stale prefix cache"]
    assert [(one.version, one.prefix_cache) for one in told.tokens[2:]] == [("v0", "recomputed"), ("v0+1", "stale")]
    stale = told.updates[0].tokens[1]
    assert stale.ratio == pytest.approx(1.0)
    assert (stale.derivative, stale.share, stale.verdict) == (None, None, None)


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("evaluate-greedy", "It is an evaluation: it measured the policy and moved nothing."),
        ("demonstration", "It is a scripted demonstration, which the warm start cloned"),
        ("elsewhere", "It was collected for elsewhere, not for training"),
    ],
)
def test_other_phases_say_why_they_moved_nothing(tmp_path: Path, phase: str, words: str) -> None:
    run = make_run(tmp_path / "run", weights=False)
    entered = {"machine": {}, "reward_weights": {"correct": 1.0}, "success_component": "correct"}
    with log_of(run) as log:
        log.append_trajectory(rollout("a", trainable=False), step=0, phase=phase)
        log.append_metrics("process", 1, entered)  # a trainer enters itself under the first step that it makes
    told = explain(run, name_of("a"))
    assert told.missing == ()
    assert (told.nothing_moved or "").startswith(words)
    assert told.updates == ()
    assert {one.trained for one in told.tokens} == {False}
    assert told.credit.members == ()
    assert told.credit.advantage is None


def test_a_superseded_record_says_so_and_a_live_one_of_the_same_id_wins(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        place(log, rollout("a"), "trained", advantage=ADVANTAGE)
        log.supersede(1)
    assert (explain(run, name_of("a")).nothing_moved or "").startswith("Its step was run again")
    with log_of(run) as log:
        place(log, rollout("a"), "finished")
    assert explain(run, name_of("a")).nothing_moved == "It was not trained (yet): its attempt is finished."


def test_a_uniform_group_is_rejected_with_its_reason(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        for member in "ad":
            place(log, rollout(member), "rejected", reason="uniform group", advantage=0.0)
    told = explain(run, name_of("a"))
    assert "same reward" in (told.nothing_moved or "")
    assert told.credit.formula[-1] == "all rewards are equal: A = 0, exactly"
    assert told.tokens[2].why == "sampled; excluded: uniform group"


def test_a_refused_update_is_told_as_not_made_in_strict_json(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        for member, advantage in {"a": ADVANTAGE, "b": -ADVANTAGE}.items():
            place(log, rollout(member), "rejected", reason="update refused", advantage=advantage)
        refused = update("ab", denominator=4.0, loss=1.1 / 4 - 1 / 4, gradient_norm=math.nan, skipped="the gradient is not finite")
        log.append_update(refused)
    told = explain(run, name_of("a"))
    assert told.nothing_moved == "It was left out of the update as “update refused”: update 0: the gradient is not finite."
    assert told.headline[-1].startswith("The update was not made (the gradient is not finite); it would have pushed 1 token up")
    found = json.loads(json.dumps(told.as_json(), allow_nan=False))
    assert found["updates"][0]["gradient_norm"] == "NaN"
    assert found["updates"][0]["clip_scale"] is None


def test_a_run_without_evidence_names_what_is_missing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        for member, advantage in {"a": ADVANTAGE, "b": -ADVANTAGE}.items():
            place(log, rollout(member), "trained", advantage=advantage)
    told = explain(run, name_of("a"))
    assert told.nothing_moved is None
    assert told.updates == ()
    assert any(words.startswith("current log-probabilities, ratios, verdicts") for words in told.missing)


def test_a_disagreement_with_the_recorded_advantage_is_said_and_the_recorded_one_is_used(tmp_path: Path) -> None:
    told = explain(trained_run(tmp_path / "run", recorded=0.5), name_of("a"))
    assert told.credit.advantage == 0.5
    assert any("the advantage recorded is 0.5, but the rewards stored give" in problem for problem in told.problems)
    # the derivative follows what was trained with: -(1/8) x 1 x 0.5; and so the loss recorded no longer fits
    assert told.updates[0].tokens[1].derivative == pytest.approx(-0.0625)
    assert any("the loss recorded for update 0" in problem for problem in told.problems)


def test_without_the_recipe_evidence_is_shown_and_nothing_is_invented(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run")
    (run / "run.toml").unlink()
    told = explain(run, name_of("b"))
    assert [one.ratio for one in told.updates[0].tokens] == pytest.approx([1.5, 0.5])
    assert {(one.derivative, one.share, one.verdict) for one in told.updates[0].tokens} == {(None, None, None)}
    assert told.credit.recorded == -ADVANTAGE
    assert (told.credit.reward, told.credit.recomputed, told.credit.baseline) == (0.0, None, None)
    assert [words.partition(" ")[0] for words in told.missing] == ["recipe", "verdict"]


def test_unknown_weights_leave_the_recorded_advantage(tmp_path: Path) -> None:
    told = explain(trained_run(tmp_path / "run", weights=False), name_of("b"))
    assert told.credit.weights is None
    assert told.updates[0].tokens[0].derivative == pytest.approx(0.1875, rel=1e-6)
    assert any("weights of the reward components" in words for words in told.missing)


def test_the_total_that_the_ledger_kept_stands_in_for_unknown_weights(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", weights=False)
    with log_of(run) as log:
        for member, reward in REWARDS.items():
            place(log, rollout(member), "trained", advantage=ADVANTAGE if reward else -ADVANTAGE, kept={"reward": reward})
    told = explain(run, name_of("b"))
    assert (told.credit.weights, told.credit.reward, told.credit.baseline) == (None, 0.0, 0.5)
    assert told.credit.recomputed == pytest.approx(-ADVANTAGE)


def test_a_record_that_was_changed_after_training_is_a_contradiction(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with log_of(run) as log:
        for member, reward in REWARDS.items():
            kept = {
                "reward": 0.5 if member == "a" else reward,
                "row_hash": "0" if member == "a" else row_hash(row_of(rollout(member))),
            }
            place(log, rollout(member), "trained", advantage=ADVANTAGE if reward else -ADVANTAGE, kept=kept)
    assert explain(run, name_of("a")).problems == (
        "the reward recorded is 0.5, but the components stored give 1.0",
        "the tokens or behaviour log-probabilities stored are not those that the ledger recorded the hash of",
    )
    assert explain(run, name_of("b")).problems == ()


def test_rows_that_do_not_fit_the_records_are_a_contradiction(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run")
    with log_of(run) as log:
        log.append_update(update("a", number=1))
        lost = update("ab", number=2)
        log.append_update(
            type(lost)(
                1,
                2,
                epoch=0,
                rows=[*lost.rows, type(lost.rows[0])("gone", lost.rows[0].current_logprobs)],
                denominator=6.0,
                loss=0.0,
                gradient_norm=0.0,
                learning_rate=0.0,
            )
        )
    problems = explain(run, name_of("a")).problems
    assert any("update 2 of step 1 cannot be differentiated" in problem and "'gone'" in problem for problem in problems)


def test_one_token_and_one_turn(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run")
    whole = explain(run, name_of("b"))
    one = explain(run, name_of("b"), token=2)
    assert (one.tokens, one.updates[0].tokens) == (whole.tokens[2:3], whole.updates[0].tokens[:1])
    assert one.headline == whole.headline
    assert explain(run, name_of("b"), turn=0).tokens == whole.tokens[2:]


def wrong(run: Path, trajectory_id: str, **options: int) -> str:
    with pytest.raises((ConfigError, RangeError, RunFolderError)) as caught:
        explain(run, trajectory_id, **options)
    return str(caught.value)


def test_wrong_calls_are_one_line_that_helps(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run")
    assert wrong(run, name_of("a"), token=4) == "token must be a position in [0, 4), got 4"
    assert wrong(run, name_of("a"), token=-1) == "token must be a position in [0, 4), got -1"
    assert wrong(run, name_of("a"), turn=1) == "turn must be one of [0], got 1"
    assert wrong(run, name_of("a"), turn=0, token=0).startswith("token and turn must not be given together")
    assert "nearest: run/train/1/task-1/" in wrong(run, "run/train/1/task-1/e")
    assert wrong(tmp_path, "x").startswith("run must be a folder with an event log (events.db)")


@pytest.mark.parametrize(
    "hostile", ["../../etc/passwd", "/etc/passwd", "x" * 10_000, "a\x1b[2J", "'; DROP TABLE trajectories; --", "\ud800"]
)
def test_an_id_is_data_and_never_a_path(tmp_path: Path, hostile: str) -> None:
    run = make_run(tmp_path / "run")
    assert len(wrong(run, hostile)) < 600
    with log_of(run) as log:
        log.append_trajectory(rollout("a", trajectory_id=hostile, trainable=False), step=0, phase="evaluate-greedy")
    assert explain(run, hostile).trajectory_id == hostile


def test_the_page_is_whole_inert_and_says_what_the_table_says(tmp_path: Path) -> None:
    words = {1: "<script>alert(1)</script>", 2: "\x1b[2J\x00", 3: '" onmouseover="x', 4: "\u202e\u2028\ud800"}
    run = trained_run(tmp_path / "run", words=words)
    page = explain(run, name_of("b")).as_html()
    page.encode("utf-8")
    assert page.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "⟨U+001B⟩[2J⟨U+0000⟩" in page
    assert 'onmouseover="x' not in page
    assert not set("\x1b\x00\u202e\u2028") & set(page)
    assert "not binding: above 1.2, A &lt; 0" in page
    assert "default-src &#x27;none&#x27;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "Worked out by hand" in explain(run, name_of("b"), token=2).as_html()


def test_an_explanation_is_json_in_full(tmp_path: Path) -> None:
    told = explain(trained_run(tmp_path / "run"), name_of("b"))
    found = json.loads(json.dumps(told.as_json(), allow_nan=False))
    assert set(found) == set(Explanation.__dataclass_fields__)
    assert found["updates"][0]["tokens"][0]["verdict"]["holds"] == ["clip_fraction", "clip_fraction_negative"]
    assert found["objective"] == {"recipe": "grpo", "clip_low": 0.2, "clip_high": 0.2}
