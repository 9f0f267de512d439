"""The whole of it, host side included, as an ordinary user of the machine."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SANDBOX = ("sandbox/test_workspace.py", "sandbox/test_backend_probe.py")
BROWSER = ("environments/browser/test_sites.py", "environments/browser/test_hostile_pages.py")


def as_nobody(arguments: list[str], home: Path) -> subprocess.CompletedProcess[str] | None:
    """Runs Python as an ordinary user; None where no Python on this machine can be run so."""
    packages = [str(ROOT / "src"), *site.getsitepackages()]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ":".join(packages)}
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, *arguments]
        try:
            probe = subprocess.run([python, "-c", "import blake3, msgspec, pytest"], env=env, user=65534, group=65534,
                                   extra_groups=[], capture_output=True, cwd="/", check=False)  # fmt: skip
        except OSError:
            continue
        if probe.returncode == 0:
            return subprocess.run(command, env=env, user=65534, group=65534, extra_groups=[], capture_output=True,
                                  text=True, cwd=ROOT, check=False)  # fmt: skip
    return None


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="every other test already runs as an ordinary user")
@pytest.mark.parametrize("modules", [SANDBOX, BROWSER[:1], BROWSER[1:]], ids=["sandbox", "sites", "hostile pages"])
def test_it_works_for_an_ordinary_user(modules: tuple[str, ...], tmp_path: Path) -> None:
    tests = [str(ROOT / "tests" / name) for name in modules]
    done = as_nobody(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", *tests], Path("/tmp"))
    if done is None:
        pytest.skip("no Python here that an ordinary user may run with our packages")
    assert done.returncode == 0, done.stdout[-3000:]
    if " passed" not in done.stdout:
        pytest.skip(f"an ordinary user skips them, too: {done.stdout[-300:]}")


REMOVES = """
import tempfile
from pathlib import Path
from assay.environments.workspace._folders import remove_folder
top = Path(tempfile.mkdtemp())
inner = top / "a" / "b"
inner.mkdir(parents=True)
(inner / "file").write_text("")
for folder in (inner, inner.parent, top):
    folder.chmod(0)
remove_folder(top)
print("left" if top.exists() else "removed")
"""


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="it runs as an ordinary user, whom permissions bind")
def test_folders_without_permissions_are_removed() -> None:
    done = as_nobody(["-c", REMOVES], Path("/tmp"))
    if done is None:
        pytest.skip("no Python here that an ordinary user may run with our packages")
    assert done.stdout == "removed\n", done.stderr
