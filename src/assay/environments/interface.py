"""Contract of an environment: the interface between agents and the state of the world.

An environment reports facts; it never judges. The contract is split by concern: `Session` runs commands, `Files` moves
bytes, `StateAccess` identifies and stores states. A `Workspace` is all three; a `Backend` opens workspaces.
`assay.environments.conformance.check_backend` is the suite that every backend passes.

Paths inside a workspace are POSIX, absolute. Every method raises `EnvironmentFailure` if the sandbox itself is
broken or gone; errors of a command are in its result.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypedDict, runtime_checkable

import msgspec

from assay.records import Isolation, Observation


class ResourceLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one sandbox; `None` means unlimited. The isolation record says which of them the kernel enforces."""

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
    """Limit of stdout plus stderr of one exec; beyond it the command is stopped."""


class Mount(msgspec.Struct, frozen=True):
    """A host folder or file made visible read-only inside the sandbox. `source` is resolved on the host."""

    source: str
    target: str
    is_own: bool = False
    """True if all of it is this project's or pinned by it with hashes, so that its programs may be loaded outside of a
    sandbox (`WorkspaceSpec.preload`)."""


class Image(msgspec.Struct, frozen=True):
    """The file system under the writable layer: host folders of layers, the lowest first; without any, the host-tools
    base.

    `digest` is the content address over base and layers. `root` is True if the lowest layer is a whole root file system
    that replaces the base.
    """

    layers: tuple[str, ...] = ()
    digest: str = "host-tools"
    env: dict[str, str] = {}
    workdir: str = "/workspace"
    root: bool = False
    notes: tuple[str, ...] = ()
    """Notes for readers of the record, for example that `FROM x` was mapped to the base."""


class WorkspaceSpec(msgspec.Struct, frozen=True):
    """Complete specification of a sandbox."""

    image: Image = Image()
    workdir: str = "/workspace"
    env: dict[str, str] = {}
    limits: ResourceLimits = ResourceLimits()
    network: Literal["none", "host"] = "none"
    """`host` only if the task's policy asks for it and the caller allowed it; recorded."""
    user: Literal["agent", "verifier"] = "agent"
    """User inside the sandbox; different host users where the tier supports it (see the isolation record)."""
    mounts: tuple[Mount, ...] = ()
    masks: tuple[str, ...] = ()
    """Paths replaced by empty files or folders, for example installed copies of the package under task."""
    tmpfs: tuple[str, ...] = ()
    """Folders that start empty in this sandbox, are owned by its user, and are not part of its state."""
    hostname: str = "assay"
    preload: tuple[str, ...] = ()
    """Beginning of a command: an interpreter, its options and a program file of ours, both on mounts with `is_own`. A
    tier may load the program before the sandbox exists, and run a command that begins so in a fork. The program defines
    `run_and_exit`, and `preload` if there is more to import."""
    notes: tuple[str, ...] = ()
    """Notes for its isolation record beside the limits, for example that more is open than the task asks for."""


class ExecResult(msgspec.Struct, frozen=True):
    """Result of a command. `stdout` and `stderr` are decoded as UTF-8 with replacement and cut at `show_bytes`."""

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
    """Content address of the complete output in the spill target if the text above is cut; else None."""
    stderr_digest: str | None = None
    killed_by: str | None = None
    """Limit that ended it, if known: `memory`, `disk`, `processes`, `output` or `timeout`."""
    cpu_s: float | None = None
    """CPU seconds of the command and of its reaped children, as reported by the sandbox; None if unknown."""


class ProcessInfo(msgspec.Struct, frozen=True):
    """A live process in the sandbox, other than its init. `command` is agent-controlled text."""

    pid: int
    parent: int
    command: str
    state: str = "?"


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path that differs from the state on which the sandbox was opened (or from a given snapshot)."""

    path: str
    kind: Literal["added", "changed", "removed"]
    type: Literal["file", "directory", "symlink", "other"] = "file"
    mode: int | None = None
    size: int | None = None
    digest: str | None = None
    """Content address of a file's bytes or of a link's target."""


class Snapshot(msgspec.Struct, frozen=True):
    """A state that can be opened again, any number of times, while its backend is open.

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
    """Storage for complete large output, for example `store.BlobStore`."""

    def put_file(self, path: Path) -> str:
        """Takes ownership of a finished file (which may be moved) and returns its content address."""


