"""Machines by their addresses: `words -> networks that they name`, and whether an act speaks to one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import passing, pattern

_ADDRESS = r"(?:^|[^\w.])(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?:/\d{1,2})?)(?:$|[^\w.]|\.(?:\D|$))"
_HOST = (
    r"(?i)(?:^|[^\w./@-])([a-z][\w-]*(?:\.[\w-]+)*\.(?:lab|local|internal|intra|lan|htb|thm|ctf|corp|range|localdomain))"
    r"(?:$|[^\w./-]|\.(?:\W|$))"
)
_SPEAKS = (
    r"(?i)(^|/)(nmap|masscan|rustscan|zmap|curl|wget|https?|xh|ssh|scp|sftp|rsync|nc|ncat|netcat|socat|telnet|ftp|lftp|smbclient|smbmap|"
    r"rpcclient|enum4linux\S*|crackmapexec|nxc|evil-winrm|impacket\S*|sqlmap|hydra|medusa|nikto|gobuster|ffuf|feroxbuster|dirb|wfuzz|"
    r"nuclei|whatweb|msfconsole|arpspoof|ettercap|bettercap|responder|tcpdump|tshark|ping|hping3|fping|traceroute|dig|nslookup|host|"
    r"redis-cli|psql|mysql|mongosh|showmount|mount|snmpwalk|ldapsearch|openssl|chisel|ligolo\S*|proxychains4?|xfreerdp|rdesktop|vncviewer)$"
)
_EDITS = r"(?i)(^|/)g?(sed|perl)$"
_PUT_IN = (
    r"\bs(?:#[^#]*#([^#]*)#|\|[^|]*\|([^|]*)\||,[^,]*,([^,]*),|/(?:\\.|[^/])*/((?:\\.|[^/])*)/|@[^@]*@([^@]*)@|![^!]*!([^!]*)!)"
)
"""What an edit puts in the place of something else: an address there is one that a program will speak to."""
_LEFT_OUT = r"(?:--exclude(?:file)?[= ]|\bnot (?:src |dst )?(?:host |net )?|![ =]*|-v )\S*$"


def machines_of(words: str) -> tuple[IPv4Network, ...]:
    """Return the networks, and single machines as such, that words name.

    Example:
        >>> [str(one) for one in machines_of("Not 10.1.0.2 (the board), nor 10.1.9.0/24.")]
        ['10.1.0.2/32', '10.1.9.0/24']
    """
    return tuple(network for text in _addresses(words) if (network := _network(text)) is not None)


def hosts_of(words: str) -> tuple[str, ...]:
    """Return the names of machines of a private network that words name, in small letters.

    Example:
        >>> hosts_of("The board board.lab is out of scope; see notes.local.md and example.com.")
        ('board.lab',)
    """
    return tuple(dict.fromkeys(match.group(1).lower() for match in pattern(_HOST).finditer(words)))


def spoken_to(act: Act, closed: Iterable[Any]) -> str:
    """Return the address of a closed network that an act speaks to; empty if there is none, or it is left out.

    Example:
        >>> closed = machines_of("10.1.0.2")
        >>> spoken_to(Act("run", "nmap", "-sV 10.1.0.2"), closed), spoken_to(Act("run", "nmap", "--exclude 10.1.0.2 -"), closed)
        ('10.1.0.2', '')
    """
    words = f"{act.target} {act.detail}" if act.kind == "run" else act.target
    if act.kind == "run" and pattern(_SPEAKS).search(act.target) is None:
        if pattern(_EDITS).search(act.target) is None:
            return ""
        words = " ".join(one for found in pattern(_PUT_IN).findall(act.detail) for one in found)
    for text in _addresses(words):
        network = _network(text)
        left_out = pattern(_LEFT_OUT).search(words[: words.find(text)]) is not None
        if network is not None and not left_out and any(network.subnet_of(one) for one in closed if not isinstance(one, str)):
            return text
    small = words.lower()
    for name in (one for one in closed if isinstance(one, str) and one in small):
        found = passing(rf"(?:^|[^\w.-]){escaped(name)}(?:$|[^\w.-])").search(small)
        if found and pattern(_LEFT_OUT).search(small[: small.find(name)]) is None:
            return name
    return ""


def other_port(act: Act, only: Mapping[str, frozenset[str]]) -> str:
    """Return the host and the port to which an act speaks though its task opens that host at other ports alone; empty if none.

    Example:
        >>> only = {"shop.lab": frozenset({"8080"})}
        >>> [other_port(Act("fetch", f"http://shop.lab:{port}/"), only) for port in (8080, 22)]
        ['', 'shop.lab:22']
        >>> other_port(Act("run", "nc", "-zv shop.lab 22"), only), other_port(Act("run", "nmap", "-p 8080 shop.lab"), only)
        ('shop.lab:22', '')
    """
    words = act.target if act.kind == "fetch" else f"{act.target} {act.detail}"
    if act.kind == "fetch" and "port" in act.traits:
        words = f"{act.traits.get('host', '')}:{act.traits['port']}"
    pairs = pattern(r"([a-z][\w.-]*):(\d{1,5})\b").findall(words.lower())
    if act.kind == "run" and pattern(_SCANS).search(act.target):
        ports = pattern(r"(?:^|\s)(?:-p ?)?(\d[\d,-]*)(?:\s|$)").findall(act.detail.replace(" ", "  "))
        pairs += [(host, port) for host in only if host in words.lower() for port in ports or ["-p-"]]
    return next((f"{host}:{port}" for host, port in pairs if host in only and port not in only[host]), "")


_SCANS = r"(^|/)(nc|ncat|netcat|telnet|nmap|masscan|rustscan|zmap|hping3)$"


def _addresses(words: str) -> list[str]:
    found, place = [], 0
    named = pattern(_ADDRESS)
    while match := named.search(words[place:]):
        found.append(match.group(1))
        place += match.span(1)[1]
    return found


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text, strict=False)
    except ValueError:
        return None
