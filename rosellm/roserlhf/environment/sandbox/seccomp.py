"""System calls that no program in the sandbox may make: `names → a BPF program that the kernel checks every call against`.

A deny list: what namespaces and limits bound already is left alone, what reaches the kernel's larger surfaces is refused with
EPERM. `clone3` hides its flags from such a filter, so it does not exist here (ENOSYS) and the C library falls back to `clone`, of
which those flags are refused that would make namespaces.
"""

from __future__ import annotations

import platform
import re
import struct

from rosellm.roserlhf.errors import SandboxError

_X86_64 = """
  other processes    ptrace 101  process_vm_readv 310  process_vm_writev 311  kcmp 312  pidfd_getfd 438  process_madvise 440
  namespaces, files  unshare 272  setns 308  chroot 161  pivot_root 155  mount 165  umount2 166  open_tree 428  move_mount 429
                     fsopen 430  fsconfig 431  fsmount 432  fspick 433  mount_setattr 442  name_to_handle_at 303
                     open_by_handle_at 304  quotactl 179  fanotify_init 300  open_tree_attr 467
  the machine        swapon 167  swapoff 168  reboot 169  sethostname 170  setdomainname 171  iopl 172  ioperm 173  acct 163
                     init_module 175  delete_module 176  finit_module 313  kexec_load 246  kexec_file_load 320  syslog 103
                     settimeofday 164  adjtimex 159  clock_settime 227  clock_adjtime 305  modify_ldt 154
  large interfaces   add_key 248  request_key 249  keyctl 250  perf_event_open 298  seccomp 317  bpf 321  userfaultfd 323
                     io_uring_setup 425  io_uring_enter 426  io_uring_register 427
  uncounted memory   memfd_create 319  memfd_secret 447  shmget 29  shmat 30  shmctl 31  semget 64  msgget 68  mq_open 240
                     setxattr 188  lsetxattr 189  fsetxattr 190  setxattrat 463
  the network        socket 41
"""
_DENIED = {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", _X86_64)}
_CLONE, _CLONE3 = 56, 435
_NEW_NAMESPACES = 0x7E020000  # user, pid, net, mount, ipc, uts, cgroup
_ARCHITECTURE = 0xC000003E
_X32 = 0x40000000
_EPERM, _ENOSYS = 1, 38
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in what the kernel shows a filter: call number, architecture, low half of the first argument."""


def denied() -> list[str]:
    """Name the system calls that are refused."""
    return sorted(_DENIED)


def program() -> bytes:
    """Assemble the filter for this machine.

    Raises:
        SandboxError: the numbers of its system calls are not known here.
    """
    machine = platform.machine()
    if machine != "x86_64":
        raise SandboxError(f"the sandbox knows the system calls of x86_64 only, not of {machine}; run it in a virtual machine")
    lines = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _ARCHITECTURE),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    for number in sorted(_DENIED.values()):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    lines += [
        (_EQUAL, 0, 3, _CLONE),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
