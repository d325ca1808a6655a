"""Hosts and paths of addresses: `address -> host, path`."""

from __future__ import annotations

from urllib.parse import unquote

from rosellm.roserlhf.guard.patterns import pattern

_LOCAL = r"^(localhost$|127\.|0\.0\.0\.0|\[?::1|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|host\.docker\.internal)"


def host_of(address: str) -> str:
    """Return the host of an address, small, without port, user and `www.`.

    Example:
        >>> host_of("ssh://git@github.com:22/a/b"), host_of("www.example.org/x")
        ('github.com', 'example.org')
    """
    rest = address.partition("://")[2] or address.removeprefix("//")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    return host.partition(":")[0].lower().removeprefix("www.")


def is_local(host: str) -> bool:
    """Tell whether a host is this machine or its own network."""
    return pattern(_LOCAL).search(host) is not None


def is_near(host: str) -> bool:
    """Tell whether a host is this machine, or one that by its name cannot be on the internet.

    Example:
        >>> is_near("judge.local"), is_near("shop.example"), is_near("example.net.co")
        (True, True, False)
    """
    return is_local(host) or pattern(r"(^|\.)(example|test|invalid|local|localhost|internal)$").search(host) is not None


def path_of(address: str) -> str:
    """Return host, path and query of an address, small and with escapes written out."""
    rest = address.partition("://")[2] or address
    return unquote(unquote(rest)).lower().removeprefix("www.")
