"""A tree's package, imported once for many programs, each of which runs a version of it in a fork.

Importing the package and its `conftest.py` costs more than most programs do. A version that differs in the bodies of
functions gets their code replaced; one that differs otherwise, or in a function that ran while the package was
imported, is refused, and runs in a process that has imported nothing of the package.
For making tasks, never for judging.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import inspect
import itertools
import json
import marshal
import operator
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import collected_files  # type: ignore[import-not-found]  # copied beside this file, as are the next
import forked_tests  # type: ignore[import-not-found]
import live_functions  # type: ignore[import-not-found]
import shared_session  # type: ignore[import-not-found]
import versions_together  # type: ignore[import-not-found]

BYTE_CODE_HEADER = 16
IN_MEMORY: list[LoadedPackage] = []
"""The package of this process; empty where none is loaded."""


class ImportNeededError(Exception):
    """A version cannot be made from the package in memory."""


def in_child_or_here(
    batch: dict[str, Any], job: dict[str, Any], reply: Path, work: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Does work that runs tests in forks of its own alone: in a forked child, as `forked_tests.in_child`, or in this
    process, which then must end afterwards, if it is the only job and its tests are collected."""
    if len(batch["jobs"]) > 1 or not any(package.has_collected(job) for package in IN_MEMORY):
        result: dict[str, Any] = forked_tests.in_child(batch, job, reply, work)
        return result
    try:
        return work()
    except BaseException:  # noqa: BLE001 - as a child that ends without a result
        return {"id": job["id"], "ended": "died"}


