"""Names by which code starts programs or loads other code, however they are spelled: `source -> one act`.

Whatever a language calls it: a program is started, a library is opened, a module or a class is loaded by its name. That name is a
string, a list of pieces that are joined, an array of letters or numbers, or words that are turned round. The act `code`, `loads by
name` lists, in small letters, all strings of the code that can be such names, when the code holds a call that takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.literals import Literal, split_source
from rosellm.roserlhf.guard.hints import Hints
from rosellm.roserlhf.guard.patterns import pattern

MOST_NAMES = 80
LONGEST_NAME = 160
TARGET = "loads by name"
_REACHES = (
    # programs
    r"\bexec[lv][pe]*\s*\(|\bposix_spawnp?\b|\b_?popen\w*\b|\bsystem[23]?\b|\bCommand::new\b|\bCommandExt\b"
    r"|exec\.Command\w*\b"
    r"|\bos\.StartProcess\b|\bsyscall\.(?:Exec|ForkExec)\b|\bProcessBuilder\b|\bgetRuntime\(\)"
    r"|\bchild_process\b|\bexec(?:File|a)?(?:Sync)?\s*\("
    r"|\bspawn(?:Sync|_\w+|l|v|p)*\s*\(|\bProcess\.(?:Start|spawn|run|new)\b|\bProcessStartInfo\b|\bproc_open\b"
    r"|\bshell_exec\b|\bpassthru\b"
    r"|\bpcntl_exec\b|\bOpen3\b|\bIO\.popen\b|\bPTY\.spawn\b|%x[\[({]|\bqx\b|\bos\.execute\b|\bio\.popen\b"
    r"|\bBun\.(?:spawn|\$)|\bDeno\.Command\b"
    r"|\bsubprocess\b|\bcreate_subprocess\w+|\bpexpect\b|\bsh\.Command\b|\brun\(`|\bSystem\.cmd\b"
    r"|\bPort\.open\b|\bcallCommand\b|\breadProcess\b"
    r"|\bCreateProcess[AW]?\b|\bWinExec\b|\bShellExecute\w*\b|\bfexecve\b|\bexecveat\b"
    # libraries and modules
    r"|\bdl(?:m?open|sym)\b|\bLoadLibrary\w*\b|\blibloading\b|\bLibrary::(?:new|open)\b|\bplugin\.Open\b"
    r"|\bClass\.forName\b|\bloadClass\b"
    r"|\bSystem\.load(?:Library)?\b|\bNative\.load\b|\bNativeLibrary\b|\bDllImport\b|\bAssembly\.Load\w*\b"
    r"|\bActivator\.CreateInstance\b"
    r"|\bcreateRequire\b|\brequire\s*\(|\bimport\s*\(|__import__|\bimport_module\b|\bimportlib\b|\b(?:c|win"
    r"|py)dll\b|\bCDLL\b|\bfind_library\b"
    r"|\bffi\b|\bFiddle\b|\bFFI::|\bDynaLoader\b|\bXSLoader\b|\brequire_once\b|\bpackage\.loadlib\b"
    r"|\bprocess\.dlopen\b|\bprocess\.binding\b"
    r"|\bkoffi\b|\bffi-napi\b|\bConst_missing\b|\bconst_get\b|\bnew \$\w+\s*\(|\bcall_user_func\w*\b"
    r"|\bgetattr\s*\(|\bccall\b|\bload_shared\w*"
    r"|#\[link\(|\bextern\s+\"C\"|\basm!|\bNSBundle\b|\bSymbol\.for\b|\bglobalThis\s*\[|\brun_(?:path|module)\b"
    r"|\bspec_from_\w+"
    r"|\buci\w*\b|\bSimpleEngine\b"
)
_LETTERS = (
    r"[\[{(]\s*((?:'(?:\\.|[^'\\\n])'|\"(?:\\.|[^\"\\\n])\")(?:\s*,\s*(?:0|'\\0'|'(?:\\.|[^'\\\n])'|\"(?:\\."
    r"|[^\"\\\n])\"))+)\s*,?\s*[\]})]"
)
_NUMBERS = r"[\[{(]\s*((?:0x[0-9A-Fa-f]{2}|\d{2,3})(?:\s*,\s*(?:0x[0-9A-Fa-f]{1,2}|\d{1,3})){1,120})\s*,?\s*[\]})]"
_BY_PLACE = r"\b(\w+)\[\s*(?:\w+\s*\+\s*)?(\d+)\s*\]\s*=\s*(?:'(\\?.)'|\"(.)\"|(0x[0-9A-Fa-f]{2}|\d{2,3})\b)"
"""A letter that is put in its place in a name."""
_GLUE = r"^\s*(?:[,+.~&]|\.\.|<>|\+\+|%\s*\(|\)?\s*\.\s*concat\(|\)\s*\+\s*\w*\(?|)\s*$"
_TURNS = r"(?i)\brev(?:erse|ersed|ersal)?\w*\b|\[::-1\]"
_JOINS = (
    r"(?i)\bjoin|\bconcat|\bformat!?|\bsprintf|\+|\.\.|\bcollect|\breduce|\bfold\b|\bimplode|~|<>|\bstr(?:n?cat"
    r"|ing)\b|\bappend|\bpush_str|\bpaste0|%"
)
_SPOOFED = (
    r"(?i)['\"]?\b(?:server|x-powered-by|server_version)\b['\"]?\s*[,:=]+>?\s*['\"]?\s*(nginx|apache|openresty"
    r"|haproxy|caddy|traefik|"
    r"lighttpd|envoy|varnish|squid|iis|tomcat|jetty|gunicorn|uvicorn|puma)"
)
_BANNERS = {
    "smtp": r"\b220[ -][^\n\"']{0,60}\bE?SMTP\b|\b250[ -]2\.\d\.\d Ok",
    "ssh": r"SSH-2\.0-OpenSSH",
    "imap": r"\* OK[^\n\"']{0,40}\bIMAP|\+OK[^\n\"']{0,40}\b(?:POP3|Dovecot)",
    "redis": r"\+PONG\b|\$\d\\r\\nPONG",
    "memcached": r"\bSTORED\\r\\n|\bVERSION 1\.\d\.\d",
    "ftp": r"\b220[ -][^\n\"']{0,40}\bFTP|\bvsFTPd",
    "http": r"HTTP/1\.[01] 200",
    "mysql": r"mysql_native_password|5\.\d\.\d+-\d+\.\d+\.\d+-MariaDB",
    "ldap": r"\\x30\\x0c\\x02\\x01\\x01\\x61",
    "mqtt": r"\\x20\\x02\\x00\\x00",
}
"""What servers of a protocol say first, or say to every request."""
_LISTENS = (
    r"\bsocketserver\b|\.listen\(|net\.Listen|TcpListener|TCPServer|start_server\(|createServer\(|ServerSocket\(|IO::Socket::INET|"
    r"\bn(?:et)?c(?:at)? [^\n|]*-\w*l|\bsocat\b[^\n]*LISTEN|\bbusybox nc\b|stream_socket_server|HTTPServer|http\.server"
)
_LOOKED_UP = r"\b(?:command -v|which|type -[pP]|whereis -b|hash)\s+[\"']?([\w.+-]{2,40})"
_CARRIED = (
    r"\bfrom\s+\w+\s+import\s+(?:[\w, ]*\b)?(Fraction|Decimal|re|json|np|math|base64|pickle)\b"
    r"|\b([a-z_]\w*)\.(Fraction|Decimal|re|json|np|base64|zlib|pickle|hashlib|ctypes|subprocess|heapq|bisect)\b"
)
"""Modules and classes of others that a Python module has among its own names."""
_CARRIERS = {"Fraction": "fractions", "Decimal": "decimal", "np": "numpy"}
_NAME = re.compile(r"[\w.+@:~ -]{1,60}", re.ASCII)
_PARTS = re.compile(r"[.:]+")
SERVES = (_SPOOFED, _LISTENS)
"""Without one of them no server is named."""
_HINTS = Hints(_REACHES, _CARRIED, *SERVES)
_REACHED, _BROUGHT, _POSED, _LISTENING = range(4)


def acts_of_reaching(bare: str, literals: Sequence[Literal]) -> Iterator[Act]:
    """Yield the act that lists the names.

    Args:
        bare: source code of any language without its comments.
        literals: its strings.

    Example:
        >>> [a.detail for a in acts_of_reaching(*split_source("const d = createRequire(p)(['d', 'iff'].join(''))", "js"))]
        ['iff diff']
        >>> [a.detail for a in acts_of_reaching(*split_source("char n[] = {'l','i','b','x','y','.','s','o',0}; dlopen(n);", "c"))]
        ['libxy.so xy']
        >>> list(acts_of_reaching(*split_source("printf('gcc')", "js")))
        []
    """
    if _REACHED not in _HINTS.found(bare):
        return
    names: dict[str, None] = {}
    for text in _spelled(bare, literals):
        for name in _forms(text):
            names[name] = None
        if len(names) > MOST_NAMES:
            break
    if names:
        yield Act("code", TARGET, " ".join(names))


def acts_of_reaching_python(code: str) -> Iterator[Act]:
    """Yield the same for Python, whose own reader sees only calls that it can follow."""
    held = _HINTS.found(code)
    if _REACHED in held:
        yield from acts_of_reaching(*split_source(code, "rb"))
    if _BROUGHT not in held:
        return
    imported = {name for line in pattern(r"(?m)^\s*import ([\w., ]+)").findall(code) for name in pattern(r"\w+").findall(line)}
    carried = [inner or name for inner, owner, name in pattern(_CARRIED).findall(code) if inner or owner in imported]
    if carried:
        yield Act("code", TARGET, " ".join(dict.fromkeys(_CARRIERS.get(one, one) for one in carried)))


def acts_of_serving(bare: str) -> Iterator[Act]:
    """Yield the name of a well-known server that code gives as its own.

    Example:
        >>> [a.detail for a in acts_of_serving("self.send_header('Server', 'nginx/1.24')")]
        ['nginx']
    """
    held = _HINTS.found(bare)
    found = pattern(_SPOOFED).search(bare) if _POSED in held else None
    if found:
        yield Act("code", "names another server", found.group(1).lower(), span=found.span())
    listens = pattern(_LISTENS).search(bare) if _LISTENING in held else None
    if listens is None:
        return
    for name, words in _BANNERS.items():
        if pattern(words).search(bare):
            yield Act("code", "names another server", name, span=listens.span())


def acts_of_reaching_shell(code: str) -> Iterator[Act]:
    r"""Yield the same for programs that a script looks up, to start them by a variable.

    Example:
        >>> [a.detail for a in acts_of_reaching_shell("P=$(command -v pyth''on3)\n$P - <<E")]
        ['python3']
    """
    found = pattern(_LOOKED_UP).findall(pattern(r"''|\"\"|\\\\").sub("", code))
    yield from acts_of_serving(code)
    if found:
        yield Act("code", TARGET, " ".join(dict.fromkeys(name.lower() for name in found[:MOST_NAMES])))


def _spelled(bare: str, literals: Sequence[Literal]) -> Iterator[str]:
    """Yield strings, pieces put together, letters and numbers put together, each also backwards where code turns words round."""
    turns = pattern(_TURNS).search(bare) is not None
    for one in literals:
        if 0 < len(one.text) <= LONGEST_NAME:
            yield one.text
            if turns:
                yield one.text[::-1]
    if len(literals) > 1 and pattern(_JOINS).search(bare):
        yield from _pieces(bare, literals)
    for found in pattern(_LETTERS).finditer(bare):
        letters = pattern(r"'(\\.|[^'\\\n])'|\"(\\.|[^\"\\\n])\"").findall(found.group(1))
        text = "".join(a or b for a, b in letters).replace("\\0", "")
        yield text
        if turns:
            yield text[::-1]
    yield from _placed(bare)
    for found in pattern(_NUMBERS).finditer(bare):
        text = "".join(
            chr(int(one, 16 if one.startswith("0x") else 10)) for one in pattern(r"0x[0-9A-Fa-f]+|\d+").findall(found.group(1))
        )
        text = text.strip("\0")
        if text.isprintable() and text.isascii():
            yield text
            if turns:
                yield text[::-1]


def _placed(bare: str) -> Iterator[str]:
    """Yield names whose letters are put in their places one by one."""
    names: dict[str, dict[int, str]] = {}
    for found in pattern(_BY_PLACE).finditer(bare):
        name, place, quoted, other, number = found.groups()
        letter = quoted or other or chr(int(number, 16 if number.startswith("0x") else 10) % 0xD800)
        if letter.isprintable() and len(letter) == 1:
            names.setdefault(name, {})[int(place)] = letter
        if len(names) > MOST_NAMES:
            return
    for letters in names.values():
        if len(letters) > 1:
            yield "".join(letters[place] for place in sorted(letters))


def _pieces(bare: str, literals: Sequence[Literal]) -> Iterator[str]:
    """Yield short strings that stand side by side, put together."""
    run: list[str] = []
    end = -1
    for one in literals:
        beside = end >= 0 and one.start - end < 24 and pattern(_GLUE).search(bare[end : one.start]) is not None
        if not beside or len(one.text) > 24:
            if 1 < len(run) <= 24:
                yield "".join(run)
            run = []
        if len(one.text) <= 24:
            run.append(one.text)
        end = one.end
    if 1 < len(run) <= 24:
        yield "".join(run)


def _forms(text: str) -> Iterator[str]:
    """Yield the names that a string can be: the last part of a path or of a module, without what marks a library."""
    words = text.strip().lower()
    last = words.rpartition("/")[2].rpartition("\\")[2]
    if not _NAME.fullmatch(last):
        return
    first = last.split(" ", 1)[0].strip("@:")
    if len(first) < 2:
        return
    yield first
    bare = pattern(r"\.(?:so|dll|dylib|a|exe|js|py|jar|node)(?:\.[\d.]+)?$").sub("", first) if "." in first else first
    if bare != first:
        yield bare.removeprefix("lib")
    if "_" in bare and len(bare.partition("_")[0]) > 2:  # a symbol of a library: `mkl_sparse_d_mv`
        yield bare.partition("_")[0]
    if "." in bare or "::" in bare:
        yield from dict.fromkeys(part for part in _PARTS.split(bare) if len(part) > 2)
