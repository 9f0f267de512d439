"""Runs tests with pytest and records the public calls that they make on a package. Standard library and pytest.

Started in a sandbox that holds the reference, as `call_recorder.py` with the request on standard input. Test files are
rewritten in memory: each call, attribute, subscript and subscript assignment in them goes through the recorder. The
answer is one JSON line a file: its operations in order, each with the test that made it, its result's kind, and
whether one of the target functions ran inside it. For making tasks, never for judging.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import operator
import os
import pathlib
import sys
from typing import Any

import pytest

FOLDER = str(pathlib.Path(__file__).resolve().parent)
sys.path.insert(0, FOLDER)

import value_codec  # type: ignore[import-not-found]  # noqa: E402 - a sibling, by the folder above

sys.path.remove(FOLDER)
BUILTINS = (
    *("list", "tuple", "set", "frozenset", "sorted", "len", "sum", "min", "max", "any", "all", "dict", "next", "iter"),
    *("bool", "str", "repr", "int", "float", "abs", "round", "reversed", "enumerate", "zip", "isinstance"),
)
FRAME_FUNCTIONS = {"super", "locals", "globals", "vars", "eval", "exec", "dir", "breakpoint"}
SEEN = "__assay_seen__"
OPERATORS: dict[str, Any] = {
    **{name: getattr(operator, name.lower()) for name in ("Add", "Sub", "Mod", "Pow", "Lt", "Gt", "Invert")},
    **{"Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv, "MatMult": operator.matmul},
    **{"LShift": operator.lshift, "RShift": operator.rshift, "BitOr": operator.or_, "BitXor": operator.xor},
    **{"USub": operator.neg, "UAdd": operator.pos},
    **{"BitAnd": operator.and_, "LtE": operator.le, "GtE": operator.ge, "In": operator.contains},
}
"""Operators by their names in a syntax tree; each is recorded as a call of its function."""
_OPERATOR_IDS = frozenset(map(id, OPERATORS.values()))
MAX_OPERATIONS = 6000
"""Limit of the operations of one file."""
PYTEST_OPTIONS = ["-qq", "--tb=no", "--no-summary", "--import-mode=importlib", "-W", "ignore", "--assert=plain"]


class Rewriter(ast.NodeTransformer):
    """Routes a test file's operations on objects through the recorder, and all other uses of them through `seen`."""

    def visit_Name(self, node: ast.Name) -> Any:
        """Tells of each use of a variable."""
        return _read_whole(node) if isinstance(node.ctx, ast.Load) and node.id not in FRAME_FUNCTIONS else node

    def visit_Call(self, node: ast.Call) -> Any:
        """Rewrites a call; a method call keeps its receiver."""
        func = node.func
        if isinstance(func, ast.Name) and func.id in FRAME_FUNCTIONS:
            return self.generic_visit(node)
        node.args = [self._operand(arg) for arg in node.args]
        for keyword in node.keywords:
            keyword.value = self._operand(keyword.value) if keyword.arg else self.visit(keyword.value)
        if isinstance(func, ast.Attribute) and not _is_super(func.value):
            first: list[Any] = [self._operand(func.value), ast.Constant(func.attr)]
            return _read_whole(_hook("method", [*first, *node.args], node.keywords, node))
        return _read_whole(_hook("call", [self._operand(func), *node.args], node.keywords, node))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if not isinstance(node.ctx, ast.Load) or _is_super(node.value):
            return self.generic_visit(node)
        return _read_whole(_hook("attr", [self._operand(node.value), ast.Constant(node.attr)], [], node))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.ctx, ast.Load) or _has_slice(node.slice):
            return self.generic_visit(node)
        return _read_whole(_hook("item", [self._operand(node.value), self._operand(node.slice)], [], node))

    def visit_Expr(self, node: ast.Expr) -> Any:
        node.value = self._operand(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Rewrites the assignment of one item."""
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            node.value = self._operand(node.value)
            return node
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript) or _has_slice(target.slice):
            return self.generic_visit(node)
        parts = [self._operand(part) for part in (target.value, target.slice, node.value)]
        return ast.copy_location(ast.Expr(_hook("set", parts, [], node)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Leaves decorators, defaults and annotations unchanged."""
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Leaves bases and decorators unchanged."""
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """Leaves annotations unchanged."""
        if node.value is not None:
            node.value = self._operand(node.value) if isinstance(node.target, ast.Name) else self.visit(node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._operation(type(node.op).__name__, [node.left, node.right], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._operation(type(node.op).__name__, [node.operand], node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Rewrites an order or a membership; operands of other comparisons are read whole."""
        if len(node.ops) != 1 or type(node.ops[0]).__name__ not in OPERATORS:
            return self.generic_visit(node)
        return self._operation(type(node.ops[0]).__name__, [node.left, *node.comparators], node)

    def _operation(self, name: str, operands: list[Any], node: Any) -> Any:
        """Rewrites an operator as a call of its function in the module `operator`."""
        if name not in OPERATORS:
            return self.generic_visit(node)
        parts = [self._operand(operand) for operand in operands]
        if name == "In":  # as the function's arguments
            parts.reverse()
        return _read_whole(_hook("call", [_hook("operator", [ast.Constant(name)], [], node), *parts], [], node))

    def _operand(self, node: Any) -> Any:
        """Returns an expression whose value only the recorder reads, or a variable takes."""
        made = self.visit(node)
        hooked = isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == SEEN
        return made.args[0] if hooked else made


def _read_whole(node: Any) -> Any:
    return _hook("seen", [node], [], node)


def _is_super(node: Any) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _has_slice(node: Any) -> bool:
    return any(isinstance(inner, (ast.Slice, ast.Starred)) for inner in ast.walk(node))


def _hook(name: str, args: list[Any], keywords: list[Any], node: Any) -> Any:
    call = ast.Call(ast.Name("__assay_" + name + "__", ast.Load()), args, keywords)
    return ast.fix_missing_locations(ast.copy_location(call, node))


class Recorder:
    """Records operations; a pytest plugin for the name of the test that is running."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._packages = tuple(request["packages"])
        self._targets = {(path, name) for path, names in request["targets"].items() for name in names}
        self._is_target: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._alive: dict[int, Any] = {}
        self._contents: dict[int, Any] = {}
        self._names: dict[int, Any] = {}
        self._busy = False
        self._reached = False
        self._seen: set[int] = set()
        self.operations: list[dict[str, Any]] = []
        self.test = ""
        self.failed: set[str] = set()

    def install(self) -> None:
        """Puts the functions that rewritten files call where every module finds them."""
        for name in ("method", "call", "attr", "item", "set", "seen", "operator"):
            setattr(builtins, "__assay_" + name + "__", getattr(self, "do_" + name))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> None:
        self.test = item.nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Notes tests that do not pass as they are recorded."""
        if not report.passed:
            self.failed.add(report.nodeid)

    def do_call(self, *args: Any, **named: Any) -> Any:
        function, rest = args[0], args[1:]
        if self._is_tracked(function) and not isinstance(function, type):
            return self._record(lambda: function(*rest, **named), "method", [function, "__call__"], [list(rest), named])
        if self._busy or not self._is_known_callable(function, rest):
            for value in (*rest, *named.values()):
                self.do_seen(value)
            return function(*rest, **named)
        return self._record(lambda: function(*rest, **named), "call", [function], [list(rest), named])

    def do_method(self, *args: Any, **named: Any) -> Any:
        """Calls a method, or a function of a module."""
        owner, name, rest = args[0], args[1], args[2:]
        if isinstance(owner, (type(os), type)) or not self._is_tracked(owner):
            return self.do_call(getattr(owner, name), *rest, **named)
        return self._record(lambda: getattr(owner, name)(*rest, **named), "method", [owner, name], [list(rest), named])

    def do_attr(self, owner: Any, name: str) -> Any:
        if self._busy or isinstance(owner, (type(os), type)) or not self._is_tracked(owner):
            return getattr(owner, name)
        return self._record(lambda: getattr(owner, name), "attr", [owner, name], None)

    def do_item(self, owner: Any, key: Any) -> Any:
        if self._busy or not self._is_tracked(owner):
            return owner[key]
        return self._record(lambda: owner[key], "item", [owner], [key])

    def do_set(self, owner: Any, key: Any, value: Any) -> None:
        def assign() -> None:
            owner[key] = value

        if self._busy or not self._is_tracked(owner):
            assign()
            return
        self._record(assign, "set", [owner], [key, value])

    def do_operator(self, name: str) -> Any:
        return OPERATORS[name]

    def do_seen(self, value: Any) -> Any:
        """Notes that the test does more with a result than what is recorded, and returns it."""
        if self._is_tracked(value):
            self._seen.add(self._numbers[id(value)])
        return value

    def records(self) -> list[dict[str, Any]]:
        """Returns the operations."""
        return [{**entry, "compared": entry["n"] in self._seen} for entry in self.operations]

    def _is_known_callable(self, function: Any, args: Any) -> bool:
        if id(function) in _OPERATOR_IDS:
            return any(self._is_tracked(a) for a in args)
        if getattr(function, "__module__", None) == "builtins" and getattr(function, "__name__", "") in BUILTINS:
            return builtins.__dict__.get(function.__name__) is function and any(self._is_tracked(a) for a in args)
        return self._name_of(function) is not None

    def _is_tracked(self, value: Any) -> bool:
        return not self._busy and id(value) in self._numbers

    def _name_of(self, value: Any) -> Any:
        """Returns module and name of a module-level object of the package, of builtins, or of a library's function."""
        if id(value) in _OPERATOR_IDS:
            return "operator", value.__name__
        if not callable(value) and not self._is_package(type(value)):
            return None
        if not self._names:
            self._find_names()
        known = self._names.get(id(value))
        return known[:2] if known is not None and known[2] is value else None

    def _find_names(self) -> None:
        loaded = sorted(sys.modules.items(), key=lambda entry: (entry[0].count("."), entry[0]))
        for module_name, module in loaded:
            ours = module_name == "builtins" or (module_name + ".").startswith(self._packages)
            if not ours or ".tests" in module_name or "conftest" in module_name:
                continue
            for name, value in list(vars(module).items()):
                fits = callable(value) or self._is_package(type(value))
                if fits and not name.startswith("__") and id(value) not in self._names:
                    self._names[id(value)] = (module_name, name, value)

    def _is_package(self, kind: type) -> bool:
        return (str(getattr(kind, "__module__", "")) + ".").startswith(self._packages)

    def _record(self, act: Any, kind: str, owner: list[Any], rest: list[Any] | None) -> Any:
        operation = self._encode(kind, owner, rest)
        if operation is None or len(self.operations) >= MAX_OPERATIONS:
            for value in (*owner, *_values_of(rest or ())):
                self.do_seen(value)
            return act()
        number = len(self.operations)
        entry = {"n": number, "test": self.test, "op": [number, *operation], "target": False, "result": "", "of": ""}
        self._busy, self._reached = True, False
        sys.setprofile(self._profile)
        try:
            result = act()
        except BaseException as exc:
            entry["result"], entry["of"] = "raised", value_codec.type_name(type(exc))
            raise
        else:
            sys.setprofile(None)
            # A function that returns what it was given has changed it: `cycle_graph(7, create_using=graph)`.
            changes = kind in ("call", "method") and id(result) in self._numbers
            self._track(number, result)
            entry["result"] = "none" if changes else self._kind_of(result)
            entry["of"] = value_codec.type_name(type(result))
            return result
        finally:
            sys.setprofile(None)
            self._busy = False
            entry["target"] = self._reached
            # Inner operations of callbacks were left out, so the number is still the next one.
            self.operations.append(entry)

    def _track(self, number: int, result: Any) -> None:
        """Remembers the result of an operation; small plain values are identified by value."""
        if result is None or isinstance(result, (bool, int, float, str, bytes, complex)) or self._name_of(result):
            return
        if id(result) not in self._numbers:
            self._numbers[id(result)], self._alive[id(result)] = number, result
            with contextlib.suppress(Exception):
                if isinstance(result, (list, tuple, dict, set, frozenset)):
                    self._contents[id(result)] = self._encoder().encode_contents(result)

    def _kind_of(self, result: Any) -> str:
        if result is None:
            return "none"
        if isinstance(result, (bool, int, float, str, bytes, complex, list, tuple, set, frozenset, dict, range)):
            return "data"
        return "iterator" if hasattr(result, "__next__") else "instance"

    def _encoder(self) -> Any:
        return InputEncoder(self._handle_of, self._name_of)

    def _handle_of(self, value: Any) -> int | None:
        number = self._numbers.get(id(value))
        if number is None or id(value) not in self._contents:
            return number
        with contextlib.suppress(Exception):
            if self._encoder().encode_contents(value) == self._contents[id(value)]:
                return number
        return None

    def _encode(self, kind: str, owner: list[Any], rest: list[Any] | None) -> list[Any] | None:
        """Returns the operation as a tree; None if an argument is not data."""
        try:
            if kind == "call":
                head = ["g", *self._name_of(owner[0])]
            else:
                number = self._handle_of(owner[0])
                if number is None:
                    return None
                head = ["o", number]
            encode = self._encoder().encode
            if kind == "attr":
                return [kind, head, owner[1]]
            if kind in ("item", "set"):
                return [kind, head, *[encode(value) for value in rest or ()]]
            args, named = rest or ([], {})
            name = owner[1] if kind == "method" else ""
            return [kind, head, name, [encode(v) for v in args], [[k, encode(v)] for k, v in named.items()]]
        except Exception:  # noqa: BLE001 - code of the package runs while a value is read
            return None

    def _profile(self, frame: Any, event: str, _argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        known = self._is_target.get(id(code))
        if known is None:
            named = (code.co_filename, getattr(code, "co_qualname", code.co_name).replace(".<locals>", ""))
            fits = any(named[0] == path and _is_inside(named[1], name) for path, name in self._targets)
            known = self._is_target[id(code)] = (fits, code)
        self._reached = self._reached or known[0]


def _values_of(rest: Any) -> Any:
    """Yields the arguments of a call, or the key and value of a subscript."""
    for part in rest:
        yield from part.values() if isinstance(part, dict) else part if isinstance(part, list) else (part,)


def _is_inside(name: str, target: str) -> bool:
    return name == target or name.startswith(target + ".") or ("." not in name and target.endswith("." + name))


class InputEncoder(value_codec.Encoder):  # type: ignore[misc]
    """Encodes arguments: data, results of earlier operations, and module-level names."""

    def __init__(self, handle_of: Any, name_of: Any) -> None:
        super().__init__(handle_of, name_of, instances=False)

    def encode_contents(self, value: Any) -> Any:
        """Returns the tree of a container itself, regardless of its origin."""
        return self._container(value, 0)


class Importer(importlib.abc.MetaPathFinder):
    """Loads test files rewritten."""

    def __init__(self, paths: set[str]) -> None:
        self._paths = paths

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns the spec of one of the files."""
        for file in self._paths:
            if pathlib.Path(file).stem == name.rpartition(".")[2]:
                folders = [str(folder) for folder in path or ()]
                if not folders or str(pathlib.Path(file).parent) in folders:
                    return importlib.util.spec_from_file_location(name, file, loader=Loader(name, file))
        return None


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles the rewritten syntax tree."""

    def get_code(self, fullname: str) -> Any:
        """Returns the module's code; never from a cache."""
        path = self.get_filename(fullname)
        tree = Rewriter().visit(ast.parse(self.get_data(path)))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def main() -> None:
    """Runs each file's tests in a fork and writes the record."""
    request = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(silent, number)
    sys.path[:0] = request["paths"]
    sys.dont_write_bytecode = True
    for module in request["imports"]:
        importlib.import_module(module)
    for path, tests in request["tests"].items():
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                record_file(request, path, tests, out)
            os._exit(0)
        os.waitpid(child, 0)


def record_file(request: dict[str, Any], path: str, tests: list[str], out: int) -> None:
    """Runs some tests of one file and writes its line."""
    recorder = Recorder(request)
    recorder.install()
    sys.meta_path.insert(0, Importer({path}))
    options = [*PYTEST_OPTIONS, "--rootdir=" + request["root"], "-c", os.devnull, "-p", "no:cacheprovider"]
    pytest.main([*options, *tests], plugins=[recorder])
    answer = {"file": path, "operations": recorder.records(), "failed": sorted(recorder.failed)}
    os.write(out, b"")
    with os.fdopen(os.dup(out), "wb") as file:
        file.write(json.dumps(answer, ensure_ascii=True, allow_nan=False).encode() + b"\n")


if __name__ == "__main__":
    main()
