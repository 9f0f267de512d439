"""Reads the source tree that tasks are made from into memory, from a folder, an archive or an installed package.

Left out: version control, byte code, caches, build results, virtual environments, archives of the package itself,
installed copies, installed metadata but `METADATA` (a `RECORD` names the digest of the unbroken file), links, and names
that cannot be printed. Nothing of the tree is run or imported here.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path, PurePosixPath

from blake3 import blake3

from assay.errors import UserError
from assay.tasks.assay_config import NOT_DECLARED

from ._archive import MAX_BYTES, MAX_FILES, read_archive, require_safe_name
from ._package_metadata import find_licence, find_name_and_version

ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip", ".whl")
_LEFT_OUT = {
    ".git", ".hg", ".svn", "__pycache__", ".tox", ".nox", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    "node_modules", "site-packages", ".eggs", ".coverage", ".idea", ".vscode", "htmlcov", ".hypothesis", ".benchmarks",
}  # fmt: skip
_LEFT_OUT_AT_TOP = {"build", "dist", "venv", "env"}
_LEFT_OUT_PATTERNS = ("*.pyc", "*.pyo", "*.egg-info", "*.egg-link", "*.orig", "*.rej", ".coverage.*")
_PACKED = (".whl", ".egg", ".zip", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar")
_TEST_PATTERNS = ("test_*.py", "*_test.py")
_NOT_CODE = {"test", "tests", "testing", "docs", "doc", "examples", "benchmarks", "scripts", "tools", "requirements"}


@dataclasses.dataclass(frozen=True)
class SourceTree:
    """A source tree. Paths are relative and POSIX."""

    name: str
    version: str
    kind: str
    """`installed`, `wheel`, `sdist`, `folder` or `git`."""
    files: dict[str, bytes]
    roots: tuple[str, ...]
    """Folders (`.` or `src`) for `sys.path`."""
    packages: tuple[str, ...]
    """Top-level packages and modules, as paths."""
    repository: Path | None = None
    """The git repository on the host."""
    requirements: tuple[str, ...] = ()
    """Pinned versions of its installed requirements."""
    licence: str = NOT_DECLARED
    """Licence that its metadata declares."""

    @functools.cached_property
    def digest(self) -> str:
        """Returns the content address of names and bytes."""
        hasher = blake3()
        for path in sorted(self.files):
            hasher.update(f"{path}\0{len(self.files[path])}\0".encode())
            hasher.update(self.files[path])
        return f"blake3:{hasher.hexdigest()}"

    @property
    def provenance(self) -> dict[str, str]:
        """Returns what each task made from it says of its source, for `[metadata.assay.provenance]`."""
        return {"source_digest": self.digest, "licence": self.licence}

    @property
    def title(self) -> str:
        """Returns name and version, as in `num2words 0.5.13`."""
        return f"{self.name} {self.version}".strip()

    @functools.cached_property
    def tests(self) -> tuple[str, ...]:
        """Returns the sorted test files."""
        return tuple(sorted(p for p in self.files if is_test_file(p)))

    @functools.cached_property
    def modules(self) -> tuple[str, ...]:
        """Returns the sorted program files: Python files of its packages, without tests."""
        return tuple(sorted(p for p in self.files if self._is_module(p)))

    def _is_module(self, path: str) -> bool:
        own = any(path == package or path.startswith(package + "/") for package in self.packages)
        parts = PurePosixPath(path)
        tests = {"test", "tests"} & set(parts.parts[:-1])
        return own and parts.suffix == ".py" and not tests and not is_test_file(path) and parts.name != "conftest.py"

    @property
    def import_names(self) -> tuple[str, ...]:
        """Returns the import names of the top-level packages."""
        return tuple(PurePosixPath(p).stem for p in self.packages)


def is_test_file(path: str) -> bool:
    """Returns True if pytest would collect tests from the file."""
    return any(fnmatch(PurePosixPath(path).name, pattern) for pattern in _TEST_PATTERNS)


def load_source(source: str) -> SourceTree:
    """Finds and reads a package with tests.

    Raises:
        UserError: The source does not exist, is unsafe to read, or contains no Python package or no tests.
    """
    tree = read_tree(source)
    if not tree.tests:
        raise UserError(
            f"{source} holds no test files ({', '.join(_TEST_PATTERNS)}): tasks are judged by the package's own tests; "
            "name its sdist or its repository, if they carry them"
        )
    return tree


def read_tree(source: str, *, installed: bool = True) -> SourceTree:
    """Finds and reads a package, with or without tests: a folder, an archive or, if `installed`, an installed package.

    Raises:
        UserError: The source does not exist, is unsafe to read, or contains no Python package.
    """
    path = Path(source)
    if path.is_dir():
        tree = _from_folder(path)
    elif path.is_file() and path.name.endswith(ARCHIVES):
        tree = _from_archive(path)
    elif path.exists():
        raise UserError(f"{source} is neither a folder nor an archive ({', '.join(ARCHIVES)})")
    elif installed:
        tree = _from_installed(source)
    else:
        raise UserError(f"{source} does not exist: name an sdist, a wheel or a folder")
    if not tree.packages:
        raise UserError(f"{source} holds no Python package or module at its top or under src/")
    return tree


def _from_folder(folder: Path) -> SourceTree:
    root, total = folder.resolve(), 0
    files: dict[str, bytes] = {}
    for at, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not _is_left_out(f) and not (Path(at) / f).is_symlink())
        for name in sorted(names):
            path = Path(at) / name
            if _is_left_out(name) or path.is_symlink() or not path.is_file():
                continue
            total += path.stat().st_size
            if total > MAX_BYTES or len(files) >= MAX_FILES:
                raise UserError(
                    f"{folder} holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: name a smaller folder"
                )
            files[path.relative_to(root).as_posix()] = path.read_bytes()
    git = (root / ".git").exists()
    name, version = find_name_and_version(files, root.name)
    tree = _build_tree(name, version, "git" if git else "folder", files)
    return dataclasses.replace(tree, repository=root if git else None)


def _from_archive(path: Path) -> SourceTree:
    files = read_archive(path)
    if path.suffix == ".whl":
        name, version = find_name_and_version(files, path.name)
        return _build_tree(name, version, "wheel", files)
    tops = {name.partition("/")[0] for name in files}
    if len(tops) == 1 and all("/" in name for name in files):
        (top,) = tops
        files = {name[len(top) + 1 :]: data for name, data in files.items()}
    name, version = find_name_and_version(files, next(iter(tops)))
    return _build_tree(name, version, "sdist", files)


def _from_installed(name: str) -> SourceTree:
    try:
        found = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as exc:
        raise UserError(
            f"{name!r} is neither a file or folder here nor an installed package: check the name, or download its sdist"
        ) from exc
    files: dict[str, bytes] = {}
    total = 0
    for entry in found.files or ():
        inside = not entry.is_absolute() and ".." not in entry.parts
        path = Path(str(found.locate_file(entry)))
        if inside and path.is_file():
            total += path.stat().st_size
            if total > MAX_BYTES or len(files) >= MAX_FILES:
                raise UserError(
                    f"{name} is installed as more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: name its sdist"
                )
            files[require_safe_name(entry.as_posix(), name)] = path.read_bytes()
    tree = _build_tree(found.metadata["Name"], found.version, "installed", files)
    return dataclasses.replace(tree, requirements=_installed_requirements(found))


def _installed_requirements(found: metadata.Distribution) -> tuple[str, ...]:
    from packaging.requirements import InvalidRequirement, Requirement

    pins = {}
    for text in found.requires or ():
        try:
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                pins[wanted.name] = metadata.version(wanted.name)
        except (InvalidRequirement, metadata.PackageNotFoundError):
            continue
    return tuple(f"{name}=={version}" for name, version in sorted(pins.items()))


def _build_tree(name: str, version: str, kind: str, files: dict[str, bytes]) -> SourceTree:
    sources = select_source_files(files, name)
    roots, packages = _find_packages(sources)
    return SourceTree(name, version, kind, sources, roots, packages, licence=find_licence(files))


def select_source_files(files: dict[str, bytes], name: str) -> dict[str, bytes]:
    """Returns the files that belong to the source tree of a package of that name."""
    environments = {path.rpartition("/")[0] + "/" for path in files if path.endswith("/pyvenv.cfg")}
    own = "[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", name))
    packed = re.compile(own + r"[-_]v?[0-9][^/]*", re.IGNORECASE)
    return {
        path: data
        for path, data in files.items()
        if _is_source_path(path)
        and not any(path.startswith(folder) for folder in environments)
        and not (path.endswith(_PACKED) and packed.fullmatch(path.rpartition("/")[2]))
    }


def _is_source_path(path: str) -> bool:
    if not path.isprintable():
        return False
    parts = path.split("/")
    if any(part.endswith((".dist-info", ".data")) for part in parts[:-1]):
        return parts[-1] == "METADATA"
    return parts[0] not in _LEFT_OUT_AT_TOP and not any(_is_left_out(part) for part in parts)


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT or any(fnmatch(name, pattern) for pattern in _LEFT_OUT_PATTERNS)


def _find_packages(files: dict[str, bytes]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the import roots and the packages in them."""
    found: dict[str, list[str]] = {}
    for root in ("src", "lib", "."):
        prefix = "" if root == "." else root + "/"
        inner = [path[len(prefix) :] for path in files if path.startswith(prefix)]
        packages = {p.partition("/")[0] for p in inner if p.count("/") == 1 and p.endswith("/__init__.py")}
        modules = {p for p in inner if "/" not in p and p.endswith(".py") and not is_test_file(p)}
        own = sorted(packages - _NOT_CODE) + sorted(modules - {"setup.py", "conftest.py", "noxfile.py"})
        if own:
            found[root] = [prefix + name for name in own]
    chosen = {root: names for root, names in found.items() if root != "." or len(found) == 1}
    return tuple(chosen), tuple(name for names in chosen.values() for name in names)
