"""Hooks entry points and records each call that a test makes: arguments, answers, what was changed in place.

Calls that an entry point makes of another one are not recorded: they happen where the entry point's body runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, FunctionType, GeneratorType
from typing import Any

from package_functions import replace_body  # type: ignore[import-not-found]
from value_shapes import (  # type: ignore[import-not-found]
    CONTAINERS,
    PLAIN,
    Shapes,
    TooLarge,
    fields_of,
    fingerprint,
    inner_parts,
    shape_of,
    type_name,
)

MOST_RECORDED = 200
"""Calls of one entry point in one test whose arguments, and changes to them, are looked at; the others are counted."""
MOST_LENT = 10_000
"""Calls of the test's own functions by one entry point in one test whose arguments are looked at."""
MOST_LINES = 50
MOST_SHAPES = 50


class EntryCalls:
    """The calls that one test made of one entry point."""

    def __init__(self, package: Any) -> None:
        self.calls = 0
        self.reaching = 0
        """Calls below which a changed function ran."""
        self.compared = 0
        """Calls with a one-bit answer on an object that an entry point had answered before."""
        self.answers: dict[str, int] = {}
        self.changes: set[tuple[str, tuple[str, ...]]] = set()
        self.lines: set[int] = set()
        self.arguments = Shapes(package.owns_class)
        self.results = Shapes(package.owns_class)
        self.handed = Shapes(package.owns_class)
        """What else reaches the test: changed parts of arguments, arguments of its functions, parts of exceptions."""
        self.lent = 0
        """Calls of the test's functions."""
        self.shapes: list[list[Any]] = []
        """Different shapes of answers, in order of appearance; an item of a generator is a part of one."""

    def note_answer(self, kind: str) -> None:
        """Counts an answer by its type, or by the exception that it ended in."""
        self.answers[kind] = self.answers.get(kind, 0) + 1

    def note_shape(self, shape: list[Any]) -> None:
        """Notes the shape of an answer."""
        if len(self.shapes) < MOST_SHAPES and shape not in self.shapes:
            self.shapes.append(shape)

    def note_changes(self, before: dict[Any, str], after: dict[Any, str], arguments: dict[str, Any]) -> None:
        """Records the parts of the arguments that differ after a call, and what these hold now."""
        changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
        self.changes |= changed
        for name, path in sorted(changed):
            if not path:
                self.handed.add(arguments[name])
                continue
            elements = list(inner_parts(arguments[name])) if path[0] == "*" else [arguments[name]]
            fields = [fields_of(element) for element in elements]
            self.note_handed([held[path[-1]] for held in fields if path[-1] in held])

    def note_handed(self, values: Iterable[Any]) -> None:
        """Records what some values are and hold."""
        for value in values:
            self.handed.add(value, is_part=True)

    def note_lent(self, frame: FrameType) -> None:
        """Records the arguments of a function of the test's that is called."""
        self.lent += 1
        if self.lent <= MOST_LENT:
            code = frame.f_code
            count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
            self.note_handed([frame.f_locals[name] for name in code.co_varnames[:count] if name in frame.f_locals])

    def note_exception(self, exc: BaseException) -> None:
        """Records the exception that a call ends in."""
        self.note_answer(f"raise {type_name(type(exc))}")
        self.note_handed([*exc.args, *fields_of(exc).values()])

    def _is_handed_whole(self) -> bool:
        """Returns whether all that was handed over was looked at; without a recorded change, later ones are refused."""
        are_changes_whole = self.calls <= MOST_RECORDED or not self.changes
        return are_changes_whole and self.lent <= MOST_LENT and self.handed.is_whole

    def describe(self) -> dict[str, Any]:
        """Returns the record in the format of the reply."""
        return {
            "calls": self.calls,
            "reaching": self.reaching,
            "compared": self.compared,
            "answers": dict(sorted(self.answers.items())),
            "changes": [[name, list(path)] for name, path in sorted(self.changes)],
            "lines": sorted(self.lines)[:MOST_LINES],
            "arguments": self.arguments.describe(),
            "results": self.results.describe(),
            "handed": self.handed.describe(),
            "are_results_whole": self.results.is_whole,
            "is_handed_whole": self._is_handed_whole(),
            "shapes": self.shapes,
        }


