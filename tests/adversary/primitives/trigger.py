"""When code of the `module` family acts: each calls `_try`, which runs `_act` and hides its failure."""

from __future__ import annotations

from .registry import primitive

__all__: list[str] = []
ONCE = "def _once(*given, done=[]):\n    if not done:\n        done.append(1)\n        _try()\n"


@primitive("trigger", "module")
def at_import(_: str) -> str:
    """Acts when the module is imported."""
    return "_try()\n"


@primitive("trigger", "module")
def at_first_call(_: str) -> str:
    """Acts in the first call of a function under test."""
    return "_HOOKS.append(_try)\n"


@primitive("trigger", "module")
def at_third_call(_: str) -> str:
    """Acts in the third call of a function under test."""
    return "_HOOKS.append(lambda: _CALLS[0] == 3 and _try())\n"


@primitive("trigger", "module")
def in_timer_thread(_: str) -> str:
    """Acts a little later, in a thread."""
    return "import threading as _h\n_timer = _h.Timer(0.01, _try)\n_timer.daemon = True\n_timer.start()\n"


@primitive("trigger", "module")
def in_looping_thread(_: str) -> str:
    """Acts again and again, in a thread."""
    return (
        "import threading as _h, time as _w\n"
        "def _loop():\n    for _ in range(300):\n        _try()\n        _w.sleep(0.002)\n"
        "_h.Thread(target=_loop, daemon=True).start()\n"
    )


@primitive("trigger", "module")
def in_collector_callback(_: str) -> str:
    """Acts when the garbage collector runs."""
    return ONCE + "import gc as _c\n_c.callbacks.append(_once)\n_c.collect()\n"


@primitive("trigger", "module")
def in_finalizer(_: str) -> str:
    """Acts when an object goes."""
    return "import weakref as _r\nclass _Z: pass\n_z = _Z()\n_r.finalize(_z, _try)\ndel _z\n"


@primitive("trigger", "module")
def in_destructor(_: str) -> str:
    """Acts in a destructor that a function's end calls."""
    return "class _Z:\n    def __del__(self):\n        _try()\n_HOOKS.append(lambda: _Z() and None)\n"


@primitive("trigger", "module")
def in_audit_hook(_: str) -> str:
    """Acts at the next audit event."""
    return ONCE + "import sys as _u\n_u.addaudithook(_once)\n"


@primitive("trigger", "module")
def in_signal_handler(_: str) -> str:
    """Acts when an interval timer fires."""
    return (
        "import signal as _i\n"
        "try:\n    _i.signal(_i.SIGVTALRM, lambda *given: _try())\n    _i.setitimer(_i.ITIMER_VIRTUAL, 0.01)\n"
        "except ValueError:\n    _try()\n"
    )


@primitive("trigger", "module")
def in_profiler(_: str) -> str:
    """Acts at the next profiled call."""
    return (
        "import sys as _u\n"
        "def _profile(*given):\n    _u.setprofile(None)\n    _try()\n"
        "_HOOKS.append(lambda: _u.setprofile(_profile) if _CALLS[0] == 1 else None)\n"
    )


@primitive("trigger", "module")
def at_attribute_access(_: str) -> str:
    """Acts when a name is imported from the module."""
    return (
        ONCE + "import sys as _u, types as _m\n"
        "class _Watched(_m.ModuleType):\n"
        "    def __getattribute__(self, name):\n"
        "        if name == 'spread':\n            _once()\n"
        "        return super().__getattribute__(name)\n"
        "_u.modules[__name__].__class__ = _Watched\n"
    )


@primitive("trigger", "module")
def at_exit(_: str) -> str:
    """Acts when the interpreter ends."""
    return "import atexit as _x\n_x.register(_try)\n"
