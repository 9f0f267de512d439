"""The worker: holds the agent's package and answers the judge's calls of its entry points, each test in a fresh fork.

    splice_worker.py PACKAGE ROOTS MODULES   (JSON lists; frames on standard input and output)

All code here may be hostile, including this program's own memory: the judge trusts no message. The first process
imports the package once and forks for each test; it reports a dead fork to the judge.
"""

from __future__ import annotations

import collections
import collections.abc
import gc
import importlib
import itertools
import json
import operator
import os
import random
import sys
import types

sys.path.insert(0, __file__.rpartition("/")[0])

import splice_codec  # type: ignore[import-not-found]  # the folder of this file, for this one import

del sys.path[0], sys.modules["splice_codec"], sys.modules["plain_values"]  # names that code under test may have

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_WATCHED = 500
"""While an iterator of a larger heap is read, changes are sent only at its end."""


class Opaque:
    """Stands for an object of the test's, whose identity alone is known here."""


class RemoteIterator:
    """Iterator of the test's, which is advanced in the judge's process."""

    def __init__(self, call: Call, number: int) -> None:
        self._call = call
        self._number = number

    def __iter__(self) -> RemoteIterator:
        return self

    def __next__(self) -> Any:
        return self._call.ask({"k": "pull", "n": self._number})


class ReplyHeap(splice_codec.Heap):  # type: ignore[misc]
    """Encodes new objects as the nearest kind that the judge accepts: an unknown class as its base, without own fields.

    Args:
        package: Import name of the package under test.
        recorded: (module, qualname) of the classes whose instances the judge accepts, to their fields.
    """

    def __init__(self, package: str, recorded: dict[tuple[str, str], set[str]]) -> None:
        super().__init__(package)
        self.received: set[int] = set()
        """Numbers of the objects that came from the judge: they are sent as they are."""
        self._recorded = recorded

    def value(self, value: Any) -> Any:
        if type(value) not in _EXACT:
            for base, plain in _SCALARS.items():
                if isinstance(value, base) and self.number_of(value) not in self.received:
                    return super().value(plain(value))
        return super().value(value)

    def entry(self, value: Any) -> list[Any]:
        cls = type(value)
        if cls in self._handlers or isinstance(value, type) or self.number_of(value) in self.received:
            return super().entry(value)
        for base in cls.__mro__:
            fields = self._recorded.get((base.__module__, base.__qualname__))
            if fields is not None:
                sent = super().entry(value)
                if sent[0] != "o" or len(sent) != 3:
                    return sent
                own = {name: part for name, part in sent[2].items() if name in fields}
                return ["o", [base.__module__, base.__qualname__], own]
        return self._plain_entry(value) or super().entry(value)

    def _plain_entry(self, value: Any) -> list[Any] | None:
        """Returns the entry of a container or iterator whose class the judge does not know."""
        if isinstance(value, dict):
            return ["d", *self._pairs(value)]
        for kind, base in _CONTAINERS.items():
            if isinstance(value, base):
                return [kind, *map(self.value, base.__iter__(value))]
        if isinstance(value, _VIEWS):
            return ["l", *map(self.value, value)]
        if hasattr(type(value), "__iter__") and self.is_of_package(type(value)):
            self.replace(self._numbers[id(value)], iter(value))
            return ["it"]
        return ["it"] if hasattr(type(value), "__next__") else None


_EXACT = (type(None), bool, int, float, str, bytes, complex)
_SCALARS: dict[type, Any] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: b"".join([value]),
}
_CONTAINERS: dict[str, Any] = {"t": tuple, "l": list, "s": set, "f": frozenset}
_VIEWS = (collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView)