class CommandOptions(TypedDict, total=False):
    """Options of every command."""

    cwd: str | None
    env: Mapping[str, str] | None
    timeout_s: float | None
    show_bytes: int


class ExecOptions(CommandOptions, total=False):
    """Options of `Session.exec`, for workspaces that pass them on."""

    stdin: bytes
    spill: SpillTarget | None


class PipeOptions(CommandOptions, total=False):
    """Options of `PipedExec.exec_piped`, for workspaces that pass them on."""

    stderr: int | None


class Session(Protocol):
    """Runs commands."""

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
        """Runs one command to its end, with one round trip to the sandbox's first process.

        Args:
            command: A string is run by `/bin/sh -c`; a sequence is run as it is, found on the sandbox's PATH.
            cwd: Working directory; default the spec's `workdir`.
            env: Added to the sandbox's environment for this command only.
            stdin: Standard input; at most 16 MiB.
            timeout_s: Wall seconds, after which every process of the command is killed, also those that changed
                session or group; None for no limit. The sandbox stays usable.
            show_bytes: Number of bytes of stdout and of stderr that are returned: the first half and the last half,
            with
                a line between that states how many bytes were cut.
            spill: Storage for complete output beyond `show_bytes`; without it the rest is dropped and counted.

        Returns:
            The result; also if the command was killed, timed out, or could not be found (127) or run (126).
            The call ends when the command itself has ended; background processes that hold its output are left
            running and what they write later is not read.

        Raises:
            EnvironmentFailure: The sandbox is gone or its first process does not answer.
        """

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """Returns every process in the sandbox except its init."""

    async def kill_all(self) -> None:
        """Kills every process in the sandbox except its init and waits for their end. Idempotent."""

    async def listen(self, port: int = 0) -> socket.socket:
        """Opens a TCP listener on 127.0.0.1 inside the sandbox's own network, the only connection to it.

        Connections inside to `http://127.0.0.1:PORT` are accepted on the returned socket. If the isolation
        record says that the network is the host's, it is the host's 127.0.0.1. A snapshot may close it, because what
        runs afterwards may have another network: listen again.

        Args:
            port: Port number; 0 lets the kernel choose one, which `getsockname` returns.

        Returns:
            The socket, non-blocking; the caller owns it and closes it.

        Raises:
            OSError: The port is in use or not permitted.
            EnvironmentFailure: The sandbox is gone.
        """

    async def close(self) -> None:
        """Kills all processes and releases the sandbox's resources except sealed layers. Idempotent."""


class Files(Protocol):
    """Moves files. No path can leave the sandbox: links are resolved as inside the sandbox."""

    async def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        """Reads a regular file. Raises `FileNotFoundError`, `IsADirectoryError`, `PermissionError`, or
        `ValueError` if the file is not regular or longer than `limit`."""

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Writes a file and creates its parent folders. Raises `OSError` if the sandbox's user may not."""

    async def upload(self, source: Path, target: str) -> None:
        """Copies a host file or folder to `target`. Links inside `source` that lead outside it raise
        `ValueError`; modes are kept, owners are not."""

    async def download(self, source: str, target: Path, *, limit: int | None = None) -> None:
        """Copies a file or folder out. Links are written as links only if they stay inside `target`, else
        skipped; devices and sockets are skipped. Never follows a link to a host path. Raises `ValueError` if the
        files claim more than `limit` bytes, holes included; files copied before stay at `target`."""


class StateAccess(Protocol):
    """Identifies and stores the state of the file system."""

    async def digest(self) -> str:
        """Returns the state's digest (see `Snapshot`); the cost is proportional to the changes since the last call."""

    async def diff(self, since: Snapshot | None = None) -> tuple[Change, ...]:
        """Returns the differences from the state on which it was opened, or from `since`; sorted by path."""

    async def snapshot(self) -> Snapshot:
        """Seals the current state after killing all processes; the workspace continues on top of it."""

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """Opens another workspace on a snapshot of this one, with `spec` (default: the same spec)."""


