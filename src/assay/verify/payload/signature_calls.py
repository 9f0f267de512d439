"""Calls functions of a program with seeded plain arguments and records the results. A standalone program that imports
only the standard library.

Copied into a sandbox and run there as `signature_calls.py REQUEST REPLY`; the format is that of
`verify.calls.signature_calls`. Each file's functions are called in a forked child with a limit of time.
Not for judging: the code under test runs in the process that reports.
"""

from __future__ import annotations

import contextlib
import doctest
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import operator
import os
import random
import re
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

LONGEST = 600
MOST_ITEMS = 40
MOST_ENDLESS = 3
"""Number of timeouts after which a function is skipped."""
WORDS = (
    "",
    "a",
    "b",
    "abc",
    "Hello World",
    "x1",
    " two  words ",
    "12",
    "-3.5",
    "a,b;c",
    "AbC",
    "line\nline",
    "é",
    "a.b",
)
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 10, 12, 100, -1, -2, -7)
REALS = (0.0, 0.5, 1.0, -1.5, 2.25, 10.0, 1e-6, 1e6)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": len, "str": str, "bool": bool, "neg": operator.neg, "add": operator.add, "mul": operator.mul,
    "is_even": lambda x: x % 2 == 0, "identity": lambda x: x, "plus_one": lambda x: x + 1, "pair": lambda *a: a,
    "first": operator.itemgetter(0), "lt": operator.lt,
}  # fmt: skip
HINTS = {
    "number": "n k i j m x y z size count num number index idx start stop end step width height limit depth length low "
    "high level year month day total times amount maxsplit left right lo hi position pos target capacity p q r",
    "text": "s text string name line word path prefix suffix sep title content sql source pattern message label value "
    "token sentence delimiter char letters phrase code url query body",
    "items": "seq items values xs lst data iterable nums numbers arr array coll rows l elements sequence args list "
    "iterables records entries words lines tokens stack queue vector it nodes",
    "function": "f fn func function predicate pred key callback binop op keyfunc g mapper reducer",
    "mapping": "d dict mapping config options params kwargs table counts settings env attrs",
    "graph": "G graph H G1 G2",
}
KINDS = {name: kind for kind, names in HINTS.items() for name in names.split()}
SPELT = (
    ("bool", "truth"), ("Callable", "function"), ("dict", "mapping"), ("Mapping", "mapping"), ("list[str]", "words"),
    ("list[list", "matrix"), ("list", "items"), ("Sequence", "items"), ("Iterable", "items"), ("tuple", "items"),
    ("set", "items"), ("bytes", "bytes"), ("str", "text"), ("float", "real"), ("int", "number"), ("Graph", "graph"),
)  # fmt: skip


class OutOfTime(BaseException):
    """Raised by the clock inside a call; no `except Exception` of the code under test takes it."""


