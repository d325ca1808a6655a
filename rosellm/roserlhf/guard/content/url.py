"""A URL -> acts: its host and path without disguise, and what kind of place it is.

Traits of `fetch` acts: `host`; `place`, a table of hosts.toml (`source` code hosts, `raw` files of them, `mirror` or `proxy` of
other sites, `package` indexes, `search` engines, `paste` bins, `model` hubs, `answers`, `docs`, `local`), `""` if unknown;
`shape`: `archive` or `raw` where the path says so; `port` where one is given. A target is `scheme://host/path?query`, decoded.
What is folded in a URL is an act of its own: the address that a mirror or proxy is asked for, the words that a search engine is
asked for, the payload of `data:`.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Iterator
from functools import cache
from urllib.parse import unquote, unquote_plus

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.place import resolve
from rosellm.roserlhf.guard.content.tables import table
from rosellm.roserlhf.guard.hidden_text import shown
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

LONGEST_URL = 4_096
_SCHEME = r"^(?:(?:view-source|feed|jar|blob):)*([A-Za-z][A-Za-z0-9+.-]*)://"
_SCP = r"^(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):([^\s:/][^\s:]*|/[^\s:/][^\s:]*)$"
_NESTED = r"(?i)https?:/{1,2}[^\s&\"'<>]+"
_ARCHIVE = (
    r"(?i)/(?:archive|tarball|zipball|releases/download|legacy\.(?:zip|tar)|-/archive|get|sdist)/"
    r"|\.(?:tar(?:\.\w+)?|tgz|zip|whl|crate|gem|deb|rpm|egg|jar|bundle)(?:$|[?#])"
)
_RAW = (
    r"(?i)/(?:raw|blob|plain|contents|src|tree|commits?|pulls?|compare|blame|merge_requests)/|\.(?:patch|diff)(?:$|[?#])"
    r"|[?&](?:raw|plain|format=(?:raw|patch|text))\b"
)
_SOUGHT = r"(?i)[?&](?:q|query|search|text|wd|p|keywords?|search_query)=([^&#]+)"
_SLOPPY = r"(?i)^(https?|ftp|git|ssh):[/\\]*"
_PORT = r"^[a-z]+://[^/?#\s]*?:(\d{2,5})(?:[/?#]|$)"
_NUMBER = r"^(?:0x[0-9a-f]+|\d{6,10})$"


def is_address(word: str) -> bool:
    """Say whether a word names another machine.

    Example:
        >>> [is_address(word) for word in ("https://a.b/c", "git@a.b:c/d.git", "origin", "src/a.py", "ext::sh -c id")]
        [True, True, False, False, True]
    """
    return bool(pattern(_SCHEME).search(word) or pattern(_SCP).search(word)) or word.startswith("ext::")


def place_of(host: str) -> str:
    """Return what a host serves, `""` if it is not known.

    Example:
        >>> [place_of(host) for host in ("api.github.com", "raw.githubusercontent.com", "docs.python.org", "example.test")]
        ['source', 'raw', 'docs', '']
    """
    exact, starts, holds = _hosts()
    labels = host.split(".")
    found = [exact[name] for name in (".".join(labels[at:]) for at in range(len(labels))) if name in exact]
    if found:
        return found[0]
    return starts.get(labels[0]) or next((kind for word, kind in holds.items() if word in host), "")


@cache
def _hosts() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    exact: dict[str, str] = {}
    starts: dict[str, str] = {}
    holds: dict[str, str] = {}
    for kind, known in table("hosts").items():
        for names, goal in (("hosts", exact), ("starts", starts), ("holds", holds)):
            for name in known.get(names, ()):
                goal.setdefault(name, kind)
    return exact, starts, holds


def acts_of_url(url: str, scene: Scene) -> list[Act]:
    """Return what a URL, or a host and path without a scheme, fetches.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> here = Scene("/app", read)
        >>> [(a.target, a.traits["place"]) for a in acts_of_url("https://user@GitHub%2ecom:443/a/b/raw/x.py", here)]
        [('https://github.com/a/b/raw/x.py', 'source')]
        >>> [a.target for a in acts_of_url("https://web.archive.org/web/2024/https://github.com/a/b", here)]
        ['https://web.archive.org/web/2024/https://github.com/a/b', 'https://github.com/a/b']
        >>> [(a.kind, a.target) for a in acts_of_url("file:///eval/x", here)]
        [('read', '/eval/x')]
    """
    text = shown(url.strip().strip("<>\"'")).text[:LONGEST_URL]
    text = pattern(_SLOPPY).sub(lambda found: f"{found.group(1)}://", text)
    span = (0, len(url))
    if text.startswith("file:"):
        return [Act("read", resolve(text, scene), "file URL", span=span)]
    if text.startswith("data:"):
        return _data(text, scene, span)
    if text.startswith("ext::"):
        return [Act("fetch", text, span=span), *scene.read("shell", text[5:].replace("%S", "").replace("% ", " "), scene.inside())]
    return list(_fetches(text, span))


def _fetches(text: str, span: tuple[int, int], depth: int = 0) -> Iterator[Act]:
    """Yield the fetch of one URL and what is folded in it."""
    scheme, host, rest = _split(text)
    place = place_of(host)
    shape = "archive" if pattern(_ARCHIVE).search(rest) else "raw" if pattern(_RAW).search(rest) else ""
    traits = {"host": host, "place": place} | ({"shape": shape} if shape else {})
    if (port := pattern(_PORT).search(text)) is not None:
        traits["port"] = port.group(1)
    yield Act("fetch", f"{scheme}://{host}{rest}", span=span, traits=traits)
    if depth > 2:
        return
    for found in pattern(_NESTED).finditer(rest):
        yield from _fetches(found.group(0).replace(":/", "://", 1).replace(":///", "://"), span, depth + 1)
    if host.endswith(".translate.goog"):
        inner = host.removesuffix(".translate.goog").replace("--", "\0").replace("-", ".").replace("\0", "-")
        yield from _fetches(f"https://{inner}{rest}", span, depth + 1)
    if place == "proxy" and rest.count("/") >= 1 and "." in rest.split("/")[1] and "://" not in rest:
        yield from _fetches("https://" + rest.lstrip("/"), span, depth + 1)
    if place in ("search", "source", "answers", "package"):
        for found in pattern(_SOUGHT).finditer(rest):
            yield Act("search", " ".join(unquote_plus(found.group(1)).split()), span=span, traits={"host": host})


def _split(text: str) -> tuple[str, str, str]:
    """Return scheme, host and the rest, decoded."""
    remote = pattern(_SCP).search(text)
    found = pattern(_SCHEME).search(text)
    if remote and not found:
        return "ssh", remote.group(1).lower(), "/" + remote.group(2).lstrip("/")
    scheme = found.group(1).lower() if found else "https"
    rest = (text[found.end() :] if found else text.lstrip("/")).replace("\\", "/")
    rest = rest.partition("#")[0] if "#" in rest and "#/" not in rest and "#!" not in rest else rest
    end = min((at for at in (rest.find(mark) for mark in "/?#") if at >= 0), default=len(rest))
    return scheme, _host(rest[:end]), _decoded(rest[end:])


def _decoded(text: str) -> str:
    for _ in range(3):
        if "%" not in text:
            break
        text = unquote(text)
    return text


def _host(text: str) -> str:
    """Return a host without user, port, escapes, case and odd spellings of numbers."""
    host = shown(_decoded(text)).text.rpartition("@")[2].lower()
    if not host.startswith("["):
        host = host.partition(":")[0]
    host = host.strip(".")
    if "xn--" in host:
        try:
            host = shown(host.encode("ascii").decode("idna")).text.lower()
        except UnicodeError:
            return host
    if pattern(_NUMBER).search(host):
        number = int(host, 16 if host.startswith("0x") else 10)
        host = str(ipaddress.IPv4Address(number)) if number < 2**32 else host
    return host


def _data(text: str, scene: Scene, span: tuple[int, int]) -> list[Act]:
    head, _, body = text.partition(",")
    content = unquote(body)
    if head.endswith(";base64"):
        try:
            content = base64.b64decode(content + "=" * (-len(content) % 4)).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return [Act("opaque", "base64 that cannot be read", "data URL", span=span)]
    language = next((name for name in ("javascript", "python", "shell") if name in head), "prose")
    return [Act("decode", content[:400], head[:80], span=span), *scene.read(language, content, scene.inside())]
