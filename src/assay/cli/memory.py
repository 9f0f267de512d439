"""`assay memory`: what verified attempts showed, kept for later ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import emit_json, plain, quantity
from .plain_typer import plain_typer
from .shared import JsonOption, StoreOption, pick_runs, settings_with
from .tables import print_rows

FileArgument = Annotated[Path, typer.Argument(help="Memory file; `add` creates it.")]
_HELP = """Keeps what verified attempts showed, for later attempts.

A memory is an append-only file of records, one for each attempt; every item names its step. Agents read it with their
option memory=FILE.

Examples:

  assay memory add memory.jsonl first-run

  assay memory search memory.jsonl "locked door" --most 3"""
app = plain_typer(help=_HELP, no_args_is_help=True)


@app.command("add")
def add(
    file: FileArgument,
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs; default: the newest run.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Adds the verified attempts of runs; those that are in the memory already are skipped.

    Doubted passes and unjudged attempts are left out.

    Examples:

      assay memory add memory.jsonl first-run second-run

      assay memory add memory.jsonl --json
    """
    from assay.learning.memory import add_to_memory

    settings = settings_with(store)
    change = add_to_memory(file, pick_runs(runs or [], settings), settings)
    if as_json:
        emit_json({"file": str(file), **change._asdict()})
        return
    typer.echo(
        plain(
            f"{file}: {quantity(change.added, 'attempt')} added ({change.passed} passed, {change.items:,} items), "
            f"{change.known} known, {change.left_out} left out"
        )
    )


@app.command("verify")
def verify_memory(file: FileArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Makes every record again from the attempt that it names, and compares. Exits with 1 where one does not hold.

    The chain of a file shows that a record was changed after it was written, and not who wrote it: verify a memory
    from somebody else, with the store that holds its runs, before an agent reads it.

    Examples:

      assay memory verify memory.jsonl

      assay memory verify memory.jsonl --json
    """
    from assay.learning.memory import memory_problems

    number, problems = memory_problems(file, settings_with(store))
    if as_json:
        emit_json({"file": str(file), "records": number, "problems": problems})
    else:
        for problem in problems:
            typer.echo(plain(problem))
        if not problems:
            typer.echo(plain(f"{file}: {quantity(number, 'record')} as the attempts of the store show"))
    if problems:
        raise typer.Exit(1)


@app.command("ls")
def list_memory(file: FileArgument, as_json: JsonOption = False) -> None:
    """Lists a memory by task.

    Examples:

      assay memory ls memory.jsonl

      assay memory ls memory.jsonl --json
    """
    from assay.agents.memory import read_memory
    from assay.learning.memory import summarise_memory

    rows = summarise_memory(read_memory(file))
    if as_json:
        emit_json({"tasks": rows})
        return
    print_rows([{name: str(value) for name, value in row.items()} for row in rows], empty="the memory is empty")


@app.command("search")
def search(
    file: FileArgument,
    query: Annotated[str, typer.Argument(help="Words to look for.")],
    most: Annotated[int, typer.Option("--most", min=1, help="Maximum number of items.")] = 5,
    task: Annotated[str | None, typer.Option("--task", help="Only items of this task.", show_default=False)] = None,
    successes: Annotated[bool, typer.Option("--successes", help="Only items on the way of a verified pass.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Finds the items that fit words best (BM25), with the step that each is of.

    Examples:

      assay memory search memory.jsonl "locked door"

      assay memory search memory.jsonl "crown garden" --most 1 --successes --json
    """
    import msgspec

    from assay.agents.memory import MemoryIndex, read_memory

    records = [record for record in read_memory(file) if task is None or record.task == task]
    if successes:
        records = [
            msgspec.structs.replace(one, items=tuple(item for item in one.items if item.kind == "success"))
            for one in records
        ]
    found = MemoryIndex(records).search(query, most)
    if as_json:
        emit_json(
            {
                "items": [
                    {"score": one.score, "task": one.record.task, "run": one.record.run, "attempt": one.record.attempt}
                    | msgspec.to_builtins(one.item)
                    for one in found
                ]
            }
        )
        return
    rows = [
        {
            "score": f"{one.score:.2f}",
            "kind": one.item.kind,
            "when": one.item.when[-60:],
            "act": one.item.act[:60],
            "what": one.item.what[-60:],
            "step": f"{one.record.run}:{one.record.attempt} step {one.item.step}",
        }
        for one in found
    ]
    print_rows(rows, empty="no item fits")
