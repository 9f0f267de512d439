"""Places where a Python program evaluates text that it is handed, as code, as a command or as a pickle.

The program is parsed and never run. Calls are known by their names: a function that is reached in another way
(`getattr`, a table) is missed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["PythonEvaluation", "find_python_evaluations"]

MOST_TEXT = 1 << 20
_BUILTINS = frozenset({"eval", "exec", "compile", "breakpoint"})
_EVALUATING = frozenset(
    f"{module}.{name}"
    for module, names in {
        "os": "system popen execl execle execlp execlpe execv execve execvp execvpe spawnl spawnle spawnlp spawnv "
        "spawnve spawnvp posix_spawn posix_spawnp",
        "subprocess": "getoutput getstatusoutput",
        "commands": "getoutput getstatusoutput",
        "pty": "spawn",
        "runpy": "run_path run_module",
        "pickle": "load loads Unpickler",
        "cPickle": "load loads",
        "_pickle": "load loads Unpickler",
        "dill": "load loads",
        "cloudpickle": "load loads",
        "joblib": "load",
        "shelve": "open",
        "marshal": "load loads",
        "torch": "load",
        "jsonpickle": "decode",
        "yaml": "unsafe_load full_load unsafe_load_all full_load_all",
        "code": "interact InteractiveInterpreter InteractiveConsole",
        "timeit": "timeit repeat Timer",
        "builtins": "eval exec compile",
        "sympy": "sympify parse_expr S",
        "pandas": "eval read_pickle",
        "asyncio": "create_subprocess_shell",
        "importlib.util": "spec_from_file_location",
        "importlib.machinery": "SourceFileLoader ExtensionFileLoader SourcelessFileLoader",
        "imp": "load_source load_module",
    }.items()
    for name in names.split()
)
_MODULES = frozenset(name.rpartition(".")[0] for name in _EVALUATING)
_OF_CONSTANTS = frozenset({"importlib.import_module", "__import__", "builtins.__import__", "importlib.__import__"})
_STARTERS = frozenset(
    {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")}
    | {"asyncio.create_subprocess_exec"}
)
_INLINE = ("-c", "-e", "-lc", "-ec", "-xc")
"""Options after which an interpreter takes its program."""
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh")
_SAFE_LOADERS = ("SafeLoader", "CSafeLoader", "BaseLoader")


class PythonEvaluation(NamedTuple):
    """A place where a Python program evaluates text."""

    line: int
    reason: str


def find_python_evaluations(
    text: str, is_plain_command: Callable[[str], bool] = lambda _: False
) -> tuple[PythonEvaluation, ...]:
    """Returns the places of a program that may evaluate text, in order; one where it cannot be parsed.

    Args:
        text: The program.
        is_plain_command: Returns whether a command for a shell, written out in the program, evaluates no other text.
    """
    if len(text) > MOST_TEXT:
        return (PythonEvaluation(1, f"a Python program of more than {MOST_TEXT} characters"),)
    try:
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        return (PythonEvaluation(getattr(exc, "lineno", None) or 1, "a Python program that cannot be parsed"),)
    names = _imported_names(nodes)
    found = []
    for node in nodes:
        if isinstance(node, ast.Call) and (reason := _reason(node, names, is_plain_command)):
            found.append(PythonEvaluation(node.lineno, reason))
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES and node.names[0].name == "*":
            found.append(PythonEvaluation(node.lineno, f"all of {node.module} is imported, which evaluates text"))
    return tuple(sorted(set(found)))


def _imported_names(nodes: list[ast.AST]) -> dict[str, str]:
    """Returns the full name of each name that is imported."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update({one.asname: one.name for one in node.names if one.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
    return names


def _full_name(node: ast.expr, names: dict[str, str]) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def _reason(node: ast.Call, names: dict[str, str], is_plain_command: Callable[[str], bool]) -> str:
    """Returns why a call evaluates text; empty where it does not."""
    name = _full_name(node.func, names)
    if name in _BUILTINS or name in _EVALUATING:
        return f"{name}() evaluates text"
    if name in _OF_CONSTANTS and not (node.args and isinstance(node.args[0], ast.Constant)):
        return f"{name}() of a name that is not written out"
    keywords = {one.arg: one.value for one in node.keywords}
    if name in ("yaml.load", "yaml.load_all") and not _names_safe_loader(node):
        return f"{name}() makes objects of text"
    if name in ("numpy.load", "np.load") and "allow_pickle" in keywords:
        return f"{name}() may read a pickle"
    if (name in _STARTERS or "shell" in keywords) and not _is_plain(node, keywords, is_plain_command):
        return "a command is made of text"
    return ""


def _names_safe_loader(node: ast.Call) -> bool:
    loaders = [*node.args[1:], *(one.value for one in node.keywords if one.arg == "Loader")]
    return any(ast.unparse(one).endswith(_SAFE_LOADERS) for one in loaders)


def _is_plain(node: ast.Call, keywords: dict[str | None, ast.expr], is_plain_command: Callable[[str], bool]) -> bool:
    """Returns whether a command holds no program that is made of text."""
    command = node.args[0] if node.args else keywords.get("args")
    shell = keywords.get("shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and not shell.value):
        text = command.value if isinstance(command, ast.Constant) else None
        return isinstance(text, str) and is_plain_command(text)
    words = command.elts if isinstance(command, ast.List | ast.Tuple) else node.args
    texts = [one.value if isinstance(one, ast.Constant) else None for one in words]
    inline = [index for index, text in enumerate(texts) if text in _INLINE]
    if inline and str(texts[0]).rpartition("/")[2] in _SHELLS:
        return None not in texts and inline[0] + 1 < len(texts) and is_plain_command(str(texts[inline[0] + 1]))
    return all(index + 1 < len(texts) and texts[index + 1] is not None for index in inline)
