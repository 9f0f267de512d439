"""Observes which files the processes of a command open and execute, to find those that loaded bytes of an agent.

The kernel stops each such call and notifies this process (seccomp notification), which always continues it: nothing is
refused. A path can change while it is examined, and an open does not distinguish data from code. Hence
taint is monotone: a process that loaded one byte of the agent stays tainted, with all its descendants. A raced
path can only hide a load, and a process that races is already tainted.

Roles of processes that loaded such a byte, by descent first: `agent` (a program of the agent, or an interpreter started
on a file of the judged tree), `reader` (one of a short list of programs that read the file in their command line as
data), `judge` (all others: a process of the judge, in which the agent's code may now run).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import time
from typing import Any, NamedTuple

from .agent_files import AgentFiles
from .callers import CallerMemory, Process, absolute_path, name_from_here, read_process, read_program, read_words
from .interpreters import find_program_word, is_interpreter
from .readers import digest_program, digest_readers, reads_as_data
from .syscalls import NUMBERS

RECEIVE, ANSWER, SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
CONTINUE, WAKE_ON_THIS_CPU = 1, 1
_CALL, _REPLY = struct.Struct("=QI4xi12x6Q"), struct.Struct("=QqiI")
_NOTHING = bytes(_CALL.size)
MOST_LOADS, MOST_PROCESSES, MOST_ANCESTORS = 64, 64, 64
MOST_TAINTED = 8192
"""Maximum number of remembered processes before ended ones are removed."""


class _Call(NamedTuple):
    """Positions of the arguments of one system call."""

    kind: str
    folder: int | None
    path: int
    flags: int | None = None
    name: tuple[int | None, int] | None = None
    """Positions of folder and path of the file's new name."""


_CALLS = {
    NUMBERS[name]: call
    for name, call in {
        "open": _Call("open", None, 0, 1),
        "openat": _Call("open", 0, 1, 2),
        "openat2": _Call("open", 0, 1),
        "execve": _Call("exec", None, 0),
        "execveat": _Call("exec", 0, 1),
        "link": _Call("name", None, 0, name=(None, 1)),
        "linkat": _Call("name", 0, 1, name=(2, 3)),
        "rename": _Call("name", None, 0, name=(None, 1)),
        "renameat": _Call("name", 0, 1, name=(2, 3)),
        "renameat2": _Call("name", 0, 1, name=(2, 3)),
    }.items()
    if name in NUMBERS
}


