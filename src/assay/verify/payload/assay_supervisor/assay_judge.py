"""The program `assay-judge` in a test script's PATH, which asks the host to start a judged program in another sandbox.

    assay-judge run -- COMMAND [ARGUMENT]...    exit status, input and outputs are the program's
    assay-judge read PATH                       prints a file of the program's tree

The program gets only pipes: this process copies between them and the script's standard input and outputs, so no
judged process ever holds a descriptor of the script's. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import stat
import sys

SOCKET = "/run/verifier/judge"
PIECE = 1 << 16
PIPE_BYTES = 4096
"""Capacity of the program's input: what it does not read of a pipe is lost to the script, so little is sent ahead."""
FAILED = 125
"""Exit status if the program was not started."""
_HAND_ON = frozenset(
    {"chrt", "env", "ionice", "nice", "nohup", "setpriv", "setsid", "stdbuf", "taskset", "time", "timeout"}
)
"""Programs that start another one and leave their standard input to it. Any other one may have read from it."""


def _is_half_read(fd: int) -> bool:
    """Returns whether a descriptor is a file or pipe that the script has begun to read, as in a loop over its cases:
    what is left of it is the script's, answers perhaps, and no program's input."""
    kind = os.fstat(fd)
    if stat.S_ISREG(kind.st_mode):
        return os.lseek(fd, 0, os.SEEK_CUR) > 0
    return stat.S_ISFIFO(kind.st_mode) and any(map(_has_read, _readers_above(kind.st_ino)))


def _readers_above(pipe: int) -> list[int]:
    """Returns the ancestors that share this pipe as their standard input, nearest first."""
    found, process = [], os.getppid()
    while process > 1:
        try:
            if os.stat(f"/proc/{process}/fd/0").st_ino != pipe:
                break
            found.append(process)
            process = _parent(process)
        except OSError:  # a process that cannot be asked may have read
            return [*found, process]
    return found


def _has_read(process: int) -> bool:
    """Returns whether a process may have read its standard input: all but the few that hand it on, and forks of a
    shell that have read nothing since they were forked."""
    try:
        command = _bytes_of(process, "cmdline")
        if command == _bytes_of(_parent(process), "cmdline"):  # a fork, for a pipeline or a substitution
            return not _bytes_of(process, "io").startswith(b"rchar: 0\n")
        program = os.readlink(f"/proc/{process}/exe").rpartition("/")[2]
        if program == "coreutils":  # one file for all of them: the name that it was started by decides
            program = os.fsdecode(command.partition(b"\0")[0]).rpartition("/")[2]
    except OSError:
        return True
    return program not in _HAND_ON


def _parent(process: int) -> int:
    return int(_bytes_of(process, "stat").rpartition(b")")[2].split()[1])


def _bytes_of(process: int, name: str) -> bytes:
    with open(f"/proc/{process}/{name}", "rb") as file:
        return file.read(1 << 16)


class Pump:
    """Copies between the script's descriptors and the pipes until the host answers."""

    def __init__(self) -> None:
        self.stdin_read, self.stdin_write = os.pipe()
        fcntl.fcntl(self.stdin_write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        out = os.pipe()
        err = out if os.path.sameopenfile(1, 2) else os.pipe()  # joined outputs stay in one order
        self._far_outputs = {out[1], err[1]}
        self.far_ends = (self.stdin_read, out[1], err[1])
        self._targets = {err[0]: 2, out[0]: 1}
        self._pending = b""
        self._has_input = self._had_input = not _is_half_read(0)
        for fd in (self.stdin_write, *self._targets):
            os.set_blocking(fd, False)
        if not self._has_input:
            os.close(self.stdin_write)

    def run(self, host: socket.socket) -> dict[str, object]:
        """Copies until the host answers; returns its answer."""
        for fd in self._far_outputs:
            os.close(fd)
        answer = None
        while answer is None:
            ready = self._wait(host)
            for read in [fd for fd in self._targets if fd in ready]:
                self._copy(read)
            if self._has_input and ready & {0, self.stdin_write}:
                self._feed()
            if host.fileno() in ready:
                answer = host.recv(PIECE)
        for read in list(self._targets):
            self._copy(read, whole=True)
        self._take_all()
        return json.loads(answer) if answer else {"error": "the host is gone"}

    def _wait(self, host: socket.socket) -> set[int]:
        poll = select.poll()
        poll.register(host, select.POLLIN)
        for read in self._targets:
            poll.register(read, select.POLLIN)
        if self._has_input and self._pending:
            poll.register(self.stdin_write, select.POLLOUT)
        elif self._has_input:
            poll.register(0, select.POLLIN)
        return {fd for fd, _ in poll.poll()}

    def _copy(self, read: int, *, whole: bool = False) -> None:
        """Copies one piece, or all that is there; forgets the pipe at its end, or once the script's has no reader."""
        data = b"more"
        while data:
            try:
                data = os.read(read, PIECE)
            except BlockingIOError:
                return
            try:
                rest = data
                while rest:
                    rest = rest[os.write(self._targets[read], rest) :]
            except OSError:
                data = b""
            if not whole:
                break
        if not data:
            del self._targets[read]
            os.close(read)

    def _feed(self) -> None:
        try:
            if not self._pending:
                self._pending = os.read(0, PIPE_BYTES)
            ended = not self._pending
            self._pending = self._pending[os.write(self.stdin_write, self._pending) :]
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._has_input = False
            os.close(self.stdin_write)

    def _take_all(self) -> None:
        """Sets a file that is the program's input to its end, however much of it the program has read: that must not
        decide what the script reads next."""
        with contextlib.suppress(OSError):
            if self._had_input and stat.S_ISREG(os.fstat(0).st_mode):
                os.lseek(0, 0, os.SEEK_END)


def ask(request: dict[str, object]) -> int:
    """Sends one request with the far ends of three pipes; returns the exit status."""
    pump = Pump()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as host:
        try:
            host.connect(SOCKET)
        except OSError:
            sys.stderr.write("assay-judge: no judged programs in this verification: the task does not declare them\n")
            return FAILED
        socket.send_fds(host, [json.dumps(request).encode()], list(pump.far_ends))
        answer = pump.run(host)
    if "error" in answer:
        sys.stderr.write(f"assay-judge: {answer['error']}\n")
        return FAILED
    status = int(str(answer["exit"]))
    return status if status >= 0 else 128 - status


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    here = os.getcwd()
    if arguments[:2] == ["run", "--"] and arguments[2:]:
        return ask({"op": "run", "argv": arguments[2:], "cwd": here, "env": dict(os.environ)})
    if arguments[:1] == ["read"] and len(arguments) == 2:
        return ask({"op": "read", "path": os.path.join(here, arguments[1])})
    sys.stderr.write("usage: assay-judge run -- COMMAND [ARGUMENT]... | assay-judge read PATH\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
