"""Reads the expressions of contracts: our own small language, never Python's.

    expression := implies
    implies    := or ["implies" implies]
    or         := and {"or" and}            and := not {"and" not}         not := ["not"] not | comparison
    comparison := sum [operator sum]        operator := == != < <= > >= in, not in, contains, starts_with, ends_with,
                                                        matches
    sum        := product {("+" | "-") product}     product := unary {("*" | "/" | "%") unary}
    unary      := ["-"] unary | primary
    primary    := number | "text" | true | false | [list] | name(arguments) | path | (expression)
    path       := name {"." name | "[" text or number "]"}

Bounded: the length of a text, its nesting and the size of the tree after definitions were put in.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple, NoReturn

from .fields import problem_of_path
from .pattern import PatternError, compile_pattern
from .syntax import BOUNDED, COMPARISONS, FORMULAS, FUTURE, PAST, STRICT_PAST, VALUES, Node, walk

MOST_CHARACTERS: Final = 8_000
MOST_NODES: Final = 4_000
MOST_DEPTH: Final = 60
MOST_LEVELS: Final = 200
MOST_STEPS: Final = 1_000_000
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>==|!=|<=|>=|[<>()\[\],.+\-*/%]))""",
    re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_WORDS: Final = frozenset({"and", "or", "not", "implies", "in", "contains", "starts_with", "ends_with", "matches"})
_FUNCTIONS: Final = {**FUTURE, **PAST, **STRICT_PAST, **BOUNDED, **VALUES, "known": 1, "missing": 1}


class BadExpression(ValueError):
    """Invalid expression. `at` is the position in its text, from 0."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class _Token(NamedTuple):
    kind: str
    """`number`, `text`, `word`, `sign` or `end`."""
    text: str
    at: int


def read_expression(text: str, definitions: Mapping[str, Node] | None = None) -> Node:
    """Parses an expression that is true, false or unknown at a step; `definitions` are named trees parsed before.

    Raises:
        BadExpression: It is invalid, or a value.
    """
    if len(text) > MOST_CHARACTERS:
        raise BadExpression(
            f"the expression has {len(text)} characters: at most {MOST_CHARACTERS}; use [define]", MOST_CHARACTERS
        )
    reader = _Reader(text, definitions or {})
    found = reader.formula(reader.implies())
    reader.expect_end()
    size = sum(1 for _ in islice(walk(found), MOST_NODES + 1))
    if size > MOST_NODES or _depth(found) > MOST_LEVELS:
        raise BadExpression(
            f"with its definitions the expression has more than {MOST_NODES} parts or {MOST_LEVELS} levels", 0
        )
    return found


def _depth(node: Node) -> int:
    deepest, todo = 0, [(node, 1)]
    while todo:
        found, level = todo.pop()
        deepest = max(deepest, level)
        todo.extend((part, level + 1) for part in found.parts)
    return deepest


def _tokens(text: str) -> list[_Token]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            what = "a text that is not closed" if text[start] in "\"'" else f"{text[start]!r}"
            raise BadExpression(f"{what} is not part of an expression", start)
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", end)]


def _plain_text(token: _Token) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token.text[1:-1], flags=re.DOTALL)


def _pattern_text(token: _Token) -> str:
    """Unescapes a pattern's quotes; its backslashes are its own."""
    quote = token.text[0]
    return token.text[1:-1].replace(f"\\{quote}", quote)


