"""Facts about sandboxes: the evidence for a grade of separation.

Every list has a total beside it, so that a cut list counts as a missing fact and not as a smaller sandbox.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ._isolation import IsolationName

LoadRole = Literal["reader", "agent", "judge"]
"""Loader of an agent's bytes: a program that reads the named file as data, a program of the agent's, or a process of
the judge's."""


class MountFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mount of a sandbox, as the kernel lists it in `/proc/self/mountinfo`."""

    target: str
    type: str
    """File system type, for example `overlay` or `tmpfs`."""
    device: str
    """`major:minor` of the file system: two mounts of one device show the same files."""
    root: str = "/"
    """Mounted folder or file of that file system."""
    read_only: bool = False
    no_exec: bool = False


class IdMap(msgspec.Struct, frozen=True):
    """A range of ids of a user namespace and the matching ids of the parent namespace."""

    inside: int
    outside: int
    count: int


class SandboxFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about one sandbox, read by its own first process before any command ran in it, and by its host."""

    tier: IsolationName | None = None
    namespaces: dict[str, int] = {}
    """Inode of each namespace by name: `user`, `pid`, `mnt`, `ipc`, `net`. An absent name was not observed."""
    uid_map: tuple[IdMap, ...] = ()
    gid_map: tuple[IdMap, ...] = ()
    uid: int | None = None
    """User id of its commands in its own user namespace."""
    gid: int | None = None
    image: str | None = None
    """Digest of its image."""
    layers: tuple[str, ...] = ()
    """Layers of its root file system, highest first, in the launcher's names."""
    layer_total: int | None = None
    state_layers: tuple[str, ...] = ()
    """Those of `layers` that an agent or an earlier command wrote."""
    state_total: int | None = None
    writable: str | None = None
    """Its own writable layer, in the launcher's names."""
    mounts: tuple[MountFact, ...] = ()
    mount_total: int | None = None
    """Number of mounts; larger than `mounts` where the list was cut."""
    descriptors: tuple[str, ...] = ()
    """Descriptors that its first process held at start: `control` (its own host's), `null`, `oom_score`."""
    descriptor_total: int | None = None
    handed_over: dict[str, int] = {}
    """Descriptors that its commands exchanged with the host beside their own output, counted by kind: `pipe`,
    `listener` (on its network), `local_listener` (at a path in it, held by its host), or another kind."""
    handed_total: int | None = None


class LoadFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of the agent's that a process in the judge's sandbox opened or executed."""

    role: LoadRole
    call: Literal["open", "exec"]
    program: str
    """Program that the process executed, as the kernel names it."""
    path: str
    digest: str = ""
    """Digest of the program's bytes; empty where it is large or unreadable."""
    pid: int = 0


class TaintFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tainted process: it loaded bytes of the agent's, or descends from one that did."""

    pid: int
    parent: int
    role: LoadRole
    by: Literal["open", "exec", "descent"]


class LoadFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The observed opens and executions of the agent's files by the judge's processes."""

    complete: bool = False
    """True where every such call was observed, from the first command to the end of the last."""
    problem: str = ""
    """Reason for an incomplete observation."""
    calls: int = 0
    readers: dict[str, str] = {}
    """Digest of each program that read the agent's files as data, by its path, as it lay in the judge's sandbox
    before the first command."""
    counts: dict[LoadRole, int] = {}
    """Number of loads for each role."""
    loads: tuple[LoadFact, ...] = ()
    load_total: int = 0
    """Number of different loads; larger than `loads` where the list was cut."""
    tainted: tuple[TaintFact, ...] = ()
    tainted_total: int = 0


class SeparationFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about the deciding sandbox and every sandbox in which judged code ran."""

    judge: SandboxFacts = SandboxFacts()
    judged: tuple[SandboxFacts, ...] = ()
    judged_total: int | None = None
    """Number of sandboxes in which judged code ran; larger than `judged` where one could not be observed."""
    image: str | None = None
    """Digest of the image that the judge must be started from."""
    pipes: int = 0
    """Number of pipe ends that the check declared for the judge."""
    loads: LoadFacts | None = None
    """Observation of the judge's processes; None where the grade does not depend on it: the judge's sandbox can open no
    file of the agent's, or the record is older."""
    reference_difference: str = ""
    """First difference between the text that the judge read of judged programs and that of the reference solution's
    programs, or the reason why it is unknown; empty if all is equal, or the judge read nothing."""
