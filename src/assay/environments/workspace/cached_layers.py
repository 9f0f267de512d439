"""The layers of a recipe in the cache: described for other machines, and installed as another machine described them.

Invariant: what is installed has the digest of its description, and is complete or absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.workspace import _layers
from assay.environments.workspace._run import find_run_layers, record_run_layers, store_layer
from assay.environments.workspace.images import RootRecord, read_root, record_root
from assay.environments.workspace.layer_exchange import LayerRecipe
from assay.environments.workspace.toolchain import ToolLayer, install_layer, stored_layer

_DIGEST = re.compile(r"[0-9a-f]{32}")
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}")
BYTE_CODE = "__pycache__"
"""Is made anew on each machine, and has no part in a digest."""


class CachedLayers(NamedTuple):
    """The layers of a recipe, lowest first, and what else is known of them, as plain data."""

    folders: tuple[Path, ...]
    facts: dict[str, Any]


def read_cached(cache: Path, recipe: LayerRecipe) -> CachedLayers | None:
    """Returns the layers of a recipe; None if one is not in the cache."""
    if recipe.kind == "tools":
        tools = stored_layer(cache, recipe.name)
        if tools is None:
            return None
        return CachedLayers((Path(tools.path),), {"version": tools.python_version, "packages": list(tools.packages)})
    if recipe.kind == "run":
        layers = find_run_layers(cache / "images", recipe.name)
        return None if layers is None else CachedLayers(tuple(layers), {})
    root = read_root(cache / "images", recipe.name)
    return None if root is None else CachedLayers((cache / "images" / root.digest,), msgspec.to_builtins(root))


def folder_of(cache: Path, recipe: LayerRecipe, digest: str) -> Path:
    """Returns where the cache has a layer of this digest. Raises `ValueError` if it is no digest."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:100]!r} is not the digest of a layer")
    return cache / ("tools" if recipe.kind == "tools" else "images") / digest


def install_cached(
    cache: Path, recipe: LayerRecipe, digests: Sequence[str], facts: dict[str, Any], unpack: Callable[[str], Path]
) -> None:
    """Installs the layers of a recipe.

    Args:
        cache: The cache.
        recipe: The recipe.
        digests: Those of the layers, lowest first.
        facts: As in `CachedLayers`.
        unpack: Returns a new folder on the cache's disk with the files of a layer, by its digest.

    Raises:
        ValueError: The files are others than the digest says, or the facts are invalid.
        OSError: The disk is full.
    """
    if recipe.kind != "run" and len(digests) != 1:
        raise ValueError(f"it has {len(digests)} layers")
    (cache / ("tools" if recipe.kind == "tools" else "images")).mkdir(exist_ok=True)
    if recipe.kind == "tools":
        described = _describe_tools(digests[0], facts)
        install_layer(cache, recipe.name, unpack(digests[0]), described)
        return
    images = cache / "images"
    root = msgspec.convert(facts, RootRecord) if recipe.kind == "root" else None
    for digest in digests:
        if folder_of(cache, recipe, digest).is_dir():
            continue
        folder = unpack(digest)
        if _layers.content_digest(folder) != digest:
            raise ValueError(f"its files do not have the digest {digest}: it was changed")
        store_layer(folder, images)
    if root is None:
        record_run_layers(images, recipe.name, list(digests))
    elif root.digest != digests[0] or root.key != recipe.name:
        raise ValueError("it is of another root file system")
    else:
        record_root(images, root)


def _describe_tools(digest: str, facts: dict[str, Any]) -> ToolLayer:
    version, packages = facts.get("version"), msgspec.convert(facts.get("packages"), tuple[str, ...])
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError(f"{str(version)[:100]!r} is not a version of Python")
    return ToolLayer("", digest, version, packages)
