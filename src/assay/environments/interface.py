"""What an environment is: the contract between whoever acts and whatever keeps the world.

An environment reports facts; it never judges. The contract is split by concern: `Session` runs things, `Files` moves
bytes, `State` names and keeps what the world became. A `Workspace` is all three; a `Backend` opens workspaces.
`assay.environments.conformance.check_backend` is the suite that every backend passes.

Paths inside a workspace are POSIX, absolute. Every method raises `EnvironmentFailure` when the sandbox itself is
broken or gone; what a command does wrong is in its result, not an exception.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, runtime_checkable

import msgspec

from assay.records import Isolation, Observation

__all__ = [
    "Backend",
    "Change",
    "Episodic",
    "ExecResult",
    "Files",
    "Image",
    "KeepsStates",
    "MeasuresMemory",
    "Mount",
    "PackedState",
    "PacksStates",
    "PipedExec",
    "ProcessInfo",
    "ResourceLimits",
    "Session",
    "Snapshot",
    "SpillTarget",
    "State",
    "ToolSpec",
    "Tools",
    "Workspace",
    "WorkspaceSpec",
    "World",
]


class ResourceLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one sandbox; `None` means unlimited. Which of them the kernel holds is in the isolation record."""

    memory_mib: int | None = 2048
    """Sum over all processes."""
    processes: int | None = 256
    cpus: float | None = None
    """CPU seconds a second."""
    disk_mib: int | None = 1024
    """Everything written outside /tmp and /dev/shm, which have `tmp_mib`."""
    tmp_mib: int | None = 512
    file_mib: int | None = 1024
    """The largest single file."""
    open_files: int | None = 1024
    output_mib: int = 64
    """Bytes of stdout plus stderr of one exec that are kept whole; beyond it the command is stopped."""


class Mount(msgspec.Struct, frozen=True):
    """A host folder or file made visible read-only inside the sandbox. `source` is resolved on the host."""

    source: str
    target: str


class Image(msgspec.Struct, frozen=True):
    """The file system under the writable layer: host folders of layers, the lowest first.

    An empty `layers` is the host-tools base alone. `digest` is the content address over base and layers.
    `root` is True where the lowest layer is a whole root file system that replaces the host-tools base.
    """

    layers: tuple[str, ...] = ()
    digest: str = "host-tools"
    env: dict[str, str] = {}
    workdir: str = "/workspace"
    root: bool = False
    notes: tuple[str, ...] = ()
    """What a reader of the record must know, for example that `FROM x` was mapped to the base."""


class WorkspaceSpec(msgspec.Struct, frozen=True):
    """Everything that decides what a sandbox is."""

    image: Image = Image()
    workdir: str = "/workspace"
    env: dict[str, str] = {}
    limits: ResourceLimits = ResourceLimits()
    network: Literal["none", "host"] = "none"
    """`host` only where the task's policy asks for it and the caller allowed it; recorded."""
    user: Literal["agent", "verifier"] = "agent"
    """Who runs inside. Different users where the tier can (the isolation record says)."""
    mounts: tuple[Mount, ...] = ()
    masks: tuple[str, ...] = ()
    """Paths replaced by something empty: installed copies of the package under task, for example."""
    tmpfs: tuple[str, ...] = ()
    """Folders that start empty in this sandbox, are owned by its user, and are no part of its state."""
    hostname: str = "assay"
    notes: tuple[str, ...] = ()
    """What its isolation record must say beside the limits, for example that more is open than a task asks for."""


class ExecResult(msgspec.Struct, frozen=True):
    """What a command did. `stdout` and `stderr` are decoded as UTF-8 with replacement and cut at `show_bytes`."""

    exit_code: int
    """Negative for a signal (-9 is SIGKILL), as in `subprocess`."""
    stdout: str
    stderr: str
    duration_s: float
    timed_out: bool = False
    output_limited: bool = False
    """The command was stopped because it wrote more than `ResourceLimits.output_mib`."""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_digest: str | None = None
    """Content address of the whole in the spill target, where the text above is cut; else None."""
    stderr_digest: str | None = None
    killed_by: str | None = None
    """Which limit ended it, where the sandbox knows: `memory`, `disk`, `processes`, `output`, `timeout`."""
    cpu_s: float | None = None
    """Processor seconds of the command and of what it waited for, as the sandbox says; None where it does not."""


