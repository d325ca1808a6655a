"""The command line: what it prints, what it refuses and how, what it does when stopped. Training itself is a fake here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rosellm.roserlhf import __version__, errors, recipes
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.cli.display import duration, facts
from rosellm.roserlhf.cli.train import expected_seconds, free_folder
from rosellm.roserlhf.trainer.progress import Progress
from rosellm.roserlhf.trainer.recipe import Recipe

NAMES = "shop, arithmetic, kitchen, repair, bfcl, reasoning-gym:<dataset> or an import path module:Class"

SUMMARY = {
    "seed": 0,
    "success_before": {"sampled": 0.25, "greedy": 0.5, "n": 100},
    "success_after": {"sampled": 0.75, "greedy": 1.0, "n": 100},
    "seconds": {"total": 125.0, "warm_start": 50.0, "rollout": 40.0, "learn": 30.0, "evaluate": 5.0},
    "peak_rss_bytes": 512 * 2**20,
    "tokens": {"sampled": 1000, "trained": 900, "excluded": {"uniform_group": 100}},
    "versions": {},
}


@dataclass
class FakeRun:
    status: str
    folder: Path
    summary: dict[str, Any] | None


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # so that main() changes nothing that outlives a test
    monkeypatch.setenv("KMP_BLOCKTIME", "0")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Put a training function in place that reports two moments, finishes, and notes what it was called with."""
    made: list[dict[str, Any]] = []

    def train(recipe: Recipe, **options: Any) -> FakeRun:
        made.append({"config": recipe.config, **options})
        options["on_progress"](Progress(phase="warm_start", step=1, steps=2, success=0.25, seconds_left=65))
        options["on_progress"](Progress(phase="train", step=1, steps=2, success=0.5, reward=0.4, kl=0.01, tokens_per_second=1234))
        return FakeRun("finished", options["out"], SUMMARY)

    install(monkeypatch, train)
    return made


def install(monkeypatch: pytest.MonkeyPatch, train: Callable[..., FakeRun]) -> None:
    replace(monkeypatch, "rosellm.roserlhf.trainer.run", train=train)


def replace(monkeypatch: pytest.MonkeyPatch, name: str, **contents: object) -> None:
    """Put a module with these contents in the place of a real one."""
    module = types.ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)


