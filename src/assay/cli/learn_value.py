"""`assay learn-value`: the value of states, learnt from verified attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.errors import UserError, describe_os_error

from .output import emit_json, plain, quantity
from .shared import JsonOption, StoreOption, pick_runs, settings_with
from .tables import print_rows

_SHOWN = 8


def learn_value(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs; default: the newest run.")] = None,
    output: Annotated[Path, typer.Option("--output", help="File to write the weights to, as JSON.")] = Path(
        "value.json"
    ),
    discount: Annotated[float, typer.Option("--discount", help="Worth of a state for each act that is left.")] = 0.9,
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learns from verified attempts how promising a state of a text world is, for `--agent best-first`.

    A logistic regression on the words of observations, relative to the task's instruction. Doubted passes and unjudged
    attempts are left out.

    Examples:

      assay learn-value explored --output value.json

      assay run family:adventure,n=20,seed=9 --agent best-first --agent-option value=value.json
    """
    import msgspec

    from assay.learning.values import learn_value as learn

    settings = settings_with(store)
    learnt = learn(pick_runs(runs or [], settings), settings, discount)
    try:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(learnt.value)) + b"\n")
    except OSError as exc:
        raise UserError(f"the weights cannot be written: {describe_os_error(exc, output)}") from exc
    told = {
        "output": str(output),
        "value": learnt.value.digest,
        "attempts": learnt.attempts,
        "passed": learnt.passed,
        "states": learnt.states,
        "left_out": learnt.left_out,
        "features": len(learnt.value.weights),
    }
    if as_json:
        emit_json(told)
        return
    weights = sorted(learnt.value.weights.items(), key=lambda item: -abs(item[1]))[:_SHOWN]
    print_rows([{"feature": name, "weight": f"{weight:+.2f}"} for name, weight in weights], empty="no feature")
    typer.echo(
        plain(
            f"{output}: {quantity(len(learnt.value.weights), 'feature')} from {quantity(learnt.states, 'state')} of "
            f"{quantity(learnt.attempts, 'attempt')}, of which {learnt.passed} passed"
        )
    )
