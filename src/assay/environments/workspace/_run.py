"""Executes one RUN of a Dockerfile in a sandbox and stores its changes as layers of the cache.

The invariant is that of `images`: a layer is renamed into the cache when it is complete, under the digest of its
content, and the cache key of a RUN covers everything that could change its result.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
from blake3 import blake3

from assay.environments.interface import Backend, Change, Image, ResourceLimits, Snapshot, WorkspaceSpec
from assay.environments.workspace import _layers
from assay.environments.workspace._entries import decode_name
from assay.environments.workspace.archive import PackedLayers
from assay.environments.workspace.dockerfile import Instruction
from assay.environments.workspace.layer_exchange import LayerExchange, LayerRecipe, single_flight
from assay.environments.workspace.layer_use import LayerPins, process_pins
from assay.environments.workspace.toolchain import ToolLayer

_LIMITS = ResourceLimits(
    memory_mib=4096, processes=1024, disk_mib=8192, tmp_mib=1024, file_mib=4096, open_files=4096, output_mib=256
)
_SCRIPT = "/tmp/run"
_TRUSTING_GIT = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
"""A build acts as root on folders of the sandbox's user, in which git would refuse to work."""
_FORMAT = 1


class BuildOptions(msgspec.Struct, frozen=True):
    """Options of a build."""

    cache: Path
    toolchain: ToolLayer | None = None
    """Tool layer, mounted for RUN at `/opt/assay`; never part of a layer."""
    bases: dict[str, str] = {}
    """Image name (or name without tag, or `*`) to `scratch` (the host's tools) or to the name of an imported root."""
    allow_network: bool = False
    """Allow RUN to use the network. Layers built with and without it have different cache keys."""
    args: dict[str, str] = {}
    """Values for ARG."""
    timeout_s: float = 600.0
    """For each RUN."""
    exchange: LayerExchange | None = None
    """Layers of other machines."""
    pins: LayerPins | None = None
    """Pins the layers of the image; default until the process ends."""

    def pin(self, layers: Sequence[Path]) -> bool:
        """Pins layers of the cache. Returns False if one is gone."""
        return (self.pins or process_pins()).pin(layers)


@runtime_checkable
class _PackingBackend(Backend, Protocol):
    """A backend that can pack a state."""

    async def pack(self, snapshot: Snapshot) -> PackedLayers: ...


class BuildCommand(msgspec.Struct, frozen=True):
    """A RUN with its image and options."""

    instruction: Instruction
    image: Image
    workdir: str
    env: dict[str, str]
    shell: tuple[str, ...]
    options: BuildOptions

    @property
    def recipe(self) -> str:
        """Returns the cache key: a digest of everything that determines the result."""
        tools, layers = self.options.toolchain, self.instruction
        inputs = [_FORMAT, self.image.digest, layers.text, layers.words, [(d.word, d.text) for d in layers.heredocs]]
        inputs += [self.workdir, sorted(self.env.items()), self.shell, self.options.allow_network]
        return blake3(msgspec.json.encode([*inputs, tools.digest if tools else None])).hexdigest()[:32]


async def execute(command: BuildCommand, backend: Backend | None, work: Path) -> list[Path]:
    """Returns the layers of a RUN, from the cache or by running it in a sandbox. Raises `ValueError` if it fails."""
    images, exchange = command.options.cache / "images", command.options.exchange
    recipe = LayerRecipe("run", command.recipe)
    layers = _find_pinned(images, command)
    if layers is None:
        async with single_flight(images / "runs" / f".{recipe.name}.lock"):
            if exchange is not None:
                await exchange.fetch(recipe)
            layers = _find_pinned(images, command)
            if layers is None:
                layers = await _execute(command, backend, work, images)
    if exchange is not None:
        await exchange.offer(recipe)
    return layers


async def _execute(command: BuildCommand, backend: Backend | None, work: Path, images: Path) -> list[Path]:
    argv, script = _command_words(command)
    packing = backend if isinstance(backend, _PackingBackend) else None
    if packing is None:
        raise ValueError("it needs a sandbox whose state can be packed, and no such backend was provided")
    workspace = await packing.open(_build_spec(command))
    try:
        if script is not None:
            await workspace.write(_SCRIPT, script.encode(), mode=0o755)
        result = await workspace.exec(argv, timeout_s=command.options.timeout_s, show_bytes=8192)
        if result.exit_code != 0:
            raise ValueError(
                _describe_failure(command, result.exit_code, result.stdout + result.stderr, result.killed_by)
            )
        snapshot = await workspace.snapshot()
        try:
            packed = await packing.pack(snapshot)
            return await asyncio.to_thread(_store_changes, images, packed, command, work)
        finally:
            await packing.release(snapshot)
    finally:
        await workspace.close()


