"""The separation plan of a task: the method of judging each test, with the data that the method needs.

A plan is made once, when the task is made, proven there (the reference passes, the unrepaired state and mutants of it
fail, each as without the plan), stored as `tests/separation.json` in the task's folder and read by the host alone. It
holds no times, addresses or machine paths, so that one seed gives the same bytes. No part of it comes from an agent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.errors import TaskError

PLAN_PATH = "tests/separation.json"
MAX_PLAN_BYTES = 16 << 20
Method = Literal["splice", "calls", "in-process"]
EntryKind = Literal["function", "method", "classmethod", "staticmethod", "property", "cached-property"]


class EntryPoint(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Function of the package that the worker runs in place of the judge."""

    module: str
    """Importable name, for example `networkx.algorithms.dag`."""
    qualname: str
    """Name as in `__qualname__`, of a function at the top level of a module or of a class in it."""
    kind: EntryKind = "function"

    @property
    def key(self) -> str:
        """Returns `module:qualname`, the name that tests refer to."""
        return f"{self.module}:{self.qualname}"


class Argument(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Part of an argument that the reference changed in a recorded call; all values below it may change."""

    name: str
    """Name of the parameter; of `*args` and `**kwargs` without stars."""
    path: tuple[str, ...] = ()
    """Attribute names from the argument; `*` is each element or value of a container. Empty: the argument itself."""


class EntryUse(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Use of an entry point by a test."""

    entry: str
    """`EntryPoint.key`."""
    changes: tuple[Argument, ...] = ()
    """Parts that the reference changed in place, over all calls of the test."""
    answers: tuple[str, ...] | None = None
    """Types of the reference's answers, as `module:qualname` (of builtins the name), and `iterator` if one was among
    them or in them. A worker's iterator and instances of other classes are refused; None: not recorded."""
    inside: tuple[str, ...] | None = None
    """Kinds of things that the answers and the values of their iterators hold at any depth: classes as
    `module:qualname`, and `iterator`. Instances of other classes of the package and iterators are refused there. With
    `unread`, values of an iterator were not recorded, and those of a worker's are not checked; None: not recorded."""
    handed: tuple[str, ...] | None = None
    """As `inside`, for what else reaches the test: parts of its arguments that were changed in place, arguments of its
    functions, arguments and fields of exceptions. Only what the worker made is compared with it, and classes, which
    are refused without `type`."""


class RecordedClass(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Class of the original package whose instances the worker may return."""

    module: str
    qualname: str
    fields: tuple[str, ...] = ()
    """Names in the instance's `__dict__` that the worker may return, sorted. Other names are dropped."""


class TestPlan(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Method of judging a test."""

    __test__ = False

    id: str
    """Node id, as in `expected` and `also` of the check's parameters."""
    method: Method = "in-process"
    reasons: tuple[str, ...] = ()
    """Reasons why it does not decide: a stronger method is not possible or, for method `splice`, the test is a guard:
    it must pass and is judged from outside, but passes for some false answer. Short, fixed texts."""
    uses: tuple[EntryUse, ...] = ()
    """Entry points that the test reaches; only for method `splice`."""

    @property
    def decides(self) -> bool:
        """Returns whether the test is judged apart and rejects all false answers that were tried."""
        return self.method != "in-process" and not self.reasons


class CollectedTest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Test as the judge collects it; `payload.splice_plugin.describe_item` makes the texts."""

    __test__ = False

    id: str
    marks: tuple[str, ...] = ()
    parameters: str = ""


class SeparationPlan(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Data of a task for judging from outside."""

    package: str
    """Import name of the package under test."""
    entries: tuple[EntryPoint, ...] = ()
    tests: tuple[TestPlan, ...] = ()
    collection: tuple[CollectedTest, ...] = ()
    """Tests of method `splice` as collected with the original package, in order; empty: not compared."""
    classes: tuple[RecordedClass, ...] = ()
    sources: dict[str, str] = {}
    """Module of an entry point to the SHA-256 (hex) of its original source file, which the judge checks on loading."""
    calls: tuple[dict[str, Any], ...] = ()
    """Data of `verify.calls` for the tests of method `calls`."""
    call_timeout_s: float = 20.0
    """Time limit in seconds of one answer by the worker."""
    schema_version: int = 1
    guard_classes: tuple[RecordedClass, ...] = ()
    """Classes as in `classes`, for runs of guards."""

    def of_method(self, method: Method) -> tuple[TestPlan, ...]:
        """Returns the tests of one method, in the plan's order."""
        return tuple(test for test in self.tests if test.method == method)


def encode_plan(plan: SeparationPlan) -> bytes:
    """Returns the bytes to be stored, equal for equal plans."""
    # Decoded once, because a default is left out by identity: a text that is merely equal to it would be written.
    plan = msgspec.json.decode(msgspec.json.encode(plan), type=SeparationPlan)
    return msgspec.json.format(msgspec.json.encode(plan, order="deterministic"), indent=1) + b"\n"


def load_plan(folder: Path | None) -> SeparationPlan | None:
    """Returns a task's plan; None if it has none. Blocking. Raises `TaskError` for a malformed or older one."""
    path = None if folder is None else folder / PLAN_PATH
    if path is None or not path.is_file():
        return None
    if path.stat().st_size > MAX_PLAN_BYTES:
        raise TaskError(f"{PLAN_PATH} has more than {MAX_PLAN_BYTES} bytes")
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=SeparationPlan)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise TaskError(f"{PLAN_PATH} is not a separation plan: {exc}") from exc
    if plan.schema_version != 1:
        raise TaskError(f"{PLAN_PATH} has schema version {plan.schema_version}; this version reads 1")
    _require_consistent(plan)
    return plan


def _require_consistent(plan: SeparationPlan) -> None:
    known = {entry.key for entry in plan.entries}
    for test in plan.tests:
        missing = {use.entry for use in test.uses} - known
        if missing or (test.method == "splice" and not test.uses):
            problem = f"names unknown entry points {sorted(missing)}" if missing else "has no entry point"
            raise TaskError(f"{PLAN_PATH}: the test {test.id} {problem}")