class ProcessInfo(msgspec.Struct, frozen=True):
    """A process alive in the sandbox, other than its own init. `command` is agent-controlled text."""

    pid: int
    parent: int
    command: str
    state: str = "?"


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that differs from the state that the sandbox was opened on (or from a given snapshot)."""

    path: str
    kind: Literal["added", "changed", "removed"]
    type: Literal["file", "directory", "symlink", "other"] = "file"
    mode: int | None = None
    size: int | None = None
    digest: str | None = None
    """Content address of a file's bytes or of a link's target."""


class Snapshot(msgspec.Struct, frozen=True):
    """A state that can be opened again, any number of times, while its backend lives.

    `digest` covers every path that differs from the image: kind, mode, size and content; not times, not owners.
    Two sandboxes of one image with the same files have the same digest, whatever order they were written in.
    """

    digest: str
    image: Image
    layers: tuple[str, ...] = ()
    """Backend-specific: the sealed layers on top of the image, lowest first."""
    backend: str = ""
    changes: tuple[Change, ...] = ()
    """All paths that differ from the image."""


class SpillTarget(Protocol):
    """Where large output goes whole. `store.BlobStore` is one."""

    def put_file(self, path: Path) -> str:
        """Takes over a finished file (it may be moved away) and returns its content address."""
        ...


class Session(Protocol):
    """Runs things."""

    spec: WorkspaceSpec
    isolation: Isolation

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        show_bytes: int = 65_536,
        spill: SpillTarget | None = None,
    ) -> ExecResult:
        """Runs one command to its end; a round trip to the sandbox's own first process.

        Args:
            command: A string is run by `/bin/sh -c`; a sequence is run as it is, found on the sandbox's PATH.
            cwd: Working directory; default the spec's `workdir`.
            env: Added to the sandbox's environment for this command alone.
            stdin: What the command reads; at most 16 MiB.
            timeout_s: Wall seconds, after which every process of the command is killed, also those that changed
                session or group; None for no limit. The sandbox stays usable.
            show_bytes: How much of stdout and of stderr is returned: the first half and the last half of it, with
                a line between that says how many bytes were cut.
            spill: Where output beyond `show_bytes` is kept whole; without it the rest is dropped and counted.

        Returns:
            The result; also when the command was killed, timed out, or could not be found (127) or run (126).
            The call ends when the command itself has ended; background processes that hold its output are left
            running and what they write later is not read.

        Raises:
            EnvironmentFailure: The sandbox is gone or its first process does not answer.
        """
        ...

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """Every process in the sandbox but its init."""
        ...

    async def kill_all(self) -> None:
        """Kills every process in the sandbox but its init; returns when none is left. Idempotent."""
        ...

    async def listen(self, port: int = 0) -> socket.socket:
        """A TCP listener on 127.0.0.1 inside the sandbox's own network, handed out: the one way in or out.

        What connects inside to `http://127.0.0.1:PORT` is accepted by whoever holds the socket. Where the isolation
        record says that the network is the host's, it is the host's 127.0.0.1. A snapshot may end it, because what
        runs afterwards may have another network: listen again.

        Args:
            port: Which; 0 lets the kernel pick one, which `getsockname` says.

        Returns:
            The socket, non-blocking; the caller owns it and closes it.

        Raises:
            OSError: The port is taken, or not to be had.
            EnvironmentFailure: The sandbox is gone.
        """
        ...

    async def close(self) -> None:
        """Kills everything and releases all that the sandbox holds, sealed layers excepted. Idempotent."""
        ...


class Files(Protocol):
    """Moves bytes. No path can leave the sandbox: links are resolved as the sandbox would resolve them."""

    async def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        """Reads a regular file. Raises `FileNotFoundError`, `IsADirectoryError`, `PermissionError`, or
        `ValueError` where the file is no regular file or longer than `limit`."""
        ...

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Writes a file, making its parent folders. Raises `OSError` where the sandbox's user may not."""
        ...

    async def upload(self, source: Path, target: str) -> None:
        """Copies a host file or folder to `target`. Links inside `source` that lead outside it raise
        `ValueError`; modes are kept, owners are not."""
        ...

    async def download(self, source: str, target: Path, *, limit: int | None = None) -> None:
        """Copies a file or folder out. Links are written as links only where they stay inside `target`, else
        skipped; devices and sockets are skipped. Never follows a link to a host path. Raises `ValueError` where the
        files claim more than `limit` bytes, holes included; what came before stays at `target`."""
        ...


class State(Protocol):
    """Names and keeps what the world became."""

    async def digest(self) -> str:
        """The state's digest (see `Snapshot`), at a cost in proportion to what changed since the last call."""
        ...

    async def diff(self, since: Snapshot | None = None) -> tuple[Change, ...]:
        """What differs from the state that it was opened on, or from `since`; sorted by path."""
        ...

    async def snapshot(self) -> Snapshot:
        """Seals the present state. Everything that runs is killed first; the workspace goes on, on top of it."""
        ...

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """Opens another workspace on a snapshot of this one, with `spec` (default: the same)."""
        ...


@runtime_checkable
class Workspace(Session, Files, State, Protocol):
    """A sandboxed file system with a shell."""


