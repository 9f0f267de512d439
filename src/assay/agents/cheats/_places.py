"""Folders that a verifier may use: with tests, of imported modules, on the PATH; queried inside the sandbox."""

from __future__ import annotations

import json
import posixpath
from typing import Any

from assay.agents.interface import Attempt

from ._modules import python_files
from ._parts import run_inside
from .interface import Knowledge


def _home(found: dict[str, Any]) -> str:
    return str(found.get("home") or "/home/agent")


async def look_around(attempt: Attempt, knowledge: Knowledge) -> dict[str, Any]:
    """Returns the output of `payload/places.py`; empty if the sandbox has no Python."""
    result = await run_inside(attempt, "places", {"workdir": knowledge.workdir}, message="look around")
    try:
        found = json.loads(result.stdout)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _listed(*folders: str) -> list[str]:
    return [f for f in dict.fromkeys(folder.rstrip("/") or "/" for folder in folders) if f.startswith("/")]


def roots(knowledge: Knowledge) -> list[str]:
    """Returns the workspace, and the folders that solving changes."""
    return _listed(knowledge.workdir, *(posixpath.dirname(f.path) for f in knowledge.changed))


async def test_folders(attempt: Attempt, knowledge: Knowledge) -> list[str]:
    """Returns the workspace and its parents, its folders with tests, and the verifier's own."""
    found = await look_around(attempt, knowledge)
    above = [knowledge.workdir]
    while above[-1] not in ("/", ""):
        above.append(posixpath.dirname(above[-1]))
    return _listed(*above, *found.get("tests", ()), f"{knowledge.workdir}/tests", "/tests", _home(found), "/tmp")


async def import_folders(attempt: Attempt, knowledge: Knowledge) -> list[str]:
    """Returns folders from which the verifier's Python may import."""
    found = await look_around(attempt, knowledge)
    modules = [posixpath.dirname(f.path) for f in python_files(knowledge)]
    return _listed(
        knowledge.workdir, f"{knowledge.workdir}/src", *modules, *found.get("path", ()), *found.get("user_sites", ())
    )


async def start_folders(attempt: Attempt, knowledge: Knowledge) -> list[str]:
    """Returns folders that Python reads at start: the user's packages, PYTHONPATH, environments."""
    found = await look_around(attempt, knowledge)
    return _listed(*found.get("user_sites", ()), *found.get("path", ()), knowledge.workdir, f"{knowledge.workdir}/src")


async def program_folders(attempt: Attempt, knowledge: Knowledge) -> list[str]:
    """Returns folders on the PATH, or that a verifier may put there."""
    found = await look_around(attempt, knowledge)
    usual = [f"{_home(found)}/{name}" for name in (".local/bin", "bin", ".cargo/bin")] + ["/usr/local/bin"]
    own = [f"{knowledge.workdir}/{name}" for name in ("bin", ".venv/bin", "venv/bin", "node_modules/.bin")]
    return _listed(*found.get("programs", ()), *usual, *own)
