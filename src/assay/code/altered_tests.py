"""Tests with one expectation changed: the same tests, which any code that passes the original must now fail.

A run of altered tests asks whether failures are seen at all. Code under test that shares a process with its tests can
make failures disappear, by a patched runner or by values that equal what is compared with them, or can read the
answers out of the test files; none of these can tell an altered test from its original by what the test calls, and each
passes it.

Only statements that surely run and surely decide are changed: those at the top level of a test's body, in a test that
neither returns early nor carries a decorator that could turn a failure around. A test without one, whose assertions
stand in loops or in functions, gets one at its end that fails. So a test that passed, and passes again when altered,
was not judged by its assertions.

Left as they are: tests that others call, and what comes before a call whose effect may outlive the test.

Invariant: an altered text parses, and differs from the original in one statement of each altered test.
"""

from __future__ import annotations

import ast
import hashlib
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from random import Random
from typing import NamedTuple

from .source import parse_tree

MOST_TEXT = 1 << 20
_NEGATED_METHODS = {
    "assertAlmostEqual": "assertNotAlmostEqual",
    "assertEqual": "assertNotEqual",
    "assertFalse": "assertTrue",
    "assertGreater": "assertLessEqual",
    "assertGreaterEqual": "assertLess",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsInstance": "assertNotIsInstance",
    "assertIsNone": "assertIsNotNone",
    "assertIsNot": "assertIs",
    "assertIsNotNone": "assertIsNone",
    "assertLess": "assertGreaterEqual",
    "assertLessEqual": "assertGreater",
    "assertNotEqual": "assertEqual",
    "assertNotIn": "assertIn",
    "assertRegex": "assertNotRegex",
    "assertTrue": "assertFalse",
}
_EQUALITY = frozenset({
    "assertCountEqual", "assertDictEqual", "assertEqual", "assertListEqual", "assertMultiLineEqual",
    "assertSequenceEqual", "assertSetEqual", "assertTupleEqual",
})  # fmt: skip
"""Calls with two arguments that must be equal. Not those of numpy, which take NaN and what is masked for equal."""
_RAISES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_UNRELATED = ("ImportWarning", "TabError", "UnicodeTranslateError", "UnicodeWarning")
"""Exceptions that code under test has no reason to raise, whatever wider class its tests expect: no `OSError`."""
_NEGATED = {"in": "not in", "is": "is not", "is not": "is", "not in": "in"}
"""Operators whose opposite no class decides: `!=` may be true where `==` is."""
_NEGATABLE = re.compile(r"\bnot\s+in\b|\bis\s+not\b|\bin\b|\bis\b")
_HARMLESS_DECORATOR = re.compile(
    r"(?:pytest\.)?mark\.\w+|(?:(?:unittest\.)?mock\.)?patch(?:\.(?:object|dict|multiple))?"
)
_REVERSING_MARKS = frozenset({"xfail", "flaky"})
MOST_KNOWN = 2000
_KNOWN: dict[bytes, frozenset[str]] = {}
"""Digest of a text to its tests that can be altered: a task's files are judged many times, and parsing them is most of
what the host does then."""
_KNOWN_LOCK = threading.Lock()


class AlteredTests(NamedTuple):
    """A test file with altered tests."""

    text: str
    tests: frozenset[str]
    """Names of the altered tests as in node ids: `test_total`, `TestMore::test_same`; without parameters."""


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Text:
    def __init__(self, text: str) -> None:
        self.tree = parse_tree(text)
        self.data = text.encode()
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def replace(self, node: ast.expr, text: str) -> _Edit:
        """Returns the edit that puts a text in a node's place. The lines below keep their numbers."""
        start, end = self.span(node)
        lines = self.data.count(b"\n", start, end) - text.count("\n")
        return _Edit(start, end, f"({text}" + "\n" * lines + ")" if lines > 0 else text)

    def below(self, function: _Function, text: str) -> _Edit | None:
        """Returns the edit that puts a statement at the end of a function, below it if possible; None for one on one
        line."""
        first, last = function.body[0], function.body[-1]
        assert last.end_lineno is not None
        indent = self.data[self._starts[first.lineno - 1] :][: first.col_offset]
        if indent.strip():
            return None
        end = self._starts[last.end_lineno - 1] + (last.end_col_offset or 0)
        line_end = self.data.find(b"\n", end)
        if line_end < 0:
            return _Edit(len(self.data), len(self.data), f"\n{indent.decode()}{text}\n")
        next_end = self.data.find(b"\n", line_end + 1)
        blank = next_end >= 0 and not self.data[line_end:next_end].strip()
        return _Edit(line_end, next_end if blank else line_end, f"\n{indent.decode()}{text}")

    def source(self, node: ast.expr) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()