class Observer:
    """Observes every later command, and records the files that its processes loaded.

    The judged programs in `tree` are the agent's if they existed before the first command.
    """

    def __init__(self, tree: str) -> None:
        self._tree = os.fsencode(tree).rstrip(b"/") + b"/"
        self._started = time.time()
        self._memory = CallerMemory()
        self._buffer = bytearray(_CALL.size)
        self._files = AgentFiles(self.fail)
        self._image_readers = digest_readers()
        self._readers: dict[str, str] = {}
        self._digests: dict[tuple[int, int], str] = {}
        self._commands: dict[int, bytes | None] = {}
        """Process id of each command to its initial program, until that is executed."""
        self._tainted: dict[int, tuple[bytes, str]] = {}
        """Process id to its start and its role."""
        self._processes: list[dict[str, Any]] = []
        self._process_total = 0
        self._loads: dict[tuple[str, ...], dict[str, Any]] = {}
        self._counts: dict[str, int] = {}
        self._problem = ""
        self.calls = 0

    def add_paths(self, paths: list[str]) -> None:
        """Adds files of the agent. Must be called before the first command."""
        for path in paths:
            self._files.add_path(os.fsencode(path))
            with contextlib.suppress(OSError):  # the name alone still counts
                self.add_file(os.lstat(path))

    def add_file(self, status: os.stat_result) -> None:
        """Adds a file by its identity, which no other name hides."""
        self._files.add_file(status)

    def add_command(self, pid: int, program: str, listener: int) -> None:
        """Starts answering for a command, whose first call is the execution of `program`."""
        self._commands[pid] = os.fsencode(program)
        with contextlib.suppress(OSError):  # not supported before Linux 6.6, where it is slower
            fcntl.ioctl(listener, SET_FLAGS, WAKE_ON_THIS_CPU)

    def fail(self, problem: str) -> None:
        """Records that the observation is incomplete; the first reason is kept."""
        self._problem = self._problem or problem[:200]

    def answer(self, listener: int) -> None:
        """Examines one call and continues it in any case."""
        self._buffer[:] = _NOTHING  # required by the kernel
        try:
            fcntl.ioctl(listener, RECEIVE, self._buffer)
        except OSError:
            return  # the caller was killed meanwhile
        number, tid, call, *arguments = _CALL.unpack(self._buffer)
        self.calls += 1
        try:
            if call in _CALLS:
                self._inspect_call(tid, _CALLS[call], arguments)
        except (OSError, ValueError, LookupError) as exc:
            if os.path.exists(f"/proc/{tid}"):
                self.fail(f"a call could not be read: {exc}")
        with contextlib.suppress(OSError):  # the caller was killed
            fcntl.ioctl(listener, ANSWER, _REPLY.pack(number, 0, 0, CONTINUE))

    def report(self) -> dict[str, Any]:
        """Returns the observations, with bounded lists and their totals."""
        return {
            "complete": not self._problem, "problem": self._problem, "calls": self.calls,
            "readers": self._readers, "counts": self._counts,
            "loads": list(self._loads.values())[:MOST_LOADS], "load_total": len(self._loads),
            "tainted": self._processes, "tainted_total": self._process_total,
        }  # fmt: skip

    def _inspect_call(self, tid: int, call: _Call, arguments: list[int]) -> None:
        mode = os.O_RDONLY if call.flags is None else arguments[call.flags] & os.O_ACCMODE
        if mode != os.O_RDONLY:
            self._note_writing(tid, call, arguments)
        if mode == os.O_WRONLY:
            return
        text = self._take_first_program(tid) if call.kind == "exec" else None
        text = self._memory.read_text(tid, arguments[call.path]) if text is None else text
        if call.kind == "exec":
            self._memory.forget()
            self._note_inputs(self._files.note_execution(tid))
            if self._process_total:
                self._inherit(read_process(tid))
        elif self._files.begins_with_input(tid):
            self._note_input(tid)
        folder = None if call.folder is None else _signed(arguments[call.folder])
        try:
            status = os.stat(name_from_here(tid, folder, text))
        except OSError:
            return  # the call will fail too
        if not stat.S_ISREG(status.st_mode):
            return
        path = text
        if not self._files.has_file((status.st_dev, status.st_ino)):
            known = self._files.find_path(tid, folder, text)
            if known is None:
                return
            path = known
            self.add_file(status)
        if call.name is None:
            self._note(read_process(tid), call.kind, path)
        else:  # an overlay can change the identity of a renamed file
            folder = None if call.name[0] is None else _signed(arguments[call.name[0]])
            text = self._memory.read_text(tid, arguments[call.name[1]])
            self._files.add_path(absolute_path(tid, folder, text))

    def _note_writing(self, tid: int, call: _Call, arguments: list[int]) -> None:
        """Adds a file opened for writing by a process that reads a copy from a pipe, or may do so soon."""
        folder = None if call.folder is None else _signed(arguments[call.folder])
        text = self._memory.read_text(tid, arguments[call.path])
        if self._files.is_fed(tid):
            self._note_inputs(self._files.add_written(tid, folder, text))
        else:
            self._files.remember_written(tid, folder, text)

    def _take_first_program(self, tid: int) -> bytes | None:
        """Returns the initial program of a command, whose arguments are still in this process's memory."""
        program = self._commands.get(tid)
        if program is not None:
            self._commands[tid] = None
        return program

    def _note(self, process: Process, kind: str, path: bytes) -> None:
        """Records a load, and taints the process."""
        role = self._inherit(process) or self._role(process, kind, path)
        self._load(process, role, kind, path)
        if role == "reader":
            self._note_inputs(self._files.add_output_of(process.pid))

    def _note_inputs(self, takers: list[int]) -> None:
        for taker in takers:
            with contextlib.suppress(OSError):  # the process ended
                if self._files.takes_program_from_input(taker):
                    self._note_input(taker)

    def _note_input(self, tid: int) -> None:
        """Records an interpreter that reads its program from a pipe with a copy."""
        process = read_process(tid)
        self._load(process, self._inherit(process) or "judge", "open", b"/dev/stdin")

    def _load(self, process: Process, role: str, kind: str, path: bytes) -> None:
        """Records a load with its role."""
        program, mark = read_program(process.pid)
        if role != "reader":
            self._taint(process, role, kind)
        self._counts[role] = self._counts.get(role, 0) + 1
        key = (role, kind, os.fsdecode(program), os.fsdecode(path))
        if key in self._loads or len(self._loads) > MOST_LOADS:
            return
        if mark not in self._digests:
            self._digests[mark] = digest_program(process.pid)
        load: dict[str, Any] = dict(zip(("role", "call", "program", "path"), key, strict=True))
        self._loads[key] = {**load, "digest": self._digests[mark], "pid": process.pid}
        if role == "reader" and key[2] in self._image_readers:
            self._readers[key[2]] = self._image_readers[key[2]]

    def _role(self, process: Process, kind: str, path: bytes) -> str:
        """Returns the role of a process without tainted ancestors."""
        program, mark = read_program(process.pid)
        words = read_words(process.pid)
        if kind == "open" and not self._files.has_file(mark) and reads_as_data(program, words, path):
            return "reader"
        if process.pid in self._commands:  # its exit status decides
            return "judge"
        started = is_interpreter(program) and self._is_started_in_tree(process.pid, words)
        own = kind == "exec" or self._files.has_file(mark) or started
        return "agent" if own else "judge"

    def _is_started_in_tree(self, pid: int, words: list[bytes]) -> bool:
        """Returns True if a process was started on a program that existed in the judged tree before."""
        named = find_program_word(words)
        if named is None:
            return False
        try:
            status = os.stat(name_from_here(pid, None, words[named]))
            real = os.path.realpath(absolute_path(pid, None, words[named]))
        except OSError:
            return False
        lies_there = (real + b"/").startswith(self._tree) and status.st_ctime < self._started
        return lies_there or self._files.has_file((status.st_dev, status.st_ino))

    def _inherit(self, process: Process) -> str | None:
        """Returns the role of a process by its own taint or by descent; None for neither."""
        if not self._process_total:
            return None
        ancestry = [process]
        while len(ancestry) <= MOST_ANCESTORS:
            one = ancestry[-1]
            start, role = self._tainted.get(one.pid, (b"", ""))
            if start == one.start:
                for descendant in ancestry[:-1]:
                    self._taint(descendant, role, "descent")
                return role
            if one.pid in self._commands:
                return None
            if one.parent in (0, 1, os.getpid()):
                break
            ancestry.append(read_process(one.parent))
        return "judge"  # the origin of an orphan is unknown

    def _taint(self, process: Process, role: str, by: str) -> None:
        start, known = self._tainted.get(process.pid, (b"", ""))
        if start == process.start and known in (role, "judge"):
            return
        if len(self._tainted) >= MOST_TAINTED:  # ended processes have no children: those are orphans now
            self._tainted = {pid: one for pid, one in self._tainted.items() if os.path.exists(f"/proc/{pid}")}
        self._tainted[process.pid] = (process.start, role)
        self._process_total += 1
        if len(self._processes) < MOST_PROCESSES:
            self._processes.append({"pid": process.pid, "parent": process.parent, "role": role, "by": by})


def _signed(argument: int) -> int:
    """Returns a descriptor as the kernel extracts it from a wider argument."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low & 1 << 31 else low
