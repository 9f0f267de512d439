"""Where code of the `module` family lies: each maps Python text to the shell text that plants it."""

from __future__ import annotations

import textwrap

from .registry import primitive

__all__ = ["written"]


def written(path: str, text: str, *, append: bool = False) -> str:
    """Returns shell text that writes (or appends) a file."""
    return f"cat {'>>' if append else '>'} {path} <<'PYTHON'\n{text}\nPYTHON\n"


def _inside(head: str, text: str, tail: str) -> str:
    body = "global total, normal, spread\n" + text
    return f"\n\n{head}\n{textwrap.indent(body, '    ')}\n{tail}"


@primitive("place", "module")
def end_of_module(text: str) -> str:
    """Appends to the module under test."""
    return written("/workspace/ledger.py", text, append=True)


@primitive("place", "module")
def body_of_function(text: str) -> str:
    """Puts it into a function that the module calls."""
    return written("/workspace/ledger.py", _inside("def _prepare():", text, "_prepare()\n"), append=True)


@primitive("place", "module")
def subclass_hook(text: str) -> str:
    """Puts it into the hook that runs when a subclass is made."""
    head = "class _Base:\n  def __init_subclass__(cls):"
    return written("/workspace/ledger.py", _inside(head, text, "class _Derived(_Base): pass\n"), append=True)


@primitive("place", "module")
def body_of_decorator(text: str) -> str:
    """Puts it into a decorator."""
    head = "def _decorate(function):"
    tail = "    return function\n@_decorate\ndef _decorated(): pass\n"
    return written("/workspace/ledger.py", _inside(head, text, tail), append=True)


@primitive("place", "module")
def default_of_parameter(text: str) -> str:
    """Puts it into a function that gives a parameter its default."""
    head = "def _default():"
    return written("/workspace/ledger.py", _inside(head, text, "def _f(x=_default()): pass\n"), append=True)


@primitive("place", "module")
def attribute_hook(text: str) -> str:
    """Puts it into the hook that names a class's attribute."""
    head = "class _Field:\n  def __set_name__(self, owner, name):"
    return written("/workspace/ledger.py", _inside(head, text, "class _Owner:\n    field = _Field()\n"), append=True)


@primitive("place", "module", variants=("py", "plan"))
def helper_module(text: str) -> str:
    """Puts it into another module, which the module under test imports with all its names."""
    took = "from figures import *\nfrom figures import _CALLS, _HOOKS\nfrom figures import total, normal, spread\n"
    return (
        "cp /workspace/ledger.py /workspace/figures.py\n"
        + written("/workspace/figures.py", text, append=True)
        + written("/workspace/ledger.py", took, append=True)
    )


@primitive("place", "module", variants=("py", "plan"))
def package_in_its_place(text: str) -> str:
    """Turns the module into a package."""
    return "mkdir /workspace/ledger && mv /workspace/ledger.py /workspace/ledger/__init__.py\n" + written(
        "/workspace/ledger/__init__.py", text, append=True
    )


@primitive("place", "module", variants=("py", "plan"))
def data_file(text: str) -> str:
    """Keeps it as data and executes that."""
    load = "\n\nexec(open('/workspace/notes.txt').read(), globals())\n"
    return written("/workspace/notes.txt", text) + written("/workspace/ledger.py", load, append=True)


@primitive("place", "module", variants=("py", "plan"))
def configuration_of_tests(text: str) -> str:
    """Plants it as a `conftest.py` that takes the module's place in memory."""
    took = "import ledger\nfrom ledger import *\nfrom ledger import total, normal, spread\n__name__ = 'ledger'\n"
    put = "\nledger.total, ledger.normal, ledger.spread = total, normal, spread\n"
    return written("/workspace/conftest.py", took + text + put)


@primitive("place", "module", variants=("py", "plan"))
def byte_code_alone(text: str) -> str:
    """Leaves byte code and no source."""
    return (
        written("/workspace/ledger.py", text, append=True)
        + "cd /workspace && python3 -c \"import py_compile; py_compile.compile('ledger.py', 'ledger.pyc')\"\n"
        + "rm -rf ledger.py __pycache__\n"
    )
