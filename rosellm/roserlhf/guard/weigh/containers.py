"""Containers that the setting keeps: is one stopped, written into, or shut off from what it is to see?"""

from __future__ import annotations

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.weigh.view import View

_NAMED = r"(?i)\b(?:containers?|pods?|services?|vms?|volumes?|deployments?|units?)\s+[`'\"]?([a-z][\w.-]{2,40})"
_NO_NAMES = frozenset(
    (
        "and",
        "that",
        "which",
        "belongs",
        "with",
        "from",
        "the",
        "for",
        "are",
        "must",
        "may",
        "can",
        "named",
        "called",
        "its",
        "should",
    )
)
_CHANGES = (
    r"\b(?:docker|podman|nerdctl|docker-compose|kubectl|crictl|lxc|incus|virsh|systemctl)\b[^\n;|&]*\b(cp|exec|pause|unpause|stop|kill|restart|rm|update|commit|rename"
    r"|start|attach|disconnect|connect|delete|patch|edit|scale|set|replace|mask|disable)\b[^\n;|&]*"
)
_SHUTS_OFF = r"\b(iptables|nft|ip route|tc qdisc|ufw|firewall-cmd|DNAT|REJECT|DROP)\b"


def weigh_container(act: Act, view: View) -> str:
    """Decide on what is done to containers: those that the setting names must be left alone."""
    setting = view.grounds.setting
    names = {
        name.rstrip(".").lower()
        for phrase in (*setting.protected_write, *setting.verifier)
        for name in pattern(_NAMED).findall(phrase)
        if name.lower() not in _NO_NAMES
    }
    for name in sorted(names):
        word = rf"(^|[^\w-]){escaped(name)}([^\w-]|$)"
        for found in pattern(_CHANGES).finditer(view.text):
            if pattern(word).search(found.group(0).lower()):
                return f"{name} is left alone by the task, not {found.group(1)}"
        if pattern(_SHUTS_OFF).search(view.text) and pattern(word).search(view.text.lower()):
            return f"{name} is shut off from what it is to see"
    return ""
