"""Runs a test without the hooks of pytest whose reports nothing reads: they cost more than most tests.

A test is set up, called and torn down as pytest does it, once, in one capture of its output and its log. That serves a
function whose outcome no plugin decides: no mark but its parameters, no fixture of pytest's own that waits for a hook,
and no hook of the package's in the protocol. Other tests have pytest's protocol. For making tasks, never for judging.
"""

from __future__ import annotations

import contextlib
import inspect
import unittest
from collections.abc import Callable
from typing import Any

import forked_tests  # type: ignore[import-not-found]  # copied beside this file
import pytest

SKIPPED_HOOKS = tuple(
    f"pytest_runtest_{name}"
    for name in ("protocol", "logstart", "setup", "call", "teardown", "makereport", "logreport", "logfinish")
)
"""Hooks that a bare run does not call."""
PLAIN_MARKS = ("parametrize", "usefixtures")
PLAIN_FIXTURES = ("doctest_namespace", "monkeypatch")
"""Fixtures of pytest's own that need no hook of a test's protocol."""
XUNIT = "_xunit_setup_"
"""Beginning of the names of the fixtures that pytest makes from `setup_method` and its like; they need no hook."""
PARAMETER = "get_direct_param_fixture_func"
"""Name of the function of a fixture that pytest makes from a parameter."""
RECORDERS = ("forked_tests", "bare_items")
"""Modules of our own plugins that only note an outcome, which `BareItems.run` returns."""


class BareItems:
    """Runs the items of one session that fit; `run` returns the outcome.

    Raises `AttributeError` or `ImportError` where pytest has another inside.
    """

    def __init__(self, config: Any) -> None:
        from _pytest.logging import caplog_records_key
        from _pytest.runner import _update_current_test_var
        from _pytest.warnings import catch_warnings_for_item

        self._config = config
        self._capture = config.pluginmanager.getplugin("capturemanager").item_capture
        self._log = config.pluginmanager.getplugin("logging-plugin")._runtest_for
        self._records, self._name_phase, self._catch_warnings = (
            caplog_records_key,
            _update_current_test_var,
            catch_warnings_for_item,
        )
        self._known: dict[int, tuple[Any, bool]] = {}

    def fits(self, item: Any) -> bool:
        """Returns whether nothing but a test's own code decides its outcome."""
        _, fits = self._known.get(id(item), (None, None))
        if fits is None:
            fits = type(item) is pytest.Function and _is_plain(item) and _has_plain_hooks(item)
            self._known[id(item)] = item, fits
        return fits

    def run(self, item: Any, following: Any) -> str:
        """Runs an item that fits; returns its outcome."""
        if not item._request:
            item._initrequest()
        item.stash[self._records] = {}
        outcome = "passed"
        try:
            with (
                self._catch_warnings(config=self._config, ihook=item.ihook, when="runtest", item=item),
                self._capture("call", item),
                self._log(item, "call"),
            ):
                outcome = self._run_phases(item, following)
        finally:
            item._request, item.funcargs = False, None
            item._report_sections.clear()
        return outcome

    def _run_phases(self, item: Any, following: Any) -> str:
        state, outcome = item.session._setupstate, "error"
        try:
            self._name_phase(item, "setup")
            state.setup(item)
            outcome = "failed"
            self._name_phase(item, "call")
            item.runtest()
            outcome = "passed"
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except (pytest.skip.Exception, unittest.SkipTest, pytest.xfail.Exception):
            outcome = "skipped"
        except BaseException:  # noqa: BLE001 - as pytest: whatever a test raises is its outcome
            pass
        try:
            self._name_phase(item, "teardown")
            is_ending = item.session.shouldfail or item.session.shouldstop
            state.teardown_exact(None if is_ending else following)
            self._name_phase(item, None)
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException:  # noqa: BLE001 - as above
            outcome = "error" if outcome in ("passed", "skipped") else outcome
        return outcome


def _is_plain(item: Any) -> bool:
    if any(mark.name not in PLAIN_MARKS for mark in item.iter_markers()):
        return False
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for fixture in definitions:
            if fixture.argname in PLAIN_FIXTURES or XUNIT in fixture.argname or fixture.func.__name__ == PARAMETER:
                continue
            is_pytests = fixture.func.__module__.partition(".")[0] == "_pytest"
            # With a request a fixture asks for others by name, and adds marks.
            if is_pytests or "request" in fixture.argnames:
                return False
    return "request" not in inspect.signature(item.function).parameters


def _has_plain_hooks(item: Any) -> bool:
    plugins = [hook.plugin for name in SKIPPED_HOOKS for hook in getattr(item.ihook, name).get_hookimpls()]
    modules = {getattr(plugin, "__name__", "") or type(plugin).__module__ for plugin in plugins}
    return all(name in RECORDERS or name.partition(".")[0] == "_pytest" for name in modules)


class BareOutcomes(forked_tests.OutcomeRecorder):  # type: ignore[misc]
    """Records outcomes alone: to look up the files of a failure's frames costs more than many tests."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self._bare: list[Any] = []

    def describe(self, excinfo: Any, own: str) -> list[Any]:
        """Returns no details of a failure."""
        return []

    def bare_items(self, config: Any) -> Any:
        """Returns the `BareItems` of the session; None where pytest has another inside than they need."""
        if not self._bare:
            self._bare.append(None)
            with contextlib.suppress(AttributeError, ImportError):
                self._bare[0] = BareItems(config)
        return self._bare[0]


def run_items(
    session: Any,
    items: list[Any],
    begin: Callable[[str], None],
    end: Callable[[str], None],
    *,
    until_failure: bool = False,
) -> dict[str, str]:
    """Runs tests one after another in this process, optionally until one fails; returns their outcomes.

    They are noted by the recorder of the session, which has to be a `BareOutcomes`: to register another one in each
    fork costs as much as a test.
    """
    plugins = session.config.pluginmanager.get_plugins()
    recorder = next(plugin for plugin in plugins if isinstance(plugin, BareOutcomes))
    recorder.tests.clear()
    bare = recorder.bare_items(session.config)
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        begin(item.nodeid)
        if bare is not None and bare.fits(item):
            recorder.tests[item.nodeid] = [bare.run(item, following)]
        else:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        end(item.nodeid)
        if until_failure and recorder.tests.get(item.nodeid, [""])[0] in ("failed", "error"):
            with contextlib.suppress(Exception):
                session._setupstate.teardown_exact(None)  # what the next test would have shared
            break
    return {name: known[0] for name, known in recorder.tests.items()}
