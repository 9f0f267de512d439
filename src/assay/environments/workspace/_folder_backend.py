"""Base of the backends `process`, `bubblewrap` and the container engines: workspaces over plain folders.

A subclass defines the content of a template, how the exec server is started on a folder, and the isolation; everything
else (files, state, snapshots, forks, closing) is here. Isolation is provided only by the subclass.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Unpack

from assay.environments.interface import (
    Change,
    ExecOptions,
    ExecResult,
    Image,
    PipeOptions,
    ProcessInfo,
    Snapshot,
    WorkspaceSpec,
)
from assay.environments.workspace import _folders
from assay.environments.workspace._entries import HashCache
from assay.environments.workspace._facts import FactsFromHost, sandbox_facts
from assay.environments.workspace._guest import Guest
from assay.environments.workspace._layers import LayerStack
from assay.environments.workspace._watch import Watchdog
from assay.environments.workspace.archive import BlobReader, PackedLayers, pack_layers
from assay.environments.workspace.launcher.base import SYSTEM, write_skeleton
from assay.environments.workspace.session import ExecDefaults, InitSession, SessionWorkspace, command_environment
from assay.environments.workspace.state import changes_between, state_digest
from assay.environments.workspace.toolchain import HOME, ToolLayer
from assay.errors import EnvironmentFailure
from assay.records import Isolation, SandboxFacts

SANDBOX_UID = 101_000
"""Unprivileged user id that owns the folders and runs all processes in them when the host process is root."""


class FolderBackend:
    """Base class of a backend; subclasses define `start` and `isolation` and override `excluded_paths` and
    `map_path`."""

    name = "folder"
    needs_system = True
    """True if a template contains the skeleton of a root file system."""

    def __init__(self, *, scratch: Path | None = None) -> None:
        self._scratch_parent = scratch
        self._scratch: Path | None = None
        self._numbers = itertools.count()
        self._cache = HashCache()
        self._templates: dict[tuple[str, tuple[str, ...]], _folders.Template] = {}
        self._template_lock = asyncio.Lock()
        self._snapshots: dict[str, int] = {}
        self._open: set[FolderWorkspace] = set()
        self.owner = SANDBOX_UID if os.geteuid() == 0 and self.needs_system else None

    # Overridden by subclasses

    async def check(self) -> None:
        """Raises `EnvironmentFailure` if a requirement of the backend is missing; called before anything is created."""

    async def start(self, folder: Path, spec: WorkspaceSpec, template: _folders.Template) -> Guest:
        """Starts the exec server on a workspace's folder, which is a copy of `template`."""
        raise NotImplementedError

    def isolation(self, spec: WorkspaceSpec) -> Isolation:
        """Returns the isolation record of a workspace."""
        raise NotImplementedError

    def excluded_paths(self, spec: WorkspaceSpec) -> frozenset[str]:
        """Returns paths that are not part of a workspace's state."""
        return frozenset({*(mount.target.rstrip("/") for mount in spec.mounts), *spec.tmpfs, *spec.masks})

    def map_path(self, folder: Path, spec: WorkspaceSpec, path: str, *, write: bool = False) -> str:
        """Returns a path of the workspace as the exec server sees it."""
        del folder, spec, write
        return path

    def environment(self, folder: Path, spec: WorkspaceSpec) -> dict[str, str]:
        """Returns the environment variables of every command."""
        del folder
        return command_environment(spec, spec.image)

    def map_command(self, folder: Path, spec: WorkspaceSpec, command: str | Sequence[str]) -> str | Sequence[str]:
        """Returns a command as the exec server sees it."""
        del folder, spec
        return command

    # Backend

    def new_path(self, kind: str) -> Path:
        """Returns a new path in this backend's private folder."""
        if self._scratch is None:
            self._scratch = _folders.private_folder(self.name, self._scratch_parent)
        return self._scratch / f"{kind}{next(self._numbers)}"

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> FolderWorkspace:
        if state is not None and state.layers and state.layers[0] not in self._snapshots:
            raise EnvironmentFailure("that snapshot was released, or belongs to another backend")
        await self.check()
        image = state.image if state is not None else spec.image
        try:
            template = await self.template(image)
            source = Path(state.layers[0]) if state is not None and state.layers else template.folder
            folder = self.new_path("w")
            await asyncio.to_thread(_folders.copy_folder, source, folder)
            made_folders = await asyncio.to_thread(self._prepare, folder, spec)
        except (OSError, ValueError) as exc:
            raise EnvironmentFailure(f"the workspace's folder could not be created: {exc}") from exc
        tree = _folders.FolderTree(folder, template, self.excluded_paths(spec), made_folders)
        workspace = FolderWorkspace(self, spec, tree, state or Snapshot("", image))
        self._open.add(workspace)
        try:
            await workspace.start()
        except BaseException:
            self._open.discard(workspace)
            await asyncio.to_thread(_folders.remove_folder, folder)
            raise
        return workspace

    async def template(self, image: Image) -> _folders.Template:
        """Returns the merged folder of an image, created at first use."""
        key = (image.digest, image.layers)
        async with self._template_lock:
            if key not in self._templates:
                folder = self.new_path("i")
                await asyncio.to_thread(self._merge_image, folder, image)
                self._templates[key] = await asyncio.to_thread(_folders.Template, folder, self._cache)
        return self._templates[key]

    def _merge_image(self, folder: Path, image: Image) -> None:
        folder.mkdir(mode=0o755)
        if self.needs_system and not image.root:
            write_skeleton(str(folder), "/")
        for name in ("workspace", "home/agent", "root", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for layer in image.layers:
            _folders.merge_layer(folder, Path(layer))
        self.check_template(folder, image)
        if self.owner is not None:
            _folders.change_owner(folder, self.owner)
        if self.needs_system and not image.root:
            # Read-only in every sandbox, so stored once and not copied.
            (folder / "etc").rename(_folders.etc_folder(folder))
            (folder / "etc").mkdir()

    def check_template(self, folder: Path, image: Image) -> None:
        """Raises `ValueError` for an image that this backend does not support."""

    def _prepare(self, folder: Path, spec: WorkspaceSpec) -> frozenset[str]:
        """Creates working folder and mount points; returns the created folders."""
        made_folders: list[str] = []
        targets = [(spec.workdir, True), *((path, True) for path in spec.tmpfs)]
        targets += [(mount.target, Path(mount.source).is_dir()) for mount in spec.mounts]
        for target, is_folder in targets:
            made_folders += _make_mount_point(folder, target, is_folder=is_folder, owner=self.owner)
        return frozenset(made_folders)

    def find_masks(self, folder: Path, spec: WorkspaceSpec) -> list[tuple[str, bool]]:
        """Returns the masks that cover an existing path, with True for a folder; links are resolved only inside."""
        masks = []
        for path in spec.masks:
            system = not spec.image.root and path.split("/")[1] in SYSTEM and not path.startswith("/etc/")
            host = Path(path) if system else LayerStack((folder,)).resolve(path).host
            if host is not None and host.exists():
                masks.append((path, host.is_dir()))
        return masks

    async def release(self, snapshot: Snapshot) -> None:
        for layer in snapshot.layers:
            top = self._snapshots.pop(layer, None)
            if top is not None:
                os.close(top)
                await asyncio.to_thread(_folders.remove_folder, Path(layer))

    async def close(self) -> None:
        for workspace in list(self._open):
            await workspace.close()
        for top in self._snapshots.values():
            os.close(top)
        for template in self._templates.values():
            template.close()
        self._snapshots.clear()
        self._templates.clear()
        if self._scratch is not None:
            await asyncio.to_thread(_folders.remove_folder, self._scratch)
            self._scratch = None

    async def pack(self, snapshot: Snapshot) -> PackedLayers:
        return pack_layers([self._snapshots[layer] for layer in snapshot.layers], snapshot.changes)

    async def unpack(
        self, manifest: Iterable[Change], read_blob: BlobReader, *, image: Image | None = None
    ) -> Snapshot:
        changes, base = tuple(manifest), image or Image()
        template = await self.template(base)
        folder = self.new_path("s")
        await asyncio.to_thread(_folders.copy_folder, template.folder, folder)
        await asyncio.to_thread(_folders.apply_changes, folder, changes, read_blob)
        if self.owner is not None:
            await asyncio.to_thread(_folders.change_owner, folder, self.owner)
        return self.add_snapshot(folder, base, changes)

    def add_snapshot(self, folder: Path, image: Image, changes: tuple[Change, ...]) -> Snapshot:
        """Takes ownership of a finished folder as a snapshot."""
        self._snapshots[str(folder)] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return Snapshot(state_digest(image.digest, changes), image, (str(folder),), self.name, changes)

    def remove_workspace(self, workspace: FolderWorkspace) -> None:
        self._open.discard(workspace)


def system_folders() -> list[Path]:
    """Returns the host's system folders that sandboxes see read-only."""
    folders = [Path("/", name) for name in SYSTEM if name != "etc"]
    return [folder for folder in folders if folder.is_dir() and not folder.is_symlink()]


def find_python_layer(toolchain: ToolLayer | None, spec: WorkspaceSpec) -> str | None:
    """Returns the host path of the tool layer whose Python runs the exec server; None without one."""
    mounted = next((mount.source for mount in spec.mounts if mount.target == HOME), None)
    return toolchain.path if toolchain is not None else mounted


def require_no_system_layers(image: Image, backend: str) -> None:
    """Raises `ValueError` for an image that adds to the host's read-only system folders."""
    for layer in () if image.root else image.layers:
        for name in SYSTEM:
            if Path(layer, name).is_dir() and name != "etc":
                raise ValueError(f"the image adds to /{name}, which is the host's and read-only with {backend}")


def _make_mount_point(root: Path, target: str, *, is_folder: bool, owner: int | None) -> list[str]:
    """Creates a mount point below real folders only: a link or file in place of a folder is replaced."""
    made_folders, path = [], root
    parts = [part for part in target.split("/") if part]
    if not target.startswith("/") or ".." in parts:
        raise ValueError(f"{target!r} is not an absolute path without '..'")
    for index, part in enumerate(parts):
        path = path / part
        needs_folder = is_folder or index < len(parts) - 1
        if path.is_symlink() or (path.exists() and path.is_dir() != needs_folder):
            path.unlink()
        if not path.exists():
            path.mkdir() if needs_folder else path.touch()
            if owner is not None:
                os.chown(path, owner, owner, follow_symlinks=False)
            made_folders.append("/" + "/".join(parts[: index + 1]))
    return made_folders


class FolderWorkspace(SessionWorkspace):
    """Workspace over a plain folder, opened by `FolderBackend.open`."""

    def __init__(
        self, backend: FolderBackend, spec: WorkspaceSpec, tree: _folders.FolderTree, opened_on: Snapshot
    ) -> None:
        self.spec = spec
        self.isolation = backend.isolation(spec)
        self._backend: FolderBackend = backend
        self._tree, self._opened_on = tree, opened_on
        self._guest: Guest | None = None
        self._closed = False
        self._state_lock = asyncio.Lock()
        self._watchdog = Watchdog(self, tree.folder, spec.limits)

    async def start(self) -> None:
        """Starts the exec server."""
        folder = self._tree.folder
        self._guest = await self._backend.start(folder, self.spec, self._tree.template)
        await asyncio.to_thread(self._tree.note_covered)
        workdir = self._backend.map_path(folder, self.spec, self.spec.workdir)
        env = self._backend.environment(folder, self.spec)
        defaults = ExecDefaults(env, workdir, self.spec.limits.output_mib)
        self._guest.session.configure(defaults, self._watchdog.killed_by)

    def require_session(self) -> InitSession:
        """Returns the session with the exec server; raises `EnvironmentFailure` once closed."""
        if self._closed or self._guest is None:
            raise EnvironmentFailure("the workspace is closed")
        return self._guest.session

    async def running_session(self) -> InitSession:
        return self.require_session()

    def _map_path(self, path: str, *, write: bool = False) -> str:
        return self._backend.map_path(self._tree.folder, self.spec, path, write=write)

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        session = self.require_session()
        self._watchdog.start()
        if cwd := options.get("cwd"):
            options["cwd"] = self._map_path(cwd)
        return await session.exec(self._backend.map_command(self._tree.folder, self.spec, command), **options)

    async def exec_piped(
        self, command: Sequence[str], stdin: int, stdout: int, **options: Unpack[PipeOptions]
    ) -> ExecResult:
        session = self.require_session()
        self._watchdog.start()
        words = self._backend.map_command(self._tree.folder, self.spec, command)
        if cwd := options.get("cwd"):
            options["cwd"] = self._map_path(cwd)
        return await session.exec_piped(words, stdin, stdout, **options)

    async def facts(self) -> SandboxFacts:
        """Implements `DescribesSeparation.facts`. The folder is a copy, so no layer is shared with another sandbox."""
        session, folder = self.require_session(), str(self._tree.folder)
        state = (folder,) if self._opened_on.layers else ()
        host_facts = FactsFromHost(
            self.isolation.name, self._opened_on.image.digest, (folder,), state, folder, session.handed_over
        )
        return sandbox_facts(self._guest.facts if self._guest is not None else None, host_facts)

    async def processes(self) -> tuple[ProcessInfo, ...]:
        return await self.require_session().processes()

    async def kill_all(self) -> None:
        await self.require_session().kill_all()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._watchdog.stop()
        self._backend.remove_workspace(self)
        if self._guest is not None:
            with contextlib.suppress(EnvironmentFailure, OSError):
                await self._guest.session.kill_all()
            await self._guest.stop()
        await asyncio.to_thread(_folders.remove_folder, self._tree.folder)

    async def _changes(self, *, anew: bool = False) -> tuple[Change, ...]:
        return await asyncio.to_thread(self._tree.changes, anew=anew)

    async def digest(self) -> str:
        self.require_session()
        return state_digest(self._opened_on.image.digest, await self._changes())

    async def diff(self, since: Snapshot | None = None) -> tuple[Change, ...]:
        self.require_session()
        base = (self._opened_on if since is None else since).changes
        return changes_between(self._tree.template.view, base, await self._changes())

    async def snapshot(self) -> Snapshot:
        async with self._state_lock:
            await self.require_session().kill_all()
            changes = await self._changes(anew=True)
            folder = self._backend.new_path("s")
            await asyncio.to_thread(_folders.copy_folder, self._tree.folder, folder)
            return self._backend.add_snapshot(folder, self._opened_on.image, changes)