class _Reader:
    """Recursive descent parser; `_at` is the next token."""

    def __init__(self, text: str, definitions: Mapping[str, Node]) -> None:
        self._tokens = _tokens(text)
        self._definitions = definitions
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _takes(self, *texts: str) -> bool:
        if self._next.kind in ("word", "sign") and self._next.text in texts:
            self._at += 1
            return True
        return False

    def _fail(self, message: str, at: int | None = None) -> NoReturn:
        raise BadExpression(message, self._next.at if at is None else at)

    def expect_end(self) -> None:
        if self._next.kind != "end":
            self._fail(f"expected an operator or the end, got {self._next.text!r}")

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            self._fail(f"expected {sign!r}, got {self._next.text or 'the end'!r}")

    def formula(self, node: Node) -> Node:
        if node.op in FORMULAS:
            return node
        if node.op == "path" or (node.op == "literal" and isinstance(node.value, bool)):
            return Node("truth", (node,), at=node.at)
        self._fail("expected something true or false here, for example a comparison; this is a value", node.at)

    def _value(self, node: Node) -> Node:
        if node.op in FORMULAS and node.op != "truth":
            self._fail("expected a value here; this is true or false by itself", node.at)
        return node.parts[0] if node.op == "truth" else node

    def implies(self) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self._fail(f"nested more than {MOST_DEPTH} deep; use [define]")
        left = self._or()
        at = self._next.at
        if self._takes("implies"):
            left = Node("implies", (self.formula(left), self.formula(self.implies())), at=at)
        self._depth -= 1
        return left

    def _or(self) -> Node:
        left = self._and()
        while self._next.text == "or":
            at = self._take().at
            left = Node("or", (self.formula(left), self.formula(self._and())), at=at)
        return left

    def _and(self) -> Node:
        left = self._not()
        while self._next.text == "and":
            at = self._take().at
            left = Node("and", (self.formula(left), self.formula(self._not())), at=at)
        return left

    def _not(self) -> Node:
        token = self._next
        if not self._takes("not"):
            return self._comparison()
        self._depth += 1
        if self._depth > MOST_DEPTH:
            self._fail(f"nested more than {MOST_DEPTH} deep; use [define]")
        found = Node("not", (self.formula(self._not()),), at=token.at)
        self._depth -= 1
        return found

    def _comparison(self) -> Node:
        left, at = self._sum(), self._next.at
        operator = self._operator()
        if operator is None:
            return left
        left = self._value(left)
        if operator == "matches":
            return Node("matches", (left,), self._pattern(), at)
        right = self._value(self._sum())
        if self._next.text in COMPARISONS and self._next.kind != "text":
            self._fail("two comparisons follow each other: join them with `and`")
        return Node(operator, (left, right), at=at)

    def _operator(self) -> str | None:
        if self._next.kind not in ("word", "sign"):
            return None
        if self._next.text == "not" and self._tokens[self._at + 1].text == "in":
            self._at += 2
            return "not in"
        if self._next.text in COMPARISONS:
            return self._take().text
        return None

    def _pattern(self) -> object:
        token = self._take()
        if token.kind != "text":
            self._fail("expected a pattern in quotes after `matches`", token.at)
        try:
            return compile_pattern(_pattern_text(token))
        except PatternError as exc:
            raise BadExpression(f"the pattern cannot be read: {exc}", token.at) from exc

    def _sum(self) -> Node:
        left = self._product()
        while self._next.kind == "sign" and self._next.text in ("+", "-"):
            sign = self._take()
            left = Node(sign.text, (self._value(left), self._value(self._product())), at=sign.at)
        return left

    def _product(self) -> Node:
        left = self._unary()
        while self._next.kind == "sign" and self._next.text in ("*", "/", "%"):
            sign = self._take()
            left = Node(sign.text, (self._value(left), self._value(self._unary())), at=sign.at)
        return left

    def _unary(self) -> Node:
        signs = 0
        at = self._next.at
        while self._next.kind == "sign" and self._takes("-"):
            signs += 1
        found = self._primary()
        return Node("negative", (self._value(found),), at=at) if signs % 2 else found

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return Node("literal", (), float(token.text) if "." in token.text else int(token.text[:300]), token.at)
        if token.kind == "text":
            return Node("literal", (), _plain_text(token), token.at)
        if token.kind == "sign" and token.text == "(":
            found = self.implies()
            self._expect(")")
            return found
        if token.kind == "sign" and token.text == "[":
            return self._list(token)
        if token.kind == "word" and token.text not in _WORDS:
            return self._word(token)
        self._fail(f"expected a value, a name or '(', got {token.text or 'the end'!r}", token.at)

    def _list(self, opened: _Token) -> Node:
        items: list[Node] = []
        while not self._takes("]"):
            if items:
                self._expect(",")
                if self._takes("]"):
                    break
            items.append(self._value(self._sum()))
        return Node("list", tuple(items), at=opened.at)

    def _word(self, token: _Token) -> Node:
        if token.text in ("true", "false"):
            return Node("literal", (), token.text == "true", token.at)
        if self._next.kind == "sign" and self._next.text == "(":
            return self._function(token)
        if token.text in self._definitions and self._next.text not in (".", "["):
            return self._definitions[token.text]
        return self._path(token)

    def _path(self, token: _Token) -> Node:
        keys: list[str | int] = [token.text]
        while self._next.kind == "sign" and self._next.text in (".", "["):
            if self._takes("."):
                name = self._take()
                if name.kind != "word":
                    self._fail("expected a name after '.'", name.at)
                keys.append(name.text)
                continue
            self._at += 1
            key = self._take()
            if key.kind not in ("text", "number") or (key.kind == "number" and not key.text.isdecimal()):
                self._fail("expected a text or a whole number in [ ]", key.at)
            keys.append(_plain_text(key) if key.kind == "text" else int(key.text[:9]))
            self._expect("]")
        problem = problem_of_path(keys, self._definitions)
        if problem is not None:
            self._fail(problem, token.at)
        return Node("path", (), tuple(keys), token.at)

    def _function(self, token: _Token) -> Node:
        name = token.text
        if name not in _FUNCTIONS:
            near = difflib.get_close_matches(name, _FUNCTIONS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(sorted(_FUNCTIONS))}"
            self._fail(f"unknown function {name!r}{hint}", token.at)
        self._expect("(")
        steps = self._steps(name) if name in BOUNDED else None
        given = self._arguments()
        wanted = _FUNCTIONS[name]
        if len(given) != wanted:
            self._fail(f"{name} takes {wanted} argument{'s' * (wanted > 1)}, got {len(given)}", token.at)
        if name in ("known", "missing", "len", "lower"):
            return Node(name, (self._value(given[0]),), at=token.at)
        if name in ("sum", "latest"):
            return Node(name, (self._value(given[0]), self.formula(given[1])), at=token.at)
        return Node(name, tuple(self.formula(part) for part in given), steps, token.at)

    def _steps(self, name: str) -> int:
        token = self._take()
        if token.kind != "number" or "." in token.text or int(token.text[:20]) > MOST_STEPS:
            self._fail(f"{name} takes a whole number of steps first, up to {MOST_STEPS}", token.at)
        self._expect(",")
        return int(token.text)

    def _arguments(self) -> list[Node]:
        given: list[Node] = []
        while not self._takes(")"):
            if given:
                self._expect(",")
            given.append(self.implies())
        return given
