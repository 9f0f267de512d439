"""Runs pip and npm, and lists the installed packages. Their failures become errors with the action to take."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError

from .recipe import Npm, Pip

LONGEST_S = 1800
LOCKS = Path(__file__).parent / "locks"
"""Folder of the lock files: with digests for npm (`scripts/lock_harnesses.sh` writes them), without for Python."""
_OFFLINE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network (?:is|request)|"
    r"NewConnectionError|NameResolutionError|ProxyError|ReadTimeoutError"
)
_ABSENT = re.compile(r"E404|ETARGET|No matching distribution|not found in registry|Could not find a version")


def run_npm(node: Path, npm: Path, folder: Path, name: str, wanted: Npm) -> None:
    """Installs a recipe's locked packages into `folder/node_modules`, without their scripts. Raises `UserError`."""
    asked = {"private": True, "dependencies": {wanted.package: wanted.version}}
    (folder / "package.json").write_bytes(msgspec.json.encode(asked))
    shutil.copyfile(LOCKS / f"{name}.json", folder / "package-lock.json")
    # Not `npm ci`: it refuses a lock without the optional packages of other platforms that a registry has lost.
    command = [
        *("env", "NODE_USE_SYSTEM_CA=1"),  # a registry behind a certificate that this system trusts is trusted
        *(str(node), str(npm), "install", "--ignore-scripts", "--omit=dev", "--prefer-offline"),
        *("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"),
        *("--fetch-retry-mintimeout=2000", "--fetch-retry-maxtimeout=10000"),
    ]
    _run(command, folder, f"npm could not install {', '.join(wanted.requirements)}")


def pip_install(python: str, wanted: Pip, target: Path, name: str | None = None) -> None:
    """Installs wheels for `python` into `target`, with the versions of the lock `name`. Raises `UserError`."""
    pinned = [] if name is None else ["-c", str(LOCKS / f"{name}.txt")]
    built = [f"--no-binary={package}" for package in wanted.built]
    command = [
        *(*_pip(python), "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"),
        *("--only-binary", ":all:", *built, *pinned, "--target", str(target), *wanted.packages),
    ]
    _run(command, target.parent, f"pip could not install {', '.join(wanted.packages)} (wheels alone)")


def _pip(python: str) -> list[str]:
    own = [python, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return [sys.executable, "-m", "pip", "--python", python]
    raise UserError(f"no pip: neither {python} nor {sys.executable} has one; install pip (`python3 -m ensurepip`)")


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    except subprocess.TimeoutExpired as exc:
        raise UserError(f"{what}: not done within {LONGEST_S} s; try again") from exc
    if done.returncode == 0:
        return
    output = f"{done.stdout}\n{done.stderr}".strip()[:20_000]
    if _OFFLINE.search(output):
        hint = "the package registry is not in reach; run this once where it is, or copy the cache folder from there"
    elif _ABSENT.search(output):
        hint = "the registry does not have that version"
    else:
        hint = "its own words are above"
    errors = [line for line in output.splitlines() if line.lower().startswith(("error", "npm error"))]
    words = "\n".join(errors) or output
    raise UserError(f"{what}:\n{words[:1500]}\n{hint}")


def npm_packages(folder: Path) -> tuple[list[str], list[list[Any]]]:
    """Returns the npm packages below `folder`: `name@version` each, and the same with digests."""
    lock = msgspec.json.decode((folder / "node_modules" / ".package-lock.json").read_bytes())
    details = sorted(
        [place.rpartition("node_modules/")[2], entry.get("version", ""), entry.get("integrity", "")]
        for place, entry in lock.get("packages", {}).items()
    )
    return sorted({f"{name}@{version}" for name, version, _ in details}), details


def pip_packages(site: Path) -> list[str]:
    """Returns the pip packages in `site`: `name==version` each."""
    return sorted({f"{found.name}=={found.version}" for found in metadata.distributions(path=[str(site)])})


def find_python(oldest: tuple[int, int], given: str | None = None) -> str:
    """Returns a sufficiently new host Python: the running one, one on the PATH, or pyenv's; else `UserError`."""
    if given is not None:
        if not _is_new_enough(given, oldest):
            raise UserError(
                f"{given} does not start, or is older than Python {_version_text(oldest)}: name another with --python"
            )
        return given
    for python in _candidates(oldest):
        if _is_new_enough(python, oldest):
            return python
    raise UserError(
        f"no Python {_version_text(oldest)} or newer on this machine: install one, or name it with --python PATH"
    )


def _candidates(oldest: tuple[int, int]) -> list[str]:
    minors = range(oldest[1], 15)
    on_path = [shutil.which(f"python{oldest[0]}.{minor}") for minor in minors]
    pyenv = Path("~/.pyenv/versions").expanduser()
    built = [str(place / "bin" / "python3") for minor in minors for place in sorted(pyenv.glob(f"3.{minor}.*"))]
    return [sys.executable, *(found for found in on_path if found), *built]


def _is_new_enough(python: str, oldest: tuple[int, int]) -> bool:
    code = f"import sys; sys.exit(sys.version_info[:2] < {oldest})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
