"""Values that Typer's conversion is spared are those that it would give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from assay.cli.plain_values import take_plain_values
from assay.errors import UserError

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
        share: Annotated[float | None, typer.Option(min=0, max=1)] = None,
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
        ["--share", "1"],
        ["--share", "2"],
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
        try:
            code = command(argv)
        except SystemExit as ended:
            code = ended.code
        except UserError:
            code = 2  # as `exit_on_errors` ends it
        results.append((seen, code))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--limit", "many"], "--limit takes a whole number, as in `--limit 1`; it is given 'many'"),
        (["--limit", "--all"], "--limit takes a whole number, as in `--limit 1`; it is followed by the option '--all'"),
        (["--limit", "-1"], "--limit takes a number of at least 0, and is given -1"),
        (["--share", "nan"], "--share takes a number from 0 to 1, and is given nan"),
        (["--share", "1.5"], "--share takes a number from 0 to 1, and is given 1.5"),
    ],
)
def test_a_wrong_number_is_named_with_its_option(argv: list[str], message: str) -> None:
    command, function = made([])
    take_plain_values(command, function)
    with pytest.raises(UserError, match=re.escape(message)):
        command(argv)
