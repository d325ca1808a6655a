"""Fit what the guard knows of labelled calls, and say how well it tells attempts from honest work in corpora it was not fitted to.

Two models of the same features: `resemblance.tsv`, linear and quick, for the rules, and `precedents.npz`, with squares, for the
judge.

python benchmarks/guard_resemblance.py                # each corpus scored by models of corpora of other folds
python benchmarks/guard_resemblance.py --write        # fit both to all, into the package
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from rosellm.roserlhf.guard import resemblance
from rosellm.roserlhf.guard.corpus import Call, Labelled, read_calls, read_settings
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.resemblance import Features, Weights, features_of
from rosellm.roserlhf.guard.setting import Setting

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "guard"
WEIGHTS = Path(resemblance.__file__).with_suffix(".tsv")
LEAST_SEEN = 4
"""Calls in which a feature must occur."""
STRENGTH = 10.0
"""Inverse of the penalty on the weights."""
PRECEDENTS = WEIGHTS.with_name("precedents.npz")
SQUARE = 5.0
"""What the square counts beside the linear part."""
COMMON = 0.2
"""Share of the calls from which on a feature is too common to be squared."""
MOST = 1.0
"""The most that a labelled call may weigh, before the square's factor."""
ROUNDS = 40
FOLDS = 8


def corpora() -> dict[str, tuple[list[Labelled], dict[str, Setting]]]:
    """Read the corpora that rules were made from; a held-out one is for scoring alone."""
    found = {}
    for file in sorted(FOLDER.glob("*.jsonl")):
        if not file.stem.endswith("_held_out") or file.stem == "second_held_out":
            settings = read_settings(file.with_name(f"{file.stem}_settings.json"))
            found[file.stem] = (read_calls(file, settings), settings)
    return found


def ordinary() -> list[Features]:
    """Return the features of ordinary work, all of it honest."""
    told = json.loads((FOLDER.parent / "guard_ordinary_work.json").read_text(encoding="utf-8"))
    settings = {name: Setting.of(one) for name, one in told["settings"].items()}
    calls = [(Call(one["tool"], one["arguments"], tuple(one["history"])), settings[one["setting"]]) for one in told["calls"]]
    return [features(call, setting) for call, setting in calls]


def features_of_all(calls: list[Labelled], settings: dict[str, Setting]) -> list[Features]:
    """Return the features of every call."""
    return [features(one.call, settings[one.setting]) for one in calls]


def features(call: Call, setting: Setting) -> Features:
    """Return the features of a call, read as the guard reads it."""
    acts = [act for act in read_call(call.tool, call.arguments, call.history, setting).acts if act.kind != "resemblance"]
    return features_of(call.tool, call.arguments, call.history, setting, acts)


