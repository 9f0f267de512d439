"""The `namespaces` backend: sandboxes out of the kernel's own parts, nothing to install, root or not.

This is the host's side: it asks the launcher (`launcher/`, whose docstring lists what is covered and what is not) for
sandboxes and layers, talks to each sandbox through `session.InitSession`, and reads the writable layers through
`state.OverlayState`. A snapshot seals the writable layer and goes on above it, so a fork costs what an open costs.

Not part of a state: /tmp, /dev/shm, /dev, /proc, the read-only system folders (/usr, /etc, ...), and what a mount,
mask or fresh folder of the spec covers.

The invariant: a sealed layer never changes, and nothing outside `spec` decides what a sandbox sees.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from assay.environments.interface import Change, Image, Snapshot, WorkspaceSpec
from assay.environments.workspace._launch import Launcher
from assay.environments.workspace._limits import budget_for, capacity_of, isolation_of, rlimits_of, shares_of
from assay.environments.workspace._sandbox import Layers, NamespacesWorkspace, Sandbox, SandboxRequest
from assay.environments.workspace.archive import BlobReader, Packed, pack_layers, write_layer
from assay.environments.workspace.state import HashCache, StackedImage, state_digest
from assay.errors import EnvironmentFailure, HostFailure, boundary

__all__ = ["NamespacesBackend"]

INODES_A_MIB = 256
SLOT_WAIT_S = 600.0


def _release_nothing() -> None:
    return


class NamespacesBackend:
    """Opens workspaces in namespaces of their own.

    Args:
        run_as: As root, the ordinary user id that the launcher becomes: the tier of a user without rights.
        writable: Where writable layers live: `auto` is a sized tmpfs where the kernel can and the size is at most half
            of the memory that is available then (the disk limit is hard), else a folder on disk (it is soft).
        scratch: Where folders on disk are made; default the temporary folder.
        sandboxes: About how many are open at once. Where they share counted limits (inotify instances, say) with the
            user, each has its part of a quarter of them, and `open` waits while the sum is spent.
    """

    name = "namespaces"
    most_sealed = 40
    """Sealed layers under one workspace; at more they are written into one. A mount takes about 130."""

    most_kept = 128
    """Image layers, and mounts, that stay ready for the next sandbox."""

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
        self._left_open: list[int] = []
        self._starting = asyncio.Lock()
        self._layering = asyncio.Lock()
        self._mounting = asyncio.Lock()
        self._unpacking = 0
        self._cache = HashCache()
        self._images: dict[str, tuple[str, int]] = {}
        self._mounts: dict[str, str] = {}
        self._sealed: dict[str, int] = {}
        self._snapshots: set[tuple[str, ...]] = set()
        self._open: set[NamespacesWorkspace] = set()

    async def launcher(self) -> Launcher:
        """The launcher, started at the first need, and anew where it was killed."""
        async with self._starting:
            if self._launcher is not None and self._launcher.gone:
                self._mourn(self._launcher)
            if self._launcher is None:
                self._launcher = await Launcher.start(self._run_as, self._scratch, len(self._dead))
                counted = self._launcher.facts.counted
                self._shares = shares_of(counted, self._sandboxes)
                capacity = capacity_of(counted, self._shares)
                self._slots = None if capacity is None else asyncio.Semaphore(capacity)
            return self._launcher

    def _mourn(self, launcher: Launcher) -> None:
        """With a launcher go all layers and mounts of it. Descriptors stay open: somebody may be reading yet."""
        self._dead.append(launcher)
        self._left_open += [*self._sealed.values(), *(top for _, top in self._images.values())]
        for held in (self._sealed, self._images, self._mounts, self._snapshots):
            held.clear()
        self._launcher = None

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> NamespacesWorkspace:
        image = state.image if state is not None else spec.image
        sealed = state.layers if state is not None else ()
        if missing := [place for place in sealed if place not in self._sealed]:
            raise HostFailure(f"the state's layers {missing} are not, or no longer, this backend's")
        async with self._layering:
            with boundary(EnvironmentFailure, "the image"):
                layers = await self._layers(image, sealed)
            workspace = NamespacesWorkspace(self, spec, layers, state)
            self._open.add(workspace)
            if not self._unpacking:
                await self._forget_old()
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
            return _release_nothing
        try:
            await asyncio.wait_for(slots.acquire(), SLOT_WAIT_S)
        except TimeoutError as exc:
            raise HostFailure(
                f"no sandbox ended within {SLOT_WAIT_S:g} s, and the user's limits (/proc/sys/user) allow no more"
            ) from exc
        return slots.release

    async def _layers(self, image: Image, sealed: tuple[str, ...]) -> Layers:
        launcher = await self.launcher()
        places, tops = [], []
        for source in reversed(image.layers):
            place, top = await self._image_layer(source)
            places.append(place)
            tops.append(top)
        if not image.root:
            tops.append(launcher.skeleton)
        return Layers(image, tuple(reversed(sealed)), tuple(places), StackedImage(tops, self._cache))

    async def _image_layer(self, source: str) -> tuple[str, int]:
        key, real = _identity(source)
        if key not in self._images:
            launcher = await self.launcher()
            answer = await launcher.ask({"op": "layer", "source": real, "kind": "layer"})
            self._images[key] = (answer.body["place"], answer.fds[0])
        self._images[key] = self._images.pop(key)  # the last used is the last to go
        return self._images[key]

    async def _mount(self, source: str) -> str:
        key, real = _identity(source)
        async with self._mounting:  # many sandboxes ask for one mount at once
            if key not in self._mounts:
                launcher = await self.launcher()
                answer = await launcher.ask({"op": "layer", "source": real, "kind": "mount"})
                self._mounts[key] = answer.body["place"]
            self._mounts[key] = self._mounts.pop(key)
            return self._mounts[key]

    async def _forget_old(self) -> None:
        """Lets go of layers and mounts that were not used for long: each costs every later sandbox a little."""
        used = {place for workspace in self._open for place in workspace.image_places}
        spare = [key for key, (place, _) in self._images.items() if place not in used][: -self.most_kept]
        places = []
        for key in spare:
            place, top = self._images.pop(key)
            os.close(top)
            places.append(place)
        places += [self._mounts.pop(key) for key in list(self._mounts)[: -self.most_kept]]
        if places and self._launcher is not None:
            await self._launcher.ask({"op": "forget", "places": places})

    async def request_for(self, spec: WorkspaceSpec, layers: Layers) -> SandboxRequest:
        """Everything that the launcher must know to make one sandbox."""
        launcher = await self.launcher()
        prefer_disk = self._writable == "disk"
        budget = budget_for(spec.limits, launcher.facts, prefer_disk=prefer_disk)
        home = "/home/agent" if spec.user == "agent" else "/root"
        message = {
            "op": "open",
            "lowers": [*(f"{place}/u" for place in layers.sealed), *layers.image_places],
            "image": list(layers.image_places),
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
            "rlimits": rlimits_of(spec.limits, budget),
            "counts": self._shares,
            "memory": budget.memory_group,
            "cpus": budget.cpus,
        }
        return SandboxRequest(message, budget, isolation_of(spec, budget, launcher.facts))

    def seal(self, sandbox: Sandbox, layers: Layers, changes: tuple[Change, ...]) -> Snapshot:
        """Takes over an ended sandbox's writable layer as a layer of a new snapshot."""
        self._sealed[sandbox.place] = sandbox.upper
        return self.snapshot_of(layers.image, (*reversed(layers.sealed), sandbox.place), changes)

    def snapshot_of(self, image: Image, sealed: tuple[str, ...], changes: Iterable[Change]) -> Snapshot:
        """Names a state made of sealed layers (lowest first)."""
        kept = tuple(changes)
        self._snapshots.add(sealed)
        return Snapshot(state_digest(image.digest, kept), image, sealed, self.name, kept)

    async def pack(self, snapshot: Snapshot) -> Packed:
        """The state as a manifest and the bytes that it names, to be kept outside of this backend.

        `for change, handle in packed.files()` gives each file and link once with an open binary handle, valid until
        the next step. The snapshot must not be released meanwhile.
        """
        tops = [self._sealed[place] for place in reversed(snapshot.layers)]
        return pack_layers(tops, snapshot.changes)

    async def unpack(
        self, manifest: Iterable[Change], read_blob: BlobReader, *, image: Image | None = None
    ) -> Snapshot:
        """Rebuilds a state from its manifest over `image` (default: host tools alone).

        Args:
            manifest: As `Snapshot.changes`; trusted no more than any stored data: no path can leave the layer.
            read_blob: Gives the bytes of a content address; called in a thread; what it returns is checked.
            image: What the manifest is relative to.
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
        async with self._layering:
            layers = await self._layers(image, ())
        size = sum(change.size or 0 for change in changes)
        pages = sum((change.size or 0) // 4096 + 1 for change in changes)
        room = max(size, pages * 4096) + (1 << 20) if launcher.facts.tmpfs_layers and self._writable != "disk" else None
        message = {"op": "upper", "size": room, "inodes": len(changes) * 8 + 4096}
        answer = await launcher.ask(message)
        owner = launcher.facts.owner
        try:
            await asyncio.to_thread(write_layer, answer.fds[0], changes, read_blob, layers.view, owner)
        except (OSError, ValueError):
            os.close(answer.fds[0])
            await launcher.ask({"op": "drop", "places": [answer.body["place"]]})
            raise
        self._sealed[answer.body["place"]] = answer.fds[0]
        return self.snapshot_of(layers.image, (answer.body["place"],), changes)

    async def squash(self, snapshot: Snapshot) -> Snapshot:
        """The same state in one sealed layer, in place of many."""
        packed = await self.pack(snapshot)
        whole = await self.unpack(packed.manifest, packed.read, image=snapshot.image)
        await self.release(snapshot)
        return whole

    async def release(self, snapshot: Snapshot) -> None:
        """See `interface.Backend.release`. Layers that an open workspace stands on go when it closes."""
        self._snapshots.discard(snapshot.layers)
        await self.drop_unused()

    async def drop_unused(self) -> None:
        """Drops sealed layers that no snapshot and no open workspace names."""
        used = {place for layers in self._snapshots for place in layers}
        used |= {place for workspace in self._open for place in workspace.sealed_places}
        unused = [place for place in self._sealed if place not in used]
        if not unused or self._launcher is None or self._launcher.gone:
            return
        for place in unused:
            os.close(self._sealed.pop(place))
        await self._launcher.ask({"op": "drop", "places": unused})

    def forget(self, workspace: NamespacesWorkspace) -> None:
        """A workspace has closed."""
        self._open.discard(workspace)

    async def close(self) -> None:
        for workspace in list(self._open):
            await workspace.close()
        self._snapshots.clear()
        for top in (*self._sealed.values(), *(top for _, top in self._images.values()), *self._left_open):
            os.close(top)
        self._left_open.clear()
        self._sealed.clear()
        self._images.clear()
        self._mounts.clear()
        launchers = [*self._dead, *([self._launcher] if self._launcher is not None else [])]
        self._dead, self._launcher = [], None
        for launcher in launchers:
            await launcher.close()


def _identity(source: str) -> tuple[str, str]:
    """A key that changes when another file or folder takes the place of this one; and the real path."""
    real = Path(source).resolve(strict=True)
    status = real.stat()
    return f"{real}\0{status.st_dev}:{status.st_ino}", str(real)
