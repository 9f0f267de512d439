"""Rules of `[ ... ]`, `test` and `[[ ... ]]`."""

from __future__ import annotations

from .commands import Host
from .expansion import Expander
from .syntax import Node
from .words import Word, join_words

__all__ = ["check_double_brackets", "check_single_brackets", "operands_of_test"]

_EXPRESSIONS = frozenset(
    {"binary_expression", "unary_expression", "parenthesized_expression", "negated_command", "test_command"}
)
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_BINARY = _NUMERIC | {"=", "==", "!=", "<", ">", "\\<", "\\>"}
_UNARY = frozenset({"-n", "-z", *(f"-{letter}" for letter in "efdsrwxLhSpbcgku")})
_VARIABLE = frozenset({"-v", "-R"})


def operands_of_test(expander: Expander, nodes: list[Node]) -> list[Word]:
    """Returns the operands and operators between brackets, in order; the grammar nests and divides them otherwise."""
    leaves: list[Node] = []
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        if node.kind in _EXPRESSIONS:
            pending.extend(reversed(node.children))
        else:
            leaves.append(node)
    words: list[Word] = []
    end = -1
    for node in leaves:
        text = node.text
        word = Word(text, prefix=text) if node.field == "operator" or text in ("(", ")") else expander.expand(node)
        blanks = len(text) - len(text.lstrip())
        if node.start + blanks == end and text not in ("(", ")") and words and words[-1].text != "(":
            word = join_words([words.pop(), word])
        words.append(word)
        end = node.end
    return words


def check_double_brackets(host: Host, node: Node, words: list[Word]) -> None:
    """Reports what `[[ ... ]]` evaluates: numbers, patterns and names of variables."""
    for index, word in enumerate(words):
        operator = word.known or ""
        left = words[index - 1] if index else None
        right = words[index + 1] if index + 1 < len(words) else None
        if operator in _NUMERIC and left and right:
            host.require_number(node, left)
            host.require_number(node, right)
        elif operator in ("=", "==", "!=") and left and right and right.is_open:
            host.report(node, "tainted text is a pattern: quote it")
        elif operator == "=~" and right and not right.clean:
            host.report(node, "tainted text is a regular expression")
        elif operator in _VARIABLE and right and (not right.clean or "[" in right.text):
            host.report(node, "an index in a variable's name is evaluated")


def check_single_brackets(host: Host, node: Node, words: list[Word]) -> None:
    """Reports operands that can become operators, or that a shell evaluates as numbers."""
    while words and words[0].known == "!":
        words = words[1:]
    tainted = [word for word in words if not word.clean]
    if any(word.known in _VARIABLE for word in words) and (tainted or any("[" in word.text for word in words)):
        host.report(node, "an index in a variable's name is evaluated")
    if not tainted:
        return
    operator = words[-2].known if len(words) in (2, 3) else None
    if any(word.is_open for word in tainted):
        host.report(node, "an unquoted operand can be several words, and so operators: quote it")
    elif host.is_korn and operator in _NUMERIC:
        host.report(node, "this shell evaluates numbers as arithmetic")
    elif len(words) != 1 and operator not in (_BINARY if len(words) == 3 else _UNARY):
        host.report(node, "an operand may be read as an operator: write `[ A ] && [ B ]`")
