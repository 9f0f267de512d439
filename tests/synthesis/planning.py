"""Plans of separation for a small package that a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._separation import DecidingTests, plan_separation
from assay.synthesis._tree import load_source
from assay.verify.separation_plan import SeparationPlan


async def plan_package(
    top: Path, files: Mapping[str, str], deciding: Sequence[DecidingTests]
) -> dict[str, SeparationPlan]:
    """Writes the files and plans how the deciding tests are judged, with 6 mutants; returns the plans by their ids."""
    for path, text in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(top))
    try:
        async with Laboratory(tree, backend, layer, 1) as laboratory:
            return await plan_separation(laboratory, tree, deciding, 6)
    finally:
        await backend.close()
