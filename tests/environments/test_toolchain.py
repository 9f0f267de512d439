from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from assay.environments.workspace import toolchain as toolchain_module
from assay.environments.workspace.toolchain import (
    HOME,
    PYTHON,
    ToolLayer,
    ensure_toolchain,
    find_layer,
    install_layer,
    recipe_name,
)
from assay.errors import EnvironmentFailure, UserError
from tests.sampling import WHOLE

DEBIAN = "/usr/bin/python3"


def mounted(layer: ToolLayer, *command: str) -> str:
    """Runs a command where the layer is at its place and the folder it came from is not to be seen."""
    script = (
        f'mount --bind "$1" /mnt && mount -t tmpfs none /opt && mkdir {HOME} && mount --move /mnt {HOME} '
        '&& mount -t tmpfs none "$2" && shift 2 && cd / && exec "$@"'
    )
    hidden = Path(layer.path).parents[1]
    arguments = ["unshare", "-Urm", "sh", "-c", script, "sh", layer.path, str(hidden), *command]
    result = subprocess.run(arguments, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, timeout=60)
    if "Operation not permitted" in result.stderr:
        pytest.skip(f"no user namespaces here: {result.stderr.strip()}")
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_interpreter_finds_itself_at_its_fixed_place(toolchain: ToolLayer) -> None:
    code = "import sys, ssl, sqlite3, ctypes, lzma, pytest, coverage; print(sys.prefix, sys.executable, *sys.path)"
    words = mounted(toolchain, PYTHON, "-I", "-c", code).split()
    assert words[:2] == [HOME, PYTHON]
    assert all(word.startswith(HOME) for word in words)


def test_interpreter_loads_no_library_of_the_system(toolchain: ToolLayer) -> None:
    code = "import ssl, sqlite3, ctypes; print(open('/proc/self/maps').read())"
    loaded = {line.split()[-1] for line in mounted(toolchain, PYTHON, "-I", "-c", code).splitlines() if ".so" in line}
    assert loaded
    assert all(path.startswith(HOME) for path in loaded)


def test_library_preloaded_for_everything_does_not_reach_it(toolchain: ToolLayer, tmp_path: Path) -> None:
    loader = (Path(toolchain.path) / "lib" / "ld.so").read_bytes()
    assert b"/etc/ld.so.preload" not in loader
    assert b"/etc/ld.so.cache" not in loader


def test_commands_of_packages_start(toolchain: ToolLayer) -> None:
    assert mounted(toolchain, f"{HOME}/bin/pytest", "--version").startswith("pytest")
    assert "Coverage.py" in mounted(toolchain, f"{HOME}/bin/coverage", "--version")


def test_nothing_in_the_layer_names_the_makers_folders(toolchain: ToolLayer) -> None:
    code = (
        "import pytest, json, sysconfig; print(pytest.main.__code__.co_filename, *sysconfig.get_config_vars().values())"
    )
    text = mounted(toolchain, PYTHON, "-I", "-c", code)
    assert "/.making-" not in text
    assert "/.pyenv/" not in text


def test_byte_code_is_ready_for_the_standard_library(toolchain: ToolLayer) -> None:
    sources = list(Path(toolchain.path).glob("lib/python*/json/*.py"))
    assert sources
    assert all(list(p.parent.glob(f"__pycache__/{p.stem}.*.pyc")) for p in sources)


def test_layer_is_readable_by_anybody_and_writable_by_no_one_else(toolchain: ToolLayer) -> None:
    for path in Path(toolchain.path).rglob("*"):
        if not path.is_symlink():
            assert path.stat().st_mode & 0o777 in (0o755, 0o644), path


def test_layer_is_found_again_and_starts_in_place(cache: Path, toolchain: ToolLayer) -> None:
    assert find_layer(cache) == toolchain
    python = Path(toolchain.path) / "host" / "python3"
    out = subprocess.run([python, "-I", "-c", "import pytest; print(7)"], capture_output=True, text=True)
    assert out.stdout == "7\n"


