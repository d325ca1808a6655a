"""Becomes the box: `unprivileged user → own namespaces → read-only mounts → Landlock → system-call filter → program`.

Run as a script by an interpreter of its own, with the plan as JSON in its argument; standard library only. Three processes come of
it: the launcher, which waits and passes on the exit code; the first process of the process namespace, which reaps, and with which
all others die; the program. What any step refuses ends all of it before the program starts.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_NOBODY = 65534
_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000  # user, mount, pid, net, ipc, uts
_PDEATHSIG, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVS = 1, 4, 22, 38
_RDONLY, _NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_MOUNT_SETATTR, _CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 442, 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_DEVICES = ("null", "zero", "full", "random", "urandom")
_size = ctypes.c_size_t


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def drop_privileges() -> None:
    """Stop being root, for good."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _checked(_libc.prctl(_DUMPABLE, 1, 0, 0, 0), "prctl(DUMPABLE)")  # else the maps below belong to root
    _checked(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")


def enter_namespaces() -> None:
    """Leave the machine's users, mounts, processes (from the next child on), network, shared memory and names."""
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_NAMESPACES), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    _checked(_libc.sethostname(b"box", _size(3)), "sethostname")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if text is None else text.encode() for text in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), None if options is None else options.encode())
    _checked(result, f"mount on {target}")


def arrange_mounts(hidden: list[str], scratch: str, size: int) -> None:
    """Make everything read-only, cover what is hidden and give the scratch a bounded file system of its own."""
    _mount("none", "/", None, _REC | _PRIVATE)
    attributes = struct.pack("QQQQ", _RDONLY | _NOSUID, 0, 0, 0)
    result = _libc.syscall(_MOUNT_SETATTR, -100, b"/", 0x8000, attributes, _size(len(attributes)))
    _checked(result, "mount_setattr")
    for path in hidden:
        _mount("none", path, "tmpfs", _RDONLY | _NOSUID | _NODEV, "size=4096,nr_inodes=2,mode=0555")
    _mount("none", scratch, "tmpfs", _NOSUID | _NODEV, f"size={size},nr_inodes={max(64, size >> 12)},mode=0700")
    if os.path.isdir("/dev/shm"):  # shared memory counts as scratch
        _mount(scratch, "/dev/shm", None, _BIND)
    os.chdir(scratch)


def restrict_files(readable: list[str], writable: list[str]) -> None:
    """Let this process and its children open nothing but these, by Landlock."""
    version = _checked(_libc.syscall(_CREATE_RULESET, None, _size(0), 1), "Landlock")
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15)):
        files |= right if version >= since else 0
    network, scope = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    attributes = struct.pack("QQQ", files, network, scope)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, _size(len(attributes)), 0), "Landlock")
    read = _EXECUTE | _READ_FILE | _READ_DIR
    devices = {f"/dev/{name}": _READ_FILE | _WRITE_FILE for name in _DEVICES}
    for path, rights in {**dict.fromkeys(readable, read), **dict.fromkeys(writable, files), **devices}.items():
        if os.path.exists(path):
            _allow(ruleset, path, rights if os.path.isdir(path) else rights & (_EXECUTE | _WRITE_FILE | _READ_FILE))
    _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _checked(_libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, place), 0), f"Landlock rule for {path}")
    os.close(place)


def filter_calls(program: bytes) -> None:
    """Install the system-call filter."""
    lines = ctypes.create_string_buffer(program)
    wanted = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(lines))
    _checked(_libc.prctl(_SECCOMP, 2, wanted, 0, 0), "seccomp")


def _die_with_parent() -> None:
    _checked(_libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PDEATHSIG)")


def _wait_for(child: int) -> int:
    """Reap whatever ends until `child` does, and return its exit code as a shell counts it."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _let_go_of_streams() -> None:
    """Hold no end of the program's channels, so that they end with it."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, 1 << 16)


def main() -> None:
    """Build the box and wait for its end."""
    plan: dict[str, Any] = json.loads(sys.argv[1])
    with open(plan["filter_fd"], "rb") as file:
        program = file.read()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    drop_privileges()
    _die_with_parent()
    enter_namespaces()
    first = os.fork()
    if first:
        os.write(plan["info_fd"], json.dumps({"child-pid": first}).encode())
        _let_go_of_streams()
        os._exit(_wait_for(first))
    os.close(plan["info_fd"])
    _die_with_parent()
    arrange_mounts(plan["hidden"], plan["scratch"], plan["size"])
    child = os.fork()
    if child:
        _let_go_of_streams()
        os._exit(_wait_for(child))
    os.setsid()
    restrict_files(plan["readable"], [plan["scratch"], "/dev/shm"])
    filter_calls(program)
    os.execve(plan["program"][0], plan["program"], plan["environment"])


if __name__ == "__main__":
    main()
