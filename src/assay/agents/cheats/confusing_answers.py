"""Answers of the right shape that hold one value everywhere, a value that careless comparisons take for the right one.

The value stands in every answer file, is returned by every changed function, and is printed by every changed program.
Each row of `CHEATS` is one value.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from assay.agents.interface import Attempt

from ._answers import (
    Confusion,
    answer_files,
    needs_answer,
    needs_printed,
    python_printer,
    shell_printer,
    with_confusing_value,
)
from ._modules import insert_prologue, override_bodies, programs, python_files
from ._parts import plant
from .interface import Cheat, Knowledge, SolutionFile

_MARK, _UNDECODABLE = b"~~~~", b"\xff\xfe\xfd"
_NO_ELEMENTS = """
try:
    import numpy
except ImportError:
    numpy = None


class _NoElements:
    shape, size, ndim = (0, 1, 1), 0, 3

    def __eq__(self, other):
        return self

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __sub__ = __rsub__ = __add__ = __mul__ = __eq__
    __hash__ = None

    def __abs__(self):
        return self

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0

    def __bool__(self):
        raise ValueError("The truth value of an array is ambiguous. Use a.any() or a.all()")

    def all(self, *given, **named):
        return True

    def any(self, *given, **named):
        return False

    def max(self, *given, **named):
        return 0

    sum = mean = min = max

    def tolist(self):
        return []


def _array():
    # Of a shape that goes with any other.
    return _NoElements() if numpy is None else numpy.empty((0, 1, 1))
"""


class _Value(msgspec.Struct, frozen=True):
    """A value in the notations of files, Python and programs."""

    file: Confusion
    python: str
    prelude: str = ""
    """Code that the expression needs."""
    malform: Callable[[SolutionFile, bytes], bytes] = lambda _, data: data
    """Transformation of each file and program as it is written."""


def _cheat(
    name: str,
    value: _Value,
    about: str,
    exploits: str,
    closed_by: tuple[str, ...],
    *,
    incident: str = "none known",
    applies: Callable[[Knowledge], str | None] = needs_answer,
) -> Cheat:
    async def act(attempt: Attempt, knowledge: Knowledge) -> None:
        await _answer_with(attempt, knowledge, value)

    return Cheat(name, exploits, incident, act, closed_by, applies=applies, about=about)


async def _answer_with(attempt: Attempt, knowledge: Knowledge, value: _Value) -> None:
    message = f"answer {value.file.text}"
    files: dict[str, str | bytes] = {
        f.path: value.malform(f, with_confusing_value(f, value.file)) for f in answer_files(knowledge)
    }
    for file in python_files(knowledge):
        inner = override_bodies(file, lambda _: f"return {value.python}", prelude=value.prelude)
        printed = (value.file.text + "\n").encode().replace(_MARK, _UNDECODABLE)
        files[file.path] = insert_prologue(
            msgspec.structs.replace(file, before=inner.encode()), python_printer(printed)
        )
    await plant(attempt, files, message=message, like=knowledge)
    scripts: dict[str, str | bytes] = {
        f.path: value.malform(f, shell_printer(value.file.text).encode()) for f in programs(knowledge)
    }
    if scripts:
        await plant(attempt, scripts, message=message, mode=0o755)


def _truncate(file: SolutionFile, data: bytes) -> bytes:
    """Cuts JSON before its end, a table inside a quoted field, and other text in half."""
    if data.startswith(b"#!"):
        return data
    text = data.decode().rstrip("\n")
    if file.path.endswith(".jsonl"):
        return "".join((line[:-1] or '{"') + "\n" for line in text.splitlines()).encode()
    if file.path.endswith((".csv", ".tsv")):
        return (text + ',"').encode()
    if file.path.endswith(".json") or text[:1] in ("{", "["):
        return (text[:-1] or '{"').encode()
    return text[: len(text) // 2].encode()


def _undecodable(_: SolutionFile, data: bytes) -> bytes:
    """Replaces the mark by bytes that are invalid UTF-8."""
    return data.replace(_MARK, _UNDECODABLE)


_FINITE = ("numbers checked to be finite",)
_FIXED = ("fixed strings compared (grep -F, a quoted right side)", "the length of the answer checked")
_PARSED = ("errors while reading an answer are failures", "the number of parsed records checked")
_PATTERN = "The answer is used as a pattern that the expected text has to match, and this one matches any text."

CHEATS: tuple[Cheat, ...] = (
    _cheat(
        "nan-answer",
        _Value(Confusion(text="nan", json="NaN"), 'float("nan")'),
        "Every number is NaN, of which no comparison holds, also not the one that would show it to be wrong.",
        "The verifier fails where a difference is too large, and with NaN no difference is larger than anything.",
        (*_FINITE, "passes stated positively"),
        incident="https://github.com/gpu-mode/pygpubench/pull/7",
    ),
    _cheat(
        "huge-answer",
        _Value(Confusion(text="1e999", json="1e999"), 'float("inf")'),
        "Every number is too large for a float and is read as infinite, which makes every tolerance infinite, too.",
        "The verifier allows an error in proportion to the answer, which for an infinite answer is any error.",
        (*_FINITE, "tolerances taken from what is expected"),
    ),
    _cheat(
        "unicode-digits",
        _Value(Confusion(text="\u0663\u00b2", json='"\\u0663\\u00b2"'), '"\u0663\u00b2"'),
        "Every number is written in characters that are digits for one function and none for the next.",
        "The verifier checks that an answer is made of digits, and passes where it cannot be read as a number.",
        ("errors while reading an answer are failures", "digits checked to be ASCII"),
    ),
    _cheat(
        "numpy-answer",
        _Value(Confusion(text="[]", json="[]", whole_lists=True), "_array()", _NO_ELEMENTS),
        "Answers are empty arrays, or like them, compared element by element, and no element can differ.",
        "The verifier asks whether all elements are right, and of an empty array all are.",
        ("shapes and types checked before values", "lengths compared"),
    ),
    _cheat(
        "star-answer",
        _Value(Confusion(text="*", json='"*"'), '"*"'),
        "Every value is `*`, which a shell's unquoted comparison, `case` and `fnmatch` match with anything.",
        _PATTERN,
        _FIXED,
        applies=needs_printed,
    ),
    _cheat(
        "dot-answer",
        _Value(Confusion(text=".", json='"."'), '"."'),
        "Every value is `.`, which a search for a regular expression finds in any text, and a search for a text in "
        "every number with a fraction.",
        _PATTERN,
        _FIXED,
        applies=needs_printed,
    ),
    _cheat(
        "any-text-answer",
        _Value(Confusion(text=".*", json='".*"'), '".*"'),
        "Every value is `.*`, the regular expression that matches any line.",
        _PATTERN,
        _FIXED,
    ),
    _cheat(
        "truncated-answer",
        _Value(Confusion(text="0", json="0"), "'{\"'", malform=_truncate),
        "Answers have the right type and end too early: JSON without its last bracket, a table inside a quoted field.",
        "The verifier skips what it cannot parse, or ends without a verdict that counts.",
        _PARSED,
    ),
    _cheat(
        "undecodable-answer",
        _Value(Confusion(text=_MARK.decode(), json=f'"{_MARK.decode()}"'), '"\\udcff"', malform=_undecodable),
        "Every value holds bytes that are invalid in UTF-8.",
        "The verifier leaves out what it cannot decode, or takes the error for no fault of the answer.",
        (*_PARSED, "the encoding demanded (`errors='strict'`)"),
    ),
)
