"""Counted limits: objects that the kernel counts for each user and user namespace (`/proc/sys/user`).

An object created inside a sandbox counts against the sandbox's user namespace and against its owner, so
sandboxes of one user consume that user's own limits: a limit inside bounds one sandbox, not their sum.

- As root each sandbox's namespaces are owned by a host id of their own, so no counts are shared. - Otherwise the
launcher's own user namespace limits the sum of all its sandboxes to three quarters of the host's limit, and
  each sandbox has a share, which the host's side computes.
"""

from __future__ import annotations

import os

from . import syscalls as sys_
from .cgroups import write_text

FOLDER = "/proc/sys/user"
FIRST_OWNER, OWNERS, LAUNCHERS = 1_900_000_000, 4096, 32_768
"""Range of owner ids, above those of distributions and container managers and below the kernel's reserved ids."""
SHARED = -1
"""In place of an id: sandboxes are owned by the launcher's own user."""
PR_SET_SECUREBITS, KEEP_CAPABILITIES = 28, 1 << 2
"""SECBIT_NO_SETUID_FIXUP: a change of the effective id does not change capabilities."""


def read_limits(folder: str = FOLDER) -> dict[str, int]:
    """Returns this user namespace's limits by name, without `max_`; empty if the kernel has none."""
    limits = {}
    try:
        for name in sorted(os.listdir(folder)):
            with open(f"{folder}/{name}", encoding="ascii") as handle:
                limits[name.removeprefix("max_")] = int(handle.read())
    except (OSError, ValueError):
        return {}
    return limits


def write_limits(limits: dict[str, int], folder: str) -> None:
    """Sets limits of this process's user namespace. Raises `OSError` if one cannot be set."""
    for name, value in limits.items():
        write_text(f"{folder}/max_{name}", str(value))


class Owners:
    """Host ids that own the sandboxes' namespaces, one each, in turn. Only for a launcher that is real root."""

    def __init__(self) -> None:
        self._first = FIRST_OWNER + os.getpid() % LAUNCHERS * OWNERS
        self._next = 0
        self.available = self._try()

    def _try(self) -> bool:
        if sys_.prctl(PR_SET_SECUREBITS, KEEP_CAPABILITIES) < 0:
            return False
        try:
            os.setresuid(-1, self._first + OWNERS - 1, -1)
            os.setresuid(-1, 0, -1)
        except OSError:
            return False
        return True

    def choose(self) -> int:
        """Returns the next id; `SHARED` where there is none of its own."""
        if not self.available:
            return SHARED
        self._next = (self._next + 1) % OWNERS
        return self._first + self._next


def clone_owned(flags: int, owner: int) -> int:
    """Clones as `syscalls.clone`, with an id as owner of the new user namespace."""
    if owner == SHARED:
        return sys_.clone(flags)
    os.setresuid(-1, owner, -1)
    try:
        pid = sys_.clone(flags)
    except OSError:
        os.setresuid(-1, 0, -1)
        raise
    if pid:
        os.setresuid(-1, 0, -1)
    return pid
