"""Transcripts from real records: which are shown, and that role, masks, fate and log-probability of each token can be read."""

from __future__ import annotations

import collections
from pathlib import Path

from report_html import Page
from report_records import action, ids, place, rollout, span, write_events, write_tokenizer
from report_runs import metrics, write_run

from rosellm.roserlhf.report.run_folder import Run, read_run
from rosellm.roserlhf.report.transcript_view import SHOWN_TOKENS, Block, Token, Transcript, token_view, transcript_view
from rosellm.roserlhf.report.transcripts import outcome_of, read_transcripts
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import CopySpan, ParentLink, PolicyAction, TokenSpan, Trajectory, TransitionRecord, VersionSpan


def run_with_events(folder: Path, steps: int = 3) -> Run:
    """A run whose groups pass 0, 1, 2, 3 of 4 at step 0, and one more at each later step."""
    write_run(folder, metrics(steps=steps, warm_steps=0))
    write_events(folder, steps)
    write_tokenizer(folder)
    return read_run(folder)


def test_ten_rollouts_of_last_and_first_step_with_both_outcomes(tmp_path: Path) -> None:
    transcripts, note = read_transcripts(run_with_events(tmp_path))
    counts = collections.Counter((one.step, one.outcome) for one in transcripts)
    # Step 2 passes 2, 3, 4, 4 of 4 and step 0 passes 0, 1, 2, 3 of 4: each pool holds three, and the quotas make ten.
    assert counts == {(2, "success"): 3, (2, "failure"): 3, (0, "success"): 2, (0, "failure"): 2}
    assert [one.step for one in transcripts] == [2] * 6 + [0] * 4
    assert note.startswith("10 rollouts of train steps 2 and 0.")
    assert len({one.task_id for one in transcripts if (one.step, one.outcome) == (2, "success")}) == 3


def test_the_choice_is_the_same_every_time(tmp_path: Path) -> None:
    run = run_with_events(tmp_path)
    assert read_transcripts(run) == read_transcripts(run)


def test_one_step_fills_up_from_what_is_there(tmp_path: Path) -> None:
    transcripts, _ = read_transcripts(run_with_events(tmp_path, steps=1))
    assert collections.Counter(one.outcome for one in transcripts) == {"success": 5, "failure": 5}
    assert {one.step for one in transcripts} == {0}


def test_a_step_without_metrics_is_not_the_last_step(tmp_path: Path) -> None:
    run = run_with_events(tmp_path, steps=2)
    with EventLog.open(tmp_path / "events.db") as log:
        log.append_trajectory(rollout(7, 0, 0, True), step=7, phase="train")
    assert {one.step for one in read_transcripts(run)[0]} == {0, 1}


def test_tokens_carry_text_role_masks_fate_and_log_probability(tmp_path: Path) -> None:
    transcripts, _ = read_transcripts(run_with_events(tmp_path))
    shown = next(one for one in transcripts if one.advantage is not None and one.outcome == "failure")
    assert [(block.role, block.place) for block in shown.blocks] == [
        ("system", "prompt"),
        ("user", "prompt"),
        ("assistant", "turn 0 · action"),
        ("tool", "turn 0 · observation"),
        ("assistant", "turn 1 · action"),
        ("tool", "turn 1 · observation"),
        ("assistant", "turn 2 · action"),
    ]
    user, reply = shown.blocks[1], shown.blocks[2]
    assert [token.text for token in user.tokens] == ["<user>", "What", "do", "3", "lamp", "cost", "?", "</user>", "<assistant>"]
    assert [token.content for token in user.tokens] == [False, *[True] * 6, False, False]
    assert not any(token.policy or token.trained for token in user.tokens)
    assert [token.text for token in reply.tokens] == ["<call>", "search", "(", "lamp", ")", "</call>", "<end>"]
    assert [token.logprob for token in reply.tokens] == [-0.02, -0.02, -1.5, -0.02, -0.02, -1.5, -0.02]
    assert all(token.policy and token.trained for token in reply.tokens)
    assert shown.rewards == {"format": 0.1, "cost": -0.02, "correct": 0.0}
    assert shown.advantage == -1.0
    assert shown.fate.startswith("trained at step")
    assert shown.ended == "terminated"