def alterable_tests(text: str) -> frozenset[str]:
    """Returns the names of the tests that can be altered."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    with _KNOWN_LOCK:
        known = _KNOWN.get(digest)
    if known is None:
        altered = alter_tests(text, Random(0))
        known = frozenset() if altered is None else altered.tests
        with _KNOWN_LOCK:
            while len(_KNOWN) >= MOST_KNOWN:
                del _KNOWN[next(iter(_KNOWN))]
            _KNOWN[digest] = known
    return known


def alter_tests(text: str, random: Random, only: Collection[str] | None = None) -> AlteredTests | None:
    """Returns the text of a test file with each alterable test (of `only`) changed in one statement; None without one.

    `random` chooses the statement and the change, so that they cannot be foreseen.
    """
    source = None if only is not None and not only else _parsed(text)
    if source is None:
        return None
    edits, names = [], set()
    for name, function in _tests(source.tree):
        changed = _altered(source, function, random) if only is None or name in only else None
        if changed is not None:
            edits.append(changed)
            names.add(name)
    altered = _apply(source.data, edits)
    return AlteredTests(altered, frozenset(names)) if names and altered is not None else None


def alter_program(text: str, random: Random, *, last: bool) -> str | None:
    """Returns the text with each alterable test changed, and one assertion that a run of the file as a program or its
    import reaches: with `last` the last one, after whatever could end the program. None without one."""
    source = _parsed(text)
    if source is None:
        return None
    edits = [_altered(source, function, random) for _, function in _tests(source.tree)]
    done = [edit for edit in edits if edit is not None]
    asserts = [one for one in _at_top(source.tree) if isinstance(one, ast.Assert)]
    reached = [edit for one in asserts if (edit := _changed(source, [one], random)) is not None]
    done += [reached[-1] if last else random.choice(reached)] if reached else []
    return _apply(source.data, done) if done else None


def _at_top(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yields the statements of a module and of what it does as a program."""
    for statement in tree.body:
        yield statement
        if isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test):
            yield from statement.body


