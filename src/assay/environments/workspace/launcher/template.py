"""A template: a process that has loaded one of our programs, of which the first processes of sandboxes are forks.

    python -I -B -c BOOT PROGRAM SEPARATE    (`templates`; the launcher's socket is descriptor 3, its root 4)

It starts in a root that holds the interpreter, the program and this package alone, at the paths that they have in a
sandbox, and then enters the launcher's. A command that begins as the template's own in such a sandbox is a fork of its
first process, so nothing is imported again.

Invariants: no byte of a sandbox reaches a template: it gets descriptors, which its forks read, and answers with ids; a
first process builds its sandbox and drops its privileges as that of any other sandbox does; a fork that runs the
program has none of its descriptors, signal handlers, variables, paths and modules of this package.

Not covered: what is drawn when an interpreter starts (the seed of hashes, addresses) is the same in all sandboxes of
one template; `templates` keeps a few for each program and draws one.
"""

from __future__ import annotations

import encodings.ascii  # noqa: F401
import encodings.latin_1  # noqa: F401  # where a fork opens files, before its sandbox has a standard library
import json
import os
import socket
import sys
import time
from typing import Any, NamedTuple

from . import counts, init, seccomp
from . import syscalls as sys_
from .boxes import BoxMaker, become
from .protocol import receive, send

CONTROL, TOP = 3, 4
MOST_REQUEST = 1 << 20


class _Loaded(NamedTuple):
    """State of the interpreter as its program expects it."""

    path: list[str]
    added: dict[str, str]
    """Variables that the interpreter added to its own."""


def serve() -> None:
    """Loads the program and serves the launcher; returns in each fork that is to run the program."""
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    _, program, separate, *words = sys.argv
    loaded = _Loaded([path for path in sys.path if path != _own_folder()], _added_variables(json.loads(words[0])))
    _load(program)
    sys.path[:] = loaded.path  # in a sandbox another folder may have the name of this package's
    os.fchdir(TOP)
    os.chroot(".")
    os.close(TOP)
    sys_.hide_arguments(b"assay sandbox")
    maker = BoxMaker(seccomp.program(), separate=separate == "1")
    if maker.separate:
        sys_.prctl(counts.PR_SET_SECUREBITS, counts.KEEP_CAPABILITIES)
    send(control, {"ready": True})
    while True:
        message, fds = receive(control)
        if message is None:
            os._exit(0)
        try:
            pid = counts.clone_owned(message["flags"], message["owner"])
        except OSError as exc:
            send(control, {"errno": exc.errno, "error": str(exc)})
            pid = -1
        if pid == 0:
            control.close()
            _become_program(program, loaded, _become_box(maker, fds))
            return
        if pid > 0:
            send(control, {"pid": pid})
        for fd in fds:
            os.close(fd)


def _own_folder() -> str:
    return os.path.dirname(os.path.dirname(__file__))


def _added_variables(given: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if given.get(name) != text}


def _load(program: str) -> None:
    """Runs the program's file as the module `__main__`, without its last step, and imports what it uses."""
    names = vars(sys.modules["__main__"])
    names.pop("serve", None)
    names.update(__name__="template", __file__=program)
    with open(program, "rb") as file:
        exec(compile(file.read(), program, "exec"), names)
    if "preload" in names:
        names["preload"]()


def _become_box(maker: BoxMaker, fds: list[int]) -> init.Command:
    """Becomes the first process of a sandbox; returns in a fork of it that is to run the program."""
    control, gate, asked = fds
    request = json.loads(os.pread(asked, MOST_REQUEST, 0))
    os.close(asked)
    return become(maker, request, socket.socket(fileno=control), gate)


def _become_program(program: str, loaded: _Loaded, command: init.Command) -> None:
    """Leaves nothing of this package, and sets what an interpreter sets at its start."""
    os.environ.clear()
    os.environ.update({**loaded.added, **command.env})
    time.tzset()
    sys.argv[:] = command.argv[command.argv.index(program) :]
    sys.orig_argv[:] = command.argv
    own = _own_folder()
    for path in [path for path in sys.path_importer_cache if path.startswith(own)]:
        del sys.path_importer_cache[path]
    package = __name__.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    names: dict[str, Any] = vars(sys.modules["__main__"])
    names["__name__"] = "__main__"
