"""Checks given to a run as Python objects, beside those of its tasks. All must pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from assay import plugins
from assay.errors import CheckDefinitionError
from assay.records import Check, digest_bytes
from assay.verify.function_check import FunctionCheck, source_of
from assay.verify.interface import OutcomeCheck, ReadTranscript

CheckSource = str | type | OutcomeCheck | Callable[..., Any]
"""Name as a task's `kind` takes it, class or object with `judge`, or function as `assay.check` takes it."""


class RunChecks(NamedTuple):
    """The checks, and the objects that judge by their `kind`."""

    checks: tuple[Check, ...] = ()
    kinds: Mapping[str, OutcomeCheck] = {}
    transcript: ReadTranscript | None = None
    """Reads the record so far of the attempt that is judged."""

    def digests(self) -> dict[str, str]:
        """Returns each check's name with the digest of its code."""
        return {check.name: str(check.parameters["digest"]) for check in self.checks}


def build_checks(sources: CheckSource | Iterable[CheckSource]) -> RunChecks:
    """Builds the checks of a run from one source or several.

    Raises:
        CheckDefinitionError: A source is not a check, or two checks have one name.
        PluginLoadError: Nothing has a given name, it does not import, or its constructor failed.
    """
    kinds: dict[str, OutcomeCheck] = {}
    checks = []
    listed = list(sources) if isinstance(sources, Iterable) and not isinstance(sources, str) else [sources]
    for source in listed:
        kind = _build(source)
        name = str(getattr(kind, "name", None) or kind.kind)
        if f"python:{name}" in kinds:
            raise CheckDefinitionError(f"two checks are called {name!r}: name one with @assay.check(name=...)")
        kinds[f"python:{name}"] = kind
        checks.append(Check(name, f"python:{name}", {"digest": _digest(kind)}))
    return RunChecks(tuple(checks), kinds)


def _build(source: Any) -> OutcomeCheck:
    found = plugins.build("checks", source) if isinstance(source, str) else source
    if isinstance(found, type):
        found = plugins.construct(f"check {found.__name__}", found, {}, CheckDefinitionError)
    if not hasattr(found, "judge"):
        return FunctionCheck(found)
    if not isinstance(found, OutcomeCheck) or not inspect.iscoroutinefunction(found.judge):
        raise CheckDefinitionError(
            f"{found!r:.100} cannot be a check: it needs `kind` and `async def judge(self, given)`"
        )
    return found


def _digest(kind: OutcomeCheck) -> str:
    return kind.digest if isinstance(kind, FunctionCheck) else digest_bytes(source_of(kind).encode())