def test_a_rejected_rollout_names_its_reason_on_every_token(tmp_path: Path) -> None:
    transcripts, _ = read_transcripts(run_with_events(tmp_path))
    rejected = next(one for one in transcripts if one.fate == "rejected: group without signal")
    sampled = [token for token in rejected.tokens if token.policy]
    assert {token.excluded for token in sampled} == {"group without signal"}
    page = Page(transcript_view(rejected, opened=False))
    tips = [tip for tip in page.values("title") if "policy_mask 1" in tip]
    assert len(tips) == len(sampled)
    assert all("excluded: group without signal" in tip for tip in tips)
    assert "advantage not recorded" in page.text


def test_view_tells_each_token_in_words_and_marks() -> None:
    page = Page(token_view(Token(5, "<b>", policy=True, logprob=-3.5, trained=True)))
    assert page.words == ["<b>"]
    assert page.values("class") == ["t p s7"]
    assert page.values("title") == ["id 5\npolicy_mask 1, trained\nbehaviour log-probability -3.5"]
    context = Page(token_view(Token(6, "x\n", content=False)))
    assert context.values("class") == ["t f"]
    assert context.values("title") == ["id 6\npolicy_mask 0, context\nscaffold (content_mask 0)"]
    assert context.words == ["x↵"]
    assert context.tags == ["span", "br"]
    unknown = Page(token_view(Token(7, "", policy=True)))
    assert unknown.values("class") == ["t p u"]
    assert "behaviour log-probability not recorded" in unknown.values("title")[0]
    assert Page(token_view(Token(8, "a\n\nb"))).words == ["a↵", "↵", "b"]


def test_a_long_rollout_says_what_it_leaves_out() -> None:
    tokens = tuple(Token(index, f"w{index}") for index in range(SHOWN_TOKENS + 500))
    blocks = (Block("user", "prompt", tokens[:1000]), Block("tool", "turn 0 · observation", tokens[1000:]))
    page = Page(transcript_view(Transcript("t", "task", "train", 0, "failure", blocks=blocks), opened=True))
    assert len(page.values("title")) == SHOWN_TOKENS
    assert page.text.count("500 tokens in the middle are not shown here") == 1
    assert f"w{SHOWN_TOKENS + 499}" in page.text


def stored(folder: Path, trajectory: Trajectory) -> Transcript:
    """Put one rollout into a log of its own and read it back as a transcript."""
    (folder / "metrics.jsonl").write_text("")
    with EventLog.create(folder / "events.db") as log:
        log.append_trajectory(trajectory, step=0, phase="train")
    transcripts, _ = read_transcripts(read_run(folder))
    assert len(transcripts) == 1
    return transcripts[0]


def test_without_tokenizer_ids_and_recorded_text_are_shown(tmp_path: Path) -> None:
    shown = stored(tmp_path, rollout(0, 0, 0, True))
    assert shown.blocks[2].tokens[0].text == f"#{ids('<call>')[0]}"
    assert "text: <call> search ( lamp ) </call> <end>" in shown.blocks[2].notes
    assert shown.fate == "not recorded"


def test_outcome_follows_the_recorded_rewards() -> None:
    def ended(rewards: dict[str, float | None], **cause: str) -> Trajectory:
        end = TransitionRecord(0, None, rewards, terminated=True, **cause)  # type: ignore[arg-type]
        return Trajectory("t", "task", "e", "k", [action(0, "<end>", "v0")], [end])

    assert outcome_of(ended({"correct": 1.0, "cost": -2.0})) == "success"
    assert outcome_of(ended({"correct": 0.5, "format": 1.0})) == "failure"
    assert outcome_of(ended({"correct": None})) == "unscored"
    assert outcome_of(ended({"score": 0.3, "cost": -0.1})) == "success"
    assert outcome_of(ended({"score": 0.0})) == "failure"
    assert outcome_of(ended({"score": 1.0, "judge": None})) == "unscored"
    assert outcome_of(ended({})) == "unscored"
    assert outcome_of(ended({"correct": 0.0}, cause="grader died", blame="infrastructure")) == "unscored"