def test_layer_of_another_machine_is_loaded_in_sandboxes_alone(tmp_path: Path, toolchain: ToolLayer) -> None:
    assert toolchain.mount().is_own
    root = tmp_path / "unpacked"
    shutil.copytree(toolchain.path, root, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tools").mkdir()
    described = msgspec.structs.replace(toolchain, path="", is_locked=True)
    install_layer(tmp_path, recipe_name(), root, described)
    fetched = find_layer(tmp_path)
    assert fetched.digest == toolchain.digest
    assert not fetched.mount().is_own


@pytest.mark.parametrize("name", ["lib/python{minor}/__pycache__", "lib/python{minor}", "lib/python{minor}/named.py"])
def test_layer_of_another_machine_writes_and_reads_nothing_outside(tmp_path: Path, name: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "unpacked"
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    outside.mkdir()
    (outside / "secret.py").write_text("KEY = 'of the host'\n", encoding="utf-8")
    link = root / name.format(minor=minor)
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / "secret.py" if link.suffix == ".py" else outside)
    if link.parent.name != "lib":
        (link.parent / "os.py").write_text("print('not of the host')\n", encoding="utf-8")
    (tmp_path / "tools").mkdir()
    described = ToolLayer("", toolchain_module._tree_digest(root), f"{minor}.0")
    with pytest.raises(ValueError, match="leads outside"):
        install_layer(tmp_path, "a" * 32, root, described)
    assert [path.name for path in outside.rglob("*")] == ["secret.py"]
    assert not list(root.rglob("*.pyc"))


def test_absent_layer_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make setup"):
        find_layer(tmp_path, ["toolz==1.0.0"])


@pytest.mark.parametrize("pin", ["toolz", "toolz>=1", "toolz==1.*", "toolz==1; rm", "-r x==1", "../x==1"])
def test_loose_requirement_is_refused(tmp_path: Path, pin: str) -> None:
    with pytest.raises(UserError, match="not a pinned requirement"):
        ensure_toolchain(tmp_path, [pin])


def test_what_the_layer_runs_on_cannot_be_masked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be masked"):
        ensure_toolchain(tmp_path, masked=["PyTest"])


@pytest.mark.skipif(not Path(DEBIAN).exists(), reason="no Python of the distribution")
@pytest.mark.skipif(not WHOLE, reason="makes two layers from a package index: part of `make campaign`")
def test_makers_at_once_agree_and_masks_hold_for_another_python(tmp_path: Path) -> None:
    def make(_: int) -> ToolLayer:
        return ensure_toolchain(tmp_path, ["jinja2==3.1.6"], masked=["markupsafe"], python=DEBIAN)

    with ThreadPoolExecutor(2) as pool:
        try:
            first, second = pool.map(make, range(2))
        except UserError as exc:
            pytest.skip(f"no package index in reach: {exc}")
    assert first == second
    assert "jinja2==3.1.6" in first.packages
    assert not [p for p in first.packages if "markupsafe" in p]
    assert not list(Path(first.path).rglob("*markupsafe*"))
    assert mounted(first, PYTHON, "-I", "-c", "import pytest, sys; print(sys.prefix)") == f"{HOME}\n"
    shutil.rmtree(tmp_path / "tools")


def test_a_machine_that_cannot_write_the_layer_is_not_the_tasks_failure(tmp_path: Path) -> None:
    (tmp_path / "tools").write_text("in the way")
    with pytest.raises(EnvironmentFailure, match=f"making the tool layer in {tmp_path}/tools: "):
        ensure_toolchain(tmp_path)


def test_a_machine_without_the_packages_of_every_layer_is_not_the_tasks_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(EnvironmentFailure, match="could not be installed"):
        ensure_toolchain(tmp_path)


def test_an_error_of_the_installer_itself_is_told_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text(
        "import sys\nif '--version' not in sys.argv:\n"
        "    sys.exit('ERROR: Exception:\\nTraceback:\\n  a line\\nOSError: No space left on device')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match=r"could not be installed:\nOSError: No space left on device\n"):
        ensure_toolchain(tmp_path / "cache")
