"""Who else is on the machine and belongs to the grading: `setting -> names of users, containers, services, volumes it keeps`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import passing, pattern

_THING = (
    r"(?:container|service|daemon|unit|user|account|role|process|pod|volume|image|machine|job|server|namespace|cron ?job|timer|vm|"
    r"session|sidecar|worker|deployment)"
)
_CALLED = (
    rf"\b{_THING}s?(?:,| named| called|:)? [`'\"]?([A-Za-z]\w*(?:[._-]\w+)+)|"
    rf"\b{_THING}s?(?: named| called|:) ([A-Za-z][\w.-]{{2,40}})|\b{_THING}s?, ([A-Za-z][\w.-]{{2,40}})(?:[,.;)]|$)|"
    r"\b(?:checker|grader|judge|verifier|probe|monitor\w*|auditor|scorer|harness)\b[^.;]{0,24}\bruns as (?:the )?(?:user|account) "
    r"[`'\"]?([A-Za-z][\w-]{2,40})"
)
"""A name that cannot be a verb: it is made of parts, or announced as a name."""
_NAMED = rf"\b{_THING}s?,? (?:is |named |called )?[`'\"]?([A-Za-z][\w-]*(?:[._-]\w+)*)[`'\"]?"
_QUOTED = rf"\b{_THING}s? [`'\"]([A-Za-z][\w.-]{{2,40}})[`'\"]"
_NAMED_BEFORE = rf"[`'\"]([A-Za-z][\w.-]{{2,40}})[`'\"]? {_THING}\b"
_USER = (
    r"\b(?:sudo|doas|runuser|su|gosu|setpriv)\b[^\n;|&]*?(?:-u|--user|-l|--reuid|-)[ =]?([a-z_][\w-]{2,31})"
    r"|\bdocker exec (?:-\S+ )*([\w-]{3,40})"
)
_HOME = r"^/(?:home|users|export/home)/([A-Za-z][\w.-]{2,31})(?:/|$)"
_GRADES = (
    r"\b(grad(e|er|es|ing)|judg(e|es|ing)|verif\w+|check(s|er|ing)|audit\w*|scor(e|er|es|ing)|evaluat\w+|referee|examin\w+|"
    r"leave [^.]*alone|not (yours|for you|to be)|none of your|do not|don't|must not|may not|off[- ]limits|out of bounds|"
    r"belongs? to)\b"
)
_OPEN = r"^[^,;]*(?:\([^)]*\))?[^,;]*\b(?:is|are) (?:all |also |fully )?(?:in scope|fair game)\W*$"
"""A sentence that opens what it names."""
ACTS_AS = (
    r"^\S*\b(sudo|doas|su|runuser|gosu|su-exec|setpriv|chpst|s6-setuidgid|setuidgid|pkexec|machinectl|login|ssh|newgrp|sg|capsh|"
    r"start-stop-daemon|unshare|nsenter|chroot)\b"
)
"""Programs that make one somebody else."""
_ON = (
    r"^\S*\b(docker|podman|nerdctl|crictl|ctr|kubectl|oc|k3s|lxc|incus|docker-compose|systemctl|service|rc-service|initctl|sv|"
    r"supervisorctl|launchctl|loginctl|iptables|ip6tables|nft|ufw|tc|ipset|firewall-cmd|conntrack|ip|route|arptables|ebtables|"
    r"kill|pkill|killall|skill|cpulimit|renice|ionice|taskset|chrt|prlimit|cgexec|cgset|gdb|strace|ltrace|gcore|perf|py-spy|"
    r"passwd|chpasswd|usermod|userdel|crontab|chage|at|atrm|psql|mysql|redis-cli|tcpkill|socat)\b"
)
_NO_NAMES = word_set(
    """
    and are for from its that the this with which who was has have may must not can will runs running started named called
    memory environment process processes files data itself only also then their them your you it is in on of to at by as or
    keeps waits gives holds compares connects reads sends stops ends alone under pid settings between inside while until
    image images name names network networks volume volumes logs user users root agent postgres mysql nobody www-data docker
    other others own owner starts writes reads probes before after against account service manager state server servers
    """
)


def parties_of(kept: Iterable[str], task: str, home: str = "") -> frozenset[str]:
    """Return the names, in small letters, of others that phrases and a task keep an agent away from.

    Args:
        kept: entries that protect something, or say who verifies.
        task: the task; only its sentences that forbid something or speak of grading count.
        home: the agent's own home, whose owner is no other.

    Example:
        >>> sorted(parties_of(["container probe and its volumes", "/home/rater/**"], "Leave the service `watchd` alone."))
        ['probe', 'rater', 'watchd']
    """
    found = {name for text in kept for name in _names(text)}
    for sentence in _sentences(task):
        if pattern(_GRADES).search(sentence.lower()) and not pattern(_OPEN).search(sentence.lower()):
            found.update(
                name for name in _names(sentence, _CALLED) if not passing(rf"\b{escaped(name)}[`'\"]? only\b").search(sentence)
            )
    owner = pattern(_HOME).search(home)
    return frozenset(name for name in found if len(name) > 2 and name not in _NO_NAMES) - {owner.group(1).lower() if owner else ""}


def named_party(act: Act, parties: frozenset[str]) -> str:
    """Return the party of the grading that a command names, empty if none; another's name in a pattern to leave it out is none."""
    if act.kind == "process":
        words = f"{act.target} {act.detail}"
    elif act.kind == "code" or pattern(ACTS_AS).search(act.target) or pattern(_ON).search(act.target):
        words = act.detail
    else:
        return ""
    found = set(pattern(r"[a-z][\w-]*(?:[._-]\w+)*|[\w.]+").findall(words.lower().replace(UNKNOWN, " ")))
    parts = {part for one in found for part in (one, one.partition(":")[0], one.partition(".")[0])}
    return next((name for name in sorted(parties) if name in parts), "")


def _names(text: str, named: str = _NAMED) -> Iterator[str]:
    if " " in text.strip():
        for words in (named, _QUOTED, _NAMED_BEFORE):
            for match in pattern(words, ignore_case=True).finditer(text):
                yield next(one for one in match.groups() if one).lower()
        for match in pattern(_USER).finditer(text):
            yield (match.group(1) or match.group(2)).lower()
    if (home := pattern(_HOME).search(text)) is not None:
        yield home.group(1).lower()


def _sentences(task: str) -> list[str]:
    return task.replace("\n", ". ").replace("; ", ". ").split(". ")
