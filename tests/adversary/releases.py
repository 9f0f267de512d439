"""Other releases of a package as other right solutions: a repaired task's function as another release wrote it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from assay.code.transplant import transplant_function

from .rewriting import Rewritten
from .synthesised import RepairTask

__all__ = ["RELEASES", "download_releases", "solutions_from_release"]

RELEASES = {
    "boltons": ("25.0.0", "24.0.0", "23.0.0", "21.0.0"),
    "humanize": ("4.14.0", "4.12.0", "4.9.0", "4.4.0"),
    "more_itertools": ("10.8.0", "10.5.0", "10.1.0", "9.0.0"),
    "networkx": ("3.5", "3.4.2", "3.3", "3.2.1", "3.1", "2.8.8"),
    "num2words": ("0.5.13", "0.5.12", "0.5.10"),
    "sqlparse": ("0.6.0", "0.5.3", "0.5.0", "0.4.3"),
    "toolz": ("1.0.0", "0.12.1", "0.11.2"),
}
"""Package to releases that are asked of the registry."""
DOWNLOAD_S = 120


def download_releases(package: str, cache: Path, say: Callable[[str], None]) -> dict[str, dict[str, str]]:
    """Returns the Python files of each release by path, read from wheels that `pip download` puts into `cache`.

    A release that cannot be had is named and left out.
    """
    found = {}
    for version in RELEASES.get(package, ()):
        folder = cache / f"{package}-{version}"
        if not list(folder.glob("*.whl")) + list(folder.glob("*.tar.gz")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--no-binary=:none:", "-d", str(folder), f"{package}=={version}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
            if done.returncode != 0:
                say(f"{package} {version} cannot be downloaded: {done.stderr.strip()[-200:]}")
                continue
        found[version] = _read(folder, package)
    return found


def _read(folder: Path, package: str) -> dict[str, str]:
    files = {}
    for archive in folder.glob("*.whl"):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.startswith(f"{package}/") and name.endswith(".py"):
                    files[name] = wheel.read(name).decode()
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as source:
            for member in source:
                name = member.name.partition("/")[2].removeprefix("src/")
                stream = source.extractfile(member) if name.startswith(f"{package}/") and member.isfile() else None
                if stream is not None and name.endswith(".py"):
                    files[name] = stream.read().decode()
    return files


def solutions_from_release(task: RepairTask, version: str, files: dict[str, str]) -> Iterator[Rewritten]:
    """Yields the repaired task with a repaired function or an entry point as the release has it, where it differs."""
    seen = set()
    for path, function in (*task.repaired_functions(), *task.entry_functions()):
        other = files.get(path.removeprefix("src/"))
        if other is None or (path, function.name) in seen:
            continue
        seen.add((path, function.name))
        text = task.repaired.get(path, task.broken[path])
        new = transplant_function(text, other, function.name)
        if new is not None:
            name = f"release-{version}-{function.name}".replace(".", "-").replace("_", "-").lower()
            yield Rewritten(name, {**task.repaired, path: new})
