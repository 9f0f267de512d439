"""Values that Typer's conversion is spared are those that it would give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from assay.cli.plain_values import take_plain_values

Values = dict[str, Any]


def raised(value: str) -> str:
    return value.upper()


def made(seen: list[Values]) -> Any:
    """A command with one parameter of each kind that the command line has."""

    def command(
        run: Annotated[str | None, typer.Argument()] = None,
        more: Annotated[list[Path] | None, typer.Argument()] = None,
        *,
        store: Annotated[Path | None, typer.Option()] = None,
        name: Annotated[list[str] | None, typer.Option()] = None,
        k: Annotated[list[int] | None, typer.Option(min=1)] = None,
        limit: Annotated[int, typer.Option(min=0)] = 3,
        grade: Annotated[str, typer.Option(callback=raised)] = "low",
        every: Annotated[bool, typer.Option("--all")] = False,
    ) -> None:
        seen.append(dict(locals()) | {"seen": None})

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app), command


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["r"],
        ["r", "a", "b/../c"],
        ["--store", "~/s", "--name", "x", "--name", "7", "--all"],
        ["--k", "2", "--k", "3", "--limit", "0", "--grade", "high"],
        ["--k", "0"],
        ["--limit", "many"],
        ["--store"],
    ],
)
def test_values_are_those_of_the_conversion(argv: list[str]) -> None:
    results = []
    for plain in (False, True):
        seen: list[Values] = []
        command, function = made(seen)
        if plain:
            take_plain_values(command, function)
        with pytest.raises(SystemExit) as ended:
            command(argv)
        results.append((seen, ended.value.code))
    assert results[0] == results[1]
