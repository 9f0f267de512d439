"""Files and pipes that contain bytes of an agent, by every name under which a command can reach them.

A file is known by its path and by its identity. The output of a program that reads such a file as data is a copy: the
regular files behind its output are the agent's too, and so is a pipe. A process whose input is such a pipe hands the
copy on: to the files that it has open for writing or opens later, and to the pipe behind its own output.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable

from .callers import absolute_path, name_from_here, read_program, read_words
from .interpreters import reads_program_from_input

MOST_NAMES, MOST_NAME_BYTES, MOST_PIPES = 30_000, 8 << 20, 4096
_OUTPUTS = (b"1", b"2")
_DESCRIPTOR = re.compile(rb"/proc/\d+/fd/\d+")
_Identity = tuple[int, int]


class AgentFiles:
    """Bounded set of files, names and pipes that contain bytes of an agent; `fail` gets the reason if it is full."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail
        self._paths: set[bytes] = set()
        self._names = {b"", b".", b".."}
        """Last parts of `_paths`, and those that a path loses when it is made absolute."""
        self._remaining_bytes = MOST_NAME_BYTES
        self._files: set[_Identity] = set()
        self._pipes: set[_Identity] = set()
        self._opened: dict[_Identity, set[bytes]] = {}
        """Paths that threads opened for writing while their input was a pipe without such bytes: when it gets them, a
        thread that was let go on may not hold the file yet, so that its descriptors do not show it."""
        self._opened_count = 0
        self._fed_threads: set[int] = set()
        """Threads whose input is such a pipe and that may still execute a program."""

    def add_path(self, path: bytes) -> None:
        """Adds a name, which counts for any file that it refers to later."""
        if path in self._paths:
            return
        if len(self._paths) >= MOST_NAMES or len(path) > self._remaining_bytes:
            self._fail("too many names of the agent's files")
            return
        self._remaining_bytes -= len(path)
        self._paths.add(path)
        self._names.add(path.rpartition(b"/")[2])

    def add_file(self, status: os.stat_result) -> None:
        """Adds a regular file by its identity, which no other name hides."""
        if not stat.S_ISREG(status.st_mode):
            return
        if len(self._files) < MOST_NAMES:
            self._files.add(_identity(status))
        else:
            self._fail("too many files of the agent's")

    def has_file(self, identity: _Identity) -> bool:
        """Returns True if a file's identity is known."""
        return identity in self._files

    def find_path(self, tid: int, folder: int | None, text: bytes) -> bytes | None:
        """Returns the absolute path of what a thread calls `text`, if that path is known."""
        if text.rpartition(b"/")[2] not in self._names:  # avoids resolving the folder for most calls
            return None
        path = absolute_path(tid, folder, text)
        return path if path in self._paths else None

    def add_output_of(self, pid: int) -> list[int]:
        """Adds the outputs of a reader, and returns the processes whose input they are."""
        return self._add_outputs(pid, _OUTPUTS)

    def is_fed(self, tid: int) -> bool:
        """Returns True if a thread's input is a pipe that contains bytes of the agent."""
        if not self._pipes:
            return False
        try:
            return _identity(os.stat(b"/proc/%d/fd/0" % tid)) in self._pipes
        except OSError:
            return False

    def remember_written(self, tid: int, folder: int | None, text: bytes) -> None:
        """Remembers the target that a thread opens for writing, if its input is a pipe, which may be fed meanwhile."""
        try:
            status = os.stat(b"/proc/%d/fd/0" % tid)
        except OSError:
            return
        if stat.S_ISFIFO(status.st_mode) and self._opened_count < MOST_NAMES:
            paths = self._opened.setdefault(_identity(status), set())
            path = absolute_path(tid, folder, text)
            if path not in paths:
                self._opened_count += 1
                paths.add(path)

    def note_execution(self, tid: int) -> list[int]:
        """Adds the outputs of a thread that executes a program with such an input; returns the processes that read
        them."""
        if not self.is_fed(tid):
            return []
        self._await_program([tid])
        return self._add_outputs(tid, None)

    def begins_with_input(self, tid: int) -> bool:
        """Returns True for the first open of an interpreter that reads its program from such a pipe."""
        if tid not in self._fed_threads:
            return False
        self._fed_threads.discard(tid)
        return self.takes_program_from_input(tid)

    def takes_program_from_input(self, tid: int) -> bool:
        """Returns True if a process is an interpreter that reads its program from such a pipe."""
        return self.is_fed(tid) and reads_program_from_input(read_program(tid)[0], read_words(tid))

    def add_written(self, tid: int, folder: int | None, text: bytes) -> list[int]:
        """Adds the target that a thread with such an input opens for writing: a file, also one that this call creates,
        or the pipe behind a descriptor. Returns the processes whose input it is."""
        name = name_from_here(tid, folder, text)
        if not _DESCRIPTOR.fullmatch(name):
            path = absolute_path(tid, folder, text)
            self.add_path(path)
            self.add_path(os.path.realpath(path))
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name)
            self.add_file(status)
            if stat.S_ISFIFO(status.st_mode):
                return self._follow([_identity(status)])
        return []

    def _add_outputs(self, pid: int, names: tuple[bytes, ...] | None) -> list[int]:
        """Adds the output of a process, through pipes to the end; None: whatever it holds for writing."""
        return self._follow(self._add_open_files(pid, names))

    def _follow(self, pipes: list[_Identity]) -> list[int]:
        """Adds pipes and what those hand on whose input they are; returns these processes."""
        reached: list[int] = []
        while pipes:
            pipe = pipes.pop()
            if pipe in self._pipes or not self._add_pipe(pipe):
                continue
            takers = [taker for taker in _processes() if _has_input(taker, pipe)]
            self._await_program(takers)
            reached += takers
            for taker in takers:
                pipes += self._add_open_files(taker, None)
        return reached

    def _await_program(self, tids: list[int]) -> None:
        if len(self._fed_threads) + len(tids) > MOST_NAMES:
            self._fail("too many processes take bytes of the agent's from pipes")
        else:
            self._fed_threads.update(tids)

    def _add_open_files(self, pid: int, names: tuple[bytes, ...] | None) -> list[_Identity]:
        """Adds the files behind a process's descriptors and returns its output pipes."""
        pipes: list[_Identity] = []
        top = b"/proc/%d/fd/" % pid
        try:
            numbers = os.listdir(top) if names is None else names
        except OSError:
            return pipes  # it ended
        for number in numbers:
            with contextlib.suppress(OSError):
                status = os.stat(top + number)
                if number not in _OUTPUTS and not _is_written(pid, number):
                    continue
                if stat.S_ISREG(status.st_mode):
                    self.add_file(status)
                    self.add_path(os.readlink(top + number))
                elif stat.S_ISFIFO(status.st_mode):
                    pipes.append(_identity(status))
        return pipes

    def _add_pipe(self, identity: _Identity) -> bool:
        if len(self._pipes) >= MOST_PIPES:
            self._fail("too many pipes that hold bytes of the agent's")
            return False
        self._pipes.add(identity)
        if self._opened_count >= MOST_NAMES:
            self._fail("too many files are written by processes that read from pipes")
        for path in self._opened.pop(identity, ()):
            self.add_path(path)
            self.add_path(os.path.realpath(path))
            with contextlib.suppress(OSError):
                self.add_file(os.stat(path))
        return True


def _identity(status: os.stat_result) -> _Identity:
    return (status.st_dev, status.st_ino)


def _processes() -> list[int]:
    own = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]


def _has_input(pid: int, pipe: _Identity) -> bool:
    try:
        return _identity(os.stat(b"/proc/%d/fd/0" % pid)) == pipe
    except OSError:
        return False


def _is_written(pid: int, number: bytes) -> bool:
    with open(b"/proc/%d/fdinfo/%s" % (pid, number), "rb") as handle:
        flags = next((line for line in handle if line.startswith(b"flags:")), b"flags: 0")
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
