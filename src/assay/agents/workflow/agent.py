"""The agent `workflow`: carries a declared workflow out, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.agents._calls import instruction_of
from assay.agents._options import read_options
from assay.agents.composites import parse_result
from assay.agents.interface import Attempt
from assay.errors import TaskError, UserError
from assay.records import Evidence, ToolCall, canonical_bytes, digest_record

from .interpreter import Interpreter
from .spec import read_workflow

KIND = "workflow"
"""Kind of the evidence about the nodes of an execution."""


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str = ""
    """Workflow file (TOML)."""


class WorkflowAgent:
    """Carries a workflow out in any environment that has its tools. Option: `file`."""

    name = "workflow"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        given = read_options(_Options, options, self.name)
        if not given.file:
            raise UserError("agent 'workflow': file is missing: give --agent-option file=FLOW.toml")
        self._flow = read_workflow(Path(given.file))
        self.name = f"workflow:{self._flow.workflow}"

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment lacks a tool of the workflow."""
        offered = {spec.name for spec in attempt.tools.specs()}
        lacking = sorted({node.tool for node in self._flow.nodes} - offered)
        if lacking:
            known = ", ".join(sorted(offered)) or "none"
            raise TaskError(f"{self.name} calls {', '.join(lacking)}, which this environment lacks; it has {known}")
        interpreter = Interpreter(self._flow, instruction_of(attempt.task))
        nodes = list[tuple[str, str]]()
        try:
            while attempt.ended is None and (proposed := interpreter.propose()) is not None:
                arguments = proposed.arguments
                call = ToolCall(f"w{len(nodes)}", proposed.tool, canonical_bytes(arguments).decode(), arguments)
                nodes.append((call.id, proposed.node))
                (seen,) = await attempt.act([call], message=f"node {proposed.node}")
                interpreter.take(parse_result(seen.content), error=bool(seen.error))
        finally:
            data = {
                "workflow": self._flow.workflow,
                "digest": digest_record(self._flow),
                "events": msgspec.to_builtins(interpreter.events),
                "calls": len(nodes),
                "followed": len(nodes),
                "finished": interpreter.is_done,
                "failed": "" if interpreter.failed is None else interpreter.failed.describe(),
                "nodes": nodes,
            }
            attempt.note(Evidence(KIND, "audit", KIND, data))
        if attempt.ended is None:
            failed = interpreter.failed
            attempt.finish("the workflow ended" if failed is None else f"node {failed.node} failed: {failed.reason}")