class Call:
    """A call with its heap, and the content of each object as last sent to the judge."""

    def __init__(self, worker: Worker) -> None:
        self.heap = ReplyHeap(worker.package, worker.recorded)
        self._worker = worker
        self._known: list[Any] = []

    # Reading: what the judge sends is as it says

    def add_entries(self, entries: list[list[Any]]) -> None:
        """Builds the objects of a message."""
        base = len(self.heap.objects)
        self.heap.received.update(range(base, base + len(entries)))
        for number, entry in enumerate(entries, base):
            self.heap.add(_Unbuilt() if entry[0] in ("t", "f", "m", "dd") else self._shell(entry, number), entry[0])
        for number in range(base, base + len(entries)):
            self._build(number, base, entries)
        order = {"o": 0, "l": 1, "q": 1, "t": 2}
        for number, entry in sorted(enumerate(entries, base), key=lambda pair: order.get(pair[1][0], 2)):
            self._fill(self.heap.objects[number], entry)
        self.remember()

    def value(self, raw: Any) -> Any:
        if type(raw) is list:
            return self.heap.objects[raw[0]]
        if type(raw) is not dict:
            return raw
        ((tag, content),) = raw.items()
        if tag == "i":
            return int(content, 16)
        if tag == "c":
            return complex(*content)
        if tag == "b":
            return bytes.fromhex(content)
        if tag == "v":
            return splice_codec.read_plain(*content)
        if tag in ("range", "slice"):
            return {"range": range, "slice": slice}[tag](*map(self.value, content))
        return {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}[content]

    def _shell(self, entry: list[Any], number: int) -> Any:
        kind = entry[0]
        made = {"l": list, "d": dict, "s": set, "od": collections.OrderedDict, "cn": collections.Counter}.get(kind)
        if made is not None:
            return made()
        if kind == "q":
            return collections.deque(maxlen=entry[1])
        if kind == "ba":
            return bytearray.fromhex(entry[1])
        if kind in ("C", "F"):
            return _resolve(entry[1], entry[2])
        if kind == "B":
            return splice_codec.BUILTIN_TYPES[entry[1]]
        if kind == "N":
            return importlib.import_module(entry[1])
        if kind == "ra":
            state = entry[1]
            generator = random.Random()
            generator.setstate((state[0], tuple(state[1]), state[2]))
            return generator
        if kind == "k":
            return self._function(number)
        if kind == "it":
            return RemoteIterator(self, number)
        if kind == "o":
            return self._instance(entry)
        return Opaque()

    def _function(self, number: int) -> Any:
        def remote(*args: Any, **kwargs: Any) -> Any:
            sent = [[self.heap.value(a) for a in args], {name: self.heap.value(a) for name, a in kwargs.items()}]
            return self.ask({"k": "callback", "n": number, "a": sent[0], "w": sent[1]})

        return remote

    def _instance(self, entry: list[Any]) -> Any:
        cls = _resolve(*entry[1])
        if len(entry) == 3:
            return object.__new__(cls)
        base = splice_codec.BUILTIN_TYPES[entry[3]]
        if entry[3] in ("tuple", "frozenset"):
            return base.__new__(cls, [self.value(part) for part in entry[4:]])
        return base.__new__(cls)

    def _build(self, number: int, base: int, entries: list[list[Any]]) -> None:
        """Builds an immutable object after its parts."""
        stack = [number]
        while stack:
            top = stack[-1]
            entry = entries[top - base] if top >= base else None
            if entry is None or not isinstance(self.heap.objects[top], _Unbuilt):
                stack.pop()
                continue
            parts = [p[0] for p in entry[1:] if type(p) is list and isinstance(self.heap.objects[p[0]], _Unbuilt)]
            if parts:
                stack += parts
                continue
            self.heap.replace(top, self._whole(entry))
            stack.pop()

    def _whole(self, entry: list[Any]) -> Any:
        if entry[0] == "m":
            return getattr(self.value(entry[1]), entry[2])
        if entry[0] == "dd":
            return collections.defaultdict(self.value(entry[1]))
        parts = tuple(self.value(part) for part in entry[1:])
        return frozenset(parts) if entry[0] == "f" else parts

    def _fill(self, target: Any, entry: list[Any]) -> None:
        kind = entry[0]
        if kind in ("l", "q"):
            target.extend(self.value(part) for part in entry[1 if kind == "l" else 2 :])
        elif kind == "s":
            target.update(self.value(part) for part in entry[1:])
        elif kind in ("d", "od", "cn", "dd"):
            parts = [self.value(part) for part in entry[2 if kind == "dd" else 1 :]]
            splice_codec.add_pairs(target, zip(parts[::2], parts[1::2]))
        elif kind == "o":
            self._fill_instance(target, entry)

    def _fill_instance(self, instance: Any, entry: list[Any]) -> None:
        slots = splice_codec.field_names(type(instance))[1]
        for name, raw in entry[2].items():
            if name in slots:
                object.__setattr__(instance, name, self.value(raw))
            else:
                vars(instance)[name] = self.value(raw)
        parts = [self.value(part) for part in entry[4:]]
        if entry[3:4] == ["list"]:
            list.extend(instance, parts)
        elif entry[3:4] == ["dict"]:
            splice_codec.add_pairs(instance, zip(parts[::2], parts[1::2]))
        elif entry[3:4] == ["set"]:
            set.update(instance, parts)

    # Writing

    def remember(self) -> None:
        """Records the content of the new objects."""
        for number in range(len(self._known), len(self.heap.objects)):
            self._known.append(_content(self.heap.objects[number]))

    def changes(self) -> list[list[Any]]:
        """Returns the objects whose content differs from the one last sent, with their entries."""
        found = []
        for number, known in enumerate(self._known):
            if known is not None:
                held = self.heap.objects[number]
                now = _content(held)
                if now is not None and not _is_same(known, now):
                    self._known[number] = now
                    found.append([number, self.heap.entry(held)])
        return found

    def reply(self, message: dict[str, Any], *, watched: bool = True) -> dict[str, Any]:
        """Returns a message with its entries and changes."""
        changed = self.changes() if watched else []
        entries = self.heap.take_entries()
        self.remember()
        return {**message, "c": changed, "h": entries}

    def ask(self, message: dict[str, Any]) -> Any:
        """Asks the judge to call a function or to advance an iterator of the test's."""
        entries = self.heap.take_entries()
        self.remember()
        answer = self._worker.exchange({**message, "h": entries})
        if answer["op"] == "stop":
            raise StopIteration
        if answer["op"] == "raise":
            error = getattr(importlib.import_module("builtins"), answer["e"])(answer["text"])
            error._splice_number = answer["n"]
            raise error
        self.add_entries(answer["h"])
        return self.value(answer["v"])


