"""The `namespaces` backend: sandboxes from kernel features only, without installation, with or without root.

This is the host's side: it requests sandboxes and layers from the launcher (`launcher/`, whose docstring lists what is
covered and what is not), controls each sandbox through `session.InitSession`, and reads the writable layers through
`state.OverlayState`. A snapshot seals the writable layer and continues above it, so a fork costs as much as an open.

Not part of a state: /tmp, /dev/shm, /dev, /proc, the read-only system folders (/usr, /etc, ...), and paths covered by
a mount, mask or fresh folder of the spec.

Invariant: a sealed layer never changes, and only `spec` determines the content of a sandbox.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from assay.environments.interface import Change, Image, Snapshot, WorkspaceSpec
from assay.environments.workspace._change_set import ChangeSet
from assay.environments.workspace._launch import Launcher
from assay.environments.workspace._limits import (
    choose_budget,
    describe_isolation,
    limit_shares,
    process_limits,
    sandbox_capacity,
)
from assay.environments.workspace._sandbox import NamespacesWorkspace, Sandbox, SandboxLayers, SandboxRequest
from assay.environments.workspace.archive import BlobReader, PackedLayers, pack_layers, write_layer
from assay.environments.workspace.launcher.init import LOCALE
from assay.environments.workspace.session import command_environment
from assay.environments.workspace.state import HashCache, StackedImage, state_digest
from assay.errors import EnvironmentFailure, HostFailure, boundary

INODES_A_MIB = 256
SLOT_WAIT_S = 600.0


def _no_release() -> None:
    return


class NamespacesBackend:
    """Opens workspaces in separate namespaces.

    Args:
        run_as: As root, the unprivileged user id to which the launcher changes.
        writable: Storage of writable layers: `auto` is a sized tmpfs if the kernel supports it and the size is at most
            half of the available memory (the disk limit is hard), else a folder on disk (it is soft).
        scratch: Parent of folders on disk; default the temporary folder.
        sandboxes: Approximate number open at once. If they share counted limits (such as inotify instances) with the
            user, each has its part of a quarter of them, and `open` waits while the sum is exhausted.
    """

    name = "namespaces"
    max_sealed_layers = 40
    """Sealed layers under one workspace; more are squashed into one. A mount supports about 130."""

    max_cached = 128
    """Maximum number of cached image layers, and of cached mounts."""

    def __init__(
        self,
        *,
        run_as: int | None = None,
        writable: Literal["auto", "disk"] = "auto",
        scratch: Path | None = None,
        sandboxes: int = 16,
    ) -> None:
        self._run_as = run_as
        self._sandboxes = sandboxes
        self._slots: asyncio.Semaphore | None = None
        self._writable = writable
        self._scratch = scratch
        self._launcher: Launcher | None = None
        self._dead: list[Launcher] = []
        self._orphaned_descriptors: list[int] = []
        self._launcher_lock = asyncio.Lock()
        self._layer_lock = asyncio.Lock()
        self._mount_lock = asyncio.Lock()
        self._unpacking = 0
        self._cache = HashCache()
        self._images: dict[str, tuple[str, int]] = {}
        self._mounts: dict[str, str] = {}
        self._sealed: dict[str, int] = {}
        self._snapshots: set[tuple[str, ...]] = set()
        self._open: set[NamespacesWorkspace] = set()

    async def launcher(self) -> Launcher:
        """Returns the launcher, started at first use and again after it was killed."""
        async with self._launcher_lock:
            if self._launcher is not None and self._launcher.has_exited:
                self._discard_launcher(self._launcher)
            if self._launcher is None:
                self._launcher = await Launcher.start(self._run_as, self._scratch, len(self._dead))
                counted = self._launcher.facts.counted
                self._shares = limit_shares(counted, self._sandboxes)
                capacity = sandbox_capacity(counted, self._shares)
                self._slots = None if capacity is None else asyncio.Semaphore(capacity)
            return self._launcher

    def _discard_launcher(self, launcher: Launcher) -> None:
        """Forgets a dead launcher with all its layers and mounts. Descriptors stay open for concurrent readers."""
        self._dead.append(launcher)
        self._orphaned_descriptors += [*self._sealed.values(), *(top for _, top in self._images.values())]
        for table in (self._sealed, self._images, self._mounts, self._snapshots):
            table.clear()
        self._launcher = None

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> NamespacesWorkspace:
        image = state.image if state is not None else spec.image
        sealed = state.layers if state is not None else ()
        if missing := [layer_path for layer_path in sealed if layer_path not in self._sealed]:
            raise HostFailure(f"the state's layers {missing} are not, or no longer, this backend's")
        async with self._layer_lock:
            with boundary(EnvironmentFailure, "the image"):
                layers = await self._open_layers(image, sealed)
            workspace = NamespacesWorkspace(self, spec, layers, state)
            self._open.add(workspace)
            if not self._unpacking:
                await self._evict_unused()
        try:
            with boundary(EnvironmentFailure, "the sandbox"):
                await workspace.start()
        except BaseException:
            self._open.discard(workspace)
            raise
        return workspace

    async def reserve(self) -> Callable[[], None]:
        """Waits until the counted limits suffice for one more sandbox; returns what gives its part back.

        Raises:
            HostFailure: No sandbox ended for long.
        """
        slots = self._slots
        if slots is None:
            return _no_release
        try:
            await asyncio.wait_for(slots.acquire(), SLOT_WAIT_S)
        except TimeoutError as exc:
            raise HostFailure(
                f"no sandbox ended within {SLOT_WAIT_S:g} s, and the user's limits (/proc/sys/user) allow no more"
            ) from exc
        return slots.release

    async def _open_layers(self, image: Image, sealed: tuple[str, ...]) -> SandboxLayers:
        launcher = await self.launcher()
        paths, tops = [], []
        for source in reversed(image.layers):
            layer_path, top = await self._image_layer(source)
            paths.append(layer_path)
            tops.append(top)
        if not image.root:
            tops.append(launcher.skeleton)
        return SandboxLayers(image, tuple(reversed(sealed)), tuple(paths), StackedImage(tops, self._cache))

    async def _image_layer(self, source: str) -> tuple[str, int]:
        key, real = _source_identity(source)
        if key not in self._images:
            launcher = await self.launcher()
            answer = await launcher.ask({"op": "layer", "source": real, "kind": "layer"})
            self._images[key] = (answer.body["place"], answer.fds[0])
        self._images[key] = self._images.pop(key)  # least recently used first
        return self._images[key]

    async def _mount(self, source: str) -> str:
        key, real = _source_identity(source)
        async with self._mount_lock:  # several sandboxes may request one mount concurrently
            if key not in self._mounts:
                launcher = await self.launcher()
                answer = await launcher.ask({"op": "layer", "source": real, "kind": "mount"})
                self._mounts[key] = answer.body["place"]
            self._mounts[key] = self._mounts.pop(key)
            return self._mounts[key]

    async def _evict_unused(self) -> None:
        """Releases the least recently used layers and mounts: each adds a small cost to every later sandbox."""
        used = {layer_path for workspace in self._open for layer_path in workspace.image_paths}
        unused = [key for key, (layer_path, _) in self._images.items() if layer_path not in used][: -self.max_cached]
        paths = []
        for key in unused:
            layer_path, top = self._images.pop(key)
            os.close(top)
            paths.append(layer_path)
        paths += [self._mounts.pop(key) for key in list(self._mounts)[: -self.max_cached]]
        if paths and self._launcher is not None:
            await self._launcher.ask({"op": "forget", "places": paths})

    async def request_for(self, spec: WorkspaceSpec, layers: SandboxLayers) -> SandboxRequest:
        """Returns the launcher's request for one sandbox."""
        launcher = await self.launcher()
        prefer_disk = self._writable == "disk"
        budget = choose_budget(spec.limits, launcher.facts, prefer_disk=prefer_disk)
        home = "/home/agent" if spec.user == "agent" else "/root"
        message = {
            "op": "open",
            "lowers": [*(f"{layer_path}/u" for layer_path in layers.sealed), *layers.image_paths],
            "image": list(layers.image_paths),
            "whole_root": layers.image.root,
            "place": None,
            "size": budget.disk,
            "inodes": budget.disk // (1 << 20) * INODES_A_MIB + 4096 if budget.disk else None,
            "mounts": [[await self._mount(mount.source), mount.target] for mount in spec.mounts],
            "masks": list(spec.masks),
            "tmpfs": list(spec.tmpfs),
            "folders": [spec.workdir, home],
            "tmp": spec.limits.tmp_mib * (1 << 20) if spec.limits.tmp_mib is not None else None,
            "user": spec.user,
            "network": spec.network,
            "hostname": spec.hostname,
            "rlimits": process_limits(spec.limits, budget),
            "counts": self._shares,
            "preload": await self._preload(spec, layers.image),
            "memory": budget.memory_group,
            "cpus": budget.cpus,
        }
        return SandboxRequest(message, budget, describe_isolation(spec, budget, launcher.facts))

    async def _preload(self, spec: WorkspaceSpec, image: Image) -> dict[str, Any] | None:
        """Returns the launcher's request for a template (`launcher.template`); None without one, and for a root file
        system with locales of its own."""
        if not spec.preload or image.root:
            return None
        mounts = []
        for path in (spec.preload[0], spec.preload[-1]):
            found = [one for one in spec.mounts if path.startswith(one.target.rstrip("/") + "/")]
            if len(found) != 1 or not found[0].is_own:
                return None
            mounts.append([await self._mount(found[0].source), found[0].target])
        every = command_environment(spec, image)
        env = {name: every[name] for name in LOCALE if every.get(name)}
        return {"argv": list(spec.preload), "mounts": mounts, "env": env}

    def seal(self, sandbox: Sandbox, layers: SandboxLayers, changes: tuple[Change, ...]) -> Snapshot:
        """Takes ownership of an ended sandbox's writable layer as a layer of a new snapshot."""
        self._sealed[sandbox.layer_path] = sandbox.upper
        return self.add_snapshot(layers.image, (*reversed(layers.sealed), sandbox.layer_path), changes)

    def add_snapshot(self, image: Image, sealed: tuple[str, ...], changes: Iterable[Change]) -> Snapshot:
        """Registers and returns the state of sealed layers (lowest first)."""
        ordered = ChangeSet(changes)
        self._snapshots.add(sealed)
        return Snapshot(state_digest(image.digest, ordered), image, sealed, self.name, ordered)

    async def pack(self, snapshot: Snapshot) -> PackedLayers:
        """Returns the state as a manifest and its bytes, for storage outside this backend.

        `for change, handle in packed.files()` yields each file and link once with an open binary handle, valid until
        the next step. The snapshot must not be released meanwhile.
        """
        tops = [self._sealed[layer_path] for layer_path in reversed(snapshot.layers)]
        return pack_layers(tops, snapshot.changes)

    async def unpack(
        self, manifest: Iterable[Change], read_blob: BlobReader, *, image: Image | None = None
    ) -> Snapshot:
        """Rebuilds a state from its manifest (as `Snapshot.changes`) over `image` (default: host tools only).

        The manifest is untrusted: no path can leave the layer. `read_blob` returns the bytes of a content address; it
        is called in a thread, and its result is checked.
        """
        changes = tuple(manifest)
        launcher = await self.launcher()
        self._unpacking += 1
        try:
            return await self._unpack(launcher, changes, read_blob, image or Image())
        finally:
            self._unpacking -= 1

    async def _unpack(
        self, launcher: Launcher, changes: tuple[Change, ...], read_blob: BlobReader, image: Image
    ) -> Snapshot:
        async with self._layer_lock:
            layers = await self._open_layers(image, ())
        size = sum(change.size or 0 for change in changes)
        pages = sum((change.size or 0) // 4096 + 1 for change in changes)
        size_limit = (
            max(size, pages * 4096) + (1 << 20) if launcher.facts.tmpfs_layers and self._writable != "disk" else None
        )
        message = {"op": "upper", "size": size_limit, "inodes": len(changes) * 8 + 4096}
        answer = await launcher.ask(message)
        owner = launcher.facts.owner
        try:
            await asyncio.to_thread(write_layer, answer.fds[0], changes, read_blob, layers.view, owner)
        except (OSError, ValueError):
            os.close(answer.fds[0])
            await launcher.ask({"op": "drop", "places": [answer.body["place"]]})
            raise
        self._sealed[answer.body["place"]] = answer.fds[0]
        return self.add_snapshot(layers.image, (answer.body["place"],), changes)

    async def squash(self, snapshot: Snapshot) -> Snapshot:
        """Replaces a snapshot by one with the same state in a single sealed layer."""
        packed = await self.pack(snapshot)
        squashed = await self.unpack(packed.manifest, packed.read, image=snapshot.image)
        await self.release(snapshot)
        return squashed

    async def release(self, snapshot: Snapshot) -> None:
        """Implements `Backend.release`. Layers under an open workspace are dropped when it closes."""
        self._snapshots.discard(snapshot.layers)
        await self.drop_unused_layers()

    async def drop_unused_layers(self) -> None:
        """Drops sealed layers that no snapshot and no open workspace uses."""
        used = {layer_path for layers in self._snapshots for layer_path in layers}
        used |= {layer_path for workspace in self._open for layer_path in workspace.sealed_paths}
        unused = [layer_path for layer_path in self._sealed if layer_path not in used]
        if not unused or self._launcher is None or self._launcher.has_exited:
            return
        for layer_path in unused:
            os.close(self._sealed.pop(layer_path))
        await self._launcher.ask({"op": "drop", "places": unused})

    def remove_workspace(self, workspace: NamespacesWorkspace) -> None:
        self._open.discard(workspace)

    async def close(self) -> None:
        for workspace in list(self._open):
            await workspace.close()
        self._snapshots.clear()
        for top in (*self._sealed.values(), *(top for _, top in self._images.values()), *self._orphaned_descriptors):
            os.close(top)
        self._orphaned_descriptors.clear()
        self._sealed.clear()
        self._images.clear()
        self._mounts.clear()
        launchers = [*self._dead, *([self._launcher] if self._launcher is not None else [])]
        self._dead, self._launcher = [], None
        for launcher in launchers:
            await launcher.close()


def _source_identity(source: str) -> tuple[str, str]:
    """Returns a key that changes when the file or folder is replaced, and the real path."""
    real = Path(source).resolve(strict=True)
    status = real.stat()
    return f"{real}\0{status.st_dev}:{status.st_ino}", str(real)
