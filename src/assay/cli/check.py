"""`assay check`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.errors import UserError
from assay.pairs import read_pairs
from assay.records import EnvironmentSpec

from .output import console, emit_json, plain
from .plain_typer import plain_typer
from .shared import JsonOption

if TYPE_CHECKING:
    from assay.environments.conformance import PropertyResult

app = plain_typer(help="Tests whether a plugin meets its contract.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Tests whether a plugin meets its contract."""


@app.command()
def environment(
    name: Annotated[str, typer.Argument(help="Short name, `module:Class`, or path/file.py:Class.")],
    knob: Annotated[
        list[str] | None, typer.Option("--knob", metavar="KEY=VALUE", help="A parameter of the world; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tests the contract of an environment: a text world, another in-process world, or a sandbox.

    Each promise is one line: held, or what was expected and what was seen. Exits with 1 where one does not hold.

    Examples:

      assay check environment grid --knob size=7 --knob walls=5

      assay check environment my_world.py:Tower

      assay check environment namespaces
    """
    kind, findings = _check_world(name, read_pairs(knob or [], "--knob", "write KEY=VALUE, for example --knob size=7"))
    broken = [one for one in findings if one.problem is not None]
    if as_json:
        emit_json({"environment": name, "kind": kind, "findings": [one._asdict() for one in findings]})
    else:
        out = console()
        for one in findings:
            held = "held  " if one.problem is None else "BROKEN"
            out.print(
                plain(f"{held} {one.name.replace('_', ' ')}" + (f"\n       {one.problem}" if one.problem else ""))
            )
        out.print(plain(f"{name} is a {kind}: {len(findings) - len(broken)} of {len(findings)} promises hold"))
    if broken:
        raise typer.Exit(1)


def _check_world(name: str, knobs: dict[str, Any]) -> tuple[str, tuple[PropertyResult, ...]]:
    """Returns the kind of environment and the result of each check."""
    from assay.environments.worlds.conformance import check_in_process, check_world
    from assay.environments.worlds.opening import is_text_world, open_world, text_world, world_kind

    kind = world_kind(name)
    if is_text_world(kind):
        try:
            text_world(kind, knobs, 0)
        except ValueError as exc:
            raise UserError(str(exc)) from exc
        return "text world", check_world(lambda seed: text_world(kind, knobs, seed))
    if all(hasattr(kind, part) for part in ("open", "release")):
        return "sandbox", asyncio.run(_check_sandbox(kind))
    if not hasattr(kind, "specs"):
        raise UserError(f"{name} is not an environment: it lacks the methods of a text world, a World and a Backend")
    return "world", asyncio.run(check_in_process(lambda: open_world(EnvironmentSpec(name, knobs), kind)))


async def _check_sandbox(kind: Any) -> tuple[PropertyResult, ...]:
    from assay.environments.conformance import check_backend

    backend = kind()
    try:
        return await check_backend(backend)
    finally:
        await backend.close()
