"""The judge's end of a splice: calls the worker in place of an entry point's body and accepts the allowed results.

Both ends take turns: each frame of the worker carries the token of the frame that it answers, so late, double and early
answers are detected. A result that the plan does not allow raises `SpliceRefusal`, which no test can catch by accident,
and is always reported.
"""

from __future__ import annotations

import collections
import functools
import operator
import os
import threading
import time
import types
from typing import NamedTuple

import splice_codec  # type: ignore[import-not-found]  # the folder of this file, on the path when it is loaded
from splice_changes import (  # type: ignore[import-not-found]
    ArgumentGuard,
    MovedObjects,
    PermittedChanges,
    change_fields,
    elements_of,
    require_short_text,
)
from splice_decoder import Decoder, RefusedReply  # type: ignore[import-not-found]
from splice_kinds import AnswerKinds  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

MAX_CALLBACKS = 200_000
"""Limit of calls of the test's functions and pulls of its iterators during one call."""
MAX_NESTING = 20
MAX_PULLS = 2_000_000
MAX_RECEIVED = 256 << 20
"""Bytes of all answers in one test."""
_CHANGEABLE = ("l", "d", "s", "od", "cn", "dd", "q", "ba", "ra", "o")


class SpliceRefusal(BaseException):
    """The worker's answer is refused. Not an `Exception`, so that it does not satisfy a test that expects one."""


class _Call:
    """Active call, or an iterator of it that is still read."""

    def __init__(self, client: Client, use: dict[str, Any]) -> None:
        self.heap = splice_codec.Heap(client.package)
        self.decoder = Decoder(self.heap, client.classes, client.package, lambda number: client.pulled(self, number))
        self.changes: Sequence[dict[str, Any]] = use["changes"]
        self.kinds = AnswerKinds(self, use)
        self.named: dict[str, Any] = {}
        """The arguments by their parameters' names."""
        self.moved: MovedObjects = client.moved
        self.permitted = PermittedChanges({}, (), self.moved)
        self.raised: dict[int, BaseException] = {}
        self.failed: int | None = None
        """Number of the first assertion of the test's that failed in this exchange, in a function or iterator of it."""
        self.number = client.calls
        self.callbacks = 0
        self.compared = 0
        self.guard: ArgumentGuard | None = None
        """Guard of the active exchange, from the first function or iterator of the test that runs in it."""
        self.walked: set[int] = set()
        """Ids of the worker's objects whose parts `moved` holds."""
        self._own: set[int] = set()

    def sent(self) -> list[list[Any]]:
        """Returns the pending entries, and records their objects as the judge's own."""
        first = len(self.heap.objects) - self.heap.waiting()
        entries = self.heap.take_entries()
        self._own.update(range(first, len(self.heap.objects)))
        return entries

    def owns(self, number: Any, kind: str = "") -> bool:
        """Returns whether a number is that of an object that the judge sent, optionally of one kind."""
        return type(number) is int and number in self._own and kind in ("", self.heap.kinds[number])

    def is_made_by_worker(self, value: Any) -> bool:
        """Returns whether an object exists only because the worker described it."""
        number = self.heap.number_of(value)
        return number is not None and number not in self._own

    def owns_object(self, value: Any) -> bool:
        """Returns whether an object is one that the judge sent."""
        return self.heap.number_of(value) in self._own

    def require_unchanged(self) -> None:
        """Refuses changes that the test's own functions made in this exchange."""
        guard, self.guard = self.guard, None
        if guard is not None:
            guard.require_unchanged()


class _Original(NamedTuple):
    """Entry point of the original package."""

    layers: list[list[str]]
    function: Any
    """The plain function inside the wrappers, or None."""


