"""Common parts of checks that judge worlds alone: parameters, the verdict, and the refusal of workspaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

import msgspec

from assay.environments.services.machines.compile import UNRECORDED
from assay.errors import TaskError
from assay.records import VerdictKind

from ._ruling import Ruling
from .cited_evidence import CitedEvidence, verifier_digest
from .interface import CheckInput, CheckResult, WorldInput

P = TypeVar("P", bound=msgspec.Struct)


def read_parameters(given: WorldInput, kind: type[P]) -> P:
    """Returns the parameters of a check. Raises `TaskError` for invalid ones."""
    try:
        return msgspec.convert(given.check.parameters, kind)
    except msgspec.ValidationError as exc:
        raise TaskError(f"check {given.check.name!r}: {exc}") from exc


def make_result(
    given: WorldInput, ruling: Ruling, cited: CitedEvidence, *, kind: VerdictKind = "outcome"
) -> CheckResult:
    """Returns a verdict on calls and rows: nothing that the agent wrote was executed. It is `unknown` for a world that
    was recovered from records, where no record shows what the last step leads to."""
    if _is_unrecorded(given.facts):
        ruling = Ruling("unknown", None, "the attempt did what no record of this recovered site shows the result of")
    verifier = verifier_digest(given.check.kind, given.check.parameters, None)
    verdict = cited.make_verdict(given.check, verifier, ruling, separation="no-agent-code")
    return CheckResult(msgspec.structs.replace(verdict, kind=kind), tuple(cited.items))


def _is_unrecorded(facts: Mapping[str, Any]) -> bool:
    summaries = facts.get("summaries")
    known = summaries.values() if isinstance(summaries, Mapping) else ()
    return any(isinstance(one, Mapping) and one.get(UNRECORDED) is True for one in known)


def refuse_workspace(given: CheckInput) -> NoReturn:
    """Raises `TaskError`: a sandbox has neither rows nor a conversation."""
    raise TaskError(f"check {given.check.name!r}: kind {given.check.kind!r} judges worlds, not workspaces")