class LoadedPackage:
    """The modules of a package in this process, and what ran while they were imported.

    Args:
        batch: `root`, `paths`, modules to `preload`, `tests` and `seed`.
        explain: Runs explain failures: pytest rewrites assertions.
        collects: Tests are collected here, too, and not by each run alone.
    """

    def __init__(self, batch: dict[str, Any], *, explain: bool, collects: bool) -> None:
        self._batch, self._explain, self._collects = batch, explain, collects
        self._root = batch["root"].rstrip("/") + "/"
        self._ran: set[tuple[str, str, int]] = set()
        self._texts: dict[str, bytes] = {}
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._replace_files, self._in_child = forked_tests.replaced_files, forked_tests.in_child
        self._is_refusing = False
        self.spared: set[int] = set()
        """Processes that programs share, which outlive them."""
        self.reference: list[tuple[FunctionType, CodeType]] = []
        """Functions that are replaced at present, with the reference's code."""
        self._collected: Any = None
        """The `CollectedFiles`; None where each run collects its tests."""
        self._run_warm = forked_tests.run_warm
        self.has_refused = False
        """True once a version could not be made from the package in memory."""

    def load(self) -> bool:
        """Configures pytest and imports the package, in a process that serves nothing else. Returns False if forks of
        it could not stand for fresh processes."""
        forked_tests.prepare(self._batch)
        sys.dont_write_bytecode = True
        sys.setprofile(collected_files.note_code(self._root, self._ran))
        try:
            session = shared_session.SharedSession(
                self._batch, forked_tests.start_pytest, explain=self._explain, loads_conftest=True
            )
            for name in self._batch["preload"]:
                importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - whatever the package raises: its runs import it themselves
            return False
        finally:
            sys.setprofile(None)
        if has_threads():
            return False
        self._remember()
        if self._collects and session.config is not None:
            tests = self._batch["tests"]
            self._collected = collected_files.CollectedFiles(session.config, self._root, tests, self._ran.update)
            session.share_collections(self._collected, self._find_collection)
        IN_MEMORY.append(self)
        forked_tests.start_pytest = session.start
        forked_tests.replaced_files, forked_tests.in_child = self.replaced, self.in_child
        drawn = random.getstate()  # a fork draws its own
        forked_tests.prepare = lambda _batch: random.setstate(drawn)
        forked_tests.preload = _do_nothing
        forked_tests.run_warm = self.run_warm
        gc.collect()
        gc.freeze()
        return True

    def share(self, program: str, request: str) -> None:
        """Imports a program before it runs in a fork, collects the tests of its request, and starts the process that
        proofs share. Ends this process if the tests started threads: a fork of it could stand for no other."""
        importlib.import_module(program)
        self._collect(request)
        if program == "splice_proof":
            import splice_proof  # type: ignore[import-not-found]  # copied here when the first proof begins

            self.spared = splice_proof.start_shared(self._batch)

    def functions_like(self, code: CodeType) -> list[FunctionType]:
        """Returns the package's functions at the place of some code: in its file, of its name, at its line."""
        key = live_functions.code_key(code)
        found = live_functions.FROZEN.get(code.co_filename, ())
        return [function for function in found if live_functions.code_key(function.__code__) == key]

    @contextlib.contextmanager
    def replaced(self, texts: dict[str, str | None], serial: int) -> Iterator[None]:
        """Replaces the texts of files inside the block, and the code of the functions that they define. What cannot be
        replaced is refused: nothing runs inside the block then."""
        self.reference = before = []
        try:
            for path, text in texts.items():
                for function, code in self._find_replacements(path, text):
                    before.append((function, function.__code__))
                    _set_code(function, code)
        except ImportNeededError:
            self._is_refusing = self.has_refused = True
        try:
            with self._replace_files(texts, serial):
                yield
        finally:
            self._is_refusing = False
            for function, code in reversed(before):
                function.__code__ = code

    def in_child(self, batch: dict[str, Any], job: dict[str, Any], reply: Path, callback: Any) -> dict[str, Any]:
        """Runs the callback in a forked child, as `forked_tests.in_child` does; a refused job has the result `cold`."""
        if self._is_refusing:
            return {"id": job["id"], "ended": "cold"}
        result: dict[str, Any] = self._in_child(batch, job, reply, callback)
        return result

    def run_warm(self, batch: dict[str, Any], aside: Path) -> dict[str, dict[str, Any]]:
        """Runs jobs that follow each other and have the same tests in one process, if they may be together, and warm
        jobs as `forked_tests.run_warm` does, but where their tests are collected already."""
        results: dict[str, dict[str, Any]] = {}
        groups = itertools.groupby(batch["jobs"], key=operator.itemgetter("tests")) if batch.get("together") else ()
        for _, group in groups:
            jobs = list(group)
            if len(jobs) > 1 and self._serves(jobs):
                results |= versions_together.run_together(self, {**batch, "jobs": jobs}, aside)
        if results or self._serves(batch["jobs"]):
            return results
        return dict(self._run_warm(batch, aside))

    def _serves(self, jobs: list[dict[str, Any]]) -> bool:
        """Returns whether the tests of jobs, which are the same, are collected."""
        is_collected = self._collected is not None and self._collected.find(jobs[0]["tests"], set()) is not None
        return is_collected and all(self._replaces_imported(job) for job in jobs)

    def has_collected(self, job: dict[str, Any]) -> bool:
        """Returns whether a job's tests need not be collected, and its version is made."""
        return self._collected is not None and not self._is_refusing and self._find_collection(job) is not None

    def _collect(self, request: str) -> None:
        if self._collected is None:
            return
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            for job in json.loads(Path(request).read_bytes())["jobs"]:
                if self._replaces_imported(job):
                    self._collected.collect(job["tests"])
        if has_threads():
            os._exit(1)
        self._remember()
        gc.collect()
        gc.freeze()

    def _find_collection(self, job: dict[str, Any]) -> Any:
        """Returns the collection that serves a job; None if the job has to collect its tests."""
        entries = job.get("splice", {}).get("entries", ())
        if not self._replaces_imported(job) or any(module not in sys.modules for module, _ in entries):
            return None
        replaced = {live_functions.code_key(code) for _, code in self.reference}
        return self._collected.find(job["tests"], replaced)

    def _replaces_imported(self, job: dict[str, Any]) -> bool:
        """Returns whether all files that a job replaces were imported with the package."""
        return {*job.get("write", ()), *job.get("base", ())} <= self._texts.keys()

    def _remember(self) -> None:
        """Notes the package's files and functions before they are frozen, which hides them from the collector."""
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if isinstance(path, str) and path.startswith(self._root) and path not in self._texts:
                with contextlib.suppress(OSError):
                    self._texts[path] = Path(path).read_bytes()
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename.startswith(self._root):
                live_functions.FROZEN.setdefault(thing.__code__.co_filename, []).append(thing)
                self._functions.setdefault(live_functions.code_key(thing.__code__), []).append(thing)

    def _find_replacements(self, path: str, text: str | None) -> Iterator[tuple[FunctionType, CodeType]]:
        """Yields the functions in memory whose code differs in another text of a file, with that code."""
        if not path.startswith(self._root):
            return
        if path not in self._texts:
            if path.endswith(".py") and not path.endswith(shared_session.CONFTEST):
                return  # a test file, which nothing has imported
            raise ImportNeededError(f"{path} may have been read")
        if text is None:
            raise ImportNeededError(f"{path} is removed")
        try:
            new = compile(text.encode(), path, "exec", dont_inherit=True)
            pairs = list(find_differences(self._compile_original(path), new))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            raise ImportNeededError(str(exc)) from exc
        for old, code in pairs:
            key, is_moved = live_functions.code_key(old), describe_code(old) == describe_code(code)
            known = self._functions.get(key, [])
            functions = [function for function in known if function.__code__ == old]
            # A function inside another one may be made by that one later; two on one line may have one name.
            is_there = functions == known and (known or "<locals>" in old.co_qualname)
            if not is_moved and (key in self._ran or _docstring(old) != _docstring(code) or not is_there):
                raise ImportNeededError(f"{old.co_qualname} shaped what was imported")
            for function in functions:
                yield function, code

    def _compile_original(self, path: str) -> CodeType:
        text = self._texts[path]
        code = read_byte_code(path, text)
        if code is not None and code.co_filename == path:
            return code
        return compile(text, path, "exec", dont_inherit=True)


