"""Attacks on the sandbox: each is a program that says in a word how far it came, beside what it must come to in each kind of box.

The network is tried on the loopback only. `PYTHONPATH=. python tests/sandbox_attacks.py` prints the table of
`docs/sandbox.md`, measured; with the name of a kind, what some of them came to in it, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox_kinds import SANDBOXES

from rosellm.roserlhf.environment.sandbox import Kind, Limits, Sandbox

LIMITS = Limits(seconds=20, processes=12, output=1 << 18)
HURRIED = Limits(seconds=1)
HEADER = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def outcome(attempt, well="got through"):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    except (MemoryError, ValueError) as error:
        return type(error).__name__
    return well
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
"""


@dataclass(frozen=True)
class Attack:
    """One program and how it ends; where it prints nothing, how its box ended."""

    name: str
    code: str
    bubblewrap: str
    landlock: str
    limits: Limits = LIMITS

    def expected(self, kind: Kind) -> str:
        """What it comes to in a box of this kind."""
        return self.bubblewrap if kind == "bubblewrap" else self.landlock


def both(name: str, code: str, comes_to: str, limits: Limits = LIMITS) -> Attack:
    """An attack that comes to the same everywhere."""
    return Attack(name, code, comes_to, comes_to, limits)


ATTACKS = [
    both("none: add ten numbers", "print(sum(range(10)))", "45"),
    both(
        "be root, hold capabilities",
        """
header, data = (ctypes.c_uint * 2)(0x20080522, 0), (ctypes.c_uint * 6)()
call(125, header, data)
print("root" if 0 in os.getresuid() else "no root,", "some" if any(data) else "no", "capabilities")
""",
        "no root, no capabilities",
    ),
    Attack(
        "read /etc/passwd, list /root, /home, /proc",
        """
found = [outcome(lambda: open("/etc/passwd")), *(outcome(lambda: os.listdir(p)) for p in ("/root", "/home", "/proc"))]
print(*sorted(set(found)))
""",
        "ENOENT",
        "EACCES",
    ),
    Attack("learn that /etc/passwd exists", "print(os.path.exists('/etc/passwd'))", "False", "True"),
    Attack("open a device, /dev/ptmx", "print(outcome(lambda: open('/dev/ptmx', 'rb')))", "ENOENT", "EACCES"),
    both(
        "connect to the loopback", "import socket\nprint(outcome(lambda: socket.create_connection(('127.0.0.1', 80), 1)))", "EPERM"
    ),
    both("open any socket", "import socket\nprint(outcome(lambda: socket.socket(socket.AF_UNIX)))", "EPERM"),
    both(
        "write to /usr, /, /dev, /etc",
        "print(*{outcome(lambda: open(p, 'w')) for p in ('/usr/x', '/x', '/dev/x', '/etc/x')})",
        "EROFS",
    ),
    both("change permissions of /usr", "print(outcome(lambda: os.chmod('/usr', 0o777)))", "EROFS"),
    both(
        "write /proc/sys/kernel/core_pattern",
        "print(outcome(lambda: open('/proc/sys/kernel/core_pattern', 'r+')))",
        "ENOENT",
    ),
    both("allocate 2 GiB", "print(outcome(lambda: bytearray(2 << 30)))", "MemoryError"),
    both(
        "fork 200 times",
        """
import time
def bomb():
    for n in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
print(outcome(bomb))
""",
        "EAGAIN",
    ),
    both(
        "start 200 threads",
        """
import threading, time
started = 0
try:
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        started += 1
except RuntimeError:
    print("stopped" if started < 12 else started)
""",
        "stopped",
    ),
    both(
        "raise a limit",
        "import resource\nprint(outcome(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (999, 999))))",
        "ValueError",
    ),
    both("loop for ever", "while True: pass", "timeout", HURRIED),
    both("compute 9**9**9**9", "print(9**9**9**9)", "timeout", HURRIED),
    both("loop for ever, with 1 s of processor time", "while True: pass", "cpu", Limits(seconds=20, cpu_seconds=1)),
    both("flood the output", "while True: print('x' * 1000)", "output"),
    both(
        "write a file of 100 MiB",
        """
def fill():
    with open("a", "wb") as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
print(outcome(fill))
""",
        "EFBIG",
    ),
    both(
        "write 40 files of 4 MiB, half in /dev/shm",
        """
def fill():
    for n in range(40):
        with open(f"{('/tmp', '/dev/shm')[n % 2]}/{n}", "wb") as file:
            file.write(bytes(4 << 20))
print(outcome(fill))
""",
        "ENOSPC",
    ),
    both(
        "hold memory in a memfd, in System V shared memory",
        """
print(*{outcome(lambda: os.memfd_create("m")), outcome(lambda: call(29, 0, 1 << 20, 0o1600))})
""",
        "EPERM",
    ),
    both(
        "hold memory in extended attributes of files",
        """
os.close(os.open("a", os.O_CREAT))
print(outcome(lambda: os.setxattr("a", "user.a", b"x" * 60000)))
""",
        "EPERM",
    ),
    both(
        "kill every process by number",
        """
for p in range(2, 40000):
    if p != os.getpid():
        try:
            os.kill(p, 9)
        except OSError:
            pass
print("itself only")
""",
        "itself only",
    ),
    both(
        "leave a daemon behind",
        """
import time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("gone with the box")
""",
        "gone with the box",
    ),
    both("unshare a user namespace", "print(outcome(lambda: call(272, 0x10000000)))", "EPERM"),
    both("clone a user namespace", "print(outcome(lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0)))", "EPERM"),
    both("clone3", "print(outcome(lambda: call(435, 0, 0)))", "ENOSYS"),
    both(
        "mount, chroot",
        "print(*{outcome(lambda: call(165, b'a', b'/tmp', b'tmpfs', 0, 0)), outcome(lambda: os.chroot('/tmp'))})",
        "EPERM",
    ),
    both(
        "ptrace, read another process's memory",
        "print(*{outcome(lambda: call(101, 16, 1, 0, 0)), outcome(lambda: call(310, 1, 0, 0, 0, 0, 0))})",
        "EPERM",
    ),
    both("io_uring, bpf, perf, keys", "print(*{outcome(lambda: call(n, 0, 0, 0, 0, 0)) for n in (425, 321, 298, 250)})", "EPERM"),
    both("make system calls of another architecture (x32)", "call(0x40000000 | 39)\nprint('got through')", "died"),
    both(
        "find an inherited file descriptor",
        """
def is_open(n):
    try:
        os.fstat(n)
        return True
    except OSError:
        return False
# three streams, the channel, its two doubles of the streams
print(sum(map(is_open, range(4096))), "of its own")
""",
        "6 of its own",
    ),
    both(
        "find environment variables of the parent",
        "print(*set(os.environ) - {'HOME', 'LANG', 'OMP_NUM_THREADS', 'PATH', 'PWD', 'PYTHONHASHSEED'} or ['none'])",
        "none",
    ),
    both(
        "import what is installed beside Python",
        """
sys.path += ["/usr/lib/python3/dist-packages", "/usr/local/lib/python3/dist-packages"]
try:
    import rosellm
except ImportError:
    print("ImportError")
""",
        "ImportError",
    ),
]


