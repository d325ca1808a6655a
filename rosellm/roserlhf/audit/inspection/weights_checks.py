"""Checkpoints, exported model and tokenizer: whole, finite, and those that the policy table and the records name."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.inspection.run_files import RunFiles
from rosellm.roserlhf.codec.hf import load_tokenizer, tokenizer_hash
from rosellm.roserlhf.errors import CheckpointError, RoseError
from rosellm.roserlhf.models.causal import merged_weights, weights_hash
from rosellm.roserlhf.trainer.checkpoint import Checkpoint, load_checkpoint
from rosellm.roserlhf.trainer.folder import CHECKPOINTS
from rosellm.roserlhf.trainer.model import restored_model

WHOLE, FIRST, EXPORTED, TOKENIZER = "checkpoints", "first checkpoint", "exported model", "tokenizer"
MODEL = "model/model.safetensors"


def checkpoints(run: RunFiles) -> Outcome:
    """Every checkpoint is as it was saved, finite, and holds the weights that the policy table names."""
    steps = run.checkpoint_steps
    if not steps:
        fix = "a run that was stopped before its first checkpoint begins anew"
        return Outcome(WHOLE, "info", f"there is no checkpoint in {CHECKPOINTS}", fix=fix)
    whole = []
    for step in steps:
        try:
            found = load_checkpoint(run.checkpoint(step))
        except CheckpointError as error:
            if not run.checkpoint(step).exists():  # a run that goes on removes those it needs no more
                continue
            fix = "remove it: resuming takes the one before" if step != steps[0] else "restore it from a copy"
            return Outcome(WHOLE, "failed", str(error), "the files were damaged or edited", fix)
        if (problem := _odd_checkpoint(run, found)) is not None:
            fix = "restore checkpoint and event log from one copy: they belong together"
            return Outcome(WHOLE, "failed", f"checkpoint {step}: {problem}", "it is of another run or another past", fix)
        whole.append(step)
    listed = ", ".join(map(str, whole))
    return Outcome(WHOLE, "passed", f"{len(whole)} whole and finite, their weights those of the policy table: steps {listed}")


def _odd_checkpoint(run: RunFiles, found: Checkpoint) -> str | None:
    for name, tensor in {**found.model, **found.optimizer}.items():
        if not bool(tensor.isfinite().all()):
            return f"{name} holds NaN or infinity"
    if found.step == 0 and not found.state.get("warm_start_finished", True):
        return None  # v0 is entered once the warm start is over
    known, own = run.content_hash(f"v{found.step}"), weights_hash(found.model)
    return None if known == own else f"its weights hash to {own:.12}, the policy table says {known or 'nothing':.12}"


def first_checkpoint(run: RunFiles) -> Outcome:
    """The checkpoint of step 0 is kept: from it every step can be replayed."""
    if not run.checkpoint_steps or 0 in run.checkpoint_steps:
        return Outcome(FIRST, "passed", "kept" if run.checkpoint_steps else "none is due yet")
    fix = "restore it from a copy; without it only steps after the oldest kept checkpoint can be replayed"
    return Outcome(FIRST, "failed", f"{CHECKPOINTS}/0 is missing, the oldest is {run.checkpoint_steps[0]}", "it was removed", fix)


def exported_model(run: RunFiles) -> Outcome:
    """The model to be used is the last policy, bit for bit; one with adapters merged, to rounding."""
    if not run.finished:
        return Outcome(EXPORTED, "skipped", "the run is not finished, so no model was exported yet")
    path, version = run.folder / MODEL, f"v{run.config.steps}"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        fix = "export the last checkpoint again, or restore the folder"
        return Outcome(EXPORTED, "failed", f"{MODEL} cannot be read: {error}", "the file is missing or damaged", fix)
    if run.config.model.lora:
        return _exported_merged(run, tensors)
    own, known = weights_hash(tensors), run.content_hash(version)
    if own != known:
        return _changed(f"{MODEL} hashes to {own:.12}, {version} is {known or 'unknown':.12}")
    return Outcome(EXPORTED, "passed", f"{MODEL} is {version}, {own:.12}")


def _exported_merged(run: RunFiles, tensors: dict[str, Tensor]) -> Outcome:
    """The policy table knows adapters; the exported model is base and adapters in one, so it is merged once more and compared."""
    step, source = run.config.steps, run.config.model.source
    try:
        expected = merged_weights(restored_model(run.config, load_checkpoint(run.checkpoint(step)), "cpu"))
    except (RoseError, OSError) as error:
        why = f"base {source} and the adapters of checkpoint {step} cannot be merged once more: {error}"
        return Outcome(EXPORTED, "skipped", why, fix="call from where the base is found under that name")
    if tensors.keys() != expected.keys():
        return _changed(f"{MODEL} and base {source} differ in {sorted(tensors.keys() ^ expected.keys())[:3]}")
    odd = next((name for name, tensor in expected.items() if not _equal_but_for_rounding(tensors[name], tensor)), None)
    if odd is not None:
        return _changed(f"{odd} in {MODEL} is not that of base {source} with the adapters of v{step} merged")
    return Outcome(EXPORTED, "passed", f"{MODEL} is base {source} with the adapters of v{step} merged, to rounding")


def _equal_but_for_rounding(one: Tensor, other: Tensor) -> bool:
    """The product of two adapters may be summed in another order on another machine."""
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-5, atol=1e-6)


def _changed(evidence: str) -> Outcome:
    return Outcome(EXPORTED, "failed", evidence, "the model was changed after the run", "use the last checkpoint instead")


def tokenizer(run: RunFiles) -> Outcome:
    """The tokenizer beside the records is the one whose ids they hold."""
    own = tokenizer_hash(load_tokenizer(run.folder / "tokenizer"))
    others = {record.tokenizer_hash for record in run.records.values()} - {own}
    if others:
        evidence = f"tokenizer/ hashes to {own:.12}, records were made with {sorted(others)[0]:.12}"
        return Outcome(
            TOKENIZER, "failed", evidence, "the tokenizer was changed after the run began", "restore tokenizer/ from a copy"
        )
    return Outcome(TOKENIZER, "passed", f"{own:.12}, the one of {len(run.records):,} records")
