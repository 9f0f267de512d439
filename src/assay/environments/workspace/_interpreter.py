"""Copies a Python interpreter into a self-contained folder: binary, standard library, C libraries.

The copy is started at one fixed path (`/opt/assay` in a sandbox). It has its own dynamic loader and C library, with
a path relative to the binary, so that neither a shared `libpython` in a home folder, nor a root file system with
another C library, nor a library, `ld.so.preload` or `ld.so.cache` planted in the sandbox affects it.
`host/python3` in the layer starts the same interpreter in place, where nothing is mounted.

Not for macOS, nor for interpreters linked against anything but the GNU C library: both are refused.

Covered: libraries of the binary and of the standard library's extension modules. Not covered: extension modules of
wheels with their own run path that need a system library missing from the copy; they use the system's.
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from assay.errors import UserError

HOME = "/opt/assay"
_LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "__pycache__"}
_LEFT_OUT |= {"site-packages", "dist-packages"}
_LEFT_OUT_FILES = ("sitecustomize.py", "usercustomize.py", "EXTERNALLY-MANAGED", "turtle.py")
_LEFT_OUT_MODULES = ("_tkinter", "_test", "_ctypes_test", "_xxtestfuzz", "xxlimited", "_xxsubinterpreters_test")
# Same length, so that the loader's strings can be replaced in place: what it would read from the sandbox's /etc.
_LOADER_PATHS = {b"/etc/ld.so.preload": b"/opt/assay/ld.none", b"/etc/ld.so.cache": b"/opt/assay/cache"}
# Loaded at run time without being named by any file: thread unwinding, and the runtime of most C++ wheels.
_EXTRA_LIBRARIES = ("libgcc_s.so.1", "libstdc++.so.6")
_PROBE = """
import json, os, sys, sysconfig
v = sysconfig.get_config_var
print(json.dumps({"binary": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
 "prefix": sys.base_prefix, "stdlib": sysconfig.get_path("stdlib"), "platstdlib": sysconfig.get_path("platstdlib"),
 "version": "%d.%d.%d" % sys.version_info[:3], "build": sys.version, "libdir": v("LIBDIR") or ""}))
"""


class Interpreter(msgspec.Struct, frozen=True):
    """Paths of an interpreter on the host. `version` is `major.minor.micro`."""

    binary: str
    prefix: str
    stdlib: str
    platstdlib: str
    version: str
    build: str
    libdir: str

    @property
    def minor(self) -> str:
        """Returns the minor version, for example `3.11`."""
        return self.version.rpartition(".")[0]


def probe(python: str | None = None) -> Interpreter:
    """Asks an interpreter (default: the running one's base) for the paths of its parts. Raises `UserError`."""
    command = [python or getattr(sys, "_base_executable", None) or sys.executable, "-I", "-S", "-c", _PROBE]
    try:
        out = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
        return msgspec.json.decode(out, type=Interpreter)
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as exc:
        raise UserError(f"{command[0]} does not start as a Python interpreter ({exc}): name one that does") from exc


def copy_interpreter(source: Interpreter, target: Path, patchelf: Path) -> None:
    """Fills the empty folder `target` with the interpreter's binary, loader and standard library."""
    loader = _loader(source, patchelf)
    binary = target / "bin" / f"python{source.minor}"
    binary.parent.mkdir(parents=True)
    shutil.copyfile(source.binary, binary)
    binary.chmod(0o755)
    for name in ("python3", "python"):
        (binary.parent / name).symlink_to(binary.name)
    (target / "lib").mkdir(exist_ok=True)
    _copy_loader(loader, target / "lib" / "ld.so")
    library = _copy_standard_library(source, target)
    _patch(patchelf, binary, "$ORIGIN/../lib", f"{HOME}/lib/ld.so")
    _write_host_starter(target, source.minor)
    _replace_host_paths(source, library)


def own_libraries(target: Path, source: Interpreter, patchelf: Path) -> tuple[str, ...]:
    """Copies every shared library that an ELF file under `target` needs into `target/lib`; returns their names."""
    loader = _loader(source, patchelf)
    search = f"{source.libdir}:{Path(source.prefix) / 'lib'}"
    libraries: dict[str, Path] = {}
    for path in _elf_files([target]):
        libraries.update(_needed_libraries(path, loader, search, target))
    for name in _EXTRA_LIBRARIES:
        found = next((d / name for d in _library_folders(libraries.values()) if (d / name).exists()), None)
        if found is not None:
            libraries[name] = found
            libraries |= _needed_libraries(found, loader, search, target)
    target_folder = target / "lib"
    for name, path in libraries.items():
        if not (target_folder / name).exists() and not name.startswith("ld-linux"):
            shutil.copyfile(path, target_folder / name)
            (target_folder / name).chmod(0o755)
    for path in _elf_files([target_folder]):
        if "site-packages" not in path.parts and path.name != "ld.so" and _has_run_path(patchelf, path):
            depth = len(path.parent.relative_to(target_folder).parts)
            _patch(patchelf, path, "/".join(["$ORIGIN", *[".."] * depth]))
    return tuple(sorted(libraries))


def _loader(source: Interpreter, patchelf: Path) -> Path:
    result = subprocess.run([patchelf, "--print-interpreter", source.binary], capture_output=True, text=True)
    loader = Path(result.stdout.strip() or "/nonexistent")
    if result.returncode or "ld-linux" not in loader.name or not loader.exists():
        raise UserError(
            f"the tool layer cannot be built from {source.binary}: it is not a Linux program with the GNU C library. "
            "Run with a Python of the distribution, of pyenv or of uv."
        )
    return loader


def _copy_loader(loader: Path, target: Path) -> None:
    data = loader.read_bytes()
    for old, new in _LOADER_PATHS.items():
        data = data.replace(old, new)
    target.write_bytes(data)
    target.chmod(0o755)


def _copy_standard_library(source: Interpreter, target: Path) -> Path:
    stdlib, platform = Path(source.stdlib), Path(source.platstdlib)
    library = target / stdlib.relative_to(source.prefix)
    shutil.copytree(stdlib, library, ignore=_names_to_ignore, symlinks=False, ignore_dangling_symlinks=True)
    if platform != stdlib:
        shutil.copytree(
            platform, target / platform.relative_to(source.prefix), ignore=_names_to_ignore, dirs_exist_ok=True
        )
    packages = target / "lib" / f"python{source.minor}" / "site-packages"
    packages.mkdir(parents=True)
    # Distributions that patch `site` look for `dist-packages` instead.
    (packages.parent / "dist-packages").symlink_to("site-packages")
    for path in library.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)
    return library


