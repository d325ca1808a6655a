"""`roserlhf doctor --tokenizer`: what it prints, what it writes, and what it answers where there is nothing to examine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_templates import tokenizer_for, tokenizer_of

from rosellm.roserlhf.cli import main


def saved(name: str | None, folder: Path, *, logits: int | None = None) -> str:
    tokenizer = tokenizer_of(None) if name is None else tokenizer_for(name)
    tokenizer.save_pretrained(folder)
    if logits is not None:
        (folder / "config.json").write_text(json.dumps({"vocab_size": logits}), encoding="utf-8")
    return str(folder)


def test_the_report_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = len(tokenizer_for("qwen3"))
    assert main(["doctor", "--tokenizer", saved("qwen3", tmp_path, logits=size + 8)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "prefix-extending after tool results: passed yes: every reply stands as it was sampled" in printed
    assert "the template rewrites reasoning: reasoning stripped" in printed
    assert f"{size:,} ids, {size + 8:,} logits" in printed
    assert "call format: passed <tool_call>" in printed
    assert printed.endswith("info")


def test_the_report_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert main(["doctor", "--tokenizer", saved("gemma", tmp_path / "gemma"), "--json", str(report)]) == 0
    found = {outcome["name"]: outcome for outcome in json.loads(report.read_text())["outcomes"]}
    assert found["prefix-extending after tool results"]["verdict"] == "warning"
    assert "System role not supported" in found["system messages"]["evidence"]
    assert found["glue"]["evidence"].startswith(r"'\n' stands between")
    assert "\x1b" not in capsys.readouterr().out


def test_a_template_that_cannot_be_served_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--tokenizer", saved("gptoss", tmp_path)]) == 1
    assert "it needs a codec of its own" in " ".join(capsys.readouterr().out.split())


def test_a_tokenizer_without_a_template_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--tokenizer", saved(None, tmp_path)]) == 1
    assert "tokenizer must have a chat template, got none" in " ".join(capsys.readouterr().out.split())


def test_what_is_not_there_is_a_wrong_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["doctor", "--tokenizer", "nobody/nothing-at-all"]) == 2
    assert "--tokenizer: " in capsys.readouterr().err
    assert main(["doctor", "--tokenizer", str(tmp_path)]) == 2
    assert "tokenizer.json" in capsys.readouterr().err
    assert main(["doctor", "--tokenizer", "a", "--batch", "b"]) == 2
    assert "got --tokenizer and --batch" in capsys.readouterr().err
