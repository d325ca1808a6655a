"""One process of two: its rows' share of a gradient, over a denominator that all processes count together.

`python -m rosellm.roserlhf.audit.examination.rank FOLDER RANK` is what step 8 starts; it talks to the other over loopback and
through a file in FOLDER. Nothing here needs `transformers`, so it starts fast: the hidden states of the rows are given, and the
gradient is that of the output matrix.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rosellm.roserlhf import recipes
from rosellm.roserlhf.losses import policy_logprobs, step_denominator
from rosellm.roserlhf.trainer.recipe import Recipe

INPUT, OPTIONS, OUTPUT = "rows.safetensors", "options.json", "gradient.safetensors"
MICRO_BATCH = 2
WORLD_SIZE = 2


class OutputMatrix(nn.Module):
    """The last layer of a language model over hidden states that are given."""

    def __init__(self, hidden: Tensor, matrix: Tensor) -> None:
        super().__init__()
        self.hidden, self.matrix = hidden, matrix

    def forward(self, input_ids: Tensor, use_cache: bool) -> SimpleNamespace:
        """Return the logits."""
        return SimpleNamespace(logits=self.hidden @ self.matrix.T)


def share(
    tensors: Mapping[str, Tensor], recipe: Recipe, *, temperature: float, group: dist.ProcessGroup | None, micro_batch: int
) -> tuple[float, Tensor]:
    """Return loss and gradient of some rows, divided by the denominator of the whole group.

    Args:
        tensors: `hidden [B, T, H]`, `input_ids`, `loss_mask`, `behaviour`, `advantages` `[B, T]`, `matrix [V, H]`.
        recipe: its objective and the unit of its denominator.
        temperature: of sampling.
        group: the processes that share the step; None for this one alone.
        micro_batch: rows per forward pass.
    """
    matrix = tensors["matrix"].clone().requires_grad_()
    rows = [slice(i, i + micro_batch) for i in range(0, len(tensors["input_ids"]), micro_batch)]
    masks = [tensors["loss_mask"][row] for row in rows]
    denominator = step_denominator(masks, recipe.denominator_mode, group)
    loss, gradient = torch.zeros(()), torch.zeros_like(matrix)
    for row in rows:
        model = OutputMatrix(tensors["hidden"][row], matrix)
        current = policy_logprobs(model, tensors["input_ids"][row], temperature=temperature)
        columns = [tensors[name][row] for name in ("behaviour", "advantages", "loss_mask")]
        output = recipe.objective(current, *columns, denominator=denominator)
        loss += output.loss.detach()
        gradient += torch.autograd.grad(output.loss, matrix)[0]
    return float(loss), gradient


def run_rank(folder: Path, rank: int) -> None:
    """Compute this rank's share, add those of all, and let rank 0 write the sum."""
    torch.set_num_threads(1)
    options = json.loads((folder / OPTIONS).read_text(encoding="utf-8"))
    tensors = load_file(folder / f"{rank}.{INPUT}")
    recipe = recipes.recipe_from(recipes.options_to_config(options["config"]))
    timeout = timedelta(seconds=options["timeout"])
    meeting = (folder / "meeting").resolve().as_uri()
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORLD_SIZE, timeout=timeout)
    try:
        loss, gradient = share(tensors, recipe, temperature=options["temperature"], group=dist.group.WORLD, micro_batch=MICRO_BATCH)
        total = torch.tensor(loss)
        dist.all_reduce(total)
        dist.all_reduce(gradient)
        if rank == 0:
            save_file({"loss": total, "gradient": gradient}, folder / OUTPUT)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    run_rank(Path(sys.argv[1]), int(sys.argv[2]))
