"""What a setting leaves open beyond the machine: `host, package, address -> allowed, refused or not spoken of`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.demands import wants_attack
from rosellm.roserlhf.guard.machines import hosts_of, machines_of
from rosellm.roserlhf.guard.others import DENIED, HOSTS, spoken_words, strings
from rosellm.roserlhf.guard.patterns import first_groups, pattern
from rosellm.roserlhf.guard.permits import Permits, permitted_hosts, permitted_packages
from rosellm.roserlhf.guard.project import bare_hosts, host_fits, plain_name
from rosellm.roserlhf.guard.setting import Setting

_ALL_BUT_HOST = (
    r"\b(?:open|free|allowed|fine|any|all)\b[^.;]{0,40}\b(?:except(?:ing| for)?|but(?: not)?|other than|apart from) "
    r"((?:[a-z0-9-]+\.)+[a-z]{2,})\b"
)
"""The one host that the web is closed to."""
_BARE_HOST = r"^(?:[a-z0-9-]+\.)+(?:com|org|net|io|edu|gov|dev|ai|co|uk|de|fr|example|test)$"
_APART = (
    r"\bout of (?:scope|bounds)\b|\boff[- ]limits\b|\bnot (?:to )?be (?:attacked|touched|scanned|contacted|probed)\b"
    r"|\bleave [^.;]* alone\b"
)
_OTHER_PORTS = (
    r"\b(?:out of (?:scope|bounds)|off[- ]limits|forbidden|closed|not|no|never)\b[^.;]{0,60}\b(?:other|another|further) ports?\b"
    r"|\b(?:other|another|further) ports?\b[^.;]{0,40}\b(?:out of|off[- ]limits|forbidden|closed|not|never)\b"
)
_BESIDES = (
    r"\b(?:except|other than|apart from|anything (?:but|else)|everything (?:but|else)|nothing (?:but|else)|outside|beyond"
    r"|only the)\b"
)
"""Words for all that is not named, which then is in scope."""


_PUBLIC_HOST = (
    r"(?:^|[\s(,`'\"])((?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|app|ai|co|edu|gov|de|uk|fr|eu|ch|nl|example"
    r"|test))(?:$|[\s),;:`'\"]|\.(?:\s|$))"
)
"""A host anywhere, which a task of attacks may put out of scope."""


class Reach:
    """Hosts, packages and machines that a setting allows and refuses."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        task = self.task = setting.task.lower()
        self.blocked_hosts = [
            *(host for clause in clauses(spoken_words(setting)) if clause.forbids for host in bare_hosts(clause.text)),
            *(
                text.lower()
                for key, value in setting.others.items()
                if pattern(DENIED).search(key.lower())
                for text in strings(value)
                if pattern(HOSTS).search(key.lower()) or (key.lower() == "blocked" and pattern(_BARE_HOST).search(text.lower()))
            ),
        ]
        self.shut = [host for host in first_groups(_ALL_BUT_HOST, task) if f"/{host}" not in task]
        self.blocked_hosts += self.shut

    @cached_property
    def closed_machines(self) -> tuple[Any, ...]:
        """Networks and addresses that the task puts out of scope."""
        apart = [
            one.refused_part() for one in clauses(self.setting.task) if one.forbids and pattern(_APART).search(one.text.lower())
        ]
        words = "\n".join(one for one in apart if not pattern(_BESIDES).search(one.lower()))
        given = " ".join(self.setting.allowed_hosts or ()).lower()
        public = first_groups(_PUBLIC_HOST, words.lower()) if wants_attack(self.setting.task) else ()
        return (*machines_of(words), *(name for name in (*hosts_of(words), *public) if name not in given))

    @cached_property
    def only_ports(self) -> Mapping[str, frozenset[str]]:
        """Hosts that are open at some ports alone, where the task closes all others: host to ports."""
        if pattern(_OTHER_PORTS).search(self.task) is None:
            return {}
        named = [one.lower() for one in self.setting.allowed_hosts or ()] + [self.task]
        pairs = [pair for text in named for pair in pattern(r"([a-z][\w.-]*):(\d{2,5})\b").findall(text)]
        return {host: frozenset(port for one, port in pairs if one == host) for host, _ in pairs}

    def host_allowed(self, host: str) -> bool | None:
        """Tell whether the setting allows a host; None if it says nothing."""
        name = host.lower().partition(":")[0].removeprefix("www.")
        if any(host_fits(name, one) for one in self.blocked_hosts):
            return False
        if self.setting.allowed_hosts is None:
            return None
        permits = self.permitted_hosts
        if any(host_fits(name, one) for one in permits.without):
            return False
        return True if any(host_fits(name, one) for one in permits.names) else None if permits.vague else False

    @cached_property
    def allowed_places(self) -> tuple[str, ...]:
        """Parts of hosts that the setting allows: `forge.example/team/tool`."""
        named = (one.strip().lower() for one in self.setting.allowed_hosts or () if " " not in one.strip())
        bare = (one.partition("://")[2] or one for one in named)
        return tuple(one.removesuffix("**").rstrip("/*") for one in bare if "/" in one.strip("/*"))

    def place_allowed(self, address: str) -> bool:
        """Tell whether the setting allows just the part of a host that an address lies in."""
        return any(address == one or address.startswith((f"{one}/", f"{one}.", f"{one}?")) for one in self.allowed_places)

    def package_allowed(self, package: str) -> bool | None:
        """Tell whether the setting allows a package; None if it says nothing."""
        if self.setting.allowed_packages is None:
            return None
        name = plain_name(package)
        permits = self.permitted_packages
        if name in map(plain_name, permits.without):
            return False
        fits = any(
            one in ("*", "any", "all") or one == name or (one.endswith("*") and name.startswith(one[:-1]))
            for one in map(plain_name, permits.names)
        )
        return True if fits else None if permits.vague else False

    @cached_property
    def permitted_hosts(self) -> Permits:
        return permitted_hosts(self.setting.allowed_hosts or ())

    @cached_property
    def permitted_packages(self) -> Permits:
        return permitted_packages(self.setting.allowed_packages or ())
