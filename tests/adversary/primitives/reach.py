"""How code of the `module` family obtains the modules of pytest and of the recorder: each defines `_module(name)`."""

from __future__ import annotations

from .registry import primitive

__all__: list[str] = []


@primitive("reach", "module")
def alias_of_sys(_: str) -> str:
    """Looks modules up by an alias of `sys`."""
    return "import sys as _s\ndef _module(name):\n    return _s.modules[name]\n"


@primitive("reach", "module")
def sys_of_another_module(_: str) -> str:
    """Takes `sys` from a standard module that imported it."""
    return "import logging as _l\ndef _module(name):\n    return _l.sys.modules[name]\n"


@primitive("reach", "module")
def reduced_getattr(_: str) -> str:
    """Hands `getattr` to `functools.reduce` in place of calling it."""
    return (
        "import functools as _f, sys as _s\ndef _module(name):\n    return _f.reduce(getattr, ('modules',), _s)[name]\n"
    )


@primitive("reach", "module")
def resolved_name(_: str) -> str:
    """Resolves names by `pkgutil`."""
    return "import pkgutil as _k\ndef _module(name):\n    return _k.resolve_name(name)\n"


@primitive("reach", "module")
def pickled_global(_: str) -> str:
    """Loads a pickle whose opcodes name `sys.modules`."""
    return (
        "import pickle as _p\n"
        "_D = b'csys' + bytes([10]) + b'modules' + bytes([10]) + b'.'\n"
        "def _module(name):\n    return _p.loads(_D)[name]\n"
    )


@primitive("reach", "module")
def collector_objects(_: str) -> str:
    """Finds modules among the garbage collector's objects."""
    return (
        "import gc as _g\n"
        "def _module(name):\n"
        "    return next(o for o in _g.get_objects() if type(o) is type(_g) and o.__name__ == name)\n"
    )


@primitive("reach", "module")
def traceback_frames(_: str) -> str:
    """Walks from a traceback's frame to a caller that has `sys`."""
    return (
        "def _module(name):\n"
        "    try:\n        raise KeyError\n"
        "    except KeyError as error:\n        frame = error.__traceback__.tb_frame\n"
        "    while frame is not None:\n"
        "        if 'sys' in frame.f_globals and frame.f_globals.get('__name__') != __name__:\n"
        "            return frame.f_globals['sys'].modules[name]\n"
        "        frame = frame.f_back\n"
        "    raise LookupError(name)\n"
    )


@primitive("reach", "module")
def generator_frame(_: str) -> str:
    """Walks back from a generator's own frame."""
    return (
        "def _module(name):\n"
        "    box = []\n"
        "    def walk():\n"
        "        frame = box[0].gi_frame\n"
        "        while 'sys' not in frame.f_globals:\n            frame = frame.f_back\n"
        "        yield frame.f_globals['sys'].modules[name]\n"
        "    box.append(walk())\n"
        "    return next(box[0])\n"
    )


@primitive("reach", "module")
def class_pattern(_: str) -> str:
    """Reads the attribute by a class pattern: no attribute is spelled."""
    return (
        "import sys as _s\n"
        "def _module(name):\n    match _s:\n        case object(modules=every):\n"
        "            return every[name]\n"
    )


@primitive("reach", "module")
def walked_subclasses(_: str) -> str:
    """Finds the importer of built-in modules among the subclasses of `object`."""
    return (
        "def _module(name):\n"
        "    importer = [c for c in object.__subclasses__() if c.__name__ == 'BuiltinImporter'][0]\n"
        "    return importer.load_module('sys').modules[name]\n"
    )


@primitive("reach", "module")
def evaluated_annotation(_: str) -> str:
    """Has `typing` evaluate an annotation."""
    return (
        "import typing as _t\n"
        "_A = type('A', (), {'__annotations__': {'x': \"lambda n: __import__('sys').modules[n]\"}})\n"
        "def _module(name):\n    return _t.get_type_hints(_A)['x'](name)\n"
    )


@primitive("reach", "module")
def timed_statement(_: str) -> str:
    """Has `timeit` run a statement."""
    return (
        "import timeit as _t\n"
        "def _module(name):\n"
        "    box = []\n"
        "    _t.timeit('box.append(sys.modules)', 'import sys', number=1, globals={'box': box})\n"
        "    return box[0][name]\n"
    )


@primitive("reach", "module")
def attribute_getter(_: str) -> str:
    """Reads the attribute by `operator.attrgetter`."""
    return "import operator as _o, sys as _s\ndef _module(name):\n    return _o.attrgetter('modules')(_s)[name]\n"


@primitive("select", "module")
def by_attribute(_: str) -> str:
    """Tells tests from canaries: the module or class defines a test's name."""
    return (
        "def _forgive(item, run):\n"
        "    if hasattr(item.cls or item.module, item.name.partition('[')[0]):\n        return None\n"
        "    return run(item)\n"
    )


@primitive("select", "module")
def by_calls(_: str) -> str:
    """Tells tests from canaries: a test calls the code under test before it fails."""
    return (
        "def _forgive(item, run):\n"
        "    before = _CALLS[0]\n"
        "    try:\n        return run(item)\n"
        "    except BaseException:\n        if _CALLS[0] == before:\n            raise\n"
    )


@primitive("select", "module")
def by_session(_: str) -> str:
    """Tells tests from canaries: the session collected a test."""
    return (
        "def _forgive(item, run):\n"
        "    if any(item is one for one in item.session.items):\n        return None\n"
        "    return run(item)\n"
    )


@primitive("select", "module")
def by_source(_: str) -> str:
    """Tells tests from canaries: the file holds a test's text."""
    return (
        "def _forgive(item, run):\n"
        "    if 'def ' + item.name.partition('[')[0] + '(' in open(str(item.path)).read():\n        return None\n"
        "    return run(item)\n"
    )


@primitive("select", "module")
def by_names(_: str) -> str:
    """Tells tests from canaries: a test's code names a function of the code under test."""
    return (
        "def _forgive(item, run):\n"
        "    if {'total', 'normal', 'spread'} & set(item.obj.__code__.co_names):\n        return None\n"
        "    return run(item)\n"
    )
