"""`roserlhf export RUN --to hf`: what plain `transformers` and `peft` load computes what the run's checkpoint computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from loop_rows import same_bits
from loop_worlds import tiny
from peft import PeftModel
from pretrained_models import save_model, smollm2
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from rosellm.roserlhf import recipes
from rosellm.roserlhf.cli import main
from rosellm.roserlhf.config import dump_toml
from rosellm.roserlhf.models.adapters import adapter_parameters, with_adapters
from rosellm.roserlhf.models.causal import export_model, merged_weights, weights
from rosellm.roserlhf.models.pretrained import load_pretrained
from rosellm.roserlhf.trainer.checkpoint import Checkpoint, save_checkpoint
from rosellm.roserlhf.trainer.world import World

IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep this process as it is."""
    for name, value in {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}.items():
        monkeypatch.setenv(name, value)


def make_run(run: Path, *, source: str = "", rank: int = 0, steps: tuple[int, ...] = (3,)) -> Any:
    """Write what a run leaves on its way, with weights that differ from step to step; return the model as it is at the last."""
    config = recipes.grpo(model={"source": source, "lora": rank}).config if source else tiny().config
    if source:
        loaded = load_pretrained(source)
        model: Any = loaded.model
        tokenizer = loaded.tokenizer
        if rank:
            model = with_adapters(model, rank, seed=config.seed)
    else:
        world = World.build(config, "made")
        model, tokenizer = world.new_model(), world.tokenizer
    run.mkdir()
    (run / "run.toml").write_text(dump_toml(config))
    tokenizer.save_pretrained(run / "tokenizer")
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        with torch.no_grad():
            for parameter in adapter_parameters(model).values() if rank else model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
        save_checkpoint(run / "checkpoints", Checkpoint(step, weights(model), {}, {}))
    return model


def export(*arguments: str | Path) -> int:
    """Call the command."""
    return main(["export", *map(str, arguments), "--to", "hf"])


def logits(model: Any) -> torch.Tensor:
    """The model's word on a few tokens."""
    with torch.no_grad():
        return model(IDS).logits  # type: ignore[no-any-return]


def test_a_run_of_a_built_model_is_loaded_by_plain_transformers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = make_run(tmp_path / "run")
    assert export(tmp_path / "run") == 0
    assert capfd.readouterr() == (f"{tmp_path}/run/hf: the model of step 3\n", "")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "hf").eval()
    assert torch.equal(logits(again), logits(model))
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "run" / "hf")
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "1"}], add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids) == "<user>1<end><assistant>"


def test_a_trained_pretrained_model_is_exported_whole(tmp_path: Path) -> None:
    source = save_model(tmp_path / "base")
    model = make_run(tmp_path / "run", source=str(source))
    assert export(tmp_path / "run", "--out", tmp_path / "out") == 0
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert torch.equal(logits(again), logits(model))
    assert not torch.equal(logits(again), logits(load_pretrained(source).model))
    assert str(tmp_path) not in (tmp_path / "out" / "config.json").read_text()


def test_adapters_are_merged_unless_told_otherwise(tmp_path: Path) -> None:
    model = make_run(tmp_path / "run", source=str(save_model(tmp_path / "base")), rank=2)
    assert export(tmp_path / "run", "--out", tmp_path / "out") == 0
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert same_bits(weights(again), merged_weights(model))
    # (W + s B A) x and W x + s B (A x) are sums in another order
    assert 0 < (logits(again) - logits(model)).abs().max() < 1e-5


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # of peft, about transformers
def test_adapters_apart_are_loaded_by_peft_with_equal_logits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = save_model(tmp_path / "base")
    model = make_run(tmp_path / "run", source=str(base), rank=2)
    assert export(tmp_path / "run", "--out", tmp_path / "out", "--adapters", "apart") == 0
    assert capsys.readouterr().out == f"{tmp_path}/out: the adapters of step 3\n"
    plain = AutoModelForCausalLM.from_pretrained(base)
    again = PeftModel.from_pretrained(plain, tmp_path / "out").eval()
    assert torch.equal(logits(again), logits(model))
    assert not (tmp_path / "out" / "model.safetensors").exists()
    assert json.loads((tmp_path / "out" / "adapter_config.json").read_text())["base_model_name_or_path"] == str(base)
    with safe_open(tmp_path / "out" / "adapter_model.safetensors", "pt") as file:
        assert len(file.metadata()["base_sha256"]) == 64
    assert AutoTokenizer.from_pretrained(tmp_path / "out").chat_template


def test_a_step_may_be_chosen_by_option_or_by_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run", steps=(1, 2, 3))
    assert export(tmp_path / "run", "--step", "2", "--out", tmp_path / "two") == 0
    assert export(tmp_path / "run" / "checkpoints" / "2", "--out", tmp_path / "folder") == 0
    assert export(tmp_path / "run", "--out", tmp_path / "newest") == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in said] == ["2", "2", "3"]
    two, folder, newest = (logits(AutoModelForCausalLM.from_pretrained(tmp_path / name)) for name in ("two", "folder", "newest"))
    assert torch.equal(two, folder)
    assert not torch.equal(two, newest)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()
    assert export(tmp_path / "run", "--out", tmp_path / "out") == 1
    assert f"out must be a new or empty folder, got {tmp_path}/out; " in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]
    assert export(tmp_path / "run") == 0
    assert export(tmp_path / "run") == 1


def test_a_damaged_checkpoint_and_another_base_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run", source=str(save_model(tmp_path / "base")), rank=2)
    save_model(tmp_path / "other", seed=5)
    for path in (tmp_path / "base").iterdir():
        path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    assert export(tmp_path / "run") == 1
    assert "adapters must belong to the base " in capsys.readouterr().err
    (tmp_path / "base" / "config.json").unlink()
    assert export(tmp_path / "run") == 1
    assert "readable config.json" in capsys.readouterr().err
    (tmp_path / "run" / "checkpoints" / "3" / "model.safetensors").write_bytes(b"no")
    assert export(tmp_path / "run") == 1
    assert "hold a whole one" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").glob("*hf*")] == []
    assert [path.name for path in (tmp_path / "run").glob(".*")] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["RUN", "--to", "hf", "--adapters", "apart"], 2, "adapters must be merged for a run without adapters, got apart"),
        (["RUN", "--to", "hf", "--adapters", "both"], 2, "adapters must be"),
        (["RUN", "--to", "hf", "--overwrite"], 2, "--overwrite must stand with records, got it with --to hf"),
        (["RUN", "--to", "hf", "--phase", "train"], 2, "--phase must stand with records"),
        (["RUN", "--adapters", "apart"], 2, "--adapters must stand with --to hf, got it with --to parquet"),
        (["RUN", "--to", "hf", "--step", "7"], 1, "got no state.json"),
        (["RUN/checkpoints/3", "--to", "hf", "--step", "3"], 1, "RUN must be a run folder for a step to be chosen"),
        (["RUN/nothing", "--to", "hf"], 1, "must be given, got"),
    ],
)
def test_a_wrong_call_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    make_run(tmp_path / "run")
    assert main(["export", *(word.replace("RUN", str(tmp_path / "run")) for word in arguments)]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_smollm2_goes_out_as_it_came_in(tmp_path: Path) -> None:
    loaded = smollm2()
    export_model(loaded.model, tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.chat_template == loaded.tokenizer.chat_template
    assert tokenizer.get_vocab() == loaded.tokenizer.get_vocab()
    messages = [{"role": "user", "content": "What is 7 + 5?"}]
    ids = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)["input_ids"]
    with torch.no_grad():
        assert torch.equal(again(ids).logits, loaded.model(ids).logits)