class _Unbuilt:
    """Stands for an immutable object until its parts are built."""


def _content(value: Any) -> Any:
    """Returns the mutable parts of an object by identity; None for immutable objects."""
    kind = type(value)
    if kind in (list, collections.deque):
        return list(value)
    if kind in (dict, collections.OrderedDict, collections.Counter, collections.defaultdict):
        return [*dict.keys(value), *dict.values(value)]
    if kind is set:
        return list(value)
    if kind is bytearray:
        return [bytes(value)]
    if (
        hasattr(value, "__dict__")
        and not isinstance(value, type)
        and not callable(value)
        and kind.__module__ != __name__
    ):
        computed = splice_codec.field_names(kind)[0]
        fields = {name: part for name, part in vars(value).items() if name not in computed}
        return [*fields, *fields.values()]
    return None


def _is_same(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    return all(map(operator.is_, one, other)) or (bool(one) and type(one[0]) is bytes and one == other)


def _resolve(module: str, qualname: str) -> Any:
    value: Any = importlib.import_module(module)
    for part in qualname.split("."):
        value = vars(value)[part] if isinstance(value, type) and part in vars(value) else getattr(value, part)
    return value


def _without_wrappers(value: Any, layers: list[list[str]]) -> Any:
    """Returns an entry point's function without the original's wrappers, which run in the judge; wrappers of the
    agent's outside of them stay, each as a copy that holds what is inside."""
    outer: list[Any] = []
    inside = value
    while layers and splice_codec.wrapper_layers(inside)[: len(layers)] != layers:
        wrapped = getattr(inside, "__wrapped__", None)
        if type(inside) is not types.FunctionType or wrapped is None or len(outer) == splice_codec.MAX_LAYERS:
            return splice_codec.unwrap(value, layers)
        outer.append(inside)
        inside = wrapped
    found = splice_codec.unwrap(inside, layers)
    for wrapper in reversed(outer):
        cells = wrapper.__closure__ or ()
        if not any(_holds(cell, wrapper.__wrapped__) for cell in cells):
            return splice_codec.unwrap(value, layers)
        closure = tuple(types.CellType(found) if _holds(cell, wrapper.__wrapped__) else cell for cell in cells)
        copied = types.FunctionType(
            wrapper.__code__, wrapper.__globals__, wrapper.__name__, wrapper.__defaults__, closure
        )
        copied.__kwdefaults__ = wrapper.__kwdefaults__
        found = copied
    return found


def _holds(cell: Any, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:  # empty
        return False


class Worker:
    """Answers the judge in one forked process."""

    def __init__(self, package: str, recorded: dict[tuple[str, str], set[str]], reads: int, writes: int) -> None:
        self.package = package
        self.recorded = recorded
        self._reads = reads
        self._writes = writes
        self._token = ""
        self._calls: dict[int, Call] = {}

    def exchange(self, message: dict[str, Any] | None) -> dict[str, Any]:
        """Sends an answer, serves calls that come first, and returns the judge's answer to a question."""
        while True:
            if message is not None:
                splice_codec.write_frame(self._writes, {**message, "id": self._token})
            frame = splice_codec.read_frame(self._reads)
            self._token = frame.get("id", "")
            if frame["op"] == "call":
                message = self._sent(self._call, frame)
            elif frame["op"] == "next":
                message = self._sent(self._next, frame)
            elif frame["op"] == "end":
                splice_codec.write_frame(self._writes, {"k": "ended", "id": self._token})
                self.end()
            else:
                return frame

    def end(self) -> None:
        """Ends the process of the test that is over."""
        os._exit(0)

    def _sent(self, answer: Any, frame: dict[str, Any]) -> dict[str, Any]:
        call = self._calls.get(frame["heap"])
        if call is None:
            call = self._calls[frame["heap"]] = Call(self)
        try:
            return answer(call, frame)
        except splice_codec.EncodeError as exc:
            return {"k": "unsendable", "why": str(exc)[:500]}
        except RecursionError:
            return {"k": "unsendable", "why": "RecursionError"}

    def _call(self, call: Call, frame: dict[str, Any]) -> dict[str, Any]:
        call.add_entries(frame["h"])
        args, kwargs = (call.value(part) for part in frame["a"])
        try:
            result = _without_wrappers(_resolve(*frame["entry"]), frame["layers"])(*args, **kwargs)
            # the list and dictionary that carried the arguments are no arguments
            return call.reply({"k": "value", "v": call.heap.value(result)})
        except BaseException as exc:  # noqa: BLE001
            return self._raised(call, exc)

    def _next(self, call: Call, frame: dict[str, Any]) -> dict[str, Any]:
        watched = len(call.heap.objects) <= MAX_WATCHED
        try:
            value = next(call.heap.objects[frame["n"]])
            return call.reply({"k": "value", "v": call.heap.value(value)}, watched=watched)
        except StopIteration:
            return call.reply({"k": "stop"})
        except BaseException as exc:  # noqa: BLE001
            return self._raised(call, exc)

    def _raised(self, call: Call, exc: BaseException) -> dict[str, Any]:
        if isinstance(exc, splice_codec.EncodeError):
            raise exc
        if isinstance(exc, splice_codec.ChannelError):
            os._exit(0)
        if hasattr(exc, "_splice_number"):
            return call.reply({"k": "again", "n": exc._splice_number})
        bases = [c for c in type(exc).__mro__ if c.__module__ == "builtins" or self._is_own(c)]
        builtin = next(n for n, c in enumerate(bases) if c.__module__ == "builtins")
        names = [[c.__module__, c.__qualname__] for c in bases[: builtin + 1]]
        known = set().union(*(self.recorded.get((module, name), ()) for module, name in names))
        try:
            arguments = [call.heap.value(part) for part in exc.args]
            fields = {name: call.heap.value(part) for name, part in vars(exc).items() if name in known}
            return call.reply({"k": "raise", "e": names, "a": arguments, "f": fields})
        except splice_codec.EncodeError:
            return {"k": "raise", "e": names, "a": [str(exc)[:2000]], "f": {}, "h": [], "c": []}

    def _is_own(self, cls: type) -> bool:
        return cls.__module__ == self.package or cls.__module__.startswith(self.package + ".")


def serve(package: str, modules: list[str], reads: int, writes: int) -> None:
    """Imports the package, then forks a process for each test."""
    failure = ""
    gc.disable()  # what an import makes stays
    try:
        for module in [package, *modules]:
            importlib.import_module(module)
    except BaseException as exc:  # noqa: BLE001
        failure = f"the package cannot be imported: {type(exc).__name__}: {exc}"[:500]
    gc.freeze()
    gc.unfreeze()  # all of it is of the oldest generation now, through which forks seldom look
    gc.enable()
    for _ in itertools.count():
        try:
            frame = splice_codec.read_frame(reads)
        except splice_codec.ChannelError:
            return
        if frame.get("op") != "begin":
            continue  # asked of a process that had ended
        pid = 0 if failure else os.fork()
        if not pid:
            if not failure:
                try:
                    recorded = {(module, name): set(fields) for module, name, fields in frame["classes"]}
                    Worker(package, recorded, reads, writes).exchange(None)
                finally:
                    os._exit(3)
            splice_codec.write_frame(writes, {"k": "died", "why": failure})
            continue
        status = os.waitpid(pid, 0)[1]
        if status:
            splice_codec.write_frame(writes, {"k": "died", "why": f"wait status {status}"})


def run_and_exit() -> None:
    """Moves the pipes away from standard input and output, then serves."""
    package, roots, modules = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    reads, writes = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    sys.argv[:] = [""]
    sys.path += roots
    serve(package, modules, reads, writes)
    os._exit(0)  # the judge is done: what the package would do at the end changes nothing


if __name__ == "__main__":
    run_and_exit()
