"""Finds plugins by entry point name, as `module:Class`, or as `path/to/file.py` (optionally `:Class`).

A function that `@assay.agent` or `@assay.check` made a plugin is found like a class.

Loading never guesses: an unknown name lists the nearest ones, a broken plugin shows its own error. Listing executes
nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from .crash import describe_error
from .errors import AssayError, PluginLoadError, UserError

T = TypeVar("T")


def names(kind: str) -> dict[str, EntryPoint]:
    """Returns the entry points of the group `assay.<kind>` by name. Raises `PluginLoadError` for a duplicate name."""
    points: dict[str, EntryPoint] = {}
    for point in _installed(f"assay.{kind}", tuple(sys.path)):
        other = points.get(point.name)
        if other is not None and other.value != point.value:
            raise PluginLoadError(
                f"two installed packages register {kind} {point.name!r}: {other.value} and {point.value}; remove one"
            )
        points[point.name] = point
    return points


@cache
def _installed(group: str, _: tuple[str, ...]) -> EntryPoints:
    """Reads the metadata of installed packages; cached, because it takes milliseconds."""
    return entry_points(group=group)


def names_code(kind: str, name: str) -> bool:
    """Returns whether a plugin's name stands for Python code (`module:Class`, `path/file.py`), not an installed
    plugin."""
    return (":" in name or name.endswith(".py")) and name not in names(kind)


def path_in(kind: str, name: str) -> tuple[Path, str] | None:
    """Returns the path of the Python file in a plugin's name and the attribute after it, which may be empty; None if
    the name is that of an installed plugin or of a module."""
    path, _, attribute = name.partition(":")
    return (Path(path), attribute) if path.endswith(".py") and name not in names(kind) else None


def load(kind: str, name: str) -> Any:
    """Loads a plugin's class or function.

    Args:
        kind: The group without its prefix: `agents`, `environments`, `checks`, ...
        name: A short name, `module:Class`, or the path of a Python file, with `:Class` where it defines several.

    Raises:
        PluginLoadError: Nothing has that name (with the nearest ones), or it fails to import (with its own error).
    """
    known = names(kind)
    if name in known:
        return _import(kind, name, known[name].value)
    file = path_in(kind, name)
    if file is not None:
        return _from_file(kind, file[0], file[1] or None)
    module, _, attribute = name.partition(":")
    if module and attribute:
        return _import(kind, name, name)
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
    raise PluginLoadError(f"no {kind.rstrip('s')} is called {name!r}; {hint} (module:Class and path/file.py work too)")


def build(kind: str, name: str) -> Any:
    """Returns a plugin's object: what its class makes without options, or the decorated function itself.

    Raises:
        PluginLoadError: As `load`.
    """
    found = load(kind, name)
    return found() if isinstance(found, type) else found


def construct(
    shown: str,
    factory: Callable[..., T],
    options: Mapping[str, Any],
    refused: type[UserError] = UserError,
    *,
    also: Sequence[str] = (),
) -> T:
    """Constructs a plugin's object; `shown` is what messages call it, such as `agent 'loop'`, and `also` names options
    that the caller itself takes.

    Raises:
        UserError: The constructor does not take these options; of the class `refused`.
        PluginLoadError: The constructor failed; the message has its error and the line.
    """
    try:
        return factory(**options)
    except AssayError:
        raise
    except (Exception, SystemExit) as exc:
        entered = exc.__traceback__ is not None and exc.__traceback__.tb_next is not None
        if isinstance(exc, TypeError) and not entered:
            raise refused(f"{shown} {_options_problem(factory, options, exc, also)}") from exc
        raise PluginLoadError(f"{shown} cannot be constructed: {describe_error(exc)}") from exc


def _options_problem(
    factory: Callable[..., Any], options: Mapping[str, Any], exc: TypeError, also: Sequence[str]
) -> str:
    """Returns which options a constructor does not know or misses; Python's own message names its internals."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # a class of C code may have no signature
        parameters = {}.values()
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    known = [*also, *(one.name for one in named)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known) or 'none'}"
        return f"does not take these options ({', '.join(unknown)}); {hint}"
    missing = [one.name for one in named if one.default is one.empty and one.name not in options]
    if missing:
        return f"needs the options {', '.join(missing)}, which have no default: give them"
    return f"does not take these options ({', '.join(sorted(options)) or 'none'}): {exc}"


