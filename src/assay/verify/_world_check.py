"""Common parts of checks that judge worlds alone: parameters, the verdict, and the refusal of workspaces."""

from __future__ import annotations

from typing import NoReturn, TypeVar

import msgspec

from assay.errors import TaskError

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


def make_result(given: WorldInput, ruling: Ruling, cited: CitedEvidence) -> CheckResult:
    """Returns a verdict on calls and rows: nothing that the agent wrote was executed."""
    verifier = verifier_digest(given.check.kind, given.check.parameters, None)
    verdict = cited.make_verdict(given.check, verifier, ruling, separation="no-agent-code")
    return CheckResult(verdict, tuple(cited.items))


def refuse_workspace(given: CheckInput) -> NoReturn:
    """Raises `TaskError`: a sandbox has neither rows nor a conversation."""
    raise TaskError(f"check {given.check.name!r}: kind {given.check.kind!r} judges worlds, not workspaces")
