"""Opens the source that tasks are made from: its tree, a laboratory, and its tests as measured on the unbroken tree."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.environments.interface import Backend
from assay.environments.workspace.toolchain import ToolLayer, ensure_toolchain
from assay.errors import UserError, add_filename
from assay.records import digest_bytes, digest_record

from ._laboratory import Laboratory
from ._progress import Progress
from ._reference import Reference, choose_test_files, measure_tests
from ._releases import Release, load_releases
from ._tree import SourceTree, load_source
from .config import SynthesisConfig


class OpenedSource(NamedTuple):
    """A source with its laboratory and the measurements of its tests."""

    tree: SourceTree
    laboratory: Laboratory
    reference: Reference
    pins: tuple[str, ...]
    """Requirements of the tool layer."""
    masked: tuple[str, ...]
    """Distributions that must not be in the tool layer."""
    releases: tuple[Release, ...]
    """Other releases of the package."""
    folder: Path
    """Cache folder for results that a later run with the same configuration reuses. Its name is a digest of all that
    decides about candidates: source, tool layer, configuration and code."""


@asynccontextmanager
async def open_source(
    config: SynthesisConfig, backend: Backend, cache: Path, tell: Progress, measured: Reference | None = None
) -> AsyncIterator[OpenedSource]:
    """Reads the source, opens its laboratory and measures its tests, unless they were measured elsewhere.

    Raises:
        UserError: The source does not exist, or none of its tests passes.
        EnvironmentFailure: The sandbox broke.
    """
    tree = await asyncio.to_thread(load_source, config.source)
    releases = await asyncio.to_thread(load_releases, config.releases, tree)
    pins = tuple(sorted({*tree.requirements, *config.requirements}))
    layer, masked = await asyncio.to_thread(_tool_layer, cache, pins, tree.name)
    folder = cache / "synthesis" / _cache_key(tree, layer, config, releases)
    async with Laboratory(tree, backend, layer, config.concurrency) as laboratory:
        reference = measured or await _reference(tree, laboratory, config, folder / "reference.json", tell)
        _require_tests(tree, reference)
        yield OpenedSource(tree, laboratory, reference, pins, masked, releases, folder)


def _tool_layer(cache: Path, pins: Sequence[str], name: str) -> tuple[ToolLayer, tuple[str, ...]]:
    """Returns the tool layer with the package's requirements but without the package itself, and the masked names."""
    from packaging.utils import canonicalize_name

    layer = ensure_toolchain(cache, pins)
    if canonicalize_name(name) not in {canonicalize_name(pin.partition("==")[0]) for pin in layer.packages}:
        return layer, ()
    masked = (str(canonicalize_name(name)),)
    return ensure_toolchain(cache, pins, masked=masked), masked


def _cache_key(tree: SourceTree, layer: ToolLayer, config: SynthesisConfig, releases: Sequence[Release]) -> str:
    digests = tuple(release.digest for release in releases)
    decides = msgspec.structs.replace(config, source="", out="", concurrency=1, releases=digests)
    return digest_record([_code_digest(), tree.digest, layer.digest, decides]).partition(":")[2][:32]


@functools.cache
def _code_digest() -> str:
    """Returns the digest of all code whose change may lead to other outcomes of candidates."""
    root = Path(__file__).parent.parent
    files = sorted(
        file for part in ("synthesis", "verify", "code", "environments") for file in (root / part).rglob("*.py")
    )
    return digest_record([[str(file.relative_to(root)), digest_bytes(file.read_bytes())] for file in files])


async def _reference(
    tree: SourceTree, laboratory: Laboratory, config: SynthesisConfig, path: Path, tell: Progress
) -> Reference:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Reference)
    except (FileNotFoundError, msgspec.MsgspecError):
        reference = await measure_tests(laboratory, choose_test_files(tree, config), config, tell)
    if not reference.passing:
        return reference
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    with add_filename(path):
        aside.write_bytes(msgspec.json.encode(reference, order="deterministic"))
        aside.rename(path)
    return reference


def _require_tests(tree: SourceTree, reference: Reference) -> None:
    if reference.passing:
        return
    reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(reference.left_out.items())[:3])
    raise UserError(
        f"no test of {tree.name} passes three times in the sandbox ({reasons}). If its tests import packages, "
        "name them pinned as requirements (name==version)"
    )
