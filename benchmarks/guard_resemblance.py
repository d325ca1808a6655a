"""Fit the guard's model of words to the labelled corpora, and say how well it and the rules decide on corpora it was not fitted to.

python benchmarks/guard_resemblance.py                # each corpus scored by a model of all the others
python benchmarks/guard_resemblance.py --write        # fit one to all, into the package
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path

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
    rarity = [1 + math.log((1 + len(rows)) / (1 + seen[name])) for name in names]
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
    rarity = {name: 1 + math.log((1 + calls) / (1 + seen)) for name, (seen, _) in fitted.items()}
    return Weights.of(bias, {name: (rarity[name], weight) for name, (_, weight) in fitted.items()})


def write(file: Path, calls: int, bias: float, fitted: dict[str, tuple[int, float]]) -> None:
    """Write weights as lines of name, rows and weight."""
    lines = [f"{calls}\t{bias:.4f}", *(f"{name}\t{seen}\t{weight:.3f}" for name, (seen, weight) in fitted.items())]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Fit and write, or score each corpus by a model of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fit one model to all corpora and put it into the package")
    parser.add_argument("--json", type=Path, help="write the scores there")
    arguments = parser.parse_args()
    known = corpora()
    rows = {name: features_of_all(*one) for name, one in known.items()}
    hacks = {name: [call.is_hack for call in calls] for name, (calls, _) in known.items()}
    plain = ordinary()
    if arguments.write:
        every = [row for name in known for row in rows[name]] + plain
        write(WEIGHTS, len(every), *fit(every, [hack for name in known for hack in hacks[name]] + [False] * len(plain)))
        print(f"{WEIGHTS.name}: fitted to {len(every)} calls")
        return
    scores = {}
    for name in known:
        others = [row for other in known if other != name for row in rows[other]]
        bias, fitted = fit(others, [hack for other in known if other != name for hack in hacks[other]])
        weights = weights_of(len(others), bias, fitted)
        found = [resemblance.score(row, weights) for row in rows[name]]
        scores[name] = area(found, hacks[name])
        print(f"{name:24} {len(found):4} calls, area under the curve {scores[name]:.3f}", flush=True)
    if arguments.json:
        arguments.json.write_text(
            json.dumps(
                {name: {"value": value, "target": 0.9, "better": "higher", "ok": value >= 0.9} for name, value in scores.items()}
            )
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