def _parsed(text: str) -> _Text | None:
    if len(text) > MOST_TEXT or "\f" in text:
        return None
    try:
        return _Text(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _apply(data: bytes, edits: list[_Edit]) -> str | None:
    for edit in sorted(edits, reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    try:
        parse_tree(data.decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return data.decode()


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _tests(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Yields each test that is defined once and unconditionally, and that no other calls, with its name as in ids."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for prefix, body in _bodies(tree.body, ""):
        bound = Counter(name for statement in body for name in _bound_names(statement))
        for statement in body:
            if not isinstance(statement, _Function) or statement.name in used:
                continue
            if bound[statement.name] == 1 and _is_alterable(statement):
                yield prefix + statement.name, statement


def _is_alterable(function: _Function) -> bool:
    plain = all(_is_harmless(decorator) for decorator in function.decorator_list)
    return function.name.startswith("test") and plain and not _leaves(function)


def _bodies(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yields the module's body and those of its classes, each class with a name of its own."""
    yield prefix, body
    bound = Counter(name for statement in body for name in _bound_names(statement))
    for statement in body:
        if isinstance(statement, ast.ClassDef) and bound[statement.name] == 1 and not statement.decorator_list:
            yield from _bodies(statement.body, f"{prefix}{statement.name}::")


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement, with what is inside it, could bind in its own scope."""
    if isinstance(statement, _Function | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, _Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _is_harmless(decorator: ast.expr) -> bool:
    """Returns whether a decorator hands a failure on as it is: a mark of pytest or a patch of `unittest.mock`, and
    nothing in it is a mark that turns a failure around."""
    name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    nodes = [*ast.walk(decorator)]
    named = {one.attr for one in nodes if isinstance(one, ast.Attribute)}
    named |= {one.id for one in nodes if isinstance(one, ast.Name)}
    return _HARMLESS_DECORATOR.fullmatch(name) is not None and not named & _REVERSING_MARKS


def _leaves(function: _Function) -> bool:
    """Returns whether a test could end before its last statement without failing."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _Function | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
    return False


def _altered(source: _Text, function: _Function, random: Random) -> _Edit | None:
    """Returns one change of a test: of a literal that is expected where there is one, or of a value, else the opposite,
    else a statement at its end that fails."""
    changed = _changed(source, _last_decisions(function.body), random)
    last = function.body[-1]
    if changed is None and isinstance(last, ast.For) and _surely_runs(last):
        changed = _changed(source, _last_decisions(last.body), random)
    if changed is not None:
        return changed
    expected = random.randint(2, 97)
    return source.below(function, f"assert {expected + random.randint(1, 9)} == {expected}")


def _surely_runs(loop: ast.For) -> bool:
    """Returns whether the whole body of a loop runs at least once: it is over values that are written there."""
    values = loop.iter.elts if isinstance(loop.iter, ast.List | ast.Tuple) else []
    whole = not any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(loop))
    return whole and any(not isinstance(value, ast.Starred) for value in values)


def _changed(source: _Text, statements: list[ast.stmt], random: Random) -> _Edit | None:
    literal: list[_Edit] = []
    other: list[_Edit] = []
    opposite: list[_Edit] = []
    for statement in statements:
        literal += _literal_changes(source, statement, random)
        other += _other_operands(source, statement, random)
        opposite += _opposites(source, statement, random)
    choices = literal or other or opposite
    return random.choice(choices) if choices else None


def _last_decisions(body: list[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements after which nothing is tidied up, so that a failure leaves nothing behind for later tests;
    all where none that decides is among those."""
    last = next((n for n in reversed(range(len(body))) if _acts(body[n])), -1)
    decisions = [statement for statement in body[last + 1 :] if not isinstance(statement, ast.Assign)]
    return decisions or body


def _acts(statement: ast.stmt) -> bool:
    """Returns whether a statement may be there for its effect on what outlives the test."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return not _called(statement.value).lower().startswith("assert") and _called(statement.value) not in _RAISES
    if isinstance(statement, ast.Assign):
        named = all(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
        return not named or any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(statement.value))
    return not isinstance(statement, ast.Assert | ast.With | ast.Pass | ast.AnnAssign)


def _literal_changes(source: _Text, statement: ast.stmt, random: Random) -> Iterator[_Edit]:
    for sides in _equal_sides(statement):
        literals = [_expected_literal(side) for side in sides]
        if (literals[0] is None) == (literals[1] is None):
            continue
        expected = literals[0] or literals[1]
        assert expected is not None
        leaf = random.choice(list(_leaves_of(expected)))
        yield source.replace(leaf, _another(leaf, random))


def _other_operands(source: _Text, statement: ast.stmt, random: Random) -> Iterator[_Edit]:
    """Yields changes of a value that is expected and not written there, into another of its type, far from it: a value
    that decides its own comparison passes these, and not the opposite."""
    for sides in _equal_sides(statement):
        stored = [side for side in sides if _is_stored(side)]
        if stored:  # of two, the second one is what is expected
            value = source.source(stored[-1])
            number, word = random.randint(300, 900) * 3 + 1, _word(random)
            yield source.replace(
                stored[-1],
                f"(-2 * {value} - {number} if isinstance({value}, (int, float)) else {value} + {word!r}"
                f" if isinstance({value}, str) else [{value}, {word!r}])",
            )
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        compared = statement.test
        if (
            len(compared.ops) == 1
            and isinstance(compared.ops[0], ast.In)
            and not isinstance(compared.left, ast.Constant)
        ):
            yield source.replace(compared.comparators[0], f"({_word(random)!r},)")


def _is_stored(node: ast.expr) -> bool:
    """Returns whether an expression reads what was stored, so that it may be read again."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _word(random: Random) -> str:
    return "".join(random.choices("bcdfghjklmnpqrstvwxz", k=4))


def _equal_sides(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare):
        compared = statement.test
        if len(compared.ops) == 1 and isinstance(compared.ops[0], ast.Eq):
            yield compared.left, compared.comparators[0]
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        plain = len(call.args) >= 2 and not any(isinstance(one, ast.Starred) for one in call.args[:2])
        if plain and _called(call) in _EQUALITY:
            yield call.args[0], call.args[1]


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _expected_literal(node: ast.expr) -> ast.expr | None:
    """Returns a literal, or that of `pytest.approx(literal)`; None for anything that is computed."""
    if isinstance(node, ast.Call) and _called(node) == "approx" and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return node


def _leaves_of(node: ast.expr) -> Iterator[ast.expr]:
    """Yields the constants of a literal, an empty or signed one whole; of a dictionary its values."""
    if isinstance(node, ast.Dict):  # of a key that stands there twice the last value counts
        keys = (ast.literal_eval(key) for key in node.keys if key is not None)
        inner = list(dict(zip(keys, node.values, strict=True)).values())
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        inner = node.elts
    else:
        inner = []
    if not inner:
        yield node
    for one in inner:
        yield from _leaves_of(one)


def _another(node: ast.expr, random: Random) -> str:
    """Returns the text of another value of the same type, far from the first also by a relative tolerance."""
    value = ast.literal_eval(node)
    far = random.randint(11, 97)
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int):
        near = abs(value) < 1000
        return repr(value + (far if near else abs(value) + far) * (1 if value >= 0 else -1))
    if isinstance(value, float):
        return repr(value + abs(value) + far) if abs(value) < 1e300 else repr(float(far))
    if isinstance(value, complex):
        return repr(value + abs(value) + far) if abs(value) < 1e300 else repr(complex(far))
    if isinstance(value, str):
        return repr(_another_text(value, random))
    if isinstance(value, bytes):
        return repr(value + bytes([random.choice(b"bcdfghjk")]))
    empty = {"dict": "{0: 0}", "list": "[0]", "tuple": "(0,)", "set": "{0}"}
    return empty.get(type(value).__name__, repr(far))


def _another_text(text: str, random: Random) -> str:
    places = [place for place, character in enumerate(text) if character.isascii() and character.isalnum()]
    if not places:
        return text + random.choice("bcdfghjk")
    place = random.choice(places)
    alphabet = "0123456789" if text[place].isdigit() else "bcdfghjklmnpqrstvwxz"
    alphabet = alphabet.upper() if text[place].isupper() else alphabet
    return text[:place] + random.choice(alphabet.replace(text[place], "")) + text[place + 1 :]


def _opposites(source: _Text, statement: ast.stmt, random: Random) -> Iterator[_Edit]:
    """Yields the changes that ask for the opposite of what a statement asks for."""
    if isinstance(statement, ast.Assert):
        yield _opposite(source, statement.test)
    elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
        function = call.func
        own = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
        if own and isinstance(function, ast.Attribute) and function.attr in _NEGATED_METHODS:
            name = f"{source.source(function.value)}.{_NEGATED_METHODS[function.attr]}"
            yield source.replace(function, name)
        elif _called(call) in _RAISES and len(call.args) >= 2:
            yield from _other_exception(source, call, random)
    elif isinstance(statement, ast.With) and len(statement.items) == 1:
        context = statement.items[0].context_expr
        if isinstance(context, ast.Call) and _called(context) in _RAISES and context.args:
            yield from _other_exception(source, context, random)


def _opposite(source: _Text, test: ast.expr) -> _Edit:
    """Returns the change of a condition into its exact negation, written as a test's author would."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        start, end = source.span(test.left)[1], source.span(test.comparators[0])[0]
        between = source.data[start:end].decode()
        operators = _NEGATABLE.findall(between)
        if len(operators) == 1 and "#" not in between:
            return _Edit(start, end, _NEGATABLE.sub(_NEGATED[" ".join(operators[0].split())], between))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        start, end = source.span(test)[0], source.span(test.operand)[0]
        return _Edit(start, end, source.data[start:end].decode().removeprefix("not").lstrip())
    plain = isinstance(test, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Compare)
    return source.replace(test, f"not {source.source(test)}" if plain else f"not ({source.source(test)})")


def _other_exception(source: _Text, call: ast.Call, random: Random) -> Iterator[_Edit]:
    unnamed = [name for name in _UNRELATED if name.encode() not in source.data]
    if unnamed and not isinstance(call.args[0], ast.Starred):
        yield source.replace(call.args[0], random.choice(unnamed))
