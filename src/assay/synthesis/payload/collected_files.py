"""Test files that are collected once, in the process that has imported their package, for many runs in its forks.

To start a session and to collect a few tests costs pytest more than to run them. A run selects the tests that it asks
for from a collection of the same files, in its own order. It collects them itself where the collection could differ: a
file that it replaces is not one of the modules in memory, or a function that it replaces ran meanwhile.
For making tasks, never for judging.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as is the next
import live_functions  # type: ignore[import-not-found]
import pytest

MOST_COLLECTIONS = 500
Key = tuple[str, str, int]


class Collection(NamedTuple):
    """The tests of some files."""

    items: list[Any]
    modules: dict[str, ModuleType]
    """Modules of the tree that were imported to collect them."""
    ran: frozenset[Key]
    """Functions of the tree that ran meanwhile."""
    random_state: Any

    def select(self, tests: Sequence[str], root: str) -> list[Any] | None:
        """Returns the tests that are asked for, as pytest selects them; None if one is not there."""
        names: dict[str, list[Any]] = {}
        for item in self.items:
            file, *parts = item.nodeid.split("::")
            for count in range(len(parts)):
                names.setdefault("::".join([file, *parts[:count]]), []).append(item)
            bare = item.nodeid.partition("[")[0]
            for name in {bare, item.nodeid}:
                names.setdefault(name, []).append(item)
        selected: dict[int, Any] = {}
        for test in tests:
            found = names.get(test.removeprefix(root))
            if not found:
                return None
            selected.update((id(item), item) for item in found)
        return list(selected.values())


class _CollectedItems:
    """Pytest plugin that takes the items before any other plugin orders or drops them: that is a run's own matter."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Takes all items."""
        self.items, items[:] = list(items), []


class SharedFolders:
    """Pytest plugin that gives each collection the same nodes of folders. The fixtures of a `conftest.py` belong to the
    node that its folder first has, and fixtures of a package to one node of it."""

    def __init__(self) -> None:
        self._nodes: dict[Path, Any] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_directory(self, path: Path, parent: Any) -> Any:
        """Returns the node that the folder has."""
        made = yield
        known = self._nodes.setdefault(path, made)
        return known if known is not None and known.parent is parent else made