class Draw:
    """Draws arguments. The same seed and parameter names give the same arguments."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def value(self, kind: str) -> Any:
        if self._random.random() < 0.1:
            kind = self._random.choice(("number", "text", "items", "real", "nothing", "truth"))
        return getattr(self, f"_{kind}")()

    def flip(self) -> bool:
        return self._random.random() < 0.5

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def _number(self) -> Any:
        return self._random.choice(NUMBERS)

    def _real(self) -> Any:
        return self._random.choice(REALS)

    def _text(self) -> Any:
        return self._random.choice(WORDS)

    def _bytes(self) -> Any:
        return self._text().encode()

    def _truth(self) -> Any:
        return self.flip()

    def _nothing(self) -> Any:
        return None

    def _any(self) -> Any:
        kinds = ("number", "number", "text", "text", "items", "items", "real", "mapping", "truth", "function")
        return self.value(self._random.choice(kinds))

    def _words(self) -> Any:
        return [self._text() for _ in range(self.below(5))]

    def _matrix(self) -> Any:
        width = 1 + self.below(4)
        return [[self._number() for _ in range(width)] for _ in range(1 + self.below(4))]

    def _items(self) -> Any:
        kind = self._random.choice(("_number", "_number", "_text", "_real", "_pair"))
        made = [getattr(self, kind)() for _ in range(self.below(7))]
        return tuple(made) if self._random.random() < 0.2 else made

    def _pair(self) -> Any:
        return (self._number(), self._number())

    def _mapping(self) -> Any:
        return {self._text(): self._number() for _ in range(self.below(5))}

    def _function(self) -> Any:
        return FUNCTIONS[self._random.choice(sorted(FUNCTIONS))]

    def _graph(self) -> Any:
        library = sys.modules.get("networkx")
        if library is None:
            return self._mapping()
        kind = self._random.choice(("Graph", "Graph", "DiGraph"))
        made, size = getattr(library, kind)(), 1 + self.below(7)
        made.add_nodes_from(range(size))
        for one in range(size):
            for two in range(one):
                if self._random.random() < 0.4:
                    made.add_edge(*((one, two) if self.flip() else (two, one)), weight=self._random.choice((1, 2, 5)))
        return made


def kind_of(name: str, annotation: Any) -> str:
    """Returns a parameter's probable kind, by its annotation or else by its name."""
    spelt = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if annotation is not inspect.Parameter.empty:
        for word, kind in SPELT:
            if word in spelt or (word.endswith("]") and word in str(annotation)):
                return kind
    return KINDS.get(name, "any")


def arguments(function: Any, seed: str) -> tuple[list[Any], dict[str, Any]]:
    """Returns arguments for one call; raises `ValueError` or `TypeError` without a signature."""
    draw, given, named = Draw(seed), [], {}
    leaving_out = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        left_out, value = draw.flip(), draw.value(kind_of(name, parameter.annotation))
        if parameter.kind is parameter.VAR_POSITIONAL:
            more = [draw.value(kind_of(name.removesuffix("s"), parameter.annotation)) for _ in range(draw.below(3))]
            given += [] if leaving_out else more
            continue
        leaving_out = leaving_out or (parameter.default is not parameter.empty and left_out)
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty or not left_out:
                named[name] = value
        elif parameter.default is parameter.empty or not leaving_out:
            given.append(value)
    return given, named


def plain(value: Any, depth: int = 0) -> str:
    """Returns a value as text without addresses, hash order or time."""
    if value is None or isinstance(value, bool | int | str | bytes | complex):
        return repr(value) if type(value).__module__ == "builtins" else f"{type(value).__name__}({value!r:.80})"
    if isinstance(value, float):
        return repr(value)
    if depth > 4:
        return "..."
    if isinstance(value, Mapping):
        items = [f"{plain(k, depth + 1)}: {plain(v, depth + 1)}" for k, v in list(value.items())[:MOST_ITEMS]]
        return f"{_name(value, 'dict')}{{{', '.join(items)}}}#{len(value)}"
    if isinstance(value, set | frozenset):
        return f"{_name(value, 'set')}{{{', '.join(sorted(plain(v, depth + 1) for v in value)[:MOST_ITEMS])}}}"
    if isinstance(value, list | tuple):
        inner, ends = (
            ", ".join(plain(v, depth + 1) for v in value[:MOST_ITEMS]),
            "[]" if isinstance(value, list) else "()",
        )
        return f"{_name(value, '')}{ends[0]}{inner}{ends[1]}#{len(value)}"
    if callable(value):
        return f"<{getattr(value, '__name__', type(value).__name__)}>"
    return _object(value, depth)


def _name(value: Any, plain_name: str) -> str:
    name = type(value).__name__
    return "" if name in ("dict", "set", "list", "tuple", plain_name) else name


