"""What only a GPU can show, in one run of at most six minutes: `make check-cuda` prints expected against seen.

Every objective, aggregation and advantage estimator under `torch.cuda.set_sync_debug_mode("error")` (nothing may wait for the
device) and against the CPU; the tests of advantages, losses and learner with the device in ROSERLHF_TEST_DEVICE; a short training.
Without a GPU it says so and exits 0; with one it exits 1 if anything differs.
"""

from __future__ import annotations

import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rosellm.roserlhf import advantages, checks, losses

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS, WIDTH, SEQUENCES_PER_ROW = 32, 256, 4
TESTS_TIMEOUT_S, TRAINING_TIMEOUT_S = 180, 120


@dataclass(frozen=True)
class Finding:
    """One line of the answer."""

    what: str
    expected: str
    seen: str
    passed: bool


@dataclass(frozen=True)
class Inputs:
    """One batch of log-probabilities and credit; several sequences are packed in each row."""

    current: Tensor
    old: Tensor
    advantages: Tensor
    mask: Tensor
    sequence_advantages: Tensor
    sequence_ids: Tensor
    rollout_ids: Tensor

    def to(self, device: str) -> Inputs:
        """Copy to a device; `current` becomes a leaf."""
        moved = Inputs(**{name: part.to(device) for name, part in vars(self).items()})
        moved.current.requires_grad_()
        return moved


def make_inputs() -> Inputs:
    """The same numbers on every machine, float64 so that devices can be compared tightly."""
    generator = torch.Generator().manual_seed(0)
    old = -3 * torch.rand(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    ids = torch.arange(WIDTH) * SEQUENCES_PER_ROW // WIDTH + SEQUENCES_PER_ROW * torch.arange(ROWS)[:, None]
    count = ROWS * SEQUENCES_PER_ROW
    return Inputs(
        current=old + 0.3 * torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64),
        old=old,
        advantages=torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64),
        mask=torch.rand(ROWS, WIDTH, generator=generator) < 0.7,
        sequence_advantages=torch.randn(count, generator=generator, dtype=torch.float64),
        sequence_ids=ids,
        rollout_ids=ids // 3,
    )


def objective_calls() -> Iterator[tuple[str, Callable[[Inputs], Any]]]:
    """Every policy loss under every aggregation, packed."""
    bounds: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.3}
    functions: dict[str, Callable[..., Any]] = {
        "reinforce": lambda b, **how: losses.reinforce_policy_loss(b.current, b.advantages, b.mask, old_logprobs=b.old, **how),
        "clipped": lambda b, **how: losses.clipped_policy_loss(b.current, b.old, b.advantages, b.mask, **how),
        "gspo": lambda b, **how: losses.gspo_policy_loss(b.current, b.old, b.sequence_advantages, b.mask, **bounds, **how),
        "gspo_token": lambda b, **how: losses.gspo_token_policy_loss(b.current, b.old, b.advantages, b.mask, **bounds, **how),
        "sapo": lambda b, **how: losses.sapo_policy_loss(b.current, b.old, b.advantages, b.mask, **how),
        "sao": lambda b, **how: losses.sao_policy_loss(b.current, b.old, b.advantages, b.mask, **bounds, **how),
    }
    for name, function in functions.items():
        for aggregation in ("token", "sequence_mean", "sequence_sum", "rollout", "horizon"):
            yield f"{name}, {aggregation}", functools.partial(_loss_and_gradient, function, aggregation)


def _loss_and_gradient(function: Callable[..., Any], aggregation: str, batch: Inputs) -> list[Tensor]:
    horizon = {"horizon": float(WIDTH)} if aggregation == "horizon" else {}
    out = function(batch, aggregation=aggregation, sequence_ids=batch.sequence_ids, rollout_ids=batch.rollout_ids, **horizon)
    return [out.loss.detach(), *torch.autograd.grad(out.loss, batch.current), *(p.mean() for p in out.partials.values())]


def estimator_calls() -> Iterator[tuple[str, Callable[[Inputs], Any]]]:
    """Every advantage estimator, with the log-probabilities as stand-ins for rewards and values."""
    ends: dict[str, Any] = {"gamma": 0.9, "bootstrap_value": 1.0}
    gae = {"gae_lambda": 0.95, **ends}
    yield "discounted_returns", lambda b: [advantages.discounted_returns(b.advantages, valid_mask=b.mask, **ends)]
    yield (
        "generalized_advantage_estimation",
        lambda b: advantages.generalized_advantage_estimation(b.advantages, b.old, valid_mask=b.mask, **gae),
    )
    yield (
        "generalized_advantage_estimation, packed",
        lambda b: advantages.generalized_advantage_estimation(
            b.advantages, b.old, gamma=0.9, gae_lambda=0.95, valid_mask=b.mask, episode_ids=b.sequence_ids
        ),
    )
    yield (
        "skip_observation_generalized_advantage_estimation",
        lambda b: advantages.skip_observation_generalized_advantage_estimation(
            b.advantages, b.old, b.old.roll(-1, -1), gamma=0.9, gae_lambda=0.95, valid_mask=b.mask
        ),
    )
    yield "leave_one_out_advantages", lambda b: [advantages.leave_one_out_advantages(b.advantages)]
    yield "group_standardized_advantages", lambda b: [advantages.group_standardized_advantages(b.advantages)]
    yield (
        "broadcast_turn_advantages",
        lambda b: [advantages.broadcast_turn_advantages(b.advantages[:, :4], b.sequence_ids % SEQUENCES_PER_ROW, b.mask)],
    )


