"""The tests' process: pytest with a recorder that sends each result to the supervisor as it happens.

The standard library comes first on the path and import roots last, so that no file of a workspace replaces a
module of the standard library. Canaries, tests that must fail, run between the real ones under names that look like
theirs; their reports go only to the supervisor. `runner` states the covered attacks.
"""

from __future__ import annotations

import ast
import gc
import json
import linecache
import os
import random
import sys
import threading
import types
from itertools import islice
from pathlib import Path
from typing import Any

import probes  # type: ignore[import-not-found]  # the importing supervisor has its folder on the path
import pytest
from _pytest import runner as pytest_runner
from _pytest import tmpdir
from _pytest._code import code as pytest_code
from _pytest._code.source import Source, findsource
from _pytest.assertion import rewrite
from forking import ForkPoint, age_objects, end_early  # type: ignore[import-not-found]

gc.freeze()  # nothing imported so far is ever garbage, and each collection would look through it


class RecordWriter:
    """Writes lines to the supervisor, unbuffered."""

    def __init__(self, fd: int, nonce: str) -> None:
        self.begin(fd, nonce)
        self._write = os.write
        self._encode = json.JSONEncoder().encode

    def begin(self, fd: int, nonce: str) -> None:
        """Sets the descriptor and the nonce of what is told from now on."""
        self.fd = fd
        self._nonce = nonce

    def tell(self, kind: str, **values: Any) -> None:
        data = (self._encode({"nonce": self._nonce, "kind": kind, **values}) + "\n").encode()
        while data:
            data = data[self._write(self.fd, data) :]


CANARIES = (
    "assert {one} == {other}",
    "value = [{one}]\n    assert value == [{other}]",
    "value = {one}\n    assert value in ({other},)",
    "raise ValueError({one})",
    "raise AssertionError({one}, {other})",
    "assert isinstance({one}, str)",
    "assert all([{one} == {other}, True])",
    "assert not any([{one} != {other}])",
    "assert len([{one}]) == 7",
    "assert sorted([{one}, {other}]) == [{one}, {other}]",
    "assert abs({one} - {other}) < 0.25",
    "import math\n    assert math.isclose({one}, {other})",
    "import pytest\n    assert {one} == pytest.approx({other})",
    "import pytest\n    with pytest.raises(ValueError):\n        pass",
    "import unittest\n    unittest.TestCase().assertEqual({one}, {other})",
    "import unittest\n    unittest.TestCase().assertTrue({one} == {other})",
    "import unittest\n    unittest.TestCase().assertIn({one}, [{other}])",
    "import unittest\n    with unittest.TestCase().assertRaises(ValueError):\n        pass",
)
"""Statements that must fail, whatever the code under test has done to the objects that tests use."""