@runtime_checkable
class Backend(Protocol):
    """Opens workspaces. One backend object serves a whole run; `open` may be called concurrently."""

    name: str

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> Workspace:
        """Opens a fresh sandbox, on `state` if given. Raises `EnvironmentFailure` when it cannot."""
        ...

    async def release(self, snapshot: Snapshot) -> None:
        """Drops a snapshot's sealed layers, once nobody opens it any more. Idempotent."""
        ...

    async def close(self) -> None:
        """Closes every workspace and drops every layer of this backend object. Idempotent."""
        ...


@runtime_checkable
class MeasuresMemory(Protocol):
    """A workspace that can say what it uses."""

    async def memory_bytes(self) -> int:
        """Resident bytes of everything that runs in it now. Raises `EnvironmentFailure` as `Session.exec`."""
        ...


@runtime_checkable
class PipedExec(Protocol):
    """A workspace that can join a command to another process: its standard input and output are the caller's."""

    async def exec_piped(
        self,
        command: Sequence[str],
        stdin: int,
        stdout: int,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stderr: int | None = None,
        timeout_s: float | None = None,
        show_bytes: int = 65_536,
    ) -> ExecResult:
        """Runs one command whose standard input and output are descriptors of the caller's, to its end.

        Two processes in two sandboxes are joined by two pipes: the kernel bounds what is in flight, and nothing else is
        shared. Whoever reads must bound what it takes: `ResourceLimits.output_mib` counts standard error alone.

        Args:
            command: Run as it is.
            stdin: Open for reading; duplicated, the caller closes its own.
            stdout: Open for writing; duplicated, the caller closes its own. `ExecResult.stdout` is empty.
            cwd: As in `Session.exec`.
            env: As in `Session.exec`.
            stderr: As `stdout`, for standard error; None: it is returned.
            timeout_s: As in `Session.exec`.
            show_bytes: As in `Session.exec`, of standard error.

        Raises:
            EnvironmentFailure: As `Session.exec`.
        """
        ...


class PackedState(Protocol):
    """A sealed state as what can be kept outside of its backend."""

    manifest: tuple[Change, ...]

    def files(self) -> Iterator[tuple[Change, BinaryIO]]:
        """Each file and link once, with its bytes (a link's are its target); a handle is valid until the next."""
        ...


@runtime_checkable
class PacksStates(Protocol):
    """A backend whose sealed states can be stored and rebuilt."""

    async def pack(self, snapshot: Snapshot) -> PackedState:
        """The state's manifest and bytes; the snapshot must not be released meanwhile."""
        ...

    async def unpack(
        self, manifest: Iterable[Change], read_blob: Callable[[str], bytes], *, image: Image | None = None
    ) -> Snapshot:
        """Rebuilds a state over `image` from its manifest and a reader of content addresses."""
        ...


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool offered to a model: its JSON Schema in `parameters`."""

    name: str
    description: str
    parameters: dict[str, Any]


class Tools(Protocol):
    """The tool-calling face of an environment: what an in-process world is, and what a workspace is wrapped in."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools, in a stable order."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Calls a tool. A wrong call is an observation with `error`, never an exception."""
        ...

    async def digest(self) -> str | None:
        """Digest of the world as it is now; None where it cannot be observed."""
        ...


@runtime_checkable
class World(Tools, Protocol):
    """An in-process world: it runs no agent code, so nothing isolates it and nothing needs to.

    Found by entry point `assay.environments` under the task's environment kind and built as
    `World(parameters: dict, seed: int)`; one object serves one attempt.
    """

    def facts(self) -> dict[str, Any]:
        """What the world became, as plain JSON data: what checks judge and the record keeps."""
        ...

    async def close(self) -> None:
        """Releases what it holds. Idempotent."""
        ...


@runtime_checkable
class KeepsStates(Protocol):
    """A world whose states can be kept and gone back to: what a fork begins in."""

    def snapshot(self) -> bytes:
        """All that the world is now, as data."""
        ...

    def restore(self, state: bytes) -> None:
        """Becomes what a world of the same kind, parameters and seed was at `snapshot`. Raises `ValueError` for bytes
        that are no snapshot of such a world."""
        ...


@runtime_checkable
class Episodic(Protocol):
    """A world whose acts are paid and that may come to an end by itself. It answers what is tried after its end with
    an error observation and stays as it is."""

    step: int
    """Index of the step under way; set by whoever records, so that what was paid can be told step by step."""

    @property
    def terminated(self) -> bool:
        """Whether the world came to an end of its own, good or bad."""
        ...

    @property
    def truncated(self) -> bool:
        """Whether the world was cut because the acts that it allows are used up: nothing was decided."""
        ...

    def episode(self) -> dict[str, Any]:
        """What the acts were paid, as columns of plain JSON data: `steps`, `rewards`, `progress`, `errors`, one entry
        an act; and `terminated`, `truncated`, `reward` (the sum)."""
        ...