def test_branches_stale_spans_truncation_and_failures_are_said(tmp_path: Path) -> None:
    spans = [VersionSpan(0, 2, "v0"), VersionSpan(2, 3, "v1", "stale")]
    reply = PolicyAction(1, ids("lamp 1 <end>"), [-0.1, -0.2, -0.3], "v0", "", version_spans=spans, stop_reason="length")
    end = TransitionRecord(
        1, None, {"correct": 0.0}, truncated=True, cause="turn limit", observation=[span("tool", "<tool> </tool>")]
    )
    branch = Trajectory("child", "task", "e", "k", [reply], [end], parent=ParentLink("root", 1, "branch"))
    (tmp_path / "metrics.jsonl").write_text("")
    write_tokenizer(tmp_path)
    with EventLog.create(tmp_path / "events.db") as log:
        log.append_trajectory(branch, step=0, phase="train")
        log.append_ledger("child", "launched", step=0)
        log.append_ledger("child", "finished", step=0, sampled=3)
        log.append_ledger("child", "admitted", step=0)
        log.append_ledger("child", "trained", step=2, trained=2, excluded={"stale": 1}, detail={"advantage": 0.5})
    (shown,), _ = read_transcripts(read_run(tmp_path))
    assert shown.blocks[0].notes == ("goes on before action 1 of root",)
    assert [(token.trained, token.excluded) for token in shown.blocks[1].tokens] == [(True, None), (True, None), (False, "stale")]
    assert shown.blocks[1].notes == ("stop reason: length", "rewards of this turn: correct 0", "truncated: turn limit")
    assert shown.ended == "truncated (turn limit)"
    assert shown.fate == "trained at step 2, 2 tokens; excluded: 1 stale"
    assert shown.versions == ("v0", "v1")
    assert shown.advantage == 0.5


def test_copied_and_foreign_context_is_named(tmp_path: Path) -> None:
    prompt: list[TokenSpan | CopySpan] = [
        CopySpan("parent", 3, 9),
        TokenSpan(ids("lamp"), "assistant", policy=True),
        TokenSpan([], "user"),
    ]
    end = TransitionRecord(1, None, {"correct": 0.0}, terminated=True)
    child = Trajectory(
        "c", "task", "e", "k", [action(1, "<end>", "v0")], [end], prompt=prompt, parent=ParentLink("parent", 1, "compaction")
    )
    (tmp_path / "metrics.jsonl").write_text("")
    with EventLog.create(tmp_path / "events.db") as log:
        log.append_trajectory(child, step=0, phase="train")
    # A compaction is not a rollout of its own, so it is not chosen.
    assert read_transcripts(read_run(tmp_path))[1] == "events.db holds no rollout (yet)."


def test_an_unfinished_attempt_says_so(tmp_path: Path) -> None:
    trajectory = Trajectory("t", "task", "e", "k", prompt=[span("user", "What")])
    trajectory.append(PolicyAction(0, ids("lamp"), [-0.1], "v0", "lamp", stop_reason="interrupted"))
    shown = stored(tmp_path, trajectory)
    assert (shown.outcome, shown.ended) == ("unscored", "interrupted")


def test_a_failure_of_the_machine_says_so(tmp_path: Path) -> None:
    trajectory = Trajectory("t", "task", "e", "k", prompt=[span("user", "What")])
    trajectory.fail("infrastructure", "engine lost")
    assert stored(tmp_path, trajectory).ended == "broke off: engine lost (infrastructure)"


def test_evaluations_are_shown_where_nothing_was_trained(tmp_path: Path) -> None:
    write_run(tmp_path, metrics(steps=0, warm_steps=2))
    with EventLog.create(tmp_path / "events.db") as log:
        for member in range(3):
            log.append_trajectory(rollout(0, member, 0, member == 0), step=0, phase="evaluate-sampled")
    transcripts, note = read_transcripts(read_run(tmp_path))
    assert {(one.phase, one.step) for one in transcripts} == {("evaluate-sampled", 0)}
    assert note.startswith("3 rollouts of evaluate-sampled step 0.")


def test_missing_and_damaged_logs_are_said(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("")
    run = read_run(tmp_path)
    assert read_transcripts(run) == ([], "events.db: not recorded.")
    (tmp_path / "events.db").write_bytes(b"not a database, but long enough to be one" * 100)
    transcripts, note = read_transcripts(run)
    assert transcripts == []
    assert note.startswith("events.db could not be read: ")


def test_a_ledger_that_ends_later_is_still_found(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("")
    with EventLog.create(tmp_path / "events.db") as log:
        place(log, rollout(0, 0, 0, True), 0, 1.5)
        log.append_trajectory(rollout(0, 1, 0, True), step=0, phase="train")
    transcripts, _ = read_transcripts(read_run(tmp_path))
    assert sorted(one.fate for one in transcripts) == ["not recorded", "trained at step 0, 25 tokens"]
