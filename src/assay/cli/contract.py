"""`assay contract`: reads safety contracts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.errors import UserError

from .output import emit_json, say
from .plain_typer import plain_typer
from .shared import JsonOption
from .tables import print_rows

if TYPE_CHECKING:
    from assay.analysis.contracts import Contract

app = plain_typer(help="Validates safety contracts.")


@app.callback()
def _root() -> None:
    """Validates safety contracts."""


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="A contract's TOML file, a task's task.toml, or a task folder.")],
    as_json: JsonOption = False,
) -> None:
    """Reads a contract and lists its rules: requirements, and the guard's action on a violation.

    What is wrong is said with the file, the key and the column. Exits with 2 then.

    Examples:

      assay contract check safety.toml

      assay contract check tasks/refund

      assay contract check safety.toml --json
    """
    contracts = _contracts(file)
    if as_json:
        emit_json(
            {
                "file": str(file),
                "contracts": [{"name": c.name, "digest": c.digest, "rules": _rows(c)} for c in contracts],
            }
        )
        return
    rows = [row for contract in contracts for row in _rows(contract)]
    print_rows(rows)
    say(f"{file}: {len(contracts)} contract{'s' * (len(contracts) != 1)}, {len(rows)} rules, all valid")


def _contracts(file: Path) -> tuple[Contract, ...]:
    from assay.rollout.limits.contract_guards import contracts_of_task, load_contracts

    if file.is_dir() or file.name == "task.toml":
        from assay.tasks import load_task

        folder = file if file.is_dir() else file.parent
        contracts = contracts_of_task(load_task(folder).task)
        if not contracts:
            raise UserError(f"{folder} has no [[metadata.assay.contracts]] in its task.toml")
        return contracts
    return load_contracts((str(file),))


def _rows(contract: Contract) -> list[dict[str, str]]:
    rows = [
        {
            "rule": f"{contract.name}.{rule.table.name}",
            "kind": rule.table.kind,
            "severity": rule.table.severity,
            "enforce": rule.table.enforce,
            "if undecidable": rule.table.unknown if rule.decidable else "-",
            "asks for": rule.table.require,
        }
        for rule in contract.rules
    ]
    for agent in contract.table.agents:
        asks = f"{agent.name} may call {', '.join(agent.may_call)}"
        rows.append(_row(contract, "permission", asks, "deny"))
    for label in contract.labels:
        reach = ", ".join(label.table.may_reach) or "no other recipient"
        rows.append(_row(contract, label.table.name, f"what comes from {label.table.source} may reach {reach}", "-"))
    if contract.table.memory is not None:
        memory = contract.table.memory
        rows.append(_row(contract, "memory", f"a session's risk below {memory.deny_at:g}", memory.enforce))
    return rows


def _row(contract: Contract, name: str, asks: str, enforce: str) -> dict[str, str]:
    return {
        "rule": f"{contract.name}.{name}",
        "kind": "governance",
        "severity": "major",
        "enforce": enforce,
        "if undecidable": "-",
        "asks for": asks,
    }