class Client:
    """Calls entry points at the worker.

    Args:
        descriptors: For reading from and writing to the worker; made non-blocking. None: `attach` gives them.
        package: Import name of the package under test.
        classes: As in `Decoder`.
        call_timeout_s: Time limit of one answer.
        report: Receives (kind, text) of each refusal: `time`, `closed`, `protocol`, `refused` or `unsendable`.
    """

    def __init__(
        self,
        descriptors: tuple[int, int] | None,
        package: str,
        classes: dict[tuple[str, str], frozenset[str]],
        call_timeout_s: float,
        report: Callable[[str, str], None],
    ) -> None:
        self.package = package
        self.classes = classes
        self.calls = 0
        self.moved = MovedObjects()
        if descriptors is not None:
            self.attach(descriptors)
        self._timeout_s = call_timeout_s
        self._report = report
        self._token = ""
        self._received = 0
        self._running = False
        self._broken: tuple[str, str] | None = None
        self._dead = False
        self._depth = 0
        self._thread = threading.get_ident()
        self._originals: dict[tuple[str, str], _Original] = {}

    # Workers

    def attach(self, descriptors: tuple[int, int]) -> None:
        """Sets the descriptors of the worker."""
        self._reads, self._writes = descriptors
        for fd in descriptors:
            os.set_blocking(fd, False)

    def end_test(self) -> None:
        """Ends the worker of the test that is over; the next call gets a fresh one."""
        self.moved = MovedObjects()
        self._received = 0
        running, self._running = self._running, False
        if not running or self._dead or self._broken:
            self._dead = False
            return
        try:
            answer = self._exchange({"op": "end"})
            if answer.get("k") != "ended":
                raise splice_codec.ChannelError("protocol", "something was said when all was over")
        except splice_codec.ChannelError as exc:
            self._break(exc.kind, str(exc))
        self._dead = False

    def call(self, entry: Sequence[str], use: dict[str, Any], arguments: Sequence[Any]) -> Any:
        """Calls an entry point at the worker; returns its result or raises its exception.

        Args:
            entry: Module and qualname.
            use: `changes`, what may come back changed, each `{"name": ..., "path": [...]}`, and `answers`, `inside`
                and `handed`, the kinds of the reference's answers, of what they hold, and of what else reaches the
                test (as in `EntryUse`).
            arguments: Positional values, keyword values, names of the positional parameters, and the names of the
                parameters for the rest of both (or None).
        """
        values, keywords, names, (rest, rest_of_keywords) = arguments
        call = _Call(self, use)
        call.named = {rest: values[len(names) :], rest_of_keywords: keywords, **dict(zip(names, values)), **keywords}
        self._open()
        self._depth += 1
        try:
            if self._depth > MAX_NESTING:
                self._refuse("refused", "calls too deep inside each other")
            return self._answered(call, self._begin_call(call, entry, names, (list(values), keywords)))
        finally:
            self._depth -= 1

    def iterate(self, entry: Sequence[str], use: dict[str, Any], arguments: Sequence[Any]) -> Iterator[Any]:
        """Calls an entry point that is a generator function, and yields its values."""
        result = self.call(entry, use, arguments)
        if type(result) not in _ITERABLES:
            self._refuse("refused", "an iterator was due")
        return (yield from result)

    def _open(self) -> None:
        if threading.get_ident() != self._thread:
            self._refuse("refused", "an entry point was called from another thread")
        if self._broken:
            self._refuse(*self._broken)
        if self._dead:
            self._refuse("closed", "the worker of this test has ended")
        if not self._running:
            self._running = True
            try:
                begin = {"op": "begin", "classes": [[*name, sorted(fields)] for name, fields in self.classes.items()]}
                splice_codec.write_frame(self._writes, begin, time.monotonic() + self._timeout_s)
            except splice_codec.ChannelError as exc:
                self._break(exc.kind, str(exc))
                self._refuse(exc.kind, str(exc))

    def _begin_call(
        self, call: _Call, entry: Sequence[str], names: Sequence[str], arguments: tuple[list[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        self.calls += 1
        original = self._original(entry[0], entry[1])
        values, keywords = _omit_defaults(original.function, names, *arguments)
        try:
            root = [call.heap.value(values), call.heap.value(keywords)]
            frame = {"op": "call", "entry": list(entry), "heap": call.number, "a": root, "h": call.sent()}
            if call.changes:
                call.permitted = PermittedChanges(call.named, call.changes, call.moved)
            return {**frame, "layers": original.layers}
        except (splice_codec.EncodeError, RefusedReply) as exc:
            self._refuse("unsendable", str(exc))

    def _original(self, module: str, qualname: str) -> _Original:
        """Returns the original of an entry point: its wrappers run here, and the worker skips its own."""
        known = self._originals.get((module, qualname))
        if known is None:
            try:
                value = splice_codec.resolve_name(module, qualname)
                layers = splice_codec.wrapper_layers(value)
                known = _Original(layers, splice_codec.unwrap(value, layers))
            except (KeyError, TypeError, AttributeError):  # moved by the test, or by the package itself
                known = _Original([], None)
            self._originals[module, qualname] = known
        return known

    # Answers

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Sends one frame and reads the answer to it."""
        self._token = os.urandom(8).hex()
        deadline = time.monotonic() + self._timeout_s
        splice_codec.write_frame(self._writes, {**message, "id": self._token}, deadline)
        body = splice_codec.read_body(self._reads, deadline)
        self._received += len(body)
        if self._received > MAX_RECEIVED:
            raise splice_codec.ChannelError("protocol", "answers too large for one test")
        answer = splice_codec.parse_frame(body)
        if answer.get("k") == "died":
            self._dead = True
            raise splice_codec.ChannelError("closed", f"the worker ended: {str(answer.get('why'))[:80]}")
        if answer.get("id") != self._token:
            raise splice_codec.ChannelError("protocol", "an answer that nothing had asked for")
        return answer

    def _break(self, kind: str, text: str) -> None:
        self._broken = (kind, text)
        self._report(kind, text)

    def _refuse(self, kind: str, text: str) -> NoReturn:
        self._report(kind, text)
        raise SpliceRefusal(f"{kind}: {text}")

    def _answered(self, call: _Call, message: dict[str, Any]) -> Any:
        """Returns what a request is answered with. A function that the worker called may advance an iterator of the
        same call: the exchange in which that happens goes on with its own guard and failure."""
        outer = call.guard, call.failed
        call.guard = call.failed = None
        try:
            return self._serve_until_result(call, message)
        finally:
            call.guard, call.failed = outer

    def _serve_until_result(self, call: _Call, message: dict[str, Any]) -> Any:
        """Sends a request and serves the worker's questions to the test until the result arrives."""
        is_pull = message["op"] == "next"
        while True:
            try:
                answer = self._exchange(message)
            except splice_codec.ChannelError as exc:
                if not self._dead:
                    self._broken = (exc.kind, str(exc))
                self._refuse(exc.kind, str(exc))
            except splice_codec.EncodeError as exc:
                self._refuse("unsendable", str(exc))
            try:
                kind = answer.get("k")
                call.decoder.add_entries(answer.get("h", []))
                if kind in ("callback", "pull"):
                    message = self._serve(call, answer)
                    continue
                call.require_unchanged()
                _require_failure(call, answer)
                self._take_changes(call, answer.get("c", []))
                if kind == "stop" and is_pull:
                    return _STOP
                value, error = self._result(call, answer, is_pull=is_pull)
            except RefusedReply as exc:
                self._refuse("refused", str(exc))
            except Exception as exc:  # noqa: BLE001  # a test must not see that its reader broke
                self._refuse("refused", f"a reply that cannot be read: {type(exc).__name__}")
            if error is not None:
                raise error
            return value

    def _result(self, call: _Call, answer: dict[str, Any], *, is_pull: bool) -> tuple[Any, BaseException | None]:
        """Returns the value and the exception of a final answer; the other one stays None."""
        kind = answer.get("k")
        if kind == "value":
            value = call.decoder.value(answer.get("v"))
            call.moved.add_made(call, [value])
            if is_pull:
                call.kinds.require_yielded(value)
            else:
                call.kinds.require_answer(value)
            return value, None
        if kind == "again":
            return None, self._raised_again(call, answer.get("n"))
        if kind == "raise":
            error = call.decoder.exception(answer)
            require_short_text(error.args)
            handed = [*error.args, *vars(error).values()]
            call.kinds.require_handed(handed)
            call.moved.add_made(call, handed)
            return None, error
        if kind == "unsendable":
            raise RefusedReply(f"a result that cannot be sent: {str(answer.get('why'))[:200]}")
        raise RefusedReply("an answer of no known kind")

    def _raised_again(self, call: _Call, number: Any) -> BaseException:
        """Returns an exception of one of the test's own functions that the worker lets pass."""
        if type(number) is not int or number not in call.raised:
            raise RefusedReply("an exception that no callback has raised")
        if isinstance(call.raised[number], (StopIteration, StopAsyncIteration)):
            # The worker can exhaust what the test passed; a `map` or `for` of the test's would end as if all was seen.
            raise RefusedReply("the end of an iterator of the test's as an exception")
        return call.raised[number]

    def pulled(self, call: _Call, number: int) -> Iterator[Any]:
        """Yields the items of an iterator that stays at the worker."""
        for _ in range(MAX_PULLS):
            self._open()
            value = self._answered(call, {"op": "next", "heap": call.number, "n": number})
            if value is _STOP:
                return
            yield value
        self._refuse("refused", "an iterator without end")

    # What the worker asks

    def _serve(self, call: _Call, answer: dict[str, Any]) -> dict[str, Any]:
        call.callbacks += 1
        if call.callbacks > MAX_CALLBACKS:
            raise RefusedReply("too many calls of the test's functions")
        number = answer.get("n")
        wanted = "it" if answer["k"] == "pull" else "k"
        if not call.owns(number, wanted):
            raise RefusedReply("a call of what the test did not pass as a function")
        function = call.heap.objects[number]
        call.guard = call.guard or ArgumentGuard(call)
        try:
            if wanted == "it":
                result = next(function)
            else:
                values, keywords = self._sequence(call, answer.get("a")), self._mapping(call, answer.get("w"))
                handed = [*values, *keywords.values()]
                if not _is_getter(function):  # it takes a part of its argument and tests nothing
                    call.kinds.require_handed(handed)
                call.moved.add_made(call, handed)
                result = function(*values, **keywords)
        except StopIteration as exc:
            if wanted == "it":
                return {"op": "stop"}
            return self._raised(call, exc)
        except RefusedReply:
            raise
        except Exception as exc:  # noqa: BLE001  # the test's own function may raise anything
            return self._raised(call, exc)
        try:
            return {"op": "value", "v": call.heap.value(result), "h": call.sent()}
        except splice_codec.EncodeError as exc:
            self._refuse("unsendable", str(exc))

    def _raised(self, call: _Call, exc: BaseException) -> dict[str, Any]:
        number = len(call.raised)
        call.raised[number] = exc
        if call.failed is None and isinstance(exc, AssertionError):
            call.failed = number
        names = [cls.__name__ for cls in type(exc).__mro__ if cls.__module__ == "builtins"]
        return {"op": "raise", "n": number, "e": names[0], "text": str(exc)[:2000]}

    def _sequence(self, call: _Call, raw: Any) -> list[Any]:
        if type(raw) is not list:
            raise RefusedReply("malformed arguments")
        return [call.decoder.value(part) for part in raw]

    def _mapping(self, call: _Call, raw: Any) -> dict[str, Any]:
        if type(raw) is not dict:
            raise RefusedReply("malformed arguments")
        return {name: call.decoder.value(part) for name, part in raw.items()}

    # What comes back changed

    def _take_changes(self, call: _Call, raw: Any) -> None:
        """Applies the changes of a message and checks what it put where."""
        if type(raw) is not list:
            raise RefusedReply("malformed changes")
        changed: list[Any] = []
        handed: list[Any] = []
        try:
            for change in raw:
                self._take_change(call, change, changed, handed)
        finally:
            call.decoder.require_shallow()
        call.kinds.require_changed(changed)
        call.kinds.require_handed(handed)

    def _take_change(self, call: _Call, change: Any, changed: list[Any], handed: list[Any]) -> None:
        if type(change) is not list or len(change) != 2 or type(change[1]) is not list or not change[1]:
            raise RefusedReply("a malformed change")
        number, entry = change
        if type(number) is not int or not 0 <= number < len(call.heap.objects):
            raise RefusedReply("a change of an unknown object")
        kind, target = call.heap.kinds[number], call.heap.objects[number]
        if kind not in _CHANGEABLE or entry[0] != kind:
            raise RefusedReply("a change of what cannot change")
        is_free = not call.owns(number) or call.permitted.is_whole(target)
        if kind == "o":
            held = change_fields(call, target, entry, None if is_free else call.permitted.fields(target))
        elif kind == "ra":
            return  # a generator of random numbers goes on by itself on each side
        elif is_free:
            call.decoder.fill(target, entry)
            held = elements_of(target)
        else:
            raise RefusedReply(f"a change of an argument that the reference leaves as it is ({type(target).__name__})")
        call.moved.add_changed(call, target, held)
        changed.append(target)
        handed += held if call.owns(number) else []


def _is_getter(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    return isinstance(function, (operator.itemgetter, operator.attrgetter))


def _require_failure(call: _Call, answer: dict[str, Any]) -> None:
    """Refuses an answer other than the first assertion that failed in this exchange: its text tells what is expected,
    so a worker could ask until it holds."""
    failed, call.failed = call.failed, None
    if failed is not None and (answer.get("k") != "again" or answer.get("n") != failed):
        raise RefusedReply("an assertion of the test's failed in a function that the worker called, and was ignored")


def _omit_defaults(
    function: Any, names: Sequence[str], values: list[Any], keywords: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Leaves out arguments that are the original's defaults: the worker's function has its own, as in a plain call.
    What follows an argument that is left out is named."""
    if type(function) is not types.FunctionType:
        return values, keywords
    own = function.__kwdefaults__ or {}
    keywords = {name: value for name, value in keywords.items() if name not in own or value is not own[name]}
    if len(values) > len(names):
        return values, keywords
    last = dict(zip(reversed(names), reversed(function.__defaults__ or ())))
    due = [name not in last or value is not last[name] for name, value in zip(names, values)]
    unnamed = getattr(function.__code__, "co_posonlyargcount", 0)
    end = max((n + 1 for n in range(unnamed) if due[n]), default=0)
    while end < len(due) and due[end]:
        end += 1
    named = {name: value for n, (name, value) in enumerate(zip(names, values)) if n >= end and due[n]}
    return values[:end], {**named, **keywords}


_STOP = object()
_ITERABLES = (types.GeneratorType, list, tuple, dict, set, frozenset, range, collections.deque, collections.OrderedDict)