def _build_spec(command: BuildCommand) -> WorkspaceSpec:
    tools = command.options.toolchain
    return WorkspaceSpec(
        image=command.image,
        workdir=command.workdir,
        env={**_TRUSTING_GIT, **command.env},
        limits=_LIMITS,
        network="host" if command.options.allow_network else "none",
        user="verifier",  # with root's rights over the files of the image, as a build has
        mounts=(tools.mount(),) if tools is not None else (),
    )


def _command_words(command: BuildCommand) -> tuple[list[str], str | None]:
    """Returns the words to run, and a script to be written before."""
    instruction = command.instruction
    for flag, value in instruction.flags:
        if (flag, value) != ("network", "none") and not (flag == "mount" and "type=cache" in value.split(",")):
            raise ValueError(f"--{flag}={value} is not supported")
    if instruction.words is not None:
        return list(instruction.words), None
    if not instruction.heredocs:
        return [*command.shell, instruction.text], None
    if instruction.before_documents:
        documents = "".join(f"{document.text}{document.word}\n" for document in instruction.heredocs)
        return [*command.shell, f"{instruction.text}\n{documents}"], None
    script = instruction.heredocs[0].text
    return ([_SCRIPT], script) if script.startswith("#!") else ([*command.shell, script], None)


def _describe_failure(command: BuildCommand, code: int, output: str, killed_by: str | None) -> str:
    reason = f"was stopped ({killed_by})" if killed_by else f"ended with {code}"
    hint = "" if command.options.allow_network else "\n(a build has no network unless it is given --allow-network)"
    return f"the command {reason}:\n{output[-3000:]}{hint}"


def find_run_layers(images: Path, recipe: str) -> list[Path] | None:
    """Returns the layers of a RUN by the name of its recipe; None if one is not in the cache."""
    try:
        names = msgspec.json.decode((images / "runs" / f"{recipe}.json").read_bytes(), type=list[str])
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    layers = [images / name for name in names if re.fullmatch(r"[0-9a-f]{32}", name)]
    return layers if len(layers) == len(names) and all(layer.is_dir() for layer in layers) else None


def _find_pinned(images: Path, command: BuildCommand) -> list[Path] | None:
    layers = find_run_layers(images, command.recipe)
    return layers if layers is not None and command.options.pin(layers) else None


def _store_changes(images: Path, packed: PackedLayers, command: BuildCommand, work: Path) -> list[Path]:
    """Writes the changes of a RUN as one layer of the cache. Devices and pipes are left out."""
    layer = Path(tempfile.mkdtemp(dir=work))
    layer.chmod(0o755)
    below = _layers.LayerStack(tuple(Path(folder) for folder in command.image.layers))
    writer = _layers.LayerWriter(layer, below)
    for change in packed.manifest:
        if change.kind == "removed":
            writer.remove(_relative_path(change))
        elif change.type == "directory":
            writer.folder(_relative_path(change), change.mode or 0o755)
    for change, handle in packed.files():
        if change.type == "symlink":
            writer.link(_relative_path(change), os.fsdecode(handle.read()))
        else:
            writer.file(_relative_path(change), handle, change.mode or 0o644)
    writer.finish()
    layers = [store_pinned(layer, command.options)] if packed.manifest else []
    record_run_layers(images, command.recipe, [layer.name for layer in layers])
    return layers


def record_run_layers(images: Path, recipe: str, digests: list[str]) -> None:
    """Records which layers of the cache are those of a RUN."""
    runs = images / "runs"
    runs.mkdir(exist_ok=True)
    # Two tasks of one process may run the same command, so the process id alone is not unique.
    temporary = runs / f".{recipe}.{os.getpid()}.{secrets.token_hex(4)}"
    temporary.write_bytes(msgspec.json.encode(digests))
    temporary.rename(runs / f"{recipe}.json")


def _relative_path(change: Change) -> str:
    path = decode_name(change.path)
    if not path.startswith("/") or {"", ".", ".."} & set(path[1:].split("/")):
        raise ValueError(f"a change at {change.path!r}")
    return path[1:]


def store_pinned(layer: Path, options: BuildOptions) -> Path:
    """Moves a finished layer to its content address, and pins it there."""
    final = store_layer(layer, options.cache / "images")
    if options.pin([final]):
        return final
    final = store_layer(layer, options.cache / "images")  # an older one of the same content was removed meanwhile
    options.pin([final])
    return final


def store_layer(layer: Path, images: Path) -> Path:
    """Moves a finished layer to its content address; an existing layer there is identical."""
    final = images / _layers.content_digest(layer)
    if not final.exists():
        try:
            layer.rename(final)
        except OSError:
            if not final.exists():
                raise
    return final