class CollectedFiles:
    """One session of pytest, and what was collected in it.

    Args:
        config: The configuration that the runs use, too.
        root: Folder of the tree, with a slash at its end.
        tests: The tree's test files: their modules are visible to the runs that use them alone.
        imported: Is called with what ran while tests were collected, if that imported other modules of the tree, which
            stay.
    """

    def __init__(self, config: Any, root: str, tests: Sequence[str], imported: Callable[[set[Key]], None]) -> None:
        self._config, self._root, self._tests, self._imported = config, root, frozenset(tests), imported
        self._random = random.getstate()
        self._collections: dict[tuple[str, ...], Collection | None] = {}
        self._session: Any = pytest.Session.from_config(config)
        self._session.exitstatus = pytest.ExitCode.OK
        config.hook.pytest_sessionstart(session=self._session)
        config.pluginmanager.register(SharedFolders())
        _remember_packages()
        _silence_terminal(config)
        _remember_hooks(self._session)

    def collect(self, tests: Sequence[str]) -> None:
        """Collects the files of some tests, unless that was done."""
        files = files_of(tests)
        if files not in self._collections and len(self._collections) < MOST_COLLECTIONS:
            self._collections[files] = None
            self._collections[files] = self._collect(files)

    def find(self, tests: Sequence[str], replaced: set[Key]) -> Collection | None:
        """Returns the collection that serves a run with some functions replaced; None if there is none."""
        found = self._collections.get(files_of(tests))
        return found if found is not None and not found.ran & replaced else None

    def run(self, tests: Sequence[str], collection: Collection | None) -> int:
        """Runs tests in this process, which must end afterwards; returns the exit code, as `pytest.main` does."""
        try:
            items = None if collection is None else collection.select(tests, self._root)
            if collection is None or items is None:
                self._config.hook.pytest_collection(session=self._session)
            else:
                self._use(collection, items)
            self._config.hook.pytest_runtestloop(session=self._session)
        except pytest.UsageError:  # a test that is not there
            return int(pytest.ExitCode.USAGE_ERROR)
        except pytest.Session.Failed:
            return int(pytest.ExitCode.TESTS_FAILED)
        except (KeyboardInterrupt, pytest.exit.Exception) as exc:
            code = getattr(exc, "returncode", None)
            return int(pytest.ExitCode.INTERRUPTED if code is None else code)
        except BaseException:  # noqa: BLE001 - as pytest ends a session
            return int(pytest.ExitCode.INTERNAL_ERROR)
        if self._session.testsfailed:
            return int(pytest.ExitCode.TESTS_FAILED)
        return int(pytest.ExitCode.OK if self._session.testscollected else pytest.ExitCode.NO_TESTS_COLLECTED)

    def _use(self, collection: Collection, items: list[Any]) -> None:
        sys.modules.update(collection.modules)
        random.setstate(collection.random_state)
        self._session.items = items
        self._config.hook.pytest_collection_modifyitems(session=self._session, config=self._config, items=items)
        self._config.hook.pytest_collection_finish(session=self._session)
        self._session.testscollected = len(items)

    def _collect(self, files: tuple[str, ...]) -> Collection | None:
        """Returns the collection; None if it failed, or left something but modules to later ones."""
        config, session = self._config, self._session
        modules, path, environment = dict(sys.modules), list(sys.path), dict(os.environ)
        ran: set[Key] = set()
        taken, recorder = _CollectedItems(), forked_tests.OutcomeRecorder({"id": "", "tests": files})
        random.setstate(self._random)
        config.args, config.args_source = list(files), config.ArgsSource.ARGS
        for plugin in (taken, recorder):
            config.pluginmanager.register(plugin)
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.start_global_capturing()
        capture.suspend_global_capture()
        is_whole = False
        sys.setprofile(note_code(self._root, ran))
        try:
            config.hook.pytest_collection(session=session)
            is_whole = not session.testsfailed and not recorder.problems
        except BaseException:  # noqa: BLE001 - whatever the tests raise: their runs collect them themselves
            pass
        finally:
            sys.setprofile(None)
        capture.stop_global_capturing()
        for plugin in (taken, recorder):
            config.pluginmanager.unregister(plugin)
        state, added = random.getstate(), self._take_out(modules, ran)
        is_whole = is_whole and sys.path == path and dict(os.environ) == environment
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(environment)
        session.testsfailed, session.items = 0, []
        return Collection(taken.items, added, frozenset(ran), state) if is_whole else None

    def _take_out(self, before: dict[str, ModuleType], ran: set[Key]) -> dict[str, ModuleType]:
        """Takes the modules of test files out of the table of modules, and returns them."""
        added = {name: module for name, module in sys.modules.items() if before.get(name) is not module}
        files = {name: str(getattr(module, "__file__", "")) for name, module in added.items()}
        own = {name: module for name, module in added.items() if files[name] in self._tests}
        for name in own:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})
        if any(file.startswith(self._root) and file not in self._tests for file in files.values()):
            self._imported(ran)
        return own


def _remember_hooks(session: Any) -> None:
    """Keeps which hooks apply to a path. They do not change: the tree's `conftest.py` is loaded."""
    session.gethookproxy = functools.cache(session.gethookproxy)


def _silence_terminal(config: Any) -> None:
    """Takes the terminal's hooks around a test away, whose text nothing reads. The plugin itself stays."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    for name in ("pytest_runtest_logstart", "pytest_runtest_logreport", "pytest_runtest_logfinish"):
        with contextlib.suppress(AttributeError, ValueError):  # pluggy of another version
            getattr(config.hook, name)._remove_plugin(terminal)


def _remember_packages() -> None:
    """Has pytest import the `__init__.py` of a package of tests once: it looks for it again before each group of tests,
    which costs as much as a small test."""
    from _pytest import python

    import_module, known = python.importtestmodule, dict[Path, Any]()

    def import_once(path: Path, config: Any) -> Any:
        if path.name != "__init__.py":
            return import_module(path, config)
        if path not in known:
            known[path] = import_module(path, config)
        return known[path]

    python.importtestmodule = import_once


def files_of(tests: Sequence[str]) -> tuple[str, ...]:
    """Returns the files of some tests, in the order of the tests."""
    return tuple(dict.fromkeys(test.partition("::")[0] for test in tests))


def note_code(root: str, ran: set[Key]) -> Callable[[Any, str, Any], None]:
    """Returns a profile function that notes the functions below a folder that run."""

    def note(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            ran.add(live_functions.code_key(frame.f_code))

    return note
