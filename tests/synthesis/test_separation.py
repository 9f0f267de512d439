"""Plans of a small package, made and proven in the sandbox: which test is carried, and why another one is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from assay.environments.interface import Backend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._entry_trace import RecordedEntryCalls, TracedTest, TraceResult, ValueKinds
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._separation import DecidingTests, _CandidatePlan, find_carried_tests, plan_separation
from assay.synthesis._splice_proof import ProofJob, prove_splices
from assay.synthesis._tree import SourceTree, load_source
from assay.verify.separation_plan import EntryPoint, SeparationPlan, TestPlan, encode_plan
from tests.sampling import WHOLE, draw_sample

pytestmark = pytest.mark.long
BOX = '''"""Boxes."""

import functools


def _double(n):
    return 2 * n


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@logged
def doubles(items):
    return [_double(item) for item in items]


def grow(items, by):
    items.append(_double(by))


def is_even_double(n):
    return _double(n) == 2 * n


def lazy(items):
    for item in items:
        yield _double(item)


def same(one, two):
    return [_double(x) for x in one] == [_double(x) for x in two]


def pack(items, by=1):
    return [by * _double(item) for item in items]


def unpack(items):
    return [_double(item) // 4 for item in items]


def remainders(items):
    return {item: _double(item) % 2 for item in items}


def odd(items):
    return {item: [part for part in [_double(item)] if part % 2] for item in items}


def size(n):
    return 10_000 - 100 * _double(n)


def label(n):
    return f"<{_double(n)}>"


def visit(items, key):
    return [key(Box([_double(item)])) for item in items]


def reserve(box, n):
    box.items = iter([_double(n)])


def refuse(n):
    raise KeyError([Box([_double(n)])])


def enlist(found, n):
    found.append((Box, _double(n)))


def maker(n):
    doubled = _double(n)
    return lambda: doubled


class Box:
    def __init__(self, items):
        self.items = list(items)
        self.total = 0

    def fill(self):
        self.total = sum(_double(item) for item in self.items)

    @property
    def first(self):
        return _double(self.items[0])

    def unpacked(self, items, by):
        return [_double(item) // by for item in items]
'''
TESTS = """import pytest
from boxes import Box, doubles, enlist, grow, is_even_double, label, lazy, maker, odd, pack
from boxes import refuse, remainders, reserve, same, size, unpack, visit


def test_doubles():
    assert doubles([1, 2]) == [2, 4]
    assert doubles((5,)) == [10]


def test_grow():
    items = [1]
    grow(items, 3)
    assert items == [1, 6]


def test_bit():
    assert is_even_double(3) is True


def test_lazy():
    assert list(lazy([1, 2, 3])) == [2, 4, 6]


def test_fill():
    box = Box([1, 2])
    box.fill()
    assert (box.items, box.total) == ([1, 2], 6)


def test_first():
    assert Box([4]).first == 8


def test_compares():
    assert doubles([1, 2]) == doubles([1, 2]) and doubles([1]) != [3]


def test_empty():
    for item in doubles([3]):
        assert item == 6


def test_there_and_back():
    assert pack([1, 2]) != [1, 2]
    assert unpack(pack([1, 2])) == [1, 2]


def test_back_by_a_method():
    assert Box([]).unpacked(pack([1, 2], 1), 4) == [1, 2]


def test_zeros():
    found = remainders([1, 3])
    assert (found[1], found[3]) == (0, 0)


def test_empties():
    assert odd([1, 3])[3] == []


def test_large():
    assert size(20) > 5000


def test_contains():
    assert "80" in label(40)


def test_function():
    assert maker(3)() == 6


def test_callback():
    assert sorted([3, 1], key=lambda n: doubles([n])) == [1, 3]
    assert doubles([1]) == [2]


def test_visit():
    assert visit([1, 2], lambda box: box.items[0]) == [2, 4]


def test_reserve():
    box = Box([])
    reserve(box, 3)
    assert list(box.items) == [6]


def test_refuse():
    with pytest.raises(KeyError) as caught:
        refuse(2)
    assert caught.value.args[0][0].items == [4]


def test_enlist():
    found = []
    enlist(found, 2)
    assert found == [(Box, 4)]


def test_many():
    for number in range(1, 400):
        assert pack([number]) == [2 * number]


def test_untouched():
    assert len(doubles([1, 2, 3])) == 3