def _object(value: Any, depth: int) -> str:
    if isinstance(value, Iterator):
        taken = []
        for item in value:
            taken.append(plain(item, depth + 1))
            if len(taken) >= MOST_ITEMS:
                break
        return f"<iterator {', '.join(taken)}>"
    if hasattr(value, "edges") and hasattr(value, "nodes"):
        with contextlib.suppress(Exception):
            edges = [tuple(edge) for edge in value.edges(data=True)]
            return f"{type(value).__name__}{plain([list(value.nodes), edges], depth + 1)}"
    if hasattr(value, "__iter__") and hasattr(value, "__len__") and not hasattr(value, "__dict__"):
        return f"{type(value).__name__}{plain(list(value), depth + 1)}"
    state = getattr(value, "__dict__", None)
    if isinstance(state, dict) and state:
        shown = {k: v for k, v in sorted(state.items()) if not k.startswith("__")}
        return f"{type(value).__name__}({plain(shown, depth + 1)})"
    text = repr(value)
    return type(value).__name__ if re.search(r"0x[0-9a-fA-F]{6,}", text) else f"{type(value).__name__}({text:.300})"


def cut(text: str) -> str:
    """Returns the text bounded, with the digest of the whole."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"


class Caller:
    """Calls the functions of one module."""

    def __init__(self, request: dict[str, Any], target: dict[str, Any], out: io.TextIOBase) -> None:
        self._request = request
        self._target = target
        self._out = out
        self._module: Any = None
        self._endless = 0

    def run(self) -> None:
        """Runs the examples of all docstrings, then drawn calls."""
        self._module = load_module(self._target)
        for name in self._target["functions"]:
            until, self._endless = time.monotonic() + self._request["function_s"], 0
            self._examples(name, until)
            for number in range(self._request["calls"]):
                if time.monotonic() > until or self._endless >= MOST_ENDLESS:
                    break
                self._call(name, number)

    def _note(self, function: str, call: str, answer: tuple[str, str], *, example: bool = False) -> None:
        noted = {
            "function": function,
            "call": cut(call),
            "ended": answer[0],
            "value": cut(answer[1]),
            "example": example,
        }
        self._out.write(json.dumps(noted) + "\n")
        self._out.flush()

    def _call(self, name: str, number: int) -> None:
        seed = f"{self._request['seed']} {name.rpartition('.')[2]} {number}"
        try:
            function = self._bound(name, seed)
            given, named = arguments(function, seed)
        except Exception:  # noqa: BLE001 - no such function, no signature, or its object cannot be made
            return
        shown = ", ".join([*(plain(v) for v in given), *(f"{k}={plain(v)}" for k, v in named.items())])

        def act() -> str:
            result = plain(function(*given, **named))
            holder = getattr(function, "__self__", None)
            state = plain(vars(holder)) if hasattr(holder, "__dict__") and not inspect.isclass(holder) else ""
            return f"{result} | {plain(given)}{plain(named)}{state}" if _changeable(given, named) or state else result

        of_object = f" of object {number}" if "." in name and not name.endswith(".__init__") else ""
        self._note(name, f"({shown}){of_object}", self._answer(act))

    def _bound(self, name: str, seed: str) -> Any:
        owner, _, last = name.rpartition(".")
        if not owner:
            return getattr(self._module, name)
        found: Any = self._module
        for part in owner.split("."):
            found = getattr(found, part)
        if last == "__init__":
            return found
        if isinstance(inspect.getattr_static(found, last), staticmethod | classmethod):
            return getattr(found, last)
        for number in range(8):
            with contextlib.suppress(Exception):
                made = self._construct(found, f"{seed} made {number}")
                member = inspect.getattr_static(found, last)
                # A property, or a decorator that makes one: looking at it is the call.
                return getattr(made, last) if callable(member) else partial(look_at, made, last)
        raise LookupError(f"no {owner} could be made")

    def _construct(self, kind: Any, seed: str) -> Any:
        """Returns an instance of the class; a graph gets some edges, because an empty one shows little."""
        given, named = arguments(kind, seed)
        if not hasattr(kind, "add_edges_from"):
            return kind(*given, **named)
        made, drawn = kind(), random.Random(seed)
        made.add_edges_from([(drawn.randrange(5), drawn.randrange(5)) for _ in range(drawn.randrange(7))])
        return made

    def _answer(self, act: Callable[[], str]) -> tuple[str, str]:
        signal.setitimer(signal.ITIMER_REAL, self._request["call_s"])
        try:
            return "returned", act()
        except OutOfTime:
            self._endless += 1
            return "time", ""
        except RecursionError:
            return "raised", "RecursionError"
        except Exception as exc:  # noqa: BLE001 - whatever it raises is the answer
            refused = self._is_own(exc)
            misfit = isinstance(exc, TypeError | AttributeError | NameError) and not refused
            return "refused" if refused else "misfit" if misfit else "raised", type(exc).__name__
        except BaseException as exc:  # noqa: BLE001 - SystemExit and the like are an answer too
            return "refused" if self._is_own(exc) else "raised", type(exc).__name__
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _is_own(self, exc: BaseException) -> bool:
        """Returns whether a `raise` statement in the file itself raised it."""
        trace = exc.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is None or trace.tb_frame.f_code.co_filename != self._target["file"]:
            return False
        lines = Path(self._target["file"]).read_text(encoding="utf-8", errors="replace").splitlines()
        at = trace.tb_lineno - 1
        return (
            0 <= at < len(lines) and lines[at].lstrip().startswith(("raise", "if ", "else:")) and "raise" in lines[at]
        )

    def _examples(self, name: str, until: float) -> None:
        found: Any = self._module
        for part in name.split("."):
            found = getattr(found, part, None)
        text = getattr(found, "__doc__", None)
        if not isinstance(text, str) or ">>>" not in text:
            return
        names = dict(vars(self._module))
        with contextlib.suppress(ValueError):
            for number, example in enumerate(doctest.DocTestParser().get_examples(text)[:60]):
                if time.monotonic() > until:
                    return
                answer = self._answer(lambda source=example.source: render_output(source, names))  # type: ignore[misc]
                source = " ".join(example.source.split())
                self._note(name, f" example {number}: {source}", answer, example=True)


def look_at(instance: Any, name: str) -> Any:
    """Returns an attribute; unlike `getattr` it has a signature."""
    return getattr(instance, name)


def _changeable(given: list[Any], named: dict[str, Any]) -> bool:
    return any(isinstance(v, list | dict | set) for v in (*given, *named.values()))


def render_output(source: str, names: dict[str, Any]) -> str:
    """Returns an example's output as an interactive Python prints it, without addresses."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        shown = sys.displayhook
        sys.displayhook = lambda value: None if value is None else out.write(f"{value!r}\n")
        try:
            exec(compile(source, "<example>", "single"), names)
        finally:
            sys.displayhook = shown
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x", out.getvalue())


