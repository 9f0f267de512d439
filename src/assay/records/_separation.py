"""Facts about sandboxes, recorded by whoever made them: the evidence on which a grade of separation rests.

Every list carries its total beside it, so that a list that was cut short is a missing fact and not a smaller sandbox.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ._isolation import IsolationName

__all__ = ["IdMap", "LoadFact", "LoadFacts", "LoadRole", "MountFact", "SandboxFacts", "SeparationFacts", "TaintFact"]

LoadRole = Literal["reader", "agent", "judge"]
"""Who loaded bytes of an agent's: a program that reads the named file as data, a program of the agent's, or a process
of the judge's."""


class MountFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mount of a sandbox, as the kernel lists it in `/proc/self/mountinfo`."""

    target: str
    type: str
    """The file system's type, for example `overlay` or `tmpfs`."""
    device: str
    """`major:minor` of the file system: two mounts of one device show the same files."""
    root: str = "/"
    """Which folder or file of that file system is mounted."""
    read_only: bool = False
    no_exec: bool = False


class IdMap(msgspec.Struct, frozen=True):
    """A range of ids of a user namespace and the ids of the parent namespace that it stands for."""

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
    """User id of its commands, as its own user namespace counts them."""
    gid: int | None = None
    image: str | None = None
    """Digest of the image that it was started from."""
    layers: tuple[str, ...] = ()
    """Layers of its root file system, highest first, in the launcher's names, as the kernel lists them."""
    layer_total: int | None = None
    state_layers: tuple[str, ...] = ()
    """Those of `layers` that hold what an agent or an earlier command wrote, not the image."""
    state_total: int | None = None
    writable: str | None = None
    """Its own writable layer, in the launcher's names."""
    mounts: tuple[MountFact, ...] = ()
    mount_total: int | None = None
    """Number of mounts; larger than `mounts` where the list was cut."""
    descriptors: tuple[str, ...] = ()
    """Descriptors that its first process held before it served: `control` (its own host's), `null`, `oom_score`."""
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
    """The program that the process executed, as the kernel names it."""
    path: str
    digest: str = ""
    """Of the program's bytes; empty where it is large or could not be read."""
    pid: int = 0


class TaintFact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that is tainted for good: it loaded bytes of the agent's, or descends from one that did."""

    pid: int
    parent: int
    role: LoadRole
    by: Literal["open", "exec", "descent"]


class LoadFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The observed opens and executions of the agent's files by the judge's processes."""

    complete: bool = False
    """True where every such call was observed, from the first command to the end of the last."""
    problem: str = ""
    """The reason where it was not."""
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
    """Facts about the sandbox that decides and every sandbox in which judged code ran."""

    judge: SandboxFacts = SandboxFacts()
    judged: tuple[SandboxFacts, ...] = ()
    judged_total: int | None = None
    """Number of sandboxes in which judged code ran; larger than `judged` where one could not be observed."""
    image: str | None = None
    """Digest of the image that the judge has to be started from."""
    pipes: int = 0
    """Number of pipe ends that the check declared to hand to the judge."""
    loads: LoadFacts | None = None
    """Observation of the judge's processes; None where the grade does not hang on it: no file that an agent wrote can
    be opened in the judge's sandbox, or the record is older."""
    unconfirmed_inputs: tuple[str, ...] = ()
    """In records of earlier versions: files that a script lent to judged programs and whose names may follow from what
    these printed."""
    evaluations: tuple[str, ...] = ()
    """Reasons why printed text may have acted on the script: the first command whose text is another one than for the
    reference solution, or the reason why there is nothing to compare with."""