def call(shown: str, function: Callable[..., T], *arguments: Any) -> T:
    """Calls a plugin's function; `shown` is what messages call the plugin.

    Raises:
        PluginLoadError: It failed; the message has its error and the line.
    """
    try:
        return function(*arguments)
    except AssayError:
        raise
    except (Exception, SystemExit) as exc:
        raise PluginLoadError(f"{shown} failed: {describe_error(exc)}") from exc


def _import(kind: str, name: str, target: str) -> Any:
    module_name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as exc:
        raise PluginLoadError(
            f"{kind.rstrip('s')} {name!r} was found at {target} but does not import: {describe_error(exc)}"
        ) from exc
    return _attribute(kind, name, module, attribute)


def _from_file(kind: str, path: Path, attribute: str | None) -> Any:
    if not path.is_file():
        raise PluginLoadError(f"no {kind.rstrip('s')} file {path}: check the path")
    module = _import_file(path)
    if attribute is not None:
        if not hasattr(module, attribute):
            known = sorted(_defined(kind, module))
            near = difflib.get_close_matches(attribute, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"its {kind} are: {', '.join(known) or 'none'}"
            raise PluginLoadError(f"{path} defines no {attribute!r}; {hint}")
        return getattr(module, attribute)
    chosen = _defined(kind, module)
    if not chosen:
        one = kind.rstrip("s")
        decorator = f", or decorate a function with @assay.{one}" if kind in ("agents", "checks") else ""
        raise PluginLoadError(f"{path} defines no {one}: define one as a class there{decorator}")
    if len(chosen) != 1:
        found = sorted(chosen)
        raise PluginLoadError(
            f"{path} defines {len(chosen)} {kind} ({', '.join(found)}): name one, for example {path}:{found[0]}"
        )
    return next(iter(chosen.values()))


def _defined(kind: str, module: ModuleType) -> dict[str, Any]:
    """Returns the decorated plugins of a module by name, or else its classes."""
    defined = {
        name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    }
    decorated = {name: value for name, value in defined.items() if getattr(value, "plugin_kind", None) == kind}
    usable = callable if kind == "scripts" else inspect.isclass
    return decorated or {name: value for name, value in defined.items() if usable(value)}


def _import_file(path: Path) -> ModuleType:
    """Returns the module of a file. It is executed once for each text of the file, as an installed module is: what
    several attempts load is the same object, and what is cached for it serves all of them."""
    try:
        text = path.read_bytes()
    except OSError as exc:
        raise PluginLoadError(f"{path} cannot be read: {exc.strerror}") from exc
    place = str(path.resolve())
    known = _FILES.get(place)
    if known is not None and known[0] == text:
        return known[1]
    # Two files of one name are two modules: annotations that are texts are evaluated where `sys.modules` has them.
    name = f"assay_plugin_{path.stem}_{hashlib.sha256(place.encode(errors='surrogateescape')).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # Not by the loader: its bytecode may be that of a text of the same length, written in the same second.
        exec(compile(text, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as exc:  # a script that ends with sys.exit() must not end ours, with its exit code
        sys.modules.pop(name, None)
        raise PluginLoadError(f"{path} does not import: {describe_error(exc)}") from exc
    _FILES[place] = text, module
    return module


_FILES: dict[str, tuple[bytes, ModuleType]] = {}
"""Text and module of each imported file."""


def _attribute(kind: str, name: str, module: ModuleType, attribute: str) -> Any:
    if not attribute or not hasattr(module, attribute):
        raise PluginLoadError(f"{kind.rstrip('s')} {name!r}: {module.__name__} has no attribute {attribute!r}")
    return getattr(module, attribute)