def read_byte_code(path: str, text: bytes) -> CodeType | None:
    """Returns the code of a text from the byte code beside its file; None if there is none of this text."""
    with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
        data = Path(importlib.util.cache_from_source(path)).read_bytes()
        is_hashed = data[:4] == importlib.util.MAGIC_NUMBER and data[4] & 1
        if is_hashed and data[8:BYTE_CODE_HEADER] == importlib.util.source_hash(text):
            code = marshal.loads(data[BYTE_CODE_HEADER:])
            return code if isinstance(code, CodeType) else None
    return None


def find_differences(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yields the functions whose code or lines differ. Raises `ValueError` if anything else differs."""
    if _is_identical(old, new):
        return
    is_function = bool(old.co_flags & inspect.CO_OPTIMIZED and old.co_flags & inspect.CO_NEWLOCALS)
    is_comprehension = old.co_name.startswith("<") and old.co_name not in ("<module>", "<lambda>")
    if is_function and not is_comprehension:
        yield old, new
    elif "<locals>" not in old.co_qualname and _describe_outside(old, inside=is_comprehension) != _describe_outside(
        new, inside=is_comprehension
    ):
        raise ValueError("code outside functions differs")
    pairs = list(zip(_inner(old), _inner(new), strict=False))
    if len(pairs) == max(len(_inner(old)), len(_inner(new))) and all(a.co_qualname == b.co_qualname for a, b in pairs):
        for one, other in pairs:
            yield from find_differences(one, other)
    elif not is_function:
        raise ValueError("other functions are defined")


def describe_code(code: CodeType) -> tuple[Any, ...]:
    """Returns what code does, without its lines."""
    return (
        *_describe_outside(code, inside=True),
        *(code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        *(code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable),
    )


def _describe_outside(code: CodeType, *, inside: bool) -> tuple[Any, ...]:
    constants = [
        (describe_code(one) if inside else one.co_qualname) if isinstance(one, CodeType) else (type(one), repr(one))
        for one in code.co_consts
    ]
    return code.co_code, code.co_names, constants


def _is_identical(old: CodeType, new: CodeType) -> bool:
    return old == new and old.co_linetable == new.co_linetable and all(map(_is_identical, _inner(old), _inner(new)))


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _set_code(function: FunctionType, code: CodeType) -> None:
    try:
        function.__code__ = code
    except ValueError as exc:
        raise ImportNeededError(str(exc)) from exc


def _docstring(code: CodeType) -> str | None:
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


def has_threads() -> bool:
    """Returns whether this process has more than its first thread."""
    return threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1


def _do_nothing(*_: Any) -> None:
    pass
