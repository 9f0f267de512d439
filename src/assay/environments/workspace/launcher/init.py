"""The exec server: the first process of a sandbox, and the only one that the host communicates with.

Single threaded. It spawns commands (posix_spawn, so nothing is copied; the command that a template has loaded is a fork
of this process), reaps everything, reports exit codes, opens
files as the sandbox's user would, and exits when its socket ends, with which the kernel ends the whole PID namespace.
It also serves outside a PID namespace (other backends): then it is a subreaper and kills descendants.

Its memory, environment and descriptors contain nothing of the host, and it is not dumpable. Its answers are
nevertheless untrusted by the host.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys
from typing import Any, NamedTuple

from . import files, processes, seccomp
from .observe import Observer
from .protocol import receive, send
from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, load_listening_filter, prctl

OOM_COMMAND = 500
DEFAULT_SIGNALS = [signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM]


_FRESH_SIGNALS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler, signal.SIGPIPE: signal.SIG_IGN, signal.SIGXFSZ: signal.SIG_IGN,
}  # fmt: skip
"""Handlers that an interpreter installs when it starts."""
LOCALE = ("LANG", "LC_ALL", "LC_CTYPE")
_OF_THE_LOADER = ("LD_", "GLIBC_", "MALLOC_")


class Command(NamedTuple):
    """A command that a fork of the first process runs."""

    argv: list[str]
    env: dict[str, str]


class OomScore:
    """Makes the kernel kill commands before init when memory is exhausted: commands inherit a higher score."""

    def __init__(self) -> None:
        self._fd: int | None
        try:
            self._fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._own = int(os.pread(self._fd, 16, 0))
        except (OSError, ValueError):
            self._fd = None

    def __enter__(self) -> None:
        if self._fd is not None:
            os.pwrite(self._fd, str(min(1000, self._own + OOM_COMMAND)).encode(), 0)

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.pwrite(self._fd, str(self._own).encode(), 0)

    def forget(self) -> None:
        """Leaves the score as it is, in a fork whose descriptors are closed."""
        self._fd = None

    def fileno(self) -> int:
        """Returns the descriptor to keep open, or -1."""
        return -1 if self._fd is None else self._fd


def find_program(name: str, path: str) -> str:
    """Returns the program that a shell would find; raises `FileNotFoundError` or `PermissionError`."""
    if "/" in name:
        return name
    refused = False
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{name}"
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = True
    number = errno.EACCES if refused else errno.ENOENT
    raise OSError(number, os.strerror(number), name)


class Server:
    """The loop and its table of running commands (process id to the host's id)."""

    def __init__(
        self, control: socket.socket, oom: OomScore | None = None, preload: dict[str, Any] | None = None
    ) -> None:
        self._control = control
        self._oom = oom
        self._preload = preload
        """The command that this process has loaded; None for none."""
        self._command: Command | None = None
        """The command of a fork."""
        self._running: dict[int, int] = {}
        self._before: dict[int, frozenset[int]] = {}
        """The host's id of each command to the processes that were alive at its start."""
        self._observer: Observer | None = None
        self._listeners: dict[int, Observer] = {}
        """Seccomp listeners of observed commands to their observers."""
        self._poller = select.poll()
        self._orphans = 0
        """Number of reaped processes that were not commands: their own parents ended before them."""

    def serve(self) -> Command:
        """Serves until the socket ends; returns only in a fork, with the loaded command that it is to run."""
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poller.register(self._control, select.POLLIN)
        self._poller.register(read, select.POLLIN)
        while True:
            ready = set()
            for fd, event in self._poller.poll():
                if fd in self._listeners:
                    self._answer_kernel(fd, event)
                else:
                    ready.add(fd)
            if read in ready:
                os.read(read, 4096)
                self._reap()
            if self._control.fileno() in ready:
                message, fds = receive(self._control)
                if message is None:
                    self._end()
                else:
                    self._handle(message, fds)
                    if self._command is not None:
                        return self._command

    def _answer_kernel(self, listener: int, event: int) -> None:
        if event & select.POLLIN:
            self._listeners[listener].answer(listener)
        elif event & (select.POLLHUP | select.POLLERR):  # all observed processes have ended
            self._poller.unregister(listener)
            del self._listeners[listener]
            os.close(listener)

    def _end(self) -> None:
        if os.getpid() != 1:
            processes.kill_all()
        os._exit(0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            number = self._running.pop(pid, None)
            if number is None:
                self._orphans += 1
            else:
                self._before.pop(number, None)
                cpu = usage.ru_utime + usage.ru_stime
                code = os.waitstatus_to_exitcode(status)
                self._answer({"id": number, "exit": code, "cpu_s": cpu, "max_kib": usage.ru_maxrss})

    def _answer(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        try:
            send(self._control, message, fds)
        except OSError as exc:
            if exc.errno == errno.EMSGSIZE:
                send(self._control, {"id": message.get("id"), "errno": errno.EMSGSIZE, "error": "answer too large"})
            else:
                self._end()

    def _handle(self, message: dict[str, Any], fds: list[int]) -> None:
        operation = getattr(self, "_do_" + str(message.get("op")), None)
        try:
            if operation is None:
                raise OSError(errno.ENOSYS, "unknown operation")
            operation(message, fds)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            self._answer({"id": message.get("id"), "errno": exc.errno or errno.EIO, "error": reason})
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as exc:
            self._answer({"id": message.get("id"), "errno": errno.EINVAL, "error": f"bad request: {exc}"[:500]})
        finally:
            for fd in fds:
                os.close(fd)

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> int:
        env = {str(k): str(v) for k, v in message["env"].items()}
        arguments = [str(part) for part in message["argv"]]
        os.chdir(message["cwd"])
        if self._is_loaded(arguments, env):
            pid = os.fork()
            if pid == 0:
                self._become_command(Command(arguments, env), fds)
            else:
                os.chdir("/")
            return pid
        try:
            program = find_program(arguments[0], env.get("PATH", "/usr/bin:/bin"))
            if self._observer is not None:
                return self._spawn_observed(self._observer, program, arguments, env, fds)
            actions = [(os.POSIX_SPAWN_DUP2, fd, index) for index, fd in enumerate(fds[:3])]
            return os.posix_spawn(
                program, arguments, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULT_SIGNALS
            )
        finally:
            os.chdir("/")

    def _is_loaded(self, arguments: list[str], env: dict[str, str]) -> bool:
        """Returns whether a command is the one that this process has loaded, under what its interpreter read at its
        start."""
        if self._preload is None or self._observer is not None:
            return False
        own = self._preload["argv"]
        same = all(env.get(name, "") == self._preload["env"].get(name, "") for name in LOCALE)
        is_plain = not any(text and name.startswith(_OF_THE_LOADER) for name, text in env.items())
        return arguments[: len(own)] == own and same and is_plain

    def _become_command(self, command: Command, fds: list[int]) -> None:
        """Runs in the child: like `posix_spawn`, but that this process goes on, in which `serve` returns."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in DEFAULT_SIGNALS:
            signal.signal(number, _FRESH_SIGNALS.get(number, signal.SIG_DFL))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for index, fd in enumerate(fds[:3]):
            os.dup2(fd, index)
        fds.clear()
        self._control.detach()
        if self._oom is not None:
            self._oom.forget()
        os.closerange(3, 65536)
        prctl(PR_SET_DUMPABLE, 1)  # as a program that was executed: it may open its own files in /proc
        self._command = command

    def _spawn_observed(
        self, observer: Observer, program: str, arguments: list[str], env: dict[str, str], fds: list[int]
    ) -> int:
        """Starts a command under a filter that notifies this process; without the filter if it cannot be installed."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                pid = os.fork()
                if pid == 0:
                    _become_observed(theirs, program, arguments, env, fds)
            message, received = receive(ours)
        if received:
            observer.add_command(pid, os.path.join(os.getcwd(), program), received[0])
            self._listeners[received[0]] = observer
            self._poller.register(received[0], select.POLLIN)
        else:
            observer.fail(str((message or {}).get("error", "the command ended early")))
        return pid

    def _do_observe(self, message: dict[str, Any], _: list[int]) -> None:
        """Starts observing every later command; a repeated request adds files."""
        if self._observer is None:
            self._observer = Observer(str(message["tree"]))
        self._observer.add_paths([str(path) for path in message["paths"]])
        self._answer({"id": message["id"]})

    def _do_observed(self, message: dict[str, Any], _: list[int]) -> None:
        """Sends the report and stops observing later commands."""
        observer, self._observer = self._observer, None
        report = {"problem": "nothing was observed"} if observer is None else observer.report()
        self._answer({"id": message["id"], "observed": report})

    def _do_exec(self, message: dict[str, Any], fds: list[int]) -> None:
        before = processes.alive()
        if self._oom is None:
            pid = self._spawn(message, fds)
        else:
            with self._oom:
                pid = self._spawn(message, fds)
        if pid == 0:
            return
        self._running[pid] = message["id"]
        self._before[message["id"]] = before

    def _do_end(self, message: dict[str, Any], _: list[int]) -> None:
        """Kills all descendants of a command."""
        before = self._before.get(message["command"])
        own = self._running
        spared = frozenset(pid for pid, number in own.items() if number != message["command"])
        left = 0 if before is None else processes.kill_since(before, spared)
        self._reap()
        self._answer({"id": message["id"], "left": left})

    def _do_kill(self, message: dict[str, Any], _: list[int]) -> None:
        left = processes.kill_all()
        self._reap()
        self._answer({"id": message["id"], "left": left})

    def _do_ps(self, message: dict[str, Any], _: list[int]) -> None:
        self._answer({"id": message["id"], "processes": processes.table()})

    def _do_count(self, message: dict[str, Any], _: list[int]) -> None:
        self._answer({"id": message["id"], "count": len(processes.others())})

    def _do_orphans(self, message: dict[str, Any], _: list[int]) -> None:
        self._reap()
        self._answer({"id": message["id"], "count": self._orphans})

    def _do_usage(self, message: dict[str, Any], _: list[int]) -> None:
        self._answer({"id": message["id"], "bytes": processes.memory()})

    def _do_open(self, message: dict[str, Any], _: list[int]) -> None:
        fd = files.open_file(message)
        if self._observer is not None and message.get("write"):
            self._observer.add_file(os.fstat(fd))  # files that the host writes during observation are the agent's
        self._answer({"id": message["id"]}, (fd,))
        os.close(fd)

    def _do_listen(self, message: dict[str, Any], _: list[int]) -> None:
        if "path" in message:
            self._listen_at(message)
            return
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", message["port"]))
            listener.listen(128)
            port = listener.getsockname()[1]
            self._answer({"id": message["id"], "port": port}, (listener.fileno(),))

    def _listen_at(self, message: dict[str, Any]) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(message["path"])
            listener.listen(128)
            self._answer({"id": message["id"]}, (listener.fileno(),))

    def _do_stream(self, message: dict[str, Any], fds: list[int]) -> None:
        """Moves a tree in a child process, so that commands continue meanwhile."""
        pid = os.fork()
        if pid == 0:
            files.stream_and_exit(message, fds[0])
        self._running[pid] = message["id"]

    def _do_ping(self, message: dict[str, Any], _: list[int]) -> None:
        self._answer({"id": message["id"]})


def _become_observed(
    told: socket.socket, program: str, arguments: list[str], env: dict[str, str], fds: list[int]
) -> None:
    """Runs in the child: like `posix_spawn`, under a filter whose listener goes to the parent. Never returns."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in DEFAULT_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for index, fd in enumerate(fds[:3]):
            os.dup2(fd, index)
        try:
            prctl(PR_SET_NO_NEW_PRIVS, 1)
            send(told, {}, (load_listening_filter(seccomp.asking_program()),))
        except (OSError, KeyError) as exc:
            send(told, {"error": f"the kernel gives no notification of calls: {exc}"})
        os.execve(program, arguments, env)
    except OSError as exc:
        os.write(2, f"cannot run {program}: {exc.strerror}\n".encode())
    finally:
        os._exit(127)


def main() -> None:
    """Serves on the inherited socket whose number is the first argument; for backends without the launcher."""
    control = socket.socket(fileno=int(sys.argv[-1]))
    control.set_inheritable(False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    Server(control, OomScore()).serve()
