"""`assay learn-policy`: a policy over acts, learnt from verified attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.errors import UserError, describe_os_error

from .output import emit_json, plain, quantity
from .shared import JsonOption, StoreOption, pick_runs, settings_with


def learn_policy(
    runs: Annotated[list[str] | None, typer.Argument(help="Names of runs; default: the newest run.")] = None,
    output: Annotated[Path, typer.Option("--output", help="File to write the weights to, as JSON.")] = Path(
        "policy.json"
    ),
    *,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learns from verified passes which act comes next in a text world, for `--agent best-first`.

    A softmax regression on the words of the latest observation and the act before. Doubted passes are left out. The
    entropy of the policy then bounds how many acts a search tries in a state.

    Examples:

      assay learn-policy explored --output policy.json

      assay run family:adventure,n=20,seed=9 --agent best-first --agent-option policy=policy.json
    """
    import msgspec

    from assay.learning.policies import learn_policy as learn

    settings = settings_with(store)
    learnt = learn(pick_runs(runs or [], settings), settings)
    try:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(learnt.policy)) + b"\n")
    except OSError as exc:
        raise UserError(f"the weights cannot be written: {describe_os_error(exc, output)}") from exc
    if as_json:
        emit_json({
            "output": str(output), "policy": learnt.policy.digest, "passed": learnt.passed, "acts": learnt.acts,
            "left_out": learnt.left_out, "kinds": len(learnt.policy.kinds), "features": len(learnt.policy.weights),
        })  # fmt: skip
        return
    typer.echo(
        plain(
            f"{output}: {quantity(len(learnt.policy.kinds), 'kind')} of acts and "
            f"{quantity(len(learnt.policy.weights), 'feature')} from {quantity(learnt.acts, 'act')} of "
            f"{quantity(learnt.passed, 'passing attempt')}"
        )
    )
