"""The separation plan of a task: by which method each of its tests is judged, and all that the method needs.

A plan is made once, when the task is made, proven there (the reference passes, the unrepaired state and mutants of it
fail, each as without the plan), stored as `tests/separation.json` in the task's folder and read by the host alone. It
holds no times, addresses or machine paths, so that one seed gives the same bytes. Nothing in it comes from an agent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.errors import TaskError

__all__ = [
    "PLAN_PATH",
    "Argument",
    "CollectedTest",
    "EntryKind",
    "EntryPoint",
    "EntryUse",
    "Method",
    "RecordedClass",
    "SeparationPlan",
    "TestPlan",
    "encode_plan",
    "load_plan",
]

PLAN_PATH = "tests/separation.json"
MAX_PLAN_BYTES = 16 << 20
Method = Literal["splice", "calls", "in-process"]
EntryKind = Literal["function", "method", "classmethod", "staticmethod", "property", "cached-property"]


class EntryPoint(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A function of the package that the worker runs in place of the judge."""

    module: str
    """Importable name, for example `networkx.algorithms.dag`."""
    qualname: str
    """As in `__qualname__`; of a function at the top level of a module or of a class in it."""
    kind: EntryKind = "function"

    @property
    def key(self) -> str:
        """Returns `module:qualname`, by which tests name it."""
        return f"{self.module}:{self.qualname}"


class Argument(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A part of an argument that the reference changed in a recorded call; everything below it may change."""

    name: str
    """The parameter's name; `*args` and `**kwargs` by theirs, without stars."""
    path: tuple[str, ...] = ()
    """Attribute names from the argument; `*` is each element or value of a container. Empty: the argument itself."""


class EntryUse(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one test uses one entry point."""

    entry: str
    """`EntryPoint.key`."""
    changes: tuple[Argument, ...] = ()
    """What the reference changed in place, over all calls of the test."""
    answers: tuple[str, ...] | None = None
    """Types of what the reference answered, as `module:qualname` (of builtins the name), and `iterator` where one was
    among them or in them. A worker's iterator and instances of other classes are refused; None: not recorded."""


class RecordedClass(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A class of the original package of which an instance may come back from the worker."""

    module: str
    qualname: str
    fields: tuple[str, ...] = ()
    """Names in the instance's `__dict__` that may come back; sorted. Others that a worker sends are dropped."""


class TestPlan(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How one test is judged."""

    __test__ = False

    id: str
    """Node id, as in `expected` and `also` of the check's parameters."""
    method: Method = "in-process"
    reasons: tuple[str, ...] = ()
    """Why it does not decide: why a stronger method does not carry it, or, of method `splice`, why it is a guard, which
    must pass and is judged from outside but would pass in the face of some lie. Short, fixed texts."""
    uses: tuple[EntryUse, ...] = ()
    """The entry points that the test reaches; of method `splice` alone."""

    @property
    def decides(self) -> bool:
        """Returns True where the test is judged apart and no lie that was tried passes it."""
        return self.method != "in-process" and not self.reasons


class CollectedTest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A test as the judge collects it: `payload.splice_plugin.describe_item` says how the texts are made."""

    __test__ = False

    id: str
    marks: tuple[str, ...] = ()
    parameters: str = ""


class SeparationPlan(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All that judging from outside needs to know of a task."""

    package: str
    """Import name of the package under test."""
    entries: tuple[EntryPoint, ...] = ()
    tests: tuple[TestPlan, ...] = ()
    collection: tuple[CollectedTest, ...] = ()
    """The tests of method `splice` as collected with the original package, in their order; empty: not compared."""
    classes: tuple[RecordedClass, ...] = ()
    sources: dict[str, str] = {}
    """Module of an entry point to the SHA-256 (hex) of its original source file, checked when the judge loads it."""
    calls: tuple[dict[str, Any], ...] = ()
    """What `verify.calls` stored for the tests of method `calls`."""
    call_timeout_s: float = 20.0
    """Seconds that the worker may take for one answer."""
    schema_version: int = 1
    guard_classes: tuple[RecordedClass, ...] = ()
    """As `classes`, while a guard runs."""

    def of_method(self, method: Method) -> tuple[TestPlan, ...]:
        """Returns the tests of one method, in the plan's order."""
        return tuple(test for test in self.tests if test.method == method)


def encode_plan(plan: SeparationPlan) -> bytes:
    """Returns the bytes to be stored: the same for equal plans."""
    # Decoded once, because a default is left out by identity: a text that is merely equal to it would be written.
    plan = msgspec.json.decode(msgspec.json.encode(plan), type=SeparationPlan)
    return msgspec.json.format(msgspec.json.encode(plan, order="deterministic"), indent=1) + b"\n"


def load_plan(folder: Path | None) -> SeparationPlan | None:
    """Reads a task's plan. Blocking. None where the task has none.

    Raises:
        TaskError: The file is too large or is no plan of this version.
    """
    path = None if folder is None else folder / PLAN_PATH
    if path is None or not path.is_file():
        return None
    if path.stat().st_size > MAX_PLAN_BYTES:
        message = f"{PLAN_PATH} has more than {MAX_PLAN_BYTES} bytes"
        raise TaskError(message)
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=SeparationPlan)
    except (msgspec.MsgspecError, RecursionError) as exc:
        message = f"{PLAN_PATH} is not a separation plan: {exc}"
        raise TaskError(message) from exc
    if plan.schema_version != 1:
        message = f"{PLAN_PATH} has schema version {plan.schema_version}; this version reads 1"
        raise TaskError(message)
    _require_consistent(plan)
    return plan


def _require_consistent(plan: SeparationPlan) -> None:
    known = {entry.key for entry in plan.entries}
    for test in plan.tests:
        missing = {use.entry for use in test.uses} - known
        if missing or (test.method == "splice" and not test.uses):
            problem = f"names unknown entry points {sorted(missing)}" if missing else "has no entry point"
            message = f"{PLAN_PATH}: the test {test.id} {problem}"
            raise TaskError(message)