def load_module(target: dict[str, Any]) -> types.ModuleType:
    """Loads the module by name if that resolves to the file; else from the file."""
    if target["module"]:
        with contextlib.suppress(Exception):
            found = importlib.import_module(target["module"])
            if os.path.realpath(found.__file__ or "") == os.path.realpath(target["file"]):
                return found
    spec = importlib.util.spec_from_file_location("module_under_test", target["file"])
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["module_under_test"] = made
    spec.loader.exec_module(made)
    return made


def _out_of_time(_number: int, _frame: Any) -> None:
    raise OutOfTime


def in_child(request: dict[str, Any], target: dict[str, Any], reply: str) -> None:
    """Calls one file's functions in a process of their own."""
    most_s = 10.0 + request["function_s"] * len(target["functions"])
    child = os.fork()
    if child:
        until = time.monotonic() + 3 * most_s
        while time.monotonic() < until:
            if os.waitpid(child, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * most_s), int(2 * most_s) + 5))
    signal.signal(signal.SIGALRM, _out_of_time)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    random.seed(request["seed"])
    with contextlib.suppress(BaseException), Path(reply).open("a", encoding="utf-8", errors="replace") as out:
        Caller(request, target, out).run()
    os._exit(0)


def main() -> None:
    """Reads the request, makes the calls, writes the reply line by line."""
    request = json.loads(Path(sys.argv[1]).read_bytes())
    sys.path[:0] = request["paths"]
    sys.dont_write_bytecode = True
    Path(sys.argv[2]).write_bytes(b"")
    for target in request["targets"]:
        in_child(request, target, sys.argv[2])


if __name__ == "__main__":
    main()
