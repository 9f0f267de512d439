"""`assay init`: scaffolds that pass as generated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.errors import UserError, describe_os_error

from .output import console
from .plain_typer import plain_typer

_HELP = """Writes a scaffold that runs green as written.

Examples:

  assay init task tasks/hello

  assay init agent my_agent.py

  assay init model models/tiny"""
app = plain_typer(help=_HELP, no_args_is_help=True)


@app.command()
def task(folder: Annotated[Path, typer.Argument(help="The folder to write; must not exist.")]) -> None:
    """Writes a task folder: instruction, environment, tests, solution.

    Example:

      assay init task tasks/hello && assay run tasks/hello --agent oracle
    """
    from assay.tasks import init_task

    loaded = init_task(folder)
    console().print(f"wrote {folder} ({loaded.task.id}); try: assay run {folder} --agent oracle")


@app.command()
def agent(file: Annotated[Path, typer.Argument(help="The Python file to write; must not exist.")]) -> None:
    """Writes an agent: one class in one file.

    Example:

      assay init agent my_agent.py && assay run tasks/hello --agent my_agent.py
    """
    _write("agent", file, f"assay run TASKS --agent {file}")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The Python file to write; must not exist.")]) -> None:
    """Writes an outcome check: one class in one file, named in a task's `[[metadata.assay.checks]]`.

    Example:

      assay init check my_check.py
    """
    _write("check", file, f'name it in task.toml: [[metadata.assay.checks]] with kind = "{file}"')


@app.command()
def model(folder: Annotated[Path, typer.Argument(help="The folder to write; must not exist.")]) -> None:
    """Writes a tiny model of random weights, to try a pipeline with `--model local:FOLDER`; needs assay[train].

    It writes noise, unless `?steer=SCRIPT` makes it write a script's replies, token by token.

    Examples:

      assay init model models/tiny

      assay run tasks/ --agent loop --model 'local:models/tiny?steer=replies.json&temperature=1'
    """
    from assay.learning.trainer.policy import init_model

    init_model(folder)
    console().print(f"wrote {folder}; --model local:{folder}", markup=False)


def _write(kind: str, file: Path, following: str) -> None:
    from importlib.resources import files

    text = (files("assay.cli") / "scaffolds" / f"{kind}.py.txt").read_text(encoding="utf-8")
    if file.suffix != ".py":
        raise UserError(f"{file} must end in .py")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError as exc:
        raise UserError(f"{file} exists: choose another name or remove it first") from exc
    except OSError as exc:
        raise UserError(f"cannot write {describe_os_error(exc, file)}") from exc
    console().print(f"wrote {file}; {following}")
