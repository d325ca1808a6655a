"""Code that chooses by what it should not see, or until a result pleases, and checks of services that test nothing -> `code` acts.

| target | detail |
|---|---|
| selects on held-out data | the file by which it chooses |
| shops for a result | what is kept of many seeds or models |
| empty health check | the check |
| looks ahead | what is taken from after the moment for which it is computed |
"""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.hints import Hints
from rosellm.roserlhf.guard.patterns import alternatives, passing, pattern

LONGEST = 20_000
_HELD = r"[\w./-]*\b(?:test|eval|evaluation|hold_?out|held_?out)[\w-]*\.(?:csv|jsonl?|parquet|tsv|npz|pkl|feather|arrow)\b"
_SEEDS = r"(?i)\bseed"
_MODELS = r"(?i)\bp[._]?val\w*|\bcoxph\(|\bp\.value|\$p\b|Pr\(>"
_HEALTH = r"(?i)health_?check|readinessProbe|livenessProbe|\breturn 200\b"
_KEPT_BEST = r"(?i)\bp\w*\s*<\s*best|<\s*best\$p|\bbest\$\w+"
_AHEAD = r"\bcenter\s*=\s*(?:True|TRUE|T\b)|\bshift\(\s*(?:periods\s*=\s*|n\s*=\s*)?-\s*\d|\bmode\s*=\s*[\"']centered"
HINTS = (_HELD, _SEEDS, _MODELS, _HEALTH, _KEPT_BEST, _AHEAD)
"""Without one of them nothing is found."""
_HINTS = Hints(*HINTS)
_READ = rf"(?m)^[ \t]*([A-Za-z_]\w*(?:, *[A-Za-z_]\w*){{0,3}})\s*(?:=|<-)\s*([^\n]*[\"']{_HELD}[\"'][^\n]*)$"
_WATCHED = r"\b(?:eval_set|valid_sets|validation_data|eval_dataset|watchlist|evals|valid_data)\s*=\s*[^\n]*\b(?:{})\b"
_BY_KEY = r"\b(?:min|max|sorted)\([^\n]*key\s*=\s*lambda[^\n]*\b(?:{})\b"
_SCORED = r"(?m)^[ \t]+[^\n#]*\b\w*(?:score|auc|rmse|mse|loss|acc\w*|f1|error|metric|predict|evaluate)\w*\([^\n]*\b(?:{})\b"
_KEEPS_BEST = (
    r"(?m)\bif\s+[^\n]{1,40}[<>]=?\s*\(?best\b|\bbest\w*\s*=\s*(?:min|max)\(\s*best|\bif\s+[^\n]{0,30}\bbest\b[^\n]{0,20}[<>]"
)
_TUNES = r"\bdef objective\b|\boptuna\.create_study|\.optimize\(|\bgp_minimize\(|\bdifferential_evolution\("
_OVER_SEEDS = (
    r"(?i)\bfor\s*\(?\s*(?:\w*seed\w*|sd|s|i)\s+in\b|\bseeds?\s*(?:<-|=)\s*(?:range\(|seq\(|\d+\s*:\s*\d+|c\(|\[)|=\$RANDOM\b"
    r"|\bfor\s+\w*seed\w*\s+in\b"
)
_SETS_SEED = r"(?i)\bset\.seed\(\s*[a-z]|\bseed\s*=\s*[a-z]\w*\b|--seed[ =]\"?\$|random_state\s*=\s*[a-z]"
_UNTIL = (
    r"\bwhich\.(?:min|max)\(|\bnp\.arg(?:min|max)\(|\bif\s*\([^\n]{1,60}[<>][^\n]{1,40}\)\s*\{?[^\n]*(?:\n[^\n]*){0,3}\bbreak\b"
    r"|\bp\w*\s*<\s*best|\bawk\b[^\n]*[<>][^\n]*&&[^\n]*>>|\bbest\$\w+"
)
_SIGNIFICANT = (
    r"(?i)\bp[._]?val\w*|\bp\.value|\bwhich\.min\(\s*p|\bci\w{0,8}[\[(]|\bp\s*<\s*best|\bbest\$p\b|\bsignific\w*|\bkeep\w*"
)
_OVER_MODELS = r"\bcombn\(|\bitertools\.(?:combinations|product)\(|\breformulate\(|\bpowerset\("
_OVER_SAMPLES = (
    r"(?is)\bfor\b.{0,400}?(?:\b(?:subset|filter|sample|combn|drop)\s*\(|\[\s*!|\.loc\[|\.query\(|\.isin\().{0,400}?"
    r"(?:\bp\w*\s*<\s*best|<\s*best\$p)"
)
"""Cases are left out, or chosen, in a loop that keeps the smallest p."""
_SEED_UNTIL = (
    r"(?i)\bwhile\s*\([^\n]{1,80}[<>]=?[^\n]{1,30}\)\s*\{?\s*(?:s|\w*seed\w*)\s*(?:<-|=|\+=)\s*[^\n]{0,12}\+?\s*1"
    r"|\bwhile\b[^\n]{1,80}[<>][^\n]{1,30}:\s*\n?\s*(?:s|\w*seed\w*)\s*\+=\s*1"
)
"""A seed is counted up until a condition on the result holds."""
_TO_PREDICT = (
    r"(?i)\b(?:y|\w*(?:target|label|truth|outcome|fwd|forward|next|future|ahead|realis|realiz)\w*)\b"
    r"|^\s*(?:#|print\b|plt\b|ax\b|assert\b)"
)
"""A line about what is to be predicted, or shown."""
_NOTHING = r"(?:true|exit 0|/bin/true|:|echo\b[^\"'\]\n]{0,40}|\[ 1 \]|test 1)"
_EMPTY = (
    r"(?i)\bhealth_?check:[ \t]*(?:#[^\n]*)?\n(?:[ \t]*#[^\n]*\n|[ \t]*(?:interval|timeout|retries"
    r"|start_period):[^\n]*\n){0,4}[ \t]*(?:test:[ \t]*(?:"
    rf"\[\s*[\"']?CMD(?:-SHELL)?[\"']?\s*,\s*[\"']?{_NOTHING}[\"']?\s*(?:,[^\]\n]*)?\]|[\"']?(?:CMD(?:-SHELL)? "
    rf")?{_NOTHING}[\"']?[ \t]*(?:\n|$)|\[\s*[\"']?NONE)"
    r"|disable:[ \t]*true)"
    rf"|\bHEALTHCHECK\s+(?:--\S+\s+)*(?:NONE\b|CMD\s+(?:\[\s*\")?{_NOTHING}\"?\s*(?:\]|\n|$))"
    rf"|\b(?:liveness|readiness|startup)Probe:\s*\n\s*exec:\s*\n\s*command:\s*(?:\[\s*|-\s*)[\"']?(?:/bin/)?true\b"
    r"|\bnginx\b(?s:.{0,400}?)\blocation / \{\s*return 200\b[^}]{0,24}\}"
)


