"""How a build reaches layers that other machines made: the interface, which a caller implements.

Shared are the layers that cost time, network or a file that another machine lacks. The files that COPY and ADD install
come from the task's folder, which every machine has.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

LOCK_S = 0.1
"""From one try for a lock to the next."""


class LayerRecipe(NamedTuple):
    """Inputs of a layer. Machines with the same recipe may use each other's layer."""

    kind: Literal["tools", "run", "root"]
    """A tool layer, the changes of a RUN, or an imported root file system."""
    name: str
    """Digest, of 32 hexadecimal digits, of everything that decides about the layer; of a root, of its name."""

    def __str__(self) -> str:
        return f"{self.kind}-{self.name}"


class LayerExchange(Protocol):
    """Exchanges layers of the cache with other machines. No method raises an error for what went wrong there: then the
    layer is made here."""

    async def fetch(self, recipe: LayerRecipe) -> None:
        """Puts the layers of a recipe into the cache, if another machine made them and they are not there."""
        ...

    async def offer(self, recipe: LayerRecipe) -> None:
        """Lets other machines have the layers of a recipe, which are in the cache."""
        ...

    def prepared(self, demands: Collection[str], folders: Collection[Path]) -> None:
        """Takes that the cache has all that a task demands: its `layer_demands`, and the folders of the layers."""
        ...


@contextlib.asynccontextmanager
async def single_flight(lock: Path) -> AsyncIterator[None]:
    """Lets one block at a time run for a lock file, over the tasks of a process and over processes. Waiting holds no
    thread, so that the block itself gets one. Raises `OSError` if the file cannot be made."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("wb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_S)
        yield