@runtime_checkable
class Workspace(Session, Files, StateAccess, Protocol):
    """A sandboxed file system with a shell."""


@runtime_checkable
class Backend(Protocol):
    """Opens workspaces. One backend object serves a whole run; `open` may be called concurrently."""

    name: str

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> Workspace:
        """Opens a fresh sandbox, on `state` if given. Raises `EnvironmentFailure` if it cannot."""

    async def release(self, snapshot: Snapshot) -> None:
        """Deletes a snapshot's sealed layers; it cannot be opened afterwards. Idempotent."""

    async def close(self) -> None:
        """Closes every workspace and deletes every layer of this backend object. Idempotent."""


@runtime_checkable
class MeasuresMemory(Protocol):
    """A workspace that measures its memory use."""

    async def memory_bytes(self) -> int:
        """Returns the resident bytes of all its processes. Raises `EnvironmentFailure` as `Session.exec`."""


@runtime_checkable
class PipedExec(Protocol):
    """A workspace that can connect a command's standard input and output to the caller's descriptors."""

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
        """Runs one command to its end with descriptors of the caller as standard input and output; both are duplicated.

        Two processes in two sandboxes can be joined by two pipes: the kernel bounds the data in flight, and nothing
        else is shared. The reader must limit what it accepts: `ResourceLimits.output_mib` counts only standard error,
        which is returned unless `stderr` is given. The other options and exceptions are those of `Session.exec`.
        """


class PackedState(Protocol):
    """A sealed state in a form that can be stored outside its backend."""

    manifest: tuple[Change, ...]

    def files(self) -> Iterator[tuple[Change, BinaryIO]]:
        """Yields each file and link once, with its bytes (a link's are its target); a handle is valid until the
        next."""


@runtime_checkable
class PacksStates(Protocol):
    """A backend whose sealed states can be stored and rebuilt."""

    async def pack(self, snapshot: Snapshot) -> PackedState:
        """Returns the state's manifest and bytes; the snapshot must not be released meanwhile."""

    async def unpack(
        self, manifest: Iterable[Change], read_blob: Callable[[str], bytes], *, image: Image | None = None
    ) -> Snapshot:
        """Rebuilds a state over `image` from its manifest and a reader of content addresses."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool offered to a model: its JSON Schema in `parameters`."""

    name: str
    description: str
    parameters: dict[str, Any]


class Tools(Protocol):
    """Tool-calling interface of an environment, implemented by in-process worlds and by wrappers of workspaces."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """Returns the tools in a stable order."""

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Calls a tool. An invalid call returns an observation with `error`, never raises."""

    async def digest(self) -> str | None:
        """Returns the digest of the current state; None if it cannot be observed."""


@runtime_checkable
class World(Tools, Protocol):
    """An in-process world. It runs no agent code and needs no isolation.

    Found by entry point `assay.environments` under the task's environment kind and built as
    `World(parameters: dict, seed: int)`; one object serves one attempt.
    """

    def facts(self) -> dict[str, Any]:
        """Returns the final state as plain JSON data, for checks and the record."""

    async def close(self) -> None:
        """Releases its resources. Idempotent."""


@runtime_checkable
class KeepsStates(Protocol):
    """A world whose states can be saved and restored, for forks."""

    def snapshot(self) -> bytes:
        """Returns the complete current state as data."""

    def restore(self, state: bytes) -> None:
        """Restores a snapshot of a world of the same kind, parameters and seed. Raises `ValueError` for other bytes."""


@runtime_checkable
class Episodic(Protocol):
    """A world that rewards acts and may end by itself. Calls after its end return an error observation and change
    nothing."""

    step: int
    """Index of the current step, set by the recorder, so that rewards can be attributed to steps."""

    @property
    def terminated(self) -> bool:
        """Returns True if the world ended by itself, successfully or not."""

    @property
    def truncated(self) -> bool:
        """Returns True if the limit of acts was reached without an outcome."""

    def episode(self) -> dict[str, Any]:
        """Returns the rewards as plain JSON: `steps`, `rewards`, `progress` and `errors` for each act; and
        `terminated`, `truncated`, `reward` (the sum)."""
