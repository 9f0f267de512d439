"""Runs programs of public calls on a package and answers with encoded results. Standard library alone, Python 3.8.

Started in a sandbox as `call_programs.py`, with the request on standard input; one JSON line a program goes to standard
output, then a line `"end"`. The package is imported once; each program runs in a fresh fork of that process, under a
limit of processor time. The output comes from a process that holds the code under test: the host
reads it as a claim, never as a fact.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import linecache
import os
import pathlib
import random
import resource
import select
import signal
import sys
import time
import types
from typing import Any

FOLDER = str(pathlib.Path(__file__).resolve().parent)
sys.path.insert(0, FOLDER)
import value_codec  # type: ignore[import-not-found]  # noqa: E402 - a sibling, by the folder above

sys.path.remove(FOLDER)
FIXED = (bool, int, float, complex, str, bytes, frozenset, range, *value_codec.PLAIN_TYPES)
"""Types of which no call changes a value."""
CONSUMERS = ("sorted", "list", "tuple", "set", "frozenset", "len", "sum", "min", "max", "any", "all", "dict")
"""Builtins that hide the type, the order, or more, of their arguments."""


class OutOfTime(BaseException):
    """Raised by the clock inside a program."""


def nothing(_value: Any) -> None:
    """Returns None: no handle and no name is known."""


def perform(operation: list[Any], results: dict[int, Any]) -> Any:
    """Performs one operation. `call` and `method` keep their decoded arguments in `results` under a negative key."""
    kind, number = operation[1], operation[0]
    decode = value_codec.decode
    if kind == "data":
        return decode(operation[2], results)
    owner = decode(operation[2], results)
    if kind == "attr":
        return getattr(owner, operation[3])
    if kind == "item":
        return owner[decode(operation[3], results)]
    if kind == "nth":
        return next(itertools.islice(owner, operation[3], None))
    if kind == "set":
        owner[decode(operation[3], results)] = decode(operation[4], results)
        return None
    args = [decode(tree, results) for tree in operation[4]]
    named = {name: decode(tree, results) for name, tree in operation[5]}
    results[-1 - number] = (args, named)
    return (getattr(owner, operation[3]) if kind == "method" else owner)(*args, **named)


class Execution:
    """One program: its operations in order, and an answer for each that is observed."""

    def __init__(self, operations: list[Any], roots: tuple[str, ...], compared: tuple[int, ...] = ()) -> None:
        self._operations = operations
        self._roots = roots
        self._results: dict[int, Any] = {}
        self._last_use = {}
        self._hidden = set()
        for operation in operations:
            for number in handles(operation[2:]):
                self._last_use[number] = operation[0]
            if operation[1] == "call" and operation[2][:2] == ["g", "builtins"] and operation[2][2] in CONSUMERS:
                self._hidden.update(handles(operation[4]))
        self._compared = frozenset(compared)
        self._hidden -= self._compared

    def run(self, observed: int) -> list[Any]:
        """Runs all operations. Answers with `[number, outcome...]` for each from number `observed` on."""
        answers = []
        for operation in self._operations:
            answer = self._answer(operation, seen=operation[0] >= observed)
            if operation[0] >= observed:
                answers.append([operation[0], *answer])
        return answers

    def _answer(self, operation: list[Any], *, seen: bool) -> list[Any]:
        number = operation[0]
        try:
            result = perform(operation, self._results)
            self._results[number] = result
            return ["ok", *self._read_back(operation, result)] if seen else []
        except value_codec.MissingResult:
            return ["skip"]
        except OutOfTime:
            raise
        except value_codec.EncodingError as exc:
            return ["opaque", str(exc)[:100]]
        except BaseException as exc:  # noqa: BLE001 - whatever the code under test raises is its answer
            return self._raised(exc, operation[1])

    def _read_back(self, operation: list[Any], result: Any) -> list[Any]:
        number = operation[0]
        encoder = value_codec.Encoder(nothing, nothing)
        if number in self._last_use and hasattr(result, "__next__"):
            if number in self._compared:
                raise value_codec.EncodingError("an iterator that the test reads in two ways")
            return [value_codec.HIDDEN]
        if number in self._hidden:
            return [value_codec.HIDDEN]
        shown = [_encode_unless_unread(encoder, result, is_read=number in self._compared)]
        if operation[1] == "call" and operation[2][:2] == ["g", "builtins"]:  # changes no argument
            return shown
        args, named = self._results.get(-1 - number, ((), {}))
        owner = [value_codec.decode(operation[2], self._results)] if operation[1] in ("method", "set") else []
        after = [value for value in [*owner, *args, *named.values()] if _can_change(value)]
        return shown + [
            _encode_unless_unread(encoder, value, is_read=isinstance(value, value_codec.BUILTIN_VALUES))
            for value in after
        ]

    def _raised(self, exc: BaseException, kind: str) -> list[Any]:
        return ["!", value_codec.type_name(type(exc)), self._is_deliberate(exc, kind)]

    def _is_deliberate(self, exc: BaseException, kind: str) -> bool:
        """Returns whether a `raise` statement of the package raised it, or a builtin container without the item."""
        trace = exc.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None and trace.tb_frame.f_code is perform.__code__:
            return kind in ("item", "nth") and isinstance(exc, (LookupError, StopIteration))
        if trace is None or not trace.tb_frame.f_code.co_filename.startswith(self._roots):
            return False
        line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno).strip()
        return line.startswith("raise") or ": raise " in line


def _can_change(value: Any) -> bool:
    """Returns whether a call may change an argument; iterators are not read, since that would use them up."""
    if isinstance(value, (type, types.ModuleType)) or value is None or hasattr(value, "__next__"):
        return False
    functions = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
    return type(value) not in FIXED and not isinstance(value, functions)


def _encode_unless_unread(encoder: Any, value: Any, *, is_read: bool) -> Any:
    """Returns the tree of a value; of one without a tree nothing, if the test reads it by later operations alone."""
    try:
        return encoder.encode(value)
    except value_codec.EncodingError:
        if is_read:
            raise
        return value_codec.HIDDEN


def handles(tree: Any) -> list[int]:
    """Returns the numbers of the operations whose results a tree refers to."""
    if not isinstance(tree, list):
        return []
    if len(tree) == 2 and tree[0] == "o" and type(tree[1]) is int:
        return [tree[1]]
    return [number for item in tree for number in handles(item)]


def _stop(_signal: int, _frame: Any) -> None:
    raise OutOfTime


def in_child(program: dict[str, Any], request: dict[str, Any], out: int, execute: Any) -> None:
    """Runs a program in this process, writes its answer, and ends the process."""
    with contextlib.suppress(BaseException):
        limit = float(request["program_s"])
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 2, int(limit) + 3))
        signal.signal(signal.SIGPROF, _stop)
        os.dup2(1, 2)
        random.seed(0)
        answer: Any
        signal.setitimer(signal.ITIMER_PROF, limit)
        try:
            answer = execute(program, tuple(request["paths"]))
        except OutOfTime:
            answer = "time"
        signal.setitimer(signal.ITIMER_PROF, 0)
        data = json.dumps(answer, ensure_ascii=True, allow_nan=False).encode()
        with os.fdopen(out, "wb") as file:
            file.write(data)
    os._exit(0)


def read_answer(source: int, until: float, limit: int) -> bytes | None:
    """Returns a child's output; None if it did not end in time, empty if it wrote too much."""
    parts: list[bytes] = []
    size = 0
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            return None
        part = os.read(source, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > limit:
            return b""


def execute_plainly(program: dict[str, Any], roots: tuple[str, ...]) -> Any:
    """Returns the answers of a program."""
    return Execution(program["operations"], roots, tuple(program.get("compared", ()))).run(program["observed"])


def answer_of(program: dict[str, Any], request: dict[str, Any], execute: Any) -> bytes:
    """Runs one program in a fork."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        in_child(program, request, sink, execute)
    os.close(sink)
    try:
        wall_s = (4 * float(request["program_s"]) + 2) * float(request["patience"])
        data = read_answer(source, time.monotonic() + wall_s, int(request["answer_bytes"]))
    finally:
        os.close(source)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if data is None:
        return b'"late"'
    return b'"died"' if not data or b"\n" in data else data


def main(execute: Any = execute_plainly) -> None:
    """Reads the request, imports the package, answers all programs by a function of a program and the import roots."""
    request = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(silent, number)
    sys.path[:0] = request["paths"]
    sys.dont_write_bytecode = True
    for name in ("call_programs", "value_codec", "plain_values"):  # names that code under test may have
        sys.modules.pop(name, None)
    for module in request["imports"]:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    import gc

    gc.collect()
    gc.freeze()
    with os.fdopen(out, "wb") as file:
        endless = 0
        for program in request["programs"]:
            answer = answer_of(program, request, execute) if endless < request["endless"] else b'"stopped"'
            endless += answer in (b'"time"', b'"late"')
            file.write(b"[" + str(program["id"]).encode() + b"," + answer + b"]\n")
            file.flush()
        file.write(b'"end"\n')


if __name__ == "__main__":
    main()