def failure(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    """Run a command that must fail with one line and without traceback; return that line without its prefix."""
    assert main(argv) == code
    err = capsys.readouterr().err
    assert err.startswith("roserlhf: error: ")
    assert err.count("\n") == 1
    return err.removeprefix("roserlhf: error: ").rstrip()


def test_help_is_one_screen_with_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  roserlhf ") and "COMMAND" not in line for line in lines) == 2


def test_no_command_is_help_and_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Train language-model agents")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"roserlhf {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["trian"], "unknown command trian; did you mean train?"),
        (
            ["train", "--recipe", "gropo"],
            f"recipe must be one of {', '.join(recipes.RECIPES)}, got 'gropo'; did you mean grpo?",
        ),
        (["train", "--collect.group-sz", "4"], "unknown option --collect.group-sz; did you mean --collect.group-size?"),
        (["train", "--group-size", "4"], "unknown option --group-size; did you mean --collect.group-size?"),
        (
            ["train", "--learning-rte", "1e-3"],
            "unknown option --learning-rte; did you mean --optimizer.learning-rate or --warm-start.learning-rate?",
        ),
        (["train", "--ot", "runs/x"], "unknown option --ot; did you mean --out?"),
        (["train", "--collect.group-size", "four"], "collect.group_size must be a valid integer, got 'four' (str)"),
        (["train", "--collect.group-size=2.5"], "collect.group_size must be a valid integer, got 2.5 (float)"),
        (["train", "--clip-low", "1.5"], "clip_low must be less than 1, got 1.5 (float)"),
        (["train", "--clip-high", "inf"], "clip_high must be a finite number, got inf (float)"),
        (["train", "--recipe", "gigpo", "--omega=1e400"], "omega must be a finite number, got inf (float)"),
        (
            ["train", "--recipe", "dapo", "--max-length=9", "--cache-length=10"],
            "cache_length must be at most max_length = 9, got 10",
        ),
        (["train", "--recipe="], f"recipe must be one of {', '.join(recipes.RECIPES)}, got ''"),
        (["train", "--seed", "-1"], "seed must be greater than or equal to 0, got -1 (int)"),
        (["train", "--seed"], "--seed must be followed by a value, got nothing"),
        (["train", "--out", "--dry-run"], "--out must be followed by a value, got --dry-run"),
        (["train", "--dry-run=yes"], "--dry-run takes no value, got 'yes'"),
        (["train", "--no-seed"], "unknown option --no-seed; did you mean --seed?"),
        (["train", "shop"], "arguments must be options only, got shop"),
        (
            ["train", "--recipe", "reinforce", "--clip-low", "0.1"],
            "--clip-low is an option of recipes grpo, dr_grpo, dapo, gspo, gspo_token, gigpo and gdpo; "
            "recipe reinforce does not use it",
        ),
        (["train", "--config", "none.toml"], "config file must be readable, got none.toml: No such file or directory"),
        (
            ["train", "--resume", "runs/x", "--seed", "1"],
            "--resume must stand alone, got --seed too; a resumed run keeps the options it was started with",
        ),
        (
            ["train", "--environment", "shopp"],
            f"environment must be one of {NAMES}, got 'shopp'; did you mean shop?",
        ),
        (["eval"], "arguments must be RUN_OR_CHECKPOINT, got none"),
        (["eval", "runs/x", "--tasks", "0"], "tasks must be greater than or equal to 1, got 0 (int)"),
    ],
)
def test_R73_a_wrong_call_is_one_line_and_exit_code_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failure(capsys, *argv) == message


def test_R73_a_wrong_key_in_a_run_file_is_found_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("learning_rte = 1e-4")
    assert failure(capsys, "train", "--config", str(file)).startswith(
        "unknown key learning_rte; did you mean optimizer.learning_rate or"
    )
    file.write_text('collect = { group_size = "4" }')
    assert failure(capsys, "train", "--config", str(file)) == "collect.group_size must be a valid integer, got '4' (str)"
    file.write_text("clip_low = 0.1")
    assert failure(capsys, "train", "--config", str(file), "--recipe", "reinforce") == (
        "clip_low is an option of recipes grpo, dr_grpo, dapo, gspo, gspo_token, gigpo and gdpo; recipe reinforce does not use it"
    )