class Recorder:
    """Pytest plugin that records results and runs canaries."""

    def __init__(self, teller: RecordWriter, config: dict[str, Any]) -> None:
        self._tell = teller.tell
        self._wanted = set(config.get("only", ()))
        self._reversed = bool(config.get("reversed"))
        self._one_canary = bool(config.get("one_canary"))
        self._spliced = "splice" in config
        self.begin(config["seed"])
        self._protocol = pytest_runner.runtestprotocol
        self._function = pytest.Function
        self._compile = compile
        self._after: set[int] = set()
        self._all_after: set[int] = set()
        self._names: list[str] = []

    def begin(self, seed: int) -> None:
        """Sets the seed of the canaries."""
        self._random = random.Random(seed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._wanted:
            dropped = [item for item in items if item.nodeid not in self._wanted]
            items[:] = [item for item in items if item.nodeid in self._wanted]
            if dropped:
                config.hook.pytest_deselected(items=dropped)
        if self._reversed:
            items.reverse()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = session.items
        if self._spliced:
            age_objects()
            gc.enable()
        self._tell("collected", ids=[item.nodeid for item in items])
        self._names = [item.name.partition("[")[0] for item in items]
        last: dict[int, int] = {}
        for item in items:
            last[id(item.getparent(pytest.Module))] = id(item)
        chance = min(1.0, 12 / max(1, len(items)))
        self._after = set(last.values()) | {id(item) for item in items if self._random.random() < chance}
        self._after |= {id(item) for item in items[:1]}
        last_functions = [item for item in items if isinstance(item, self._function)][-1:]
        self._all_after = {id(item) for item in last_functions}
        self._after |= self._all_after
        if self._one_canary:
            self._after, self._all_after = {id(item) for item in last_functions}, set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        module = item.getparent(pytest.Module)
        if id(item) not in self._after or module is None or not isinstance(item, self._function):
            return None
        bodies = list(CANARIES) if id(item) in self._all_after else [self._random.choice(CANARIES)]
        self._random.shuffle(bodies)
        canaries = [self._canary(module, body) for body in bodies]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        self._protocol(item, nextitem=canaries[0])
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        for canary, following in zip(canaries, [*canaries[1:], nextitem], strict=True):
            # Where tests are, while it runs: what tells tests by their module takes it for one.
            setattr(module.obj, canary.name, canary.obj)
            reports = self._protocol(canary, nextitem=following, log=False)
            vars(module.obj).pop(canary.name, None)
            outcomes = {report.when: report.outcome for report in reports}
            unsure = outcomes.get("setup") != "passed"
            self._tell("canary", outcome="unsure" if unsure else outcomes.get("call", "none"))
        return True

    def _canary(self, module: pytest.Module, body: str) -> pytest.Function:
        word = "".join(self._random.choices("abcdefghilmnoprstuv", k=self._random.randint(4, 9)))
        like = [name for name in self._names if name.isidentifier()] or ["test"]
        name = f"{self._random.choice(like)}_{word}"
        one, other = self._random.getrandbits(self._random.randint(3, 30)), -1 - self._random.getrandbits(5)
        text = f"def {name}():\n    " + body.format(one=one, other=other) + "\n"
        made: dict[str, Any] = {}
        tree = ast.parse(text)
        if probes.NAME in vars(module.obj):
            probes.instrument(tree)  # as the tests are: a probe that no longer looks lets a canary pass
        exec(self._compile(tree, str(module.path), "exec"), made)
        code = made[name].__code__.replace(co_firstlineno=self._random.randint(1, 500))
        own = types.FunctionType(code, vars(module.obj), name)
        own.__module__ = module.obj.__name__
        return self._function.from_parent(module, name=name, callobj=own)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = str(report.outcome)
        if hasattr(report, "wasxfail") and report.when == "call":
            outcome = "xfailed" if outcome == "skipped" else "xpassed"
        phase = "part" if hasattr(report, "context") else report.when
        message = str(report.longrepr)[-1000:] if outcome == "failed" else ""
        self._tell("test", id=report.nodeid, phase=phase, outcome=outcome, message=message)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell("broken", id=report.nodeid or "the session")
        elif report.skipped:
            self._tell("skipped", id=report.nodeid)

    def pytest_internalerror(self, excrepr: object) -> None:
        self._tell("broken", id=f"pytest itself: {str(excrepr)[-500:]}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._tell("finished", exit=int(exitstatus))
        if self._spliced:
            gc.freeze()  # pytest then looks for garbage, to warn of it


MOST_TEXTS, MOST_TEXT = 2000, 1 << 20


def _texts(owned: list[str]) -> set[bytes]:
    """Returns the texts of the Python files in the task's own folders, up to a limit."""
    files = (path for place in owned for path in Path(place).rglob("*.py") if path.is_file())
    return {path.read_bytes() for path in islice(files, MOST_TEXTS) if path.stat().st_size <= MOST_TEXT}


def _instrument_tests(owned: list[str]) -> None:
    """Makes pytest's own rewriting of test files add the probes first, in the task's own files and in their copies,
    since many scripts copy their tests before they run them."""
    original = rewrite.rewrite_asserts
    texts = _texts(owned)

    def with_probes(tree: ast.Module, source: bytes, path: str | None = None, config: Any = None) -> None:
        inside = path is not None and any(path == place or path.startswith(place + "/") for place in owned)
        if inside or source in texts:
            probes.instrument(tree)
        original(tree, source, path, config)

    rewrite.rewrite_asserts = with_probes  # type: ignore[assignment]


def _show_lines_alone() -> None:
    """Makes pytest skip the search for the statement around a line of a traceback. Of `--tb=short` it shows the line
    alone, and reading each file anew for each frame makes a failing run cost twice a passing one."""

    def nowhere(*_: object, **__: object) -> tuple[ast.AST, int, int]:
        raise SyntaxError  # pytest then takes the lines up to the one that is shown

    pytest_code.getstatementrange_ast = nowhere  # type: ignore[attr-defined]


def _read_sources_once() -> None:
    """Makes pytest read each file of a traceback once. It asks `inspect`, which first looks for the module of the file
    among all modules, and does it again for each frame, in each canary's report too."""
    sources: dict[str, Source] = {}

    def find_source(code: Any) -> tuple[Source | None, int]:
        name = code.co_filename if isinstance(code, types.CodeType) else ""
        linecache.checkcache(name)
        is_made = name.startswith("<") and name.endswith(">")  # of a text: `inspect` would look through all modules
        lines = linecache.getlines(name) if is_made or (os.path.isabs(name) and os.path.isfile(name)) else None
        if not lines:
            return (None, -1) if is_made else findsource(code)
        if name not in sources or sources[name].raw_lines is not lines:
            source = sources[name] = Source()
            source.lines, source.raw_lines = [line.rstrip() for line in lines], lines
        return sources[name], code.co_firstlineno - 1

    vars(pytest_code)["findsource"] = find_source


def _resolve_ignored_once() -> None:
    """Makes pytest resolve a `collect_ignore` once, and not for each file and folder that it looks at."""
    resolve = pytest.Config._getconftest_pathlist
    resolved: dict[tuple[Any, ...], list[Path]] = {}

    def find_ignored(config: pytest.Config, name: str, path: Path) -> list[Path] | None:
        try:
            module, given = config.pluginmanager._rget_with_confmod(name, path)
            key = (name, module.__file__, *given)
            if key not in resolved:
                resolved[key] = resolve(config, name, path) or []
        except (KeyError, TypeError):  # nothing is ignored, or something odd
            return resolve(config, name, path)
        return list(resolved[key])

    pytest.Config._getconftest_pathlist = find_ignored  # type: ignore[method-assign, assignment]


def _arguments(config: dict[str, Any]) -> list[str]:
    ours = ["-p", "no:cacheprovider"]
    if not config.get("script"):
        ours += ["-c", "/dev/null", "--rootdir", config["rootdir"], "--import-mode=importlib", "-q", "--color=no"]
        ours += ["--tb=short", "--continue-on-collection-errors", "--confcutdir", config["rootdir"]]
    return [*ours, *config["args"]]


def _splice(config: dict[str, Any], teller: RecordWriter) -> list[object]:
    """Returns the plugin that calls entry points at a worker, if the configuration has one; else None."""
    if "splice" not in config:
        return []
    worker = tuple(config["worker"]) or None
    for fd in config["worker"]:
        os.set_inheritable(fd, False)
    sys.path.insert(0, config["splice"]["programs"])
    import splice_plugin  # type: ignore[import-not-found]  # its folder is known only now

    del sys.path[0]
    return [splice_plugin.SplicePlugin(config["splice"], worker, teller.tell)]


def run_tests(config: dict[str, Any], fd: int) -> int:
    """Runs pytest in this process and returns its exit code; results go to a descriptor."""
    os.set_inheritable(fd, False)
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined]  # Python 3.11 keeps the parent's
    teller = RecordWriter(fd, config.pop("nonce"))
    sys.argv[:] = ["pytest", *config["args"]]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    for root in config.get("roots", ()):
        sys.path.append(root)
    if config.get("module"):
        sys.path.append(config["cwd"])
    _name_folders_alike()
    probes.install(lambda where: teller.tell("equal", where=where))
    _instrument_tests(config.get("owned", ["/tests"]))
    _read_sources_once()
    _resolve_ignored_once()
    if not config.get("script"):
        _show_lines_alone()
    plugins = [Recorder(teller, config), *_splice(config, teller)]
    if "splice" in config:
        gc.disable()  # until the tests are collected: what that makes stays
    if "control" in config:
        plugins.append(ForkPoint(config["control"], config["outputs"], [teller, *plugins]))
    code = int(pytest.main(_arguments(config), plugins=plugins))
    if "splice" in config:
        end_early(code)
    return code


def _name_folders_alike() -> None:
    """Makes `tmp_path` a numbered folder. Pytest names it after the test and its parameters, what is expected among
    them, and a program that is started there reads its working directory."""

    def make_folder(request: Any, factory: Any) -> Path:  # noqa: ARG001
        return Path(factory.mktemp("test", numbered=True))

    tmpdir._mk_tmp = make_folder
