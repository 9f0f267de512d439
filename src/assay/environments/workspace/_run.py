"""Executes one RUN of a Dockerfile in a sandbox and keeps what it changed as layers of the cache.

The invariant is that of `images`: a layer is renamed into the cache when it is complete, under the digest of its
content, and a RUN is found again only by everything that could have made it come out otherwise.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from pathlib import Path

import msgspec
from blake3 import blake3

from assay.environments.interface import Backend, Image, ResourceLimits, Snapshot, WorkspaceSpec
from assay.environments.workspace import _layers
from assay.environments.workspace.dockerfile import Instruction
from assay.environments.workspace.toolchain import ToolLayer

__all__ = ["BuildOptions", "Command", "execute", "keep_layer"]

_LIMITS = ResourceLimits(
    memory_mib=4096, processes=1024, disk_mib=8192, tmp_mib=1024, file_mib=4096, open_files=4096, output_mib=256
)
_SCRIPT = "/tmp/run"
_FORMAT = 1


class BuildOptions(msgspec.Struct, frozen=True):
    """What a build may use."""

    cache: Path
    toolchain: ToolLayer | None = None
    """Seen by RUN at `/opt/assay`; never part of a layer."""
    bases: dict[str, str] = {}
    """Image name (or name without tag, or `*`) to `scratch` (the host's tools) or to the name of an imported root."""
    allow_network: bool = False
    """Whether RUN may reach the network. Layers built with and without it are kept apart."""
    args: dict[str, str] = {}
    """Values for ARG."""
    timeout_s: float = 600.0
    """For each RUN."""


class Command(msgspec.Struct, frozen=True):
    """A RUN and where it runs."""

    instruction: Instruction
    image: Image
    workdir: str
    env: dict[str, str]
    shell: tuple[str, ...]
    options: BuildOptions

    @property
    def recipe(self) -> str:
        """Everything that decides what comes of it."""
        tools, made = self.options.toolchain, self.instruction
        what = [_FORMAT, self.image.digest, made.text, made.words, [(d.word, d.text) for d in made.heredocs]]
        what += [self.workdir, sorted(self.env.items()), self.shell, self.options.allow_network]
        return blake3(msgspec.json.encode([*what, tools.digest if tools else None])).hexdigest()[:32]


async def execute(command: Command, backend: Backend | None, work: Path) -> list[Path]:
    """The layers that a RUN makes; found in the cache, or made in a sandbox. Raises `ValueError` when it fails."""
    images = command.options.cache / "images"
    known = _known(images, command.recipe)
    if known is not None:
        return known
    argv, script = _argv(command)
    if backend is None:
        message = "it needs a sandbox to run in, and none was given"
        raise ValueError(message)
    workspace = await backend.open(_spec(command))
    try:
        if script is not None:
            await workspace.write(_SCRIPT, script.encode(), mode=0o755)
        result = await workspace.exec(argv, timeout_s=command.options.timeout_s, show_bytes=8192)
        if result.exit_code != 0:
            raise ValueError(_failure(command, result.exit_code, result.stdout + result.stderr, result.killed_by))
        snapshot = await workspace.snapshot()
        try:
            return await asyncio.to_thread(_keep, images, snapshot, command.recipe, work)
        finally:
            await backend.release(snapshot)
    finally:
        await workspace.close()


def _spec(command: Command) -> WorkspaceSpec:
    tools = command.options.toolchain
    return WorkspaceSpec(
        image=command.image,
        workdir=command.workdir,
        env=command.env,
        limits=_LIMITS,
        network="host" if command.options.allow_network else "none",
        mounts=(tools.mount(),) if tools is not None else (),
    )


def _argv(command: Command) -> tuple[list[str], str | None]:
    """The words to run, and a script to be put in place before."""
    instruction = command.instruction
    for flag, value in instruction.flags:
        if (flag, value) != ("network", "none") and not (flag == "mount" and "type=cache" in value.split(",")):
            message = f"--{flag}={value} is not supported"
            raise ValueError(message)
    if instruction.words is not None:
        return list(instruction.words), None
    if not instruction.heredocs:
        return [*command.shell, instruction.text], None
    if instruction.before_documents:
        documents = "".join(f"{document.text}{document.word}\n" for document in instruction.heredocs)
        return [*command.shell, f"{instruction.text}\n{documents}"], None
    script = instruction.heredocs[0].text
    return ([_SCRIPT], script) if script.startswith("#!") else ([*command.shell, script], None)


def _failure(command: Command, code: int, output: str, killed_by: str | None) -> str:
    reason = f"was stopped ({killed_by})" if killed_by else f"ended with {code}"
    hint = "" if command.options.allow_network else "\n(a build has no network unless it is given --allow-network)"
    return f"the command {reason}:\n{output[-3000:]}{hint}"


def _known(images: Path, recipe: str) -> list[Path] | None:
    try:
        names = msgspec.json.decode((images / "runs" / f"{recipe}.json").read_bytes(), type=list[str])
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    layers = [images / name for name in names if re.fullmatch(r"[0-9a-f]{32}", name)]
    return layers if len(layers) == len(names) and all(layer.is_dir() for layer in layers) else None


def _keep(images: Path, snapshot: Snapshot, recipe: str, work: Path) -> list[Path]:
    """Copies what a RUN changed out of its backend into the cache."""
    kept = []
    for layer in snapshot.layers:
        copy = Path(tempfile.mkdtemp(dir=work)) / "layer"
        # `cp -a` keeps the marks of removed files and of replaced folders, which plain archives lose.
        subprocess.run(["cp", "-a", "--reflink=auto", "--", layer, copy], check=True, capture_output=True)
        kept.append(keep_layer(copy, images))
    runs = images / "runs"
    runs.mkdir(exist_ok=True)
    aside = runs / f".{recipe}.{os.getpid()}"
    aside.write_bytes(msgspec.json.encode([layer.name for layer in kept]))
    aside.rename(runs / f"{recipe}.json")
    return kept


def keep_layer(layer: Path, images: Path) -> Path:
    """Moves a finished layer to its content address; a layer that is there already is the same one."""
    final = images / _layers.content_digest(layer)
    if not final.exists():
        try:
            layer.rename(final)
        except OSError:
            if not final.exists():
                raise
    return final
