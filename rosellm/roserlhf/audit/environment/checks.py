"""The checks of an environment, one function each: `Subject -> Outcome`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rosellm.roserlhf.audit.diagnosis import Outcome
from rosellm.roserlhf.audit.environment import answers, moves
from rosellm.roserlhf.audit.environment.subject import BAD, IMPORTING, Played, Subject, reason
from rosellm.roserlhf.errors import VerifierError

DECLARED, TASKS, SPLITS, GOLD = "environment", "tasks", "both sides of the split", "the right answer pays"
EMPTY, RANDOM, REPLIES, ARGUMENTS = "empty answers", "random answers", "hostile replies", "hostile arguments"
SCORE, RNG, OUTPUT = "score", "global random state", "output"
SNAPSHOT, REPLAY = "snapshot and restore", "replay"
DRAWN, GOLD_TASKS, SHOWN = 32, 12, 12
REPEATED = 4
"""Tasks on which episodes are repeated."""
_SLOW = 60.0
"""Seconds to draw tasks: both sides of a split may take 10,000 draws."""

_CAUSES = {
    "executed": "the environment runs text of the policy as a program: eval, exec, a shell, or a parser that evaluates",
    "hung": "it computes with whatever the policy wrote, without a bound",
    "crashed": "text of the policy brings the process down",
    "raised": "an exception on what a policy may well say makes the episode a failure of the infrastructure",
    "paid": "the verifier pays for an answer that is not right",
}
_FIXES = {
    "executed": "read answers with a parser that only reads (json, numeric, ast.literal_eval), or run them in the sandbox",
    "hung": "bound the length before computing; a verifier of somebody else's goes into isolated(…, seconds=…)",
    "crashed": "bound length and depth before parsing; isolated(…) confines a library that cannot be bounded",
    "raised": "answer in words what cannot be done, and score it as wrong",
    "paid": "compare with the right answer by exact, numeric or boxed_math, after checking that there is an answer",
}


def declared(subject: Subject) -> Outcome:
    """It says what it promises and what is trained."""
    about = subject.about
    promises = [name for name in ("deterministic", "snapshot", "replayable") if about[name]]
    weights = ", ".join(f"{name} × {weight:g}" for name, weight in about["weights"].items())
    evidence = f"{about['name']}: {', '.join(promises) or 'promises nothing'}; trains {weights}; success is {about['success']} ≥ 1"
    return Outcome(DECLARED, "passed", evidence)


def drawn(subject: Subject) -> Outcome:
    """The same stream gives the same tasks, in this process and in another; payloads are JSON values."""
    try:
        here, there = (
            subject.ask("draw", doing="make_task", count=DRAWN, elsewhere=elsewhere, seconds=_SLOW) for elsewhere in (False, True)
        )
    except VerifierError as error:
        cause = "make_task raised, or drew what is no JSON value"
        return Outcome(TASKS, "failed", reason(error), cause, "draw JSON values only")
    fix = "take all chance from rng; sort sets before choosing from them"
    if (place := _difference(here["first"], here["again"])) is not None:
        evidence = f"task {place} of {DRAWN} is another when it is drawn again from the same rng"
        return Outcome(TASKS, "failed", evidence, "chance from elsewhere, or a state that draws change", fix)
    if (place := _difference(here["first"], there["first"])) is not None:
        evidence = f"task {place} of {DRAWN} is another in a second process, whose hashes of strings differ"
        return Outcome(TASKS, "failed", evidence, "an order that depends on hashes: a set, or hash()", fix)
    return Outcome(TASKS, "passed", f"{DRAWN} tasks of JSON values, {len(set(here['first']))} distinct, the same in two processes")


def _difference(one: Sequence[str], other: Sequence[str]) -> int | None:
    return next((place for place, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)


def splits(subject: Subject) -> Outcome:
    """There are tasks to train on and tasks to be held out."""
    found = {}
    for split in ("train", "held_out"):
        try:
            found[split] = subject.ask("split", doing=f"drawing {split} tasks", split=split, count=DRAWN, seconds=_SLOW)["distinct"]
        except VerifierError as error:
            evidence = reason(error)
            return Outcome(SPLITS, "failed", evidence, "make_task draws from too few tasks", "let it draw from more")
    evidence = f"{found['train']} distinct of {DRAWN} drawn to train on, {found['held_out']} of {DRAWN} held out"
    return Outcome(SPLITS, "warning" if min(found.values()) == 1 else "passed", evidence)


def gold(subject: Subject) -> Outcome:
    """What the environment demonstrates is paid."""
    if not subject.about["demonstrates"]:
        return Outcome(
            GOLD,
            "skipped",
            "it demonstrates nothing: that its verifier ever pays is not known",
            fix="define demonstrate(), or gold() where only the solution is known",
        )
    found = [subject.play("the demonstration", task, None) for task in range(GOLD_TASKS)]
    wrong = [one for one in found if one.fate != "paid"]
    if not wrong:
        return Outcome(GOLD, "passed", f"{len(found)} demonstrations without a fault: all paid")
    evidence = f"{len(wrong)} of {len(found)} demonstrations without a fault were not paid; the first: {_told(wrong[0])}"
    cause = "the verifier does not accept the right answer as the script writes it, or the script errs"
    lines = tuple(wrong[0].found.get("lines", ())[:SHOWN])
    return Outcome(GOLD, "failed", evidence, cause, "play one demonstration and look at what score() compares", lines)


def empty(subject: Subject) -> Outcome:
    """Saying nothing is not paid."""
    nothing = subject.play("no action at all", 0, [])
    return _outcome(EMPTY, [nothing, *subject.attempts(moves.replies(answers.empty_answers()))])


def at_random(subject: Subject) -> Outcome:
    """Saying anything is not paid."""
    return _outcome(RANDOM, subject.attempts(moves.replies(answers.random_answers())))


def hostile_replies(subject: Subject) -> Outcome:
    """Replies that exploit a scorer neither execute, hang, raise nor are paid."""
    hostile = answers.hostile_answers(str(subject.canary))
    return _outcome(REPLIES, subject.attempts([*moves.replies(hostile), *moves.echoes()]))


def hostile_arguments(subject: Subject) -> Outcome:
    """The same as arguments of every tool."""
    told = subject.ask("schemas", doing="listing the tools", task=0, seconds=_SLOW)
    spoken = [*answers.empty_answers(), *answers.random_answers(2), *answers.hostile_answers(str(subject.canary))]
    outcome = _outcome(ARGUMENTS, subject.attempts(moves.calls(told["schemas"], spoken)))
    locked = told["irreversible"]
    if not locked:
        return outcome
    evidence = f"{outcome.evidence}; not executed, since they are irreversible and nothing confirms them: {', '.join(locked)}"
    return Outcome(outcome.name, outcome.verdict, evidence, outcome.cause, outcome.fix, outcome.lines)


def _outcome(name: str, found: Sequence[Played]) -> Outcome:
    counts = Counter(one.fate for one in found)
    for fate in BAD:
        bad = [one for one in found if one.fate == fate]
        if bad:
            others = ", ".join(f"{counts[other]} {other}" for other in BAD if counts[other])
            evidence = f"{others} of {len(found)} episodes; the first: {_told(bad[0])}"
            names = dict.fromkeys(f"{one.fate}: {one.name}" for one in found if one.fate in BAD)
            return Outcome(name, "failed", evidence, _CAUSES[fate], _FIXES[fate], tuple(names)[:SHOWN])
    if counts["unscored"]:
        one = next(one for one in found if one.fate == "unscored")
        evidence = f"{counts['unscored']} of {len(found)} episodes were unscored; the first: {_told(one)}"
        cause = "by such an answer a policy leaves its group instead of losing in it"
        return Outcome(name, "warning", evidence, cause, "score what can be seen to be no answer as wrong")
    return Outcome(name, "passed", f"{len(found)} episodes: none executed, hung, raised or was paid")


def _told(one: Played) -> str:
    return f"{one.name} on task {one.task}: {one.detail or 'not paid'}"


def score(subject: Subject) -> Outcome:
    """Scores have the promised names, are finite or None, and the same when they are asked for again."""
    scored = [one for one in subject.played if one.found and one.found["raised"] is None]
    if not scored:
        return Outcome(SCORE, "skipped", "no episode was scored")
    if odd := [one for one in scored if one.found["complaint"]]:
        evidence = f"after {odd[0].name}: {odd[0].found['complaint']} ({len(odd)} of {len(scored)} episodes)"
        return Outcome(
            SCORE, "failed", evidence, "score() returns what training cannot use", "finite numbers, or None for unscored"
        )
    if changed := [one for one in scored if not one.found["again"]]:
        evidence = f"after {changed[0].name}, a second score() says something else ({len(changed)} of {len(scored)} episodes)"
        return Outcome(SCORE, "failed", evidence, "chance in score(), or a state that scoring changes", "score what happened, once")
    return Outcome(SCORE, "passed", f"{len(scored)} episodes scored twice: the same finite numbers under the promised names")


def random_state(subject: Subject) -> Outcome:
    """The global random state is not touched."""
    if not subject.disturbed:
        return Outcome(RNG, "passed", "as it was after everything that was done")
    if all(doing == IMPORTING for doing, _ in subject.disturbed):
        libraries = ", ".join(sorted({library for _, library in subject.disturbed}))
        evidence = f"importing it changed the global state of {libraries}; no episode did"
        return Outcome(
            RNG, "warning", evidence, "a module draws or seeds while it is imported", "put the state back after importing it"
        )
    doing, library = subject.disturbed[0]
    evidence = f"{doing} changed the global state of {library} ({len(subject.disturbed)} times in all)"
    cause = "episodes that run together would draw from one stream: results depend on their order"
    return Outcome(RNG, "failed", evidence, cause, "draw from rng in make_task, from random.Random(seed) in an episode")


def output(subject: Subject) -> Outcome:
    """Nothing is printed."""
    if subject.printed:
        doing, text = subject.printed[0]
        evidence = f"{doing} printed {text[:80]!r} ({len(subject.printed)} times in all)"
        return Outcome(
            OUTPUT, "failed", evidence, "print() left in the code", "remove it; what must be known belongs into the record"
        )
    if subject.complained:
        doing, text = subject.complained[0]
        evidence = f"{doing} wrote {text[-80:]!r} to standard error ({len(subject.complained)} times in all)"
        return Outcome(OUTPUT, "warning", evidence, "a warning or a log")
    return Outcome(OUTPUT, "passed", "nothing was printed")


def snapshot(subject: Subject) -> Outcome:
    """An episode that moves to another instance in the middle goes on as if it had not."""
    if not subject.about["snapshot"]:
        return Outcome(SNAPSHOT, "skipped", "it promises none")
    if not (subject.about["replayable"] or subject.about["deterministic"]):
        return Outcome(SNAPSHOT, "skipped", "an episode that cannot be repeated cannot be compared")
    compared = 0
    for task in range(REPEATED):
        plainly = _sample(subject, task)
        for turn in range(len(plainly.found.get("digests", ())) - 2):
            moved = _sample(subject, task, snapshot_at=turn)
            if (problem := _problem(plainly, moved)) is not None:
                evidence = f"saved before turn {turn} of {plainly.name} on task {task} and restored in another instance: {problem}"
                fix = "save everything that reset() and the tools set"
                return Outcome(SNAPSHOT, "failed", evidence, "the snapshot is not the whole state", fix)
            compared += 1
    if not compared:
        return Outcome(SNAPSHOT, "skipped", "no episode had a turn to save before")
    return Outcome(SNAPSHOT, "passed", f"{compared} episodes went on in another instance as in their own")


def replay(subject: Subject) -> Outcome:
    """The same task, seed and actions give the same episode, in this process and in another."""
    about = subject.about
    if not (about["replayable"] or about["deterministic"]):
        return Outcome(REPLAY, "info", "it promises neither to be deterministic nor to be replayable")
    for task in range(REPEATED):
        first = _sample(subject, task)
        for elsewhere in (False, True):
            again = _sample(subject, task, elsewhere=elsewhere)
            if (problem := _problem(first, again)) is not None:
                where = "in a second process, whose hashes of strings differ" if elsewhere else "again"
                evidence = f"{first.name} on task {task}, played {where}: {problem}"
                fix = "draw from the seed of start(); let state_key() name values, not sets or objects"
                return Outcome(REPLAY, "failed", evidence, "chance, time or an order of hashes from outside", fix)
    return Outcome(REPLAY, "passed", f"{REPEATED} episodes played three times, in two processes: the same turn for turn")


def _sample(subject: Subject, task: int, **options: object) -> Played:
    """Play an episode that is worth repeating: the demonstration, or without one a few plain calls and replies."""
    if subject.about["demonstrates"]:
        return subject.play("the demonstration", task, None, **options)
    schemas = subject.ask("schemas", doing="listing the tools", task=task, seconds=_SLOW)["schemas"]
    plain = [attempt.move for attempt in moves.calls(schemas, [answers.Answer("a word", "hello")]) if attempt.answer == "a word"]
    return subject.play("plain calls", task, [*plain[:4], {"reply": "hello"}], **options)


def _problem(first: Played, again: Played) -> str | None:
    for one in (first, again):
        if one.fate in ("executed", "hung", "crashed", "raised"):
            return one.detail
    was, now = first.found["digests"], again.found["digests"]
    for place, (one, other) in enumerate(zip(was, now, strict=False)):
        if one != other:
            what = "the start" if place == 0 else "the score" if place == len(was) - 1 else f"turn {place - 1}"
            return f"{what} differs; in the end {again.found['last'][-120:]!r}, before {first.found['last'][-120:]!r}"
    return None if len(was) == len(now) else f"{len(now) - 2} turns, before {len(was) - 2}"
