"""`assay synth`: makes tasks."""

from __future__ import annotations

import typer

from assay.synthesis.config import SynthesisConfig

from .options import takes_config
from .shared import JsonOption

__all__ = ["app"]

_HELP = """Makes tasks.

Example:

  assay synth repository networkx --out tasks/ --count 24"""
app = typer.Typer(
    help=_HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.callback()
def _synth() -> None:
    pass


_synth.__doc__ = _HELP


@app.command()
@takes_config(SynthesisConfig, arguments=("source",))
def repository(config: SynthesisConfig, as_json: JsonOption = False) -> None:
    """Makes repair and feature tasks from real code with tests; every task is checked in the sandbox before it is kept.

    SOURCE is an installed package's name, a wheel, an sdist, a folder, or a git repository's folder. Killed at any
    moment, the same command goes on where it was; one seed gives the same tasks.

    Examples:

      assay synth repository networkx --out tasks/ --count 24

      assay synth repository ./more-itertools-10.5.0.tar.gz --out tasks/ --count 60 --seed 3

      assay synth repository ./my-repository --out tasks/ --kind commit --requirement attrs==25.4.0
    """
    import asyncio
    from pathlib import Path

    import msgspec

    from assay.synthesis import write_cost

    from .making import make_tasks
    from .output import console, emit_json

    report, cost = asyncio.run(make_tasks(config))
    write_cost(Path(config.out), cost)
    if as_json:
        emit_json({**msgspec.to_builtins(report), "cost": msgspec.to_builtins(cost)})
    else:
        console().print(report.table)
        if report.separation:
            counted = ", ".join(f"{count} {method}" for method, count in report.separation.items())
            console().print(
                f"deciding tests of the {len(report.tasks)} tasks, by the method that judges them: {counted}"
            )
        for sentence in report.release_sentences():
            console().print(sentence)
        console().print(cost.sentence())