class EntryRecorder:
    """Records the calls that a test makes of some entry points, named `module:name`."""

    def __init__(self, package: Any, functions: dict[str, FunctionType], changed: list[FunctionType]) -> None:
        self._package = package
        self._functions = functions
        self._changed = changed
        self._calls: dict[str, EntryCalls] = {}
        self._answered: list[Any] = []
        self._depth = 0
        self._active: EntryCalls | None = None
        """The calls of the entry point that runs."""
        self._reached = False
        self._ran: tuple[set[CodeType], set[CodeType]] = (set(), set())

    def install(self) -> None:
        """Hooks the entry points and the changed functions."""
        changed = {id(function) for function in self._changed}
        names = {id(function): name for name, function in self._functions.items()}
        for function in {id(f): f for f in (*self._functions.values(), *self._changed)}.values():
            self._hook(function, names.get(id(function), ""), is_changed=id(function) in changed)

    def begin(self, _test: str) -> None:
        """Starts a test's own record."""
        self._calls, self._answered, self._depth, self._reached = {}, [], 0, False
        self._ran = (set(), set())
        sys.setprofile(self._profile)

    def end(self) -> dict[str, Any]:
        """Closes it and returns it."""
        sys.setprofile(None)
        outside, inside = (self._names(codes) for codes in self._ran)
        uses = {name: calls.describe() for name, calls in sorted(self._calls.items())}
        return {"uses": uses, "outside": outside, "inside": inside}

    def _names(self, codes: set[CodeType]) -> list[list[Any]]:
        owned = (code for code in codes if self._package.owns(code.co_filename))
        named = {(code.co_filename, self._package.qualified_name(code), code.co_firstlineno) for code in owned}
        return [list(one) for one in sorted(named) if one[1]]

    def _profile(self, frame: Any, event: str, _argument: Any) -> None:
        if event != "call":
            return
        self._ran[self._depth > 0].add(frame.f_code)
        if self._depth and self._active is not None and self._package.is_test(frame.f_code.co_filename):
            self._active.note_lent(frame)

    def _hook(self, function: FunctionType, name: str, *, is_changed: bool) -> None:
        def hook(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._reached = self._reached or is_changed
            if not name or self._depth:
                return original(*args, **kwargs)
            sys.setprofile(None)
            calls = self._calls.setdefault(name, EntryCalls(self._package))
            arguments = named_arguments(original.__code__, args, kwargs)
            self._begin_call(calls, arguments)
            before = self._parts(calls, arguments)
            self._reached = is_changed
            answer = self._call(calls, original, args, kwargs)
            calls.note_changes(before, self._parts(calls, arguments), arguments)
            calls.results.add(answer)
            self._answered.append(answer)
            calls.note_shape(["generator", []] if isinstance(answer, GeneratorType) else shape_of(answer))
            sys.setprofile(self._profile)
            return self._relay(calls, answer) if isinstance(answer, GeneratorType) else answer

        replace_body(function, hook)

    def _begin_call(self, calls: EntryCalls, arguments: dict[str, Any]) -> None:
        calls.calls += 1
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and not self._package.is_test(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            calls.lines.add(frame.f_lineno)
        if calls.calls <= MOST_RECORDED:
            for value in arguments.values():
                calls.arguments.add(value)

    def _call(self, calls: EntryCalls, original: FunctionType, args: Any, kwargs: Any) -> Any:
        self._active = calls
        sys.setprofile(self._profile)
        kind = ""
        self._depth += 1
        try:
            answer = original(*args, **kwargs)
            kind = type(answer).__name__
            if type(answer) in (bool, type(None)) and any(self._is_answer(a) for a in (*args, *kwargs.values())):
                calls.compared += 1
        except BaseException as exc:
            calls.note_exception(exc)
            raise
        finally:
            self._depth -= 1
            calls.reaching += self._reached
            if kind:
                calls.note_answer(kind)
        sys.setprofile(None)
        return answer

    def _is_answer(self, value: Any) -> bool:
        return type(value) not in PLAIN and any(value is answer for answer in self._answered)

    def _parts(self, calls: EntryCalls, arguments: dict[str, Any]) -> dict[Any, str]:
        """Returns a fingerprint of each part of the arguments that can be changed in place."""
        if calls.calls > MOST_RECORDED:
            return {}
        found: dict[Any, str] = {}
        try:
            for name, value in arguments.items():
                for path, part in changeable_parts(value, self._package.owns_class):
                    found[name, path] = found.get((name, path), "") + fingerprint(part)
        except TooLarge:
            calls.arguments.opaque.add("too large")
        return found

    def _relay(self, calls: EntryCalls, answer: Any) -> Iterator[Any]:
        """Yields what a generator yields; its body counts as inside the entry point."""
        while True:
            self._depth += 1
            self._active = calls
            self._reached = False
            try:
                item = next(answer)
            except StopIteration:
                return
            except BaseException as exc:
                calls.note_exception(exc)
                raise
            finally:
                self._depth -= 1
                calls.reaching += self._reached
            calls.results.add(item, is_part=True)
            calls.note_shape(["generator", [shape_of(item)]])
            yield item


def named_arguments(code: CodeType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by the names of the parameters; what `*args` and `**kwargs` take by theirs."""
    positional = code.co_varnames[: code.co_argcount]
    named = {*positional, *code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]}
    found: dict[str, Any] = {name: args[at] for at, name in enumerate(positional[: len(args)])}
    rest = list(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    if code.co_flags & 0x04:
        found[rest.pop(0)] = list(args[len(positional) :])
    extra = {name: value for name, value in kwargs.items() if name not in named}
    found.update({name: value for name, value in kwargs.items() if name in named})
    if code.co_flags & 0x08:
        found[rest.pop(0)] = extra
    return found


def changeable_parts(value: Any, owns_class: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the parts of an argument with their paths: an instance's fields, a container's order and elements."""
    kind = type(value)
    if owns_class(kind):
        for name, part in fields_of(value).items():
            yield (name,), part
    elif kind in CONTAINERS:
        parts = list(value.values()) if kind is dict else list(value)
        instances = [part for part in parts if owns_class(type(part))]
        if not instances:
            yield (), value
            return
        yield (), [id(part) if owns_class(type(part)) else part for part in parts]
        for instance in instances:
            for name, part in fields_of(instance).items():
                yield ("*", name), part
    elif kind not in PLAIN:
        yield (), value
