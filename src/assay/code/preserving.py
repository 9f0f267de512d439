"""Semantics-preserving rewrites of Python text, for testing whether a verifier judges behaviour or wording.

Each takes a text and the editable lines, and returns the new text, or None without a match. They skip names that code
inspects (`locals`, `eval`, frames), docstrings that code reads, and statements that could depend on each other. A
program can still notice a rewrite by reading its own source or line numbers, the messages of `UnboundLocalError`, or
the order of names in a module or class.

Invariant: pure and deterministic; the result parses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection
from itertools import pairwise

from ._local_names import READS_NAMES, renamable
from ._spots import Spot, spots
from .operators import Site, apply_all
from .source import AnyFunction, Program, SourceError, parse, parse_tree

Preserving = Callable[[str, Collection[int]], str | None]
_READS_DOCSTRINGS = re.compile(r"__doc__|\bdocopt\b|\bgetdoc\b|\bdoctest\b|\bdocstring")
_COMMENT = "# The same, written differently."
MOST_SITES = 60


def reformatted(text: str, _lines: Collection[int]) -> str | None:
    """As Python itself writes the syntax tree: other quotes, brackets and line breaks, and no comments."""
    tree = parse(text).tree
    first = text.splitlines()[0] + "\n" if text.startswith("#!") else ""
    if re.match(r"(?:[^\n]*\n)?[^\n]*coding[:=]\s*(?!utf-?8)", text[:300]):
        return None
    return _proved(text, f"{first}{ast.unparse(tree)}\n")


def spaced(text: str, lines: Collection[int]) -> str | None:
    """Blank lines and comments before top-level statements and at the end."""
    program = parse(text)
    starts = [min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", ()))]) for n in program.tree.body]
    before = {line for line in starts if line > 2 and _begins(program, line)} if lines else set()
    out = []
    for number, line in enumerate(program.lines, 1):
        out.append(f"\n{_COMMENT}\n{line}" if number in before else line)
    whole = "".join(out)
    whole += "" if not whole or whole.endswith(("\n", "\r")) else "\n"
    return _proved(text, f"{whole}\n\n{_COMMENT}\n")


def _begins(program: Program, line: int) -> bool:
    """Returns whether the line begins a statement in its first column."""
    content, previous = program.lines[line - 1], program.lines[line - 2] if line > 1 else ""
    return not content[:1].isspace() and not previous.rstrip("\r\n").endswith("\\")


def without_docstrings(text: str, lines: Collection[int]) -> str | None:
    """The docstrings of functions and classes are gone."""
    if _READS_DOCSTRINGS.search(text):
        return None
    program = parse(text)
    sites = []
    for node in ast.walk(program.tree):
        if (
            isinstance(node, AnyFunction | ast.ClassDef)
            and _touches(node, lines)
            and ast.get_docstring(node) is not None
        ):
            docstring = node.body[0]
            start, end = program.span(docstring)
            whole = program.whole_lines(docstring.lineno, docstring.end_lineno or docstring.lineno)
            alone = not program.text[whole.start : start].strip() and not program.text[end : whole.end].strip()
            span, new = (whole, "") if alone and len(node.body) > 1 else ((start, end), "pass")
            sites.append(Site("", docstring.lineno, "", span[0], span[1], text[span[0] : span[1]], new))
    return apply_all(text, sites) if sites else None


def renamed_locals(text: str, lines: Collection[int]) -> str | None:
    """Local variables have other names; parameters keep theirs."""
    if READS_NAMES.search(text):
        return None
    program = parse(text)
    taken = set(re.findall(r"\w+", text))
    sites: dict[tuple[int, int], Site] = {}
    for node in ast.walk(program.tree):
        if isinstance(node, AnyFunction) and _touches(node, lines):
            for name, places in renamable(node).items():
                new = _fresh(name, taken)
                for place in places:
                    start, end = program.span(place)
                    sites.setdefault((start, end), Site("", place.lineno, "", start, end, text[start:end], new))
    return apply_all(text, tuple(sites.values())) if sites else None


def _fresh(name: str, used: set[str]) -> str:
    new = next(
        new for n in range(1, 1000) if (new := f"{name.lstrip('_') or 'value'}_value{n if n > 1 else ''}") not in used
    )
    used.add(new)
    return new


def reordered(text: str, lines: Collection[int]) -> str | None:
    """Neighbours that do not depend on each other have changed places: simple assignments, functions, methods."""
    program = parse(text)
    for owner in ast.walk(program.tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(owner, field, None)
            for one, two in pairwise(block) if isinstance(block, list) else ():
                if (_touches(one, lines) or _touches(two, lines)) and _independent(owner, one, two):
                    swapped = _swapped(program, one, two)
                    if swapped is not None:
                        return swapped
    return None


def _independent(owner: ast.AST, one: ast.stmt, two: ast.stmt) -> bool:
    if isinstance(one, AnyFunction) and isinstance(two, AnyFunction):
        plain_class = isinstance(owner, ast.ClassDef) and not owner.keywords and not owner.decorator_list
        plain = all(_plain_function(f, {one.name, two.name}) for f in (one, two)) and one.name != two.name
        return plain and (plain_class or isinstance(owner, ast.Module))
    if not isinstance(owner, AnyFunction) or not isinstance(one, ast.Assign) or not isinstance(two, ast.Assign):
        return False
    names = [s.targets[0].id for s in (one, two) if len(s.targets) == 1 and isinstance(s.targets[0], ast.Name)]
    declared = {n for inner in ast.walk(owner) if isinstance(inner, ast.Global | ast.Nonlocal) for n in inner.names}
    deleted = {n.id for n in ast.walk(owner) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    given = owner.args
    safe = {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)} - declared - deleted - set(names)
    inert = all(_inert(s.value, safe) for s in (one, two))
    return len(set(names)) == 2 and not declared & set(names) and inert


def _plain_function(node: ast.FunctionDef | ast.AsyncFunctionDef, names: set[str]) -> bool:
    """Returns whether defining it runs nothing but the definition."""
    given = node.args
    defaults = [*given.defaults, *(d for d in given.kw_defaults if d is not None)]
    annotations = [a.annotation for a in (*given.posonlyargs, *given.args, *given.kwonlyargs) if a.annotation]
    annotations += [node.returns] if node.returns is not None else []
    used = {n.id for a in annotations for n in ast.walk(a) if isinstance(n, ast.Name)}
    calls = any(isinstance(n, ast.Call) for a in annotations for n in ast.walk(a))
    return not node.decorator_list and all(_inert(d, set()) for d in defaults) and not calls and not used & names


def _inert(node: ast.expr, safe: set[str]) -> bool:
    """Returns whether evaluating it runs no foreign code and cannot fail."""
    if isinstance(node, ast.Tuple | ast.List):
        return all(_inert(item, safe) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(isinstance(k, ast.Constant) for k in node.keys) and all(_inert(v, safe) for v in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int | float)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in safe)


def _swapped(program: Program, one: ast.stmt, two: ast.stmt) -> str | None:
    first = program.whole_lines(one.lineno, one.end_lineno or one.lineno)
    second = program.whole_lines(two.lineno, two.end_lineno or two.lineno)
    text = program.text
    ends = (program.span(one), first), (program.span(two), second)
    whole = all(not text[w.start : s.start].strip() and not text[s.end : w.end].split("#")[0].strip() for s, w in ends)
    if not whole or first.end > second.start or not text[second.start : second.end].endswith(("\n", "\r")):
        return None
    if text[: first.start].rstrip(" \t").endswith("\\\n"):
        return None
    between = text[first.end : second.start]
    return (
        text[: first.start]
        + text[second.start : second.end]
        + between
        + text[first.start : first.end]
        + text[second.end :]
    )


def equal_expressions(text: str, lines: Collection[int]) -> str | None:
    """Conditions negated twice, `a if c else b` turned round, `is` and `in` negated twice, numbers in hexadecimal."""
    program = parse(text)
    sites: list[Site] = []
    at = 0
    for spot in sorted(spots(program), key=_sort_key):
        if isinstance(spot.node, ast.expr) and spot.node.lineno in lines:
            start, end = program.span(spot.node)
            new = _equal(spot, program) if start >= at else None
            if new is not None and len(sites) < MOST_SITES:
                sites.append(Site("", spot.node.lineno, "", start, end, text[start:end], new))
                at = end
    return apply_all(text, sites) if sites else None


def _sort_key(spot: Spot) -> tuple[int, int, int]:
    node = spot.node
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0), -(getattr(node, "end_col_offset", 0) or 0)


_OPPOSITE: dict[type[ast.cmpop], str] = {ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}


def _equal(spot: Spot, program: Program) -> str | None:
    node, source = spot.node, program.source
    test = spot.field == "test" and isinstance(spot.parent, ast.If | ast.While)
    if isinstance(node, ast.BoolOp) and test:
        other = " or " if isinstance(node.op, ast.And) else " and "
        return f"not ({other.join(f'(not ({source(value)}))' for value in node.values)})"
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITE:
        opposite = _OPPOSITE[type(node.ops[0])]
        return f"(not (({source(node.left)}) {opposite} ({source(node.comparators[0])})))"
    if isinstance(node, ast.IfExp):
        return f"(({source(node.orelse)}) if not ({source(node.test)}) else ({source(node.body)}))"
    if isinstance(node, ast.expr) and test and not isinstance(node, ast.Constant):
        return f"not (not ({source(node)}))"
    number = isinstance(node, ast.Constant) and type(node.value) is int and 9 < node.value < 10**9
    return hex(node.value) if isinstance(node, ast.Constant) and number and spot.field != "slice" else None  # type: ignore[arg-type]


def _touches(node: ast.stmt, lines: Collection[int]) -> bool:
    return any(line in lines for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _proved(text: str, new: str) -> str | None:
    """Returns the new text if its syntax tree is unchanged, else None."""
    try:
        return new if new != text and ast.dump(parse_tree(new)) == ast.dump(parse_tree(text)) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _safe(rewrite: Preserving) -> Preserving:
    """Wraps a rewrite to return None for text that does not parse, before or after."""

    def rewritten(text: str, lines: Collection[int]) -> str | None:
        try:
            new = rewrite(text, lines)
            if new is None or new == text:
                return None
            parse(new)
        except SourceError:
            return None
        return new

    rewritten.__doc__ = rewrite.__doc__
    return rewritten


PRESERVING: dict[str, Preserving] = {
    rewrite.__name__.replace("_", "-"): _safe(rewrite)
    for rewrite in (renamed_locals, reordered, reformatted, spaced, without_docstrings, equal_expressions)
}
"""Name to rewrite. A rewrite returns the new text or None and never raises."""
