"""The lines that the page shows for TRL, run in a real GRPOTrainer: a healthy run passes, a planted fault is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from rosellm.roserlhf import AuditError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
PAGE = Path(__file__).parents[1] / "docs" / "audit.md"
WORDS = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnop"]


def classes_of_the_page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours
    return names


def trainer(kind: Any, folder: Path, iterations: int) -> Any:
    """A random Llama of 20 words that is paid for different words."""
    from datasets import Dataset  # type: ignore[import-untyped]
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig  # type: ignore[attr-defined]

    vocabulary = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=vocabulary, **ends)
    torch.manual_seed(0)
    shape: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    special: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=64, **shape, **special))
    options: dict[str, Any] = {
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 8,
        "max_steps": 4,
        "num_iterations": iterations,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "bf16": False,
        "learning_rate": 1e-2,
    }
    return kind(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(set(text))) for text in completions],
        args=GRPOConfig(output_dir=str(folder), **options),
        train_dataset=Dataset.from_dict({"prompt": ["a b c", "d e", "f g h i", "a c"] * 4}),
        processing_class=tokenizer,
    )


@pytest.mark.parametrize(
    ("name", "iterations"),
    [
        ("AuditedGRPOTrainer", 1),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ("AuditedRatioTrainer", "AuditedGroupsTrainer")),
        *(pytest.param(f"Audited{kind}Trainer", 2, marks=pytest.mark.slow) for kind in ("GRPO", "Ratio", "Groups")),
    ],
)
def test_the_lines_of_the_page_pass_a_healthy_run(name: str, iterations: int, tmp_path: Path) -> None:
    assert trainer(classes_of_the_page()[name], tmp_path, iterations).train().global_step == 4


def test_the_lines_of_the_page_stop_a_run_with_a_fault(tmp_path: Path) -> None:
    audited: Any = classes_of_the_page()["AuditedGRPOTrainer"]

    def with_fault(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        inputs["advantages"] = inputs["advantages"] * torch.nan  # R17: a reward of NaN in every group
        return audited._compute_loss(self, model, inputs)

    with pytest.raises(AuditError, match="advantage_nonfinite: the advantage is not finite in 8 of 8 rows"):
        trainer(type("Faulty", (audited,), {"_compute_loss": with_fault}), tmp_path, 1).train()


@pytest.mark.slow
def test_prompts_in_another_order_than_trl_groups_them_stop_the_run(tmp_path: Path) -> None:
    audited: Any = classes_of_the_page()["AuditedGroupsTrainer"]

    def with_fault(self: Any, inputs: list[dict[str, Any]]) -> Any:
        return audited._generate_and_score_completions(self, inputs[::2] + inputs[1::2])

    with pytest.raises(AuditError, match="advantage_grouping: the advantages are relative to groups of 4 by position"):
        trainer(type("Faulty", (audited,), {"_generate_and_score_completions": with_fault}), tmp_path, 1).train()