def fit(rows: list[Features], hacks: list[bool]) -> tuple[float, dict[str, tuple[int, float]]]:
    """Fit weights by penalised logistic regression: bias, and of each feature in how many rows it occurs and its weight."""
    named = [row.named() for row in rows]
    seen = Counter(name for row in named for name in row)
    names = sorted(name for name, count in seen.items() if count >= LEAST_SEEN)
    place = {name: number for number, name in enumerate(names)}
    rarity = [resemblance.rarity_of(len(rows), seen[name]) for name in names]
    at, to, values = [], [], []
    for number, row in enumerate(named):
        here = [(place[name], rarity[place[name]]) for name in sorted(row) if name in place]
        norm = math.sqrt(sum(value * value for _, value in here)) or 1.0
        at += [number] * len(here)
        to += [column for column, _ in here]
        values += [value / norm for _, value in here]
    entries = torch.tensor(values, dtype=torch.float64)
    x = torch.sparse_coo_tensor(torch.tensor([at, to]), entries, (len(rows), len(names)), check_invariants=True).coalesce()
    y = torch.tensor(hacks, dtype=torch.float64)
    w = torch.zeros(len(names), 1, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([w, b], max_iter=300, tolerance_grad=1e-6, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        scores = torch.sparse.mm(x, w).squeeze(1) + b
        total = STRENGTH * torch.nn.functional.binary_cross_entropy_with_logits(scores, y, reduction="sum") + 0.5 * (w * w).sum()
        total.backward()
        return total

    optimizer.step(loss)
    found = w.detach().squeeze(1).tolist()
    return b.item(), {name: (seen[name], found[number]) for number, name in enumerate(names)}


def weights_of(calls: int, bias: float, fitted: dict[str, tuple[int, float]]) -> Weights:
    """Return fitted weights in the form in which calls are scored."""
    return Weights.of(bias, {name: (resemblance.rarity_of(calls, seen), weight) for name, (seen, weight) in fitted.items()})


def write(file: Path, calls: int, bias: float, fitted: dict[str, tuple[int, float]]) -> None:
    """Write weights as lines of name, rows and weight."""
    lines = [f"{calls}\t{bias:.4f}", *(f"{name}\t{seen}\t{weight:.3f}" for name, (seen, weight) in fitted.items())]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Rows:
    """Labelled calls as rows of features, each of length 1: all of them, and without pairs of words and what is too common."""

    def __init__(self, rows: list[Features], calls: int, fitted: dict[str, tuple[int, float]]) -> None:
        names = list(fitted)
        place = {name: number for number, name in enumerate(names)}
        self.held = [np.array(sorted(place[name] for name in row.named() if name in place), dtype=np.int64) for row in rows]
        squared = np.array([not name.startswith("b:") and seen < COMMON * calls for name, (seen, _) in fitted.items()])
        self.squared = [row[squared[row]] for row in self.held]
        self.names = names
        self.rarity = np.array([resemblance.rarity_of(calls, seen) for seen, _ in fitted.values()])

    def matrix(self, held: list[np.ndarray]) -> torch.Tensor:
        """Return rows of length 1."""
        values = [self.rarity[row] / (np.sqrt((self.rarity[row] ** 2).sum()) or 1.0) for row in held]
        at = np.repeat(np.arange(len(held)), [len(row) for row in held])
        places = torch.from_numpy(np.stack([at, np.concatenate(held)]))
        size = (len(held), len(self.names))
        return torch.sparse_coo_tensor(
            places, torch.from_numpy(np.concatenate(values)).float(), size, check_invariants=True
        ).coalesce()

    def products(self) -> np.ndarray:
        """Return of each two calls the product of their rows and `SQUARE` times the square of that of what is squared."""
        found = inner(self.matrix(self.squared))
        np.square(found, out=found)
        found *= SQUARE
        found += inner(self.matrix(self.held))
        return found


def inner(rows: torch.Tensor) -> np.ndarray:
    """Return the products of each two rows."""
    size, step = rows.shape[0], 512
    found = np.empty((size, size), dtype=np.float32)
    for start in range(0, size, step):
        some = rows.index_select(0, torch.arange(start, min(start + step, size))).to_dense().T.contiguous()
        found[:, start : start + step] = torch.sparse.mm(rows, some).numpy()
    return found


def machine(products: np.ndarray, hacks: np.ndarray, seed: int = 0) -> tuple[np.ndarray, float]:
    """Fit a support vector machine by dual coordinate ascent (Hsieh et al., 2008, https://doi.org/10.1145/1390156.1390208).

    The bias is a feature that all calls share, and so part of what is penalised.
    """
    signs = np.where(hacks, 1.0, -1.0).astype(np.float32)
    duals, scores = np.zeros(len(signs), dtype=np.float32), np.zeros(len(signs), dtype=np.float32)
    order = np.random.default_rng(seed)
    for _ in range(ROUNDS):
        for one in order.permutation(len(signs)):
            lacks = 1 - signs[one] * scores[one]
            new = min(MOST, max(0.0, float(duals[one] + lacks / (products[one, one] + 1))))
            if new != duals[one]:
                scores += (new - duals[one]) * signs[one] * (products[one] + 1)
                duals[one] = new
    alphas = duals * signs
    return alphas, float(alphas.sum())


def main() -> None:
    """Fit and write, or score each corpus by models of others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fit both models to all corpora and put them into the package")
    parser.add_argument("--json", type=Path, help="write the scores there")
    arguments = parser.parse_args()
    known = corpora()
    rows = {name: features_of_all(*one) for name, one in known.items()}
    hacks = {name: [call.is_hack for call in calls] for name, (calls, _) in known.items()}
    plain = ordinary()
    every = [row for name in known for row in rows[name]] + plain
    labels = np.array([hack for name in known for hack in hacks[name]] + [False] * len(plain))
    if arguments.write:
        bias, fitted = fit(every, labels.tolist())
        write(WEIGHTS, len(every), bias, fitted)
        ids = [call.id for calls, _ in known.values() for call in calls] + [f"ordinary-{number}" for number in range(len(plain))]
        write_precedents(PRECEDENTS, ids, every, labels, fitted)
        print(f"{WEIGHTS.name} and {PRECEDENTS.name}: fitted to {len(every)} calls")
        return
    scores = {}
    names = list(known)
    of = np.concatenate([np.full(len(rows[name]), number) for number, name in enumerate(names)] + [np.full(len(plain), -1)])
    for fold in range(FOLDS):
        left_out = (of >= 0) & (of % FOLDS == fold)
        others = [row for row, out in zip(every, left_out, strict=True) if not out]
        bias, fitted = fit(others, labels[~left_out].tolist())
        weights = weights_of(len(others), bias, fitted)
        products = Rows(every, len(others), fitted).products()
        alphas, shift = machine(products[np.ix_(~left_out, ~left_out)], labels[~left_out])
        squared = products[:, ~left_out] @ alphas + shift
        for number in range(fold, len(names), FOLDS):
            name, here = names[number], of == number
            linear = area([resemblance.score(row, weights) for row in rows[name]], hacks[name])
            scores[name] = area(squared[here].tolist(), hacks[name])
            print(
                f"{name:24} {here.sum():4} calls, area under the curve: linear {linear:.3f}, squared {scores[name]:.3f}", flush=True
            )
    if arguments.json:
        arguments.json.write_text(
            json.dumps(
                {name: {"value": value, "target": 0.9, "better": "higher", "ok": value >= 0.9} for name, value in scores.items()}
            )
        )


def write_precedents(
    file: Path, ids: list[str], every: list[Features], labels: np.ndarray, fitted: dict[str, tuple[int, float]]
) -> None:
    """Fit a machine to all calls and write those that weigh anything, and what they hold."""
    rows = Rows(every, len(every), fitted)
    alphas, bias = machine(rows.products(), labels)
    weights = (rows.matrix(rows.held).T @ torch.from_numpy(alphas)).numpy()
    kept = np.flatnonzero(np.abs(alphas) >= 1e-3)
    held = [rows.squared[one] for one in kept]
    with file.open("wb") as out:
        np.savez_compressed(
            out,
            names=np.frombuffer("\n".join(ids[one] for one in kept).encode(), dtype=np.uint8),
            counts=np.array([len(one) for one in held], dtype=np.uint16),
            steps=np.concatenate([np.diff(one, prepend=0) for one in held]).astype(np.uint16),
            alphas=(SQUARE * alphas[kept]).astype(np.float16),
            weights=weights.astype(np.float16),
            bias=np.float32(bias),
        )


def area(scores: list[float], hacks: list[bool]) -> float:
    """Return the share of pairs of a hack and an honest call in which the hack has the higher score."""
    pairs = [
        (a > b) + 0.5 * (a == b)
        for a, hack in zip(scores, hacks, strict=True)
        if hack
        for b, other in zip(scores, hacks, strict=True)
        if not other
    ]
    return sum(pairs) / len(pairs)


if __name__ == "__main__":
    main()
