"""`assay setup`: installs everything that needs the package index."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from assay.errors import UserError

from .output import console, emit_json, quantity, say
from .shared import JsonOption, settings_with


def setup(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Task folders or families whose tool layers to build too.")
    ] = None,
    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            help="NAME=PATH: import a root file system (a folder, or a tar archive as `docker export` writes it), so "
            "that Dockerfiles may say FROM NAME; repeatable. Without tasks, nothing else is done.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Builds the sandbox's tool layers: Python, pytest and coverage, and those of tasks and the demo.

    Afterwards nothing needs the network.

    Examples:

      assay setup

      assay setup tasks/

      assay setup --root python:3.12-slim=python.tar
    """
    from assay.environments.workspace.toolchain import ensure_toolchain
    from assay.rollout.attempt.preparation import requirements_of
    from assay.tasks import find_tasks

    from .sandboxed_synthesis import demo_layers

    cache = settings_with(None).cache
    roots = _import_roots(root or (), cache)
    wanted = [((), ()), *demo_layers()] if tasks or not roots else []
    wanted += [requirements_of(loaded) for loaded in find_tasks(tasks or [])] if tasks else []
    made = {}
    for packages, masked in dict.fromkeys(wanted):
        without = f" without {', '.join(masked)}" if masked else ""
        say(f"tool layer with {', '.join(packages) or 'pytest and coverage'}{without} ...")
        layer = ensure_toolchain(cache, packages, masked=masked)
        made[layer.digest] = layer
    if as_json:
        emit_json({"layers": list(made.values()), "roots": roots})
    else:
        for name, digest in roots.items():
            console().print(f"{name} is {digest[:19]}: `FROM {name}` builds on it")
        if made:
            console().print(f"{quantity(len(made), 'tool layer')} ready in {cache / 'tools'}")
            say(f"next: export PATH={Path(sys.executable).parent}:$PATH; assay demo, or assay synth repository FOLDER")


def _import_roots(given: Sequence[str], cache: Path) -> dict[str, str]:
    """Imports root file systems given as NAME=PATH; returns their content addresses by name."""
    from assay.environments.workspace.images import import_root

    found = {}
    for one in given:
        name, separator, source = one.partition("=")
        if not separator or not Path(source).exists():
            raise UserError(f"--root {one}: expected NAME=PATH, with the path of a folder or a tar archive")
        say(f"importing {source} as {name} ...")
        found[name] = import_root(name, Path(source), cache)
    return found