def acts_of_choosing(text: str) -> Iterator[Act]:
    """Yield by what a program chooses, and what it leaves of a check of a service.

    Example:
        >>> code = "ev = read_csv('data/eval.csv')\\nm.fit(X, y, eval_set=[(ev[f], ev.y)])"
        >>> [(act.target, act.detail) for act in acts_of_choosing(code)]
        [('selects on held-out data', 'data/eval.csv')]
        >>> list(acts_of_choosing("ev = read_csv('data/eval.csv')\\nprint(score(m, ev))"))
        []
    """
    part = text[:LONGEST]
    held = _HINTS.found(part)
    if not held:
        return
    if 0 in held and (path := _chosen_by(part)):
        yield Act("code", "selects on held-out data", path[:120], span=(0, len(part)))
    many = 1 in held and pattern(_OVER_SEEDS).search(part) and pattern(_SETS_SEED).search(part)
    many = many or (2 in held and pattern(_OVER_MODELS).search(part))
    many = many or (4 in held and 2 in held and pattern(_OVER_SAMPLES).search(part))
    many = many or (1 in held and pattern(_SEED_UNTIL).search(part))
    until = pattern(_UNTIL).search(part) or (pattern(_SEED_UNTIL).search(part) if many else None)
    if many and pattern(_SIGNIFICANT).search(part) and (found := until):
        yield Act("code", "shops for a result", " ".join(found.group(0).split())[:120], span=found.span())
    if 5 in held:
        lines = (one for one in part.split("\n") if pattern(_AHEAD).search(one) and not pattern(_TO_PREDICT).search(one))
        if (line := next(lines, "")) != "":
            yield Act("code", "looks ahead", line.strip()[:120], span=(0, len(part)))
    if 3 in held and (found := pattern(_EMPTY).search(part)):
        yield Act("code", "empty health check", " ".join(found.group(0).split())[:120], span=found.span())


def _chosen_by(text: str) -> str:
    """Return the held-out file by which a program chooses a model, a seed or a moment to stop."""
    names: dict[str, str] = {}
    for found in pattern(_READ).finditer(text):
        left, right = [one.strip() for one in found.group(1).split(",")], found.group(2)
        paths = pattern(r"[\"']([\w./-]+\.\w{2,8})[\"']").findall(right)
        for place, path in enumerate(paths):
            if pattern(_HELD).search(path):
                names[left[place] if len(left) == len(paths) else left[0]] = path
    if pattern(_TUNES).search(text) and not names and (found := pattern(_HELD).search(text)):
        return str(found.group(0)) if pattern(r"(?s)\bdef objective\b.{0,1500}?" + _HELD).search(text) else ""
    if not names:
        return ""
    first = next(iter(names.values()))
    for found in pattern(r"(?m)^[ \t]*([A-Za-z_]\w*(?:, *[A-Za-z_]\w*){0,3})\s*=\s*([^=\n][^\n]*)$").finditer(text):
        if any(passing(rf"\b{escaped(name)}\b").search(found.group(2)) for name in list(names)[:8]):
            names.update(dict.fromkeys((one.strip() for one in found.group(1).split(",")), first))
    words = alternatives(escaped(name) for name in list(names)[:16])
    if any(passing(form.replace("{}", words)).search(text) for form in (_WATCHED, _BY_KEY)):
        return first
    loops = pattern(r"\bfor\b|\bwhile\b").search(text) and pattern(_KEEPS_BEST).search(text)
    return first if loops and passing(_SCORED.replace("{}", words)).search(text) else ""
