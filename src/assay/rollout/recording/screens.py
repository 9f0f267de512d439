"""Screens of an attempt in a browser: what each act led to, as evidence beside the steps.

The accessibility tree and the picture are stored by content, so that a page that was seen often is stored once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeGuard

import msgspec

from assay.environments.browser.screen import Screen
from assay.environments.interface import World
from assay.rollout.recording.recorder import Recorder
from assay.store import BlobStore
from assay.tasks import LoadedTask

SCREEN: Final = "screen"
"""Kind of the evidence."""
IN_BROWSERS: Final = frozenset({"sites", "miniwob"})
"""Kinds of the environments whose attempts share a browser."""


class ShowsScreens(Protocol):
    """A world that shows the screens of its browser."""

    on_screen: Callable[[Screen], None] | None


def shows_screens(world: World) -> TypeGuard[ShowsScreens]:
    """Returns whether a world shows screens."""
    return hasattr(world, "on_screen")


class ScreenRecorder:
    """Stores the screens of one attempt."""

    def __init__(self, recorder: Recorder, blobs: BlobStore) -> None:
        self._recorder = recorder
        self._blobs = blobs

    def __call__(self, screen: Screen) -> None:
        """Stores a screen."""
        tree = self._blobs.put(screen.tree.encode("utf-8", "replace"))
        data: dict[str, Any] = {
            "act": screen.act,
            "url": screen.url[:2_000],
            "title": screen.title[:500],
            "tree": tree,
            "image": None,
            "point": None if screen.point is None else [round(screen.point.x, 1), round(screen.point.y, 1)],
        }
        if screen.hit is not None:
            data["hit"] = {"bid": str(screen.hit.number), "role": screen.hit.role, "name": screen.hit.name[:500]}
        if screen.marks is not None:
            data["marks"] = [str(number) for number in screen.marks]
        if screen.aim is not None:
            data["aim"] = {"right": screen.aim.right, "targets": msgspec.to_builtins(screen.aim.targets)}
        stored: tuple[str, ...] = (tree,)
        if screen.image is not None:
            data["image"] = image = self._blobs.put(screen.image)
            stored = (tree, image)
        self._recorder.evidence("state", SCREEN, data, stored)


@asynccontextmanager
async def browsers_of(tasks: Sequence[LoadedTask]) -> AsyncIterator[None]:
    """Closes the browsers that a run's attempts shared, at its end.

    Raises:
        UserError: Tasks need a browser and none is installed; nothing was started.
    """
    if all(loaded.task.environment.kind not in IN_BROWSERS for loaded in tasks):
        yield
        return
    from assay.environments.browser.chromium import find_program  # late: most runs have no browser
    from assay.environments.browser.pool import close_browsers

    find_program()
    try:
        yield
    finally:
        await close_browsers()
