"""`assay setup`: installs everything that needs the package index."""

from __future__ import annotations

from typing import Annotated

import typer

from .output import console, emit_json, say
from .shared import JsonOption, settings_with


def setup(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Task folders or families whose tool layers to build too.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Builds the sandbox's tool layers: Python, pytest and coverage, and those of tasks and the demo.

    Afterwards nothing needs the network.

    Examples:

      assay setup

      assay setup tasks/
    """
    from assay.environments.workspace.toolchain import ensure_toolchain
    from assay.rollout.attempt.preparation import requirements_of
    from assay.tasks import find_tasks

    from .sandboxed_synthesis import demo_layers

    cache = settings_with(None).cache
    wanted = [((), ()), *demo_layers()]
    wanted += [requirements_of(loaded) for loaded in find_tasks(tasks or [])] if tasks else []
    made = {}
    for packages, masked in dict.fromkeys(wanted):
        without = f" without {', '.join(masked)}" if masked else ""
        say(f"tool layer with {', '.join(packages) or 'pytest and coverage'}{without} ...")
        layer = ensure_toolchain(cache, packages, masked=masked)
        made[layer.digest] = layer
    if as_json:
        emit_json({"layers": list(made.values())})
    else:
        console().print(f"{len(made)} tool layers ready in {cache / 'tools'}")