def logprob_call(batch: Inputs) -> list[Tensor]:
    """Token log-probabilities from logits built on the device."""
    logits = batch.advantages[:, :, None] * torch.linspace(-3, 3, 100, dtype=torch.float64, device=batch.advantages.device)
    return [losses.gather_token_logprobs(logits, batch.sequence_ids % 100)]


def compare(name: str, call: Callable[[Inputs], Any], device: str) -> Finding:
    """Run once without a stall, then hold the result against the CPU's."""
    there = make_inputs().to(device)
    try:
        call(there)  # first use of a kernel may load a module, which waits
        if device != "cpu":
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
        seen = call(there)
    except RuntimeError as error:
        return Finding(name, "no wait for the device", str(error).splitlines()[0], passed=False)
    finally:
        if device != "cpu":
            torch.cuda.set_sync_debug_mode("default")
    checks.raise_deferred()
    wanted = call(make_inputs().to("cpu"))
    difference = max(_difference(a.cpu(), b) for a, b in zip(seen, wanted, strict=True))
    return Finding(name, "no wait, within 1e-9 of the CPU", f"no wait, {difference:.1e}", difference < 1e-9)


def _difference(a: Tensor, b: Tensor) -> float:
    """Largest absolute difference; infinite if only one of them is NaN somewhere."""
    both = a.isnan() & b.isnan()
    return float((a - b).abs().masked_fill(both, 0.0).nan_to_num(nan=math.inf).max())


def run_tests() -> Finding:
    """The tests of advantages, losses and learner, those that know a device on the GPU."""
    files = [
        str(f)
        for pattern in ("advantages", "losses", "objective_*", "learner*")
        for f in (ROOT / "tests").glob(f"test_roserlhf_{pattern}.py")
    ]
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "ROSERLHF_TEST_DEVICE": "cuda"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TESTS_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding("tests", "all pass", f"not finished after {TESTS_TIMEOUT_S} s", passed=False)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-2000:], sep="\n")
    return Finding("tests", "all pass", (done.stdout.strip().splitlines() or ["nothing"])[-1], done.returncode == 0)


def run_training(device: str) -> Finding:
    """A few training steps of the main job on the device, through the command line."""
    expected = "exit code 0, trained tokens, success as a number"
    start = "import sys; from rosellm.roserlhf.cli import main; sys.exit(main())"
    # too short to succeed at anything, so that groups without a signal are kept: every stage must run on the device
    short = {"steps": 3, "collect.tasks": 16, "evaluate.tasks": 64, "drop-uniform-groups": "false"}
    warm_start = {"demonstrations": 256, "max-steps": 40, "check-every": 40, "check-tasks": 32}
    options = {**short, **{f"warm-start.{name}": value for name, value in warm_start.items()}}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "run")
        command = [sys.executable, "-c", start, "train", "--device", device, "--out", str(out)]
        command += [f"--{name}={value}" for name, value in options.items()]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TRAINING_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return Finding("training", expected, f"not finished after {TRAINING_TIMEOUT_S} s", passed=False)
        if done.returncode:
            return Finding("training", expected, (done.stderr or done.stdout).strip()[-300:], passed=False)
        summary = json.loads((out / "summary.json").read_text())
    success, trained = summary["success_after"]["sampled"], summary["tokens"]["trained"]
    return Finding("training", expected, f"success {success}, {trained} trained tokens", trained > 0 and math.isfinite(success))


def main() -> int:
    """Run everything, print one line each, and say by the exit code whether all passed."""
    if not torch.cuda.is_available():
        print("check-cuda: skipped, torch sees no CUDA device here")
        return 0
    print(f"check-cuda: {torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    calls = [*objective_calls(), *estimator_calls(), ("gather_token_logprobs", logprob_call)]
    steps: list[Callable[[], Finding]] = [functools.partial(compare, name, call, "cuda") for name, call in calls]
    failed = 0
    steps += [run_tests, functools.partial(run_training, "cuda")]
    for step in steps:
        began = time.perf_counter()
        finding = step()
        failed += not finding.passed
        verdict = "ok    " if finding.passed else "FAILED"
        print(
            f"{verdict} {finding.what}: expected {finding.expected}; saw {finding.seen} ({time.perf_counter() - began:.1f} s)",
            flush=True,
        )
    print(f"check-cuda: {failed} failed" if failed else "check-cuda: all as expected")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
