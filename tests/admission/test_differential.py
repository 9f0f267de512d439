"""What tells a mutant from the solution, in real sandboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.admission._callable_functions import called_functions
from assay.admission._canonical_data import same_data
from assay.admission.differential import DifferentialTester
from assay.admission.rewrites import Rewrite
from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.agents.testing import fake_task
from assay.environments.interface import WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import HOME, ensure_toolchain
from assay.settings import Settings
from assay.verify.calls.signature_calls import CallReply, differences
from tests.sampling import WHOLE

CODE = '''
import random


def clamp(value: int, low: int, high: int) -> int:
    if low > high:
        raise ValueError("low is above high")
    return min(max(value, low), high)


def label(text):
    """Labels.

    >>> label("a")
    '<a>'
    """
    return f"<{text.strip()}>" if text else "?"


def drawn(n: int) -> float:
    return random.SystemRandom().random() + n


def _hidden(n: int) -> int:
    return n + 1


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.total = start

    def add(self, amount: int) -> None:
        self.total += amount


def endless(n: int) -> int:
    while n > 1000:
        n -= 1
    return n
'''
PUBLIC = ("clamp", "label", "drawn")
TESTS = "from pkg.parts import clamp\n\n\ndef test_clamp():\n    assert clamp(5, 0, 3) == 3\n"
PARTS = "/workspace/pkg/parts.py"
KNOWN = Knowledge(
    "/workspace",
    (
        SolutionFile(PARTS, b"", CODE.encode()),
        SolutionFile("/workspace/pkg/__init__.py", None, b""),
        SolutionFile("/workspace/test_parts.py", None, TESTS.encode()),
        SolutionFile("/workspace/result.json", None, b'{"a": 1, "b": [2]}'),
        SolutionFile("/workspace/notes.txt", None, b"one\n"),
    ),
)


@pytest.fixture
async def bench() -> AsyncIterator[DifferentialTester]:
    layer = ensure_toolchain(Settings.from_environment().cache)
    backend = NamespacesBackend()
    spec = WorkspaceSpec(env={"PATH": f"{HOME}/bin:/usr/bin:/bin"}, mounts=(layer.mount(),))
    task = fake_task("Write result.json. Check with `python3 -m pytest test_parts.py`.")
    async with DifferentialTester(backend, spec, task, KNOWN) as made:
        yield made
    await backend.close()


def replaced(old: str, new: str) -> Rewrite:
    assert old in CODE
    return Rewrite("mutant.001", "sensitivity", {PARTS: CODE.replace(old, new).encode()}, "", "op")


TOLD_APART = [
    ("min(max(value, low), high)", "max(value, low)", "visible tests", "passed, and in the other failed"),
    ("low > high", "low >= high", "calls", "clamp("),
    ("text.strip()", "text.rstrip()", "calls", "label("),
    ('else "?"', 'else "!"', "calls", "label("),
    ('f"<{', 'f"{', "examples", "label example 0: label(\"a\"): '<a>'"),
    ("self.total += amount", "self.total -= amount", "calls", "Counter.add("),
    ('raise ValueError("low is', 'raise TypeError("low is', "calls", "raises ValueError, and in the other raises Type"),
    ("while n > 1000:\n        n -= 1", "while n > 2:\n        n += 1", "calls", "no end in time"),
]
MORE_CALLS = [TOLD_APART.pop(index) for index in (3, 2)]
"""Like `low >= high` told apart by the value of a call: `make campaign` tries them, too."""
UNDECIDED = [
    ("random() + n", "random() + 2 * n"),  # answers differently each time: nothing can be compared
    ("return n + 1", "return n + 2"),  # private, and reached from nowhere
    ("    return min(max(value, low), high)", "    return max(min(value, high), low)"),  # equal, and not proved so
]


@pytest.mark.long
async def test_changed_behaviour_has_a_witness(bench: DifferentialTester) -> None:
    for old, new, by, witness in (*TOLD_APART, *(MORE_CALLS if WHOLE else ())):
        seen = await bench.compare(replaced(old, new))
        assert (seen.behaviour, seen.by) == ("changed", by), old
        assert witness in seen.witness
        assert seen.looked > 0


@pytest.mark.long
async def test_what_nothing_told_apart_is_undecided(bench: DifferentialTester) -> None:
    for old, new in UNDECIDED:
        seen = await bench.compare(replaced(old, new))
        assert (seen.behaviour, seen.witness) == ("undecided", ""), old
        assert seen.looked > 0


@pytest.mark.long
async def test_what_needs_no_run(bench: DifferentialTester) -> None:
    cases: list[tuple[str, bytes | None, str]] = [
        ("result.json", b'{"b":[2],"a":1}\n', "same"),
        ("result.json", b'{"b":[2],"a":1.0}', "changed"),
        ("result.json", None, "changed"),
        ("notes.txt", b"", "undecided"),  # the instruction does not ask for it
        ("pkg/parts.py", CODE.replace("'<a>'", "<a>").encode(), "same"),
    ]
    for path, data, behaviour in cases:
        rewrite = Rewrite("mutant.001", "sensitivity", {f"/workspace/{path}": data}, "", "op")
        assert (await bench.compare(rewrite)).behaviour == behaviour, path


def called(ended: str, value: str = "", call: str = "(1)") -> CallReply:
    return CallReply("f", call, ended, value)  # type: ignore[arg-type]


@pytest.mark.quick
def test_only_accepted_and_repeatable_calls_are_compared() -> None:
    good, refused = called("returned", "1"), called("refused", "ValueError", "(2)")
    assert differences((good,), (good,), (called("returned", "2"),)).found
    assert differences((refused,), (refused,), (called("raised", "KeyError", "(2)"),)).found
    assert differences((refused,), (refused,), (called("raised", "ValueError", "(2)"),)) == (1, ())
    assert differences((good,), (called("returned", "3"),), (called("returned", "2"),)) == (0, ())
    assert differences((called("misfit", "TypeError"),), (called("misfit", "TypeError"),), (good,)) == (0, ())


@pytest.mark.quick
@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("n + 1", "n + 2", ()),
        ("min(max", "max(min", ("clamp",)),
        ("+= amount", "-= amount", ("Counter.add",)),
        ("import random", "import random as r", (*PUBLIC, "Counter.__init__", "Counter.add", "endless")),
    ],
)  # fmt: skip
def test_functions_worth_calling(old: str, new: str, names: tuple[str, ...]) -> None:
    assert called_functions(CODE, CODE.replace(old, new)) == names


@pytest.mark.quick
def test_callers_of_a_changed_function_are_called_too() -> None:
    text = "def _a(x):\n    return x\n\n\ndef b(x):\n    return _a(x)\n\n\nclass C:\n    def m(self): return b(1)\n"
    assert called_functions(text, text.replace("return x", "return -x", 1)) == ("b", "C.m")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("path", "one", "other", "same"),
    [
        ("a.csv", b'a,b\n1,"x"\n', b"a,b\r\n1,x\r\n\r\n", True),
        ("a.csv", b"a,b\n1,2\n3,4\n", b"a,b\n3,4\n1,2\n", False),
        ("a.jsonl", b'{"a":1,"b":2}\n', b'{"b":2, "a":1}', True),
        ("a.toml", b"a = 1\nb = 2\n", b"b=2\na=1\n", True),
        ("a.txt", b"x \n\n", b"x", True),
        ("a.json", b"{}", b"{", False),
        ("a.json", b"[1, true]", b"[1, 1]", False),
    ],
)
def test_what_a_format_leaves_free_is_no_difference(path: str, one: bytes, other: bytes, same: bool) -> None:
    assert same_data(path, one, other) is same


@pytest.mark.quick
@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from(["a.json", "a.csv", "a.toml", "a.jsonl", "a"]))
def test_any_bytes_can_be_compared(one: bytes, other: bytes, path: str) -> None:
    assert same_data(path, one, one)
    assert same_data(path, one, other) == same_data(path, other, one)