def _names_to_ignore(_folder: str, names: list[str]) -> set[str]:
    ignored = {n for n in names if n in _LEFT_OUT or n.startswith(_LEFT_OUT_MODULES) or n in _LEFT_OUT_FILES}
    return ignored | {n for n in names if n.startswith("config-") or n.endswith((".pyc", ".a", ".exe"))}


def _write_host_starter(target: Path, minor: str) -> None:
    starter = target / "host" / "python3"
    starter.parent.mkdir()
    starter.write_text(
        "#!/bin/sh\nhere=${0%/*}\n"
        'exec "$here/../lib/ld.so" --library-path "$here/../lib" --argv0 "$here/python3" '
        f'"$here/../bin/python{minor}" "$@"\n'
    )
    starter.chmod(0o755)
    (starter.parent / "python").symlink_to("python3")


def _replace_host_paths(source: Interpreter, library: Path) -> None:
    """Replaces the host's folders in the interpreter's build configuration by the copy's path."""
    if source.prefix in ("/usr", "/usr/local"):
        return
    for path in library.glob("_sysconfigdata*.py"):
        path.write_text(path.read_text(encoding="utf-8").replace(source.prefix, HOME), encoding="utf-8")


def _patch(patchelf: Path, path: Path, run_path: str, loader: str | None = None) -> None:
    # DT_RPATH, unlike DT_RUNPATH, also serves the libraries of libraries, and precedes LD_LIBRARY_PATH.
    command: list[str | Path] = [patchelf, "--force-rpath", "--set-rpath", run_path]
    if loader is not None:
        command += ["--set-interpreter", loader]
    subprocess.run([*command, path], check=True, capture_output=True)


def _has_run_path(patchelf: Path, path: Path) -> bool:
    result = subprocess.run([patchelf, "--print-rpath", path], capture_output=True, text=True)
    return bool(result.stdout.strip())


def _elf_files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not stat.S_ISREG(path.lstat().st_mode):
                continue
            if (".so" in path.name or path.parent.name == "bin") and _is_elf(path):
                yield path


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _needed_libraries(path: Path, loader: Path, search: str, target: Path) -> dict[str, Path]:
    """Returns the libraries that the host's loader would load for `path`, except those in the layer."""
    out = subprocess.run(
        [loader, "--list", path], capture_output=True, text=True, env={"LD_LIBRARY_PATH": search}, timeout=60
    ).stdout
    found = {}
    for line in out.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        where = Path(rest.rpartition(" (")[0])
        if arrow and "/" not in name and where.is_absolute() and target not in where.parents and where.exists():
            found[name] = where
    return found


def _library_folders(paths: Iterable[Path]) -> list[Path]:
    return sorted({p.parent for p in paths})


def describe_interpreter(source: Interpreter) -> dict[str, str]:
    """Returns the properties of an interpreter that determine the copy: its version, and its files' sizes and times."""
    binary, library = Path(source.binary).stat(), (Path(source.stdlib) / "os.py").stat()
    return {
        "build": source.build,
        "binary": f"{source.binary} {binary.st_size} {binary.st_mtime_ns}",
        "library": json.dumps([source.stdlib, library.st_mtime_ns]),
    }
