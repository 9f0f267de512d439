"""The check `calls`: a program in some language must answer fresh inputs as a Python reference does.

For tasks in which the agent writes a function as a program that reads one JSON request a line and writes one JSON
answer a line. The task's folder holds the plan (`tests/calls.json`) and the reference's files (`tests/reference/`); the
agent sees neither. Inputs are drawn when the agent's processes are dead; the program is built and answers in a sandbox
with the final state and is killed; then the reference answers in a sandbox of the task's image, and the host compares
(`verify.calls`). The verdict is graded by the facts recorded of both sandboxes.

Covered: answers learnt by heart, a program that dies, hangs or floods its output, whatever it writes elsewhere. Not
covered: a wrong reference, behaviour that no drawn input shows, and the language itself: a program may start another
language's interpreter, where the sandbox has one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import TaskError
from assay.records import digest_bytes
from assay.verify._staging import stage
from assay.verify.calls import CallPlan, ReferenceFiles, ReferenceFix, judge_called_tests
from assay.verify.cited_evidence import CitedEvidence, verifier_digest
from assay.verify.interface import CheckInput, CheckResult
from assay.verify.sanitise import require_mounts

PLAN_FILE = "tests/calls.json"
REFERENCE_FOLDER = "tests/reference"
MAX_PLAN_BYTES = 16 << 20


class CallsParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the check."""

    plan: str = PLAN_FILE
    """Relative to the task's folder."""
    reference: str = REFERENCE_FOLDER
    """Folder of the reference's files, relative to the task's folder; laid out as below the working directory."""
    source: str = ""
    """The reference's file that defines the function, relative to that folder: it is also run rewritten without a
    change of behaviour, and inputs on which the two differ are not compared."""


class _Files(NamedTuple):
    plan: CallPlan
    reference: ReferenceFiles
    digest: str


class CallsCheck:
    """Compares a program's answers with the reference's."""

    kind = "calls"

    async def judge(self, given: CheckInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        require_mounts(given.backend)
        files = await asyncio.to_thread(_read, given)
        called = await judge_called_tests(given, files.plan, cited, files.reference)
        verifier = verifier_digest(self.kind, given.check.parameters, files.digest)
        verdict = cited.make_verdict(given.check, verifier, called.ruling, separation=called.grade)
        return CheckResult(verdict, tuple(cited.items))


def _read(given: CheckInput) -> _Files:
    parameters = msgspec.convert(given.check.parameters, CallsParameters)
    if given.folder is None:
        raise TaskError("the check 'calls' needs the task's folder, with its plan and reference")
    path, folder = given.folder / parameters.plan, given.folder / parameters.reference
    try:
        if path.stat().st_size > MAX_PLAN_BYTES:
            raise TaskError(f"{parameters.plan} has more than {MAX_PLAN_BYTES} bytes")
        data = path.read_bytes()
        plan = msgspec.json.decode(data, type=CallPlan)
        staged = stage(folder)
    except (OSError, msgspec.MsgspecError, RecursionError) as exc:
        raise TaskError(f"the check 'calls' cannot read {parameters.plan} or {parameters.reference}: {exc}") from exc
    # Changes nothing: it names the file that is also run rewritten.
    fixes = (ReferenceFix(parameters.source, 0, "", ""),) if parameters.source else ()
    digest = digest_bytes(data + staged.digest.encode())
    return _Files(plan, ReferenceFiles(fixes, Path(staged.path)), digest)
