"""The columns against a slow reference written down from the operators' meanings, and against all completions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.contracts.evaluation import FALSE, TRUE, UNKNOWN, AtomCache, Trace, evaluate
from assay.analysis.contracts.reader import read_expression
from assay.analysis.contracts.syntax import Node

NAMES = ("p", "q")
UNARY: tuple[str, ...] = (
    "not {}",
    "always({})",
    "eventually({})",
    "next({})",
    "weak_next({})",
    "once({})",
    "historically({})",
)
UNARY += ("earlier({})", "previous({})", "within(0, {})", "within(2, {})", "throughout(1, {})", "within_last(2, {})")
BINARY: tuple[str, ...] = (
    "({} and {})",
    "({} or {})",
    "({} implies {})",
    "until({}, {})",
    "unless({}, {})",
    "before({}, {})",
)
BINARY += ("since({}, {})",)


def formulas(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    one = st.builds(str.format, st.sampled_from(UNARY), inner)
    return one | st.builds(str.format, st.sampled_from(BINARY), inner, inner)


FORMULAS = st.recursive(st.sampled_from(["call.arguments.p", "call.arguments.q"]), formulas, max_leaves=5)
VALUES = st.sampled_from([True, False, None])
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=6)
Row = tuple[bool | None, ...]


def trace_of(rows: list[Row], *, ended: bool) -> Trace:
    places = [{"call": {"arguments": dict(zip(NAMES, row, strict=True))}} for row in rows]
    return Trace(places, ended)


def slow(node: Node, rows: list[Row], at: int, *, ended: bool) -> int:
    """By quantifiers over steps, one step at a time."""
    n = len(rows)

    def of(part: int, where: int) -> int:
        return slow(node.parts[part], rows, where, ended=ended)

    strong, weak = (FALSE, TRUE) if ended else (UNKNOWN, UNKNOWN)
    ahead, until_now = range(at, n), range(at + 1)
    k = node.value
    match node.op:
        case "truth":
            value = rows[at][NAMES.index(node.parts[0].value[-1])]
            return UNKNOWN if value is None else TRUE if value else FALSE
        case "not":
            return 2 - of(0, at)
        case "and":
            return min(of(0, at), of(1, at))
        case "or":
            return max(of(0, at), of(1, at))
        case "implies":
            return max(2 - of(0, at), of(1, at))
        case "always":
            return min([*(of(0, j) for j in ahead), weak])
        case "eventually":
            return max([*(of(0, j) for j in ahead), strong])
        case "next" | "weak_next":
            return of(0, at + 1) if at + 1 < n else strong if node.op == "next" else weak
        case "within":
            return max([*(of(0, j) for j in ahead if j <= at + k), *([strong] if at + k >= n else [])])
        case "throughout":
            return min([*(of(0, j) for j in ahead if j <= at + k), *([weak] if at + k >= n else [])])
        case "until" | "unless":
            beyond = strong if node.op == "until" else weak
            ends = [min([of(1, j), *(of(0, i) for i in range(at, j))]) for j in ahead]
            return max([*ends, min([beyond, *(of(0, i) for i in ahead)])])
        case "before":
            firsts = [max([2 - of(1, j), *(of(0, i) for i in range(at, j))]) for j in ahead]
            return min([*firsts, max([weak, *(of(0, i) for i in ahead)])])
        case "once":
            return max(of(0, j) for j in until_now)
        case "historically":
            return min(of(0, j) for j in until_now)
        case "earlier":
            return max([of(0, j) for j in range(at)], default=FALSE)
        case "previous":
            return of(0, at - 1) if at else FALSE
        case "within_last":
            return max(of(0, j) for j in until_now if j >= at - k)
        case "since":
            return max(min([of(1, j), *(of(0, i) for i in range(j + 1, at + 1))]) for j in until_now)
    raise AssertionError(node.op)


@settings(max_examples=200)
@given(FORMULAS, ROWS, st.booleans())
def test_columns_are_what_the_quantifiers_say(text: str, rows: list[Row], ended: bool) -> None:
    node = read_expression(text)
    column = evaluate(node, trace_of(rows, ended=ended))
    assert column == [slow(node, rows, at, ended=ended) for at in range(len(rows))]


@settings(max_examples=200)
@given(FORMULAS | st.just("count(call.arguments.p) <= 1 and latest(call.arguments.q, call.arguments.p) == true"), ROWS)
def test_a_growing_trace_says_the_same_with_what_was_kept(text: str, rows: list[Row]) -> None:
    node, cache = read_expression(text), AtomCache()
    for length in range(len(rows) + 1):
        trace = trace_of(rows[:length], ended=False)
        assert evaluate(node, trace, cache) == evaluate(node, trace)
        cache.settled = max(0, length - 1)


def completions(rows: list[Row], *, ended: bool) -> list[list[Row]]:
    holes = [(i, j) for i, row in enumerate(rows) for j, value in enumerate(row) if value is None]
    found = []
    for extra in [0] if ended else [0, 1, 2]:
        for filling in itertools.product([True, False], repeat=len(holes) + 2 * extra):
            full = [list(row) for row in rows]
            for (i, j), value in zip(holes, filling, strict=False):
                full[i][j] = value
            rest = iter(filling[len(holes) :])
            found.append([*map(tuple, full), *zip(rest, rest, strict=True)])
    return found


@settings(max_examples=75, deadline=None)
@given(FORMULAS, st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3), st.booleans())
def test_what_is_not_unknown_holds_whatever_the_unknown_is_and_whatever_follows(
    text: str, rows: list[Row], ended: bool
) -> None:
    node = read_expression(text)
    first = evaluate(node, trace_of(rows, ended=ended))
    for whole in completions(rows, ended=ended) if UNKNOWN not in first or set(first) != {UNKNOWN} else []:
        definite = evaluate(node, trace_of(whole, ended=True))
        assert UNKNOWN not in definite
        assert all(t in (UNKNOWN, d) for t, d in zip(first, definite, strict=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(call.arguments.p) <= 2", [TRUE, TRUE, UNKNOWN, FALSE]),
        ("count(call.arguments.p) == 1", [TRUE, UNKNOWN, FALSE, FALSE]),
        ("latest(call.arguments.n, call.arguments.p) == 1", [UNKNOWN, TRUE, UNKNOWN, FALSE]),
        ("sum(call.arguments.n, call.arguments.q) <= 6", [TRUE, TRUE, TRUE, FALSE]),
        ('call.arguments.n < "a"', [UNKNOWN] * 4),
        ("call.arguments.none == 1 or true", [TRUE] * 4),
        ("missing(call.arguments.none) and not known(call.arguments.none)", [TRUE] * 4),
        ("result.ok", [UNKNOWN] * 4),
        ("call.arguments.n in [1, 2.0]", [TRUE, TRUE, FALSE, FALSE]),
        ('len(call.arguments.t) == 3 and call.arguments.t matches "^a.c$"', [TRUE] * 4),
        ("-call.arguments.n + 3 * 2 > 4", [TRUE, FALSE, FALSE, FALSE]),
    ],
)
def test_values_at_each_step(text: str, expected: list[int]) -> None:
    flags = [(True, False), (None, True), (True, True), (True, True)]
    rows = [{"p": p, "q": q, "n": n, "t": "abc"} for n, (p, q) in enumerate(flags, 1)]
    if "count" in text:
        rows[2]["p"] = rows[3]["p"] = True
    trace = Trace([{"call": {"arguments": row}} for row in rows], ended=True)
    assert evaluate(read_expression(text), trace) == expected