"""
*NAMES, PASSING = [line[4:].partition("(")[0] for line in TESTS.splitlines() if line.startswith("def ")]
ENDLESS = "while True: pass"
BROKEN = BOX.replace("return 2 * n\n\n\ndef logged", "return 3 * n\n\n\ndef logged")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> SourceTree:
    top = tmp_path_factory.mktemp("boxes") / "boxes-1.0"
    for name, text in {"boxes/__init__.py": BOX, "tests/test_boxes.py": TESTS}.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return load_source(str(top))


async def make_plan(
    tree: SourceTree, backend: Backend, broken: str = BROKEN, names: Sequence[str] = NAMES
) -> SeparationPlan:
    cases = tuple(f"tests/test_boxes.py::{name}" for name in names)
    path = "boxes/__init__.py"
    passing = (f"tests/test_boxes.py::{PASSING}",)
    deciding = DecidingTests("one", {path: BOX}, {path: broken}, {}, cases, 10.0, passing)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    async with Laboratory(tree, backend, layer, 1) as laboratory:
        plans = await plan_separation(laboratory, tree, [deciding], 6)
    return plans["one"]


@pytest.fixture(scope="module")
def plan(tree: SourceTree) -> SeparationPlan:
    async def make() -> SeparationPlan:
        backend = NamespacesBackend()
        try:
            return await make_plan(tree, backend)
        finally:
            await backend.close()

    return asyncio.run(make())


def test_of(plan: SeparationPlan, name: str) -> TestPlan:
    return next(test for test in plan.tests if test.id.endswith(f"::{name}"))


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("test_doubles", ["boxes:doubles"]),
        ("test_grow", ["boxes:grow"]),
        ("test_lazy", ["boxes:lazy"]),
        ("test_fill", ["boxes:Box.fill"]),
        ("test_first", ["boxes:Box.first"]),
    ],
)
def test_the_outermost_function_above_the_change_is_the_entry_point(
    plan: SeparationPlan, name: str, entries: list[str]
) -> None:
    test = test_of(plan, name)
    assert (test.method, test.reasons) == ("splice", ())
    assert [use.entry for use in test.uses] == entries


@pytest.mark.parametrize(
    ("name", "changes"), [("test_doubles", []), ("test_grow", [("items", ())]), ("test_fill", [("self", ("total",))])]
)
def test_only_what_the_reference_changed_may_change(
    plan: SeparationPlan, name: str, changes: list[tuple[str, tuple[str, ...]]]
) -> None:
    (use,) = test_of(plan, name).uses
    assert [(part.name, part.path) for part in use.changes] == changes
    assert use.inside == use.handed == ()


@pytest.mark.parametrize(
    ("name", "handed"),
    [
        ("test_visit", ("boxes:Box",)),
        ("test_reserve", ("iterator", "unread")),
        ("test_refuse", ("boxes:Box",)),
        ("test_callback", ()),
        ("test_enlist", ("type",)),
        ("test_many", ()),
    ],
)
def test_kinds_of_all_that_reaches_the_test_are_recorded(
    plan: SeparationPlan, name: str, handed: tuple[str, ...]
) -> None:
    test = test_of(plan, name)
    assert test.method == "splice"
    assert [use.handed for use in test.uses] == [handed]
    assert None not in [use.answers for use in test.uses]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_bit", "one-bit answers decide nothing alone"),
        ("test_compares", "the test compares with an entry point's own answers"),
        ("test_empty", "it passes unrepaired where entry points answer: "),
        ("test_there_and_back", "it passes unrepaired where entry points answer: previous argument"),
        ("test_back_by_a_method", "it passes unrepaired where entry points answer: own argument"),
        ("test_zeros", "it passes unrepaired where entry points answer: every key is 0"),
        ("test_empties", "it passes unrepaired where entry points answer: every key is empty"),
        ("test_large", "it passes unrepaired where entry points answer: infinity"),
        ("test_contains", "it passes unrepaired where entry points answer: all text"),
        ("test_function", "an entry point answers with a function"),
    ],
)
def test_a_test_that_shows_too_little_does_not_decide(plan: SeparationPlan, name: str, reason: str) -> None:
    test = test_of(plan, name)
    assert not test.decides
    assert test.reasons[0].startswith(reason)


def test_what_cannot_be_sent_stays_in_process_and_other_weak_tests_are_guards(plan: SeparationPlan) -> None:
    methods = {name: test_of(plan, f"test_{name}").method for name in ("bit", "compares", "empty", "function")}
    assert methods == {"bit": "splice", "compares": "splice", "empty": "splice", "function": "in-process"}


def test_a_test_that_passes_unrepaired_is_a_guard(plan: SeparationPlan) -> None:
    test = test_of(plan, "test_untouched")
    assert (test.method, test.reasons) == ("splice", ("it passes unrepaired",))
    assert not test.decides


def test_binding_classes_and_sources_are_recorded(plan: SeparationPlan) -> None:
    kinds = {entry.qualname: entry.kind for entry in plan.entries}
    assert (kinds["Box.first"], kinds["Box.fill"], kinds["doubles"]) == ("property", "method", "function")
    assert [(one.qualname, one.fields) for one in plan.classes] == [("Box", ("items", "total"))]
    assert list(plan.sources) == ["boxes"]


def test_carried_tests_are_collected_in_the_plans_order(plan: SeparationPlan) -> None:
    spliced = [test.id for test in plan.of_method("splice")]
    assert [item.id for item in plan.collection] == spliced
    deciding = [test.id for test in plan.of_method("splice") if test.decides]
    guards = [test.id for test in plan.of_method("splice") if not test.decides]
    assert spliced == sorted(deciding) + sorted(guards)


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made = NamespacesBackend()
    yield made
    await made.close()


async def test_a_plan_is_the_same_again(tree: SourceTree, plan: SeparationPlan, backend: Backend) -> None:
    names = draw_sample(NAMES, 6)
    again = await make_plan(tree, backend, names=names)
    chosen = [test for test in plan.tests if test.id.partition("::")[2] in (*names, PASSING)]
    assert encode_plan(again) == encode_plan(plan if WHOLE else msgspec.structs.replace(again, tests=tuple(chosen)))
    assert str(Path.cwd()).encode() not in encode_plan(again)


async def test_a_change_that_no_test_reaches_carries_nothing(tree: SourceTree, backend: Backend) -> None:
    plan = await make_plan(tree, backend, BOX.replace("import functools", "import functools\nLIMIT = 3"))
    assert {test.method for test in plan.tests} == {"in-process"}


async def test_a_mutant_without_end_is_ended_and_the_next_one_is_tried(
    tree: SourceTree, plan: SeparationPlan, backend: Backend
) -> None:
    two = tuple(test_of(plan, name) for name in ("test_doubles", "test_fill"))
    quick = msgspec.structs.replace(plan, call_timeout_s=0.5, tests=two)
    endless = BOX.replace("return 2 * n", ENDLESS, 1)
    path = "boxes/__init__.py"
    job = ProofJob("one", quick, {}, {path: BROKEN}, ({path: endless}, {path: BROKEN}), 1.0)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    async with Laboratory(tree, backend, layer, 1) as laboratory:
        proven = (await prove_splices(laboratory, tree, [job]))["one"]
    assert set(proven.killed) == {"reference", "unrepaired", "mutant 1", "mutant 2"}
    assert {*proven.killed["mutant 1"]} == {*proven.killed["mutant 2"]} == {test.id for test in two}
    assert not [text for text in proven.objections.values() if "mutant" in text or "do not run" in text]


def test_equal_plans_have_equal_bytes_however_their_texts_were_made() -> None:
    plans = [
        SeparationPlan("p", (EntryPoint("p", "f", kind),), (TestPlan("t", method),))  # type: ignore[arg-type]
        for kind, method in (("function", "in-process"), ("".join(["func", "tion"]), "-".join(["in", "process"])))
    ]
    assert encode_plan(plans[0]) == encode_plan(plans[1])


def test_a_test_is_carried_with_all_its_cases_or_not_at_all() -> None:
    plan = SeparationPlan("p", tests=(TestPlan("t[1]", "splice"), TestPlan("t[2]"), TestPlan("u", "calls")))
    cases: Mapping[str, tuple[str, ...]] = {"t": ("t[1]", "t[2]"), "u": ("u",)}
    assert find_carried_tests(plan, cases, ["u", "t"]) == ("u",)


@pytest.mark.parametrize(
    ("reasons", "problems", "required", "is_refused"),
    [
        ({}, (), (("a",),), False),
        ({"a": "it is weak"}, (), (("a",),), True),
        ({"b": "it is weak"}, (), (("a", "b"),), True),
        ({"b": "it is weak"}, (), (("b",), ("a",)), False),
        ({}, ("it cannot be spliced",), (("a",),), True),
        ({"a": "it is weak"}, ("it cannot be spliced",), (), False),
    ],
)
def test_a_plan_is_refused_without_its_proof_where_no_proof_helps(
    reasons: dict[str, str], problems: tuple[str, ...], required: tuple[tuple[str, ...], ...], is_refused: bool
) -> None:
    use = RecordedEntryCalls(1, 1, 0, {"int": 1}, (), (), ValueKinds(), ValueKinds())
    traced = {
        name: TracedTest(("m:f",), more, "passed", {"m:f": use}) for name, more in {"a": (), "b": problems}.items()
    }
    deciding = DecidingTests("one", {}, {}, {}, ("a", "b"), 1.0, required=required)
    candidate = _CandidatePlan(deciding, {}, TraceResult("one", "done", tests=traced), reasons, {}, {})
    assert candidate.is_refused() is is_refused
