"""Drops the privileges of a sandbox's first process in the required order, just before it serves.

Invariant: afterwards it has only the capabilities `keep`, cannot gain any, cannot be traced or read by its children,
and every child inherits the filter and the limits.
"""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import struct

from . import syscalls as sys_
from .points import Owner

VERIFIER_KEEPS = 1 << 0 | 1 << 1 | 1 << 3
"""CHOWN, DAC_OVERRIDE, FOWNER: only for files with ids of this user namespace."""
_SIOCSIFFLAGS, _IFF_UP, _IFF_RUNNING = 0x8914, 1, 64


def loopback_up() -> None:
    """Brings `lo` up in the process's own network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP | _IFF_RUNNING))


def set_limits(limits: dict[str, int]) -> None:
    """Sets hard and soft limits, at most the process's own; names as in `resource` without the prefix."""
    for name, value in limits.items():
        kind = getattr(resource, "RLIMIT_" + name)
        most = resource.getrlimit(kind)[1]
        lowest = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (lowest, lowest))


def close_all_but(kept: list[int]) -> None:
    """Closes every descriptor above 2 that is not kept, and puts /dev/null on 0 to 2."""
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    last = 3
    for fd in sorted(kept):
        os.closerange(last, fd)
        last = fd + 1
    os.closerange(last, 65536)


def drop(user: Owner, filter_program: bytes, *, keep: int = 0, change_user: bool) -> None:
    """Drops privileges permanently. Must be called after mounts, limits and descriptors are final."""
    if sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1) < 0:
        raise OSError("no_new_privs was refused")
    sys_.drop_bounding_set(keep)
    if change_user:
        os.setresgid(user.group, user.group, user.group)
        os.setresuid(user.user, user.user, user.user)
    sys_.set_capabilities(keep)
    sys_.load_filter(filter_program)
    sys_.prctl(sys_.PR_SET_DUMPABLE, 0)