def resolved(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    import tomllib

    assert main(["train", *argv, "--dry-run"]) == 0
    return tomllib.loads(capsys.readouterr().out)


def test_options_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('recipe = "reinforce"\nseed = 5\n[collect]\ntasks = 16\ngroup_size = 4\n')
    got = resolved(
        capsys, "--config", str(file), "--collect.group-size", "2", "--no-drop-uniform-groups", "--warm-start.learning-rate=2e-3"
    )
    assert (got["recipe"], got["seed"], got["drop_uniform_groups"]) == ("reinforce", 5, False)
    assert (got["collect"]["tasks"], got["collect"]["group_size"], got["collect"]["max_turns"]) == (16, 2, 6)
    assert got["warm_start"]["learning_rate"] == 0.002


def test_of_an_option_that_is_given_twice_the_last_one_counts(capsys: pytest.CaptureFixture[str]) -> None:
    got = resolved(capsys, "--recipe", "reinforce", "--seed=1", "--seed", "2", "--recipe=gspo")
    assert (got["recipe"], got["seed"]) == ("gspo", 2)


def test_underscores_and_told_booleans_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    got = resolved(capsys, "--collect.group_size", "2", "--drop-uniform-groups", "false")
    assert (got["collect"]["group_size"], got["drop_uniform_groups"]) == (2, False)
    assert resolved(capsys, "--drop-uniform-groups")["drop_uniform_groups"] is True


def test_text_stays_text_even_if_it_looks_like_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert resolved(capsys, "--environment", "7")["environment"] == "7"


def test_a_dry_run_can_be_fed_back_as_a_run_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--seed", "3", "--dry-run"]) == 0
    file = tmp_path / "again.toml"
    file.write_text(capsys.readouterr().out)
    assert recipes.options_to_config(resolved(capsys, "--config", str(file))) == recipes.GrpoConfig(seed=3)


def test_every_field_of_every_recipe_is_listed_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    from rosellm.roserlhf.config import fields_of

    for name, kind in recipes.RECIPES.items():
        assert main(["train", "--recipe", name, "--help"]) == 0
        shown = capsys.readouterr().out
        for key, about in fields_of(kind):
            assert f"--{key.replace('_', '-')}" in shown
            assert about.description, f"{name}.{key} has no description"


def test_help_names_the_short_options_and_the_other_defaults_of_a_pretrained_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--model X, --lora N and --env E are short for --model.source, --model.lora and --environment" in shown
    assert "a pretrained model has other defaults; --model X --dry-run shows them" in shown
    assert resolved(capsys, "--model", "X", "--lora", "4", "--env", "m:C")["model"]["source"] == "X"


def test_a_printed_run_file_keeps_a_blank_before_every_comment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--environment", "a_module_with_a_long_name:AndAClass", "--dry-run"]) == 0
    assert '"a_module_with_a_long_name:AndAClass" # a built-in name' in capsys.readouterr().out


def test_help_is_wrapped_to_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["train", "--help"]) == 0
        assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_train_runs_the_recipe_and_shows_before_and_after(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--collect.tasks", "4", "--steps", "9", "--warm-start.max-steps", "7"]
    assert main(["train", "--seed", "2", *options]) == 0
    (call,) = calls
    assert (call["config"].recipe, call["config"].seed, call["config"].collect.tasks) == ("grpo", 2, 4)
    assert (call["out"], call["resume"]) == (Path("runs/shop-grpo-2"), False)
    out = capsys.readouterr().out
    assert (
        "train shop by grpo, seed 2, on cpu: up to 7 steps of cloning demonstrations, then 9 steps of 4 tasks x 8 episodes" in out
    )
    assert "warm start 1/2  success 0.250  1 min 5 s left\n" in out  # a plain line: a test has no terminal
    assert "train 1/2  success 0.500  reward 0.400  KL 0.0100  1,234 tokens/s\n" in out
    # Wilson, n = 100: 0.25 -> (0.1755, 0.3430), 0.75 -> the mirror image (0.6570, 0.8245)
    assert "0.250  [0.175, 0.343]" in out
    assert "0.750  [0.657, 0.825]" in out
    assert "time: 2 min 5 s (warm start 50 s, rollout 40 s, learn 30 s, evaluate 5 s); peak memory 512 MiB" in out
    assert "tokens: 1,000 sampled, 900 trained, 100 left out (uniform group)" in out
    assert out.endswith("report: runs/shop-grpo-2/report.html\n")


def test_the_expected_time_grows_with_the_work_and_is_not_guessed_for_other_models() -> None:
    usual = expected_seconds(recipes.GrpoConfig())
    assert usual is not None
    assert 60 < usual < 900
    twice = expected_seconds(recipes.options_to_config({"steps": 2 * recipes.GrpoConfig().steps}))
    assert twice is not None
    assert usual < twice < 2 * usual
    assert expected_seconds(recipes.options_to_config({"model": {"layers": 6}})) is None
    assert expected_seconds(recipes.options_to_config({"device": "cuda"})) is None


def test_a_taken_folder_gets_a_number(tmp_path: Path) -> None:
    config = recipes.GrpoConfig(environment="my.module:Maze", seed=1)
    assert free_folder(config) == Path("runs/my.module-Maze-grpo-1")
    (tmp_path / "runs/my.module-Maze-grpo-1").mkdir(parents=True)
    (tmp_path / "runs/my.module-Maze-grpo-1-2").mkdir()
    assert free_folder(config) == Path("runs/my.module-Maze-grpo-1-3")


def test_resume_takes_the_options_of_the_run(
    calls: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "old"
    folder.mkdir(parents=True)
    (folder / "run.toml").write_text('recipe = "reinforce"\nseed = 9\n[about]\ntorch = "2.13.0"\n')
    assert main(["train", "--resume", str(folder)]) == 0
    assert (calls[0]["config"].recipe, calls[0]["config"].seed, calls[0]["out"], calls[0]["resume"]) == (
        "reinforce",
        9,
        folder,
        True,
    )
    (folder / "summary.json").write_text("{}")
    capsys.readouterr()
    assert main(["train", "--resume", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder} is finished; its report is {folder}/report.html\n"
    assert len(calls) == 1


def test_a_folder_without_a_run_cannot_be_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        failure(capsys, "train", "--resume", "runs/none", code=1)
        == "--resume must name a run folder, got runs/none, which holds no run.toml"
    )


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.RunFolderError("out must be a new folder, got runs/x"), 1, "out must be a new folder, got runs/x"),
        (errors.ConfigError("environment must be importable, got a:b"), 2, "environment must be importable, got a:b"),
        (errors.GroupError("none scored: \x1b]0;x\x07\u202e\nTraceback"), 1, "none scored: ⟨U+001B⟩]0;x⟨U+0007⟩⟨U+202E⟩↵Traceback"),
        (PermissionError(13, "Permission denied", "runs"), 1, "runs cannot be used: Permission denied"),
        (
            ModuleNotFoundError("No module named 'transformers'", name="transformers"),
            2,
            "this needs transformers, which is not installed; pip install 'rosellm[train]'",
        ),
    ],
)
def test_errors_of_a_run_are_one_line(
    error: Exception, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(recipe: Recipe, **options: Any) -> FakeRun:
        raise error

    install(monkeypatch, train)
    assert failure(capsys, "train", code=code) == line


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_its_place_in_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(recipe: Recipe, **options: Any) -> FakeRun:
        warnings.warn("events.db-wal\x1b[2J ends in the middle of a write", RuntimeWarning, stacklevel=1)
        return FakeRun("finished", options["out"], SUMMARY)

    install(monkeypatch, train)
    before = warnings.showwarning
    assert main(["train"]) == 0
    assert capsys.readouterr().err == "roserlhf: warning: events.db-wal⟨U+001B⟩[2J ends in the middle of a write\n"
    assert warnings.showwarning is before


def test_names_and_messages_are_neither_markup_nor_control_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(recipe: Recipe, **options: Any) -> FakeRun:
        options["on_progress"](Progress(phase="train", step=1, steps=2, message="[/red]skipped\x1b[2J\nand :smile:"))
        return FakeRun("finished", options["out"], SUMMARY)

    install(monkeypatch, train)
    assert main(["train", "--out", "[red]runs/[/x]"]) == 0
    out = capsys.readouterr().out
    assert "everything goes to [red]runs/[/x];" in out
    assert "[/red]skipped⟨U+001B⟩[2J\nand :smile:\n" in out
    assert out.endswith("report: [red]runs/[/x]/report.html\n")


def test_debug_shows_the_traceback_and_a_fault_of_the_program_is_never_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--sed", "1", "--debug"]) == 2
    assert capsys.readouterr().err.startswith("Traceback")

    def train(recipe: Recipe, **options: Any) -> FakeRun:
        raise ZeroDivisionError("a bug")

    install(monkeypatch, train)
    with pytest.raises(ZeroDivisionError):
        main(["train"])


def test_the_first_interrupt_asks_for_a_stop_and_says_how_to_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(recipe: Recipe, **options: Any) -> FakeRun:
        options["out"].mkdir(parents=True)
        (options["out"] / "run.toml").touch()
        assert not options["should_stop"]()
        os.kill(os.getpid(), signal.SIGINT)
        assert options["should_stop"]()
        return FakeRun("interrupted", options["out"], None)

    install(monkeypatch, train)
    assert main(["train", "--out", "my runs/a"]) == 130
    out = capsys.readouterr().out
    assert "finishing this step, then saving; Ctrl-C again stops at once\n" in out
    assert out.endswith("stopped; go on with: roserlhf train --resume 'my runs/a'\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_interrupt_stops_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def train(recipe: Recipe, **options: Any) -> FakeRun:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("not reached")

    install(monkeypatch, train)
    assert main(["train"]) == 130
    assert capsys.readouterr().out.endswith("stopped before anything was saved\n")


def test_the_wait_policy_is_set_before_torch_unless_the_user_chose_one() -> None:
    code = (
        "import os, sys; from rosellm.roserlhf.cli import main; main(['train', '--dry-run'])\n"
        "assert 'torch' not in sys.modules; print(os.environ['OMP_WAIT_POLICY'], os.environ['KMP_BLOCKTIME'])"
    )
    root = Path(__file__).parents[1]
    bare = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME")}
    for chosen, seen in (({}, "PASSIVE 0"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE 0")):
        done = subprocess.run([sys.executable, "-c", code], env=bare | chosen, cwd=root, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == seen


def test_eval_shows_success_pass_at_k_and_signal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {}

    def evaluate_run(folder: Path, **options: Any) -> dict[str, Any]:
        asked.update(options, folder=folder)
        half = {"low": 0.25, "high": 0.75}
        return {
            "tasks": 10,
            "samples": options["samples"],
            "greedy": {"n": 0, "success": None, "low": None, "high": None},
            "sampled": {"n": 20, "success": 0.5, **half},
            "pass_at_k": {1: {"value": 0.5, **half}, 2: {"value": 0.6, **half}},
            "groups": {"total": 10, "all_fail": 4, "all_pass": 3, "mixed": 2, "unscored": 1},
            "skipped": ["skipped: checkpoint 9 must be complete"],
        }

    replace(monkeypatch, "rosellm.roserlhf.trainer.evaluate", evaluate_run=evaluate_run)
    assert main(["eval", "runs/a", "--samples", "2", "--tasks", "10", "--temperature", "0.7"]) == 0
    assert asked == {"folder": Path("runs/a"), "samples": 2, "tasks": 10, "temperature": 0.7, "seed": 0}
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "skipped: checkpoint 9 must be complete" in rows
    assert "greedy none scored 0" in rows
    assert "sampled 0.500 [0.250, 0.750] 20" in rows
    assert "pass@2 0.600 [0.250, 0.750]" in rows
    assert "groups of 2: 2 of 10 would carry a signal (3 all pass, 4 all fail, 1 unscored)" in rows
    assert main(["eval", "runs/a", "--samples", "1"]) == 0
    assert "groups of" not in capsys.readouterr().out  # one episode is no group


def test_report_of_a_folder_without_a_run_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs/none" in failure(capsys, "report", "runs/none", code=1)


def test_numbers_that_were_not_measured_are_left_out() -> None:
    assert facts(Progress(phase="save", step=1, steps=1)) == ""
    assert facts(Progress(phase="train", step=1, steps=1, reward=0.0)) == "reward 0.000"


def test_durations_read_as_a_person_says_them() -> None:
    assert [duration(s) for s in (0.2, 59.6, 125, 4800)] == ["0 s", "1 min 0 s", "2 min 5 s", "1 h 20 min"]


def test_a_reader_that_has_seen_enough_is_no_error_to_talk_about() -> None:
    command = f"{sys.executable} -m rosellm.roserlhf.cli --help | true"
    where = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, env=where)
    assert ran.stderr == ""


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from explained_runs import name_of, trained_run

    run = trained_run(tmp_path / "run")
    assert main(["explain", str(run), name_of("a"), "--html", str(tmp_path / "no" / "page.html")]) == 1
    assert capsys.readouterr().err == f"roserlhf: error: {tmp_path}/no/page.html cannot be used: No such file or directory\n"