async def outcome(kind: Kind, attack: Attack) -> str:
    """Run an attack and say what it came to."""
    result = await Sandbox(attack.limits, kind=kind).run(HEADER + attack.code)
    return result.output.strip() if result.ending == "ok" else result.ending


async def outcomes(kind: Kind, attacks: Sequence[Attack] = ATTACKS) -> dict[str, str]:
    """Run attacks, a few at a time, by name."""
    gate = asyncio.Semaphore(3)

    async def one(attack: Attack) -> tuple[str, str]:
        async with gate:
            return attack.name, await outcome(kind, attack)

    return dict(await asyncio.gather(*map(one, attacks)))


def row(name: str, bubblewrap: str, landlock: str) -> str:
    """Write one line of the page's table."""
    return f"| {name.replace('*', chr(92) + '*')} | `{bubblewrap}` | `{landlock}` |"


def main() -> None:
    """Print the table, or what some of the attacks came to in one kind."""
    if len(sys.argv) > 1:
        kind: Kind = "landlock" if sys.argv[1] == "landlock" else "bubblewrap"
        print(json.dumps(asyncio.run(outcomes(kind, ATTACKS[:13]))))
        return
    bubblewrap, landlock = (asyncio.run(outcomes(kind)) for kind in SANDBOXES)
    print("| a program tries to … | bubblewrap | Landlock |\n|---|---|---|")
    print(*(row(attack.name, bubblewrap[attack.name], landlock[attack.name]) for attack in ATTACKS), sep="\n")


if __name__ == "__main__":
    main()
