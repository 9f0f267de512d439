"""Layers that are not in use are removed, the oldest use first; what is in use or cannot be made again stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace import layer_use
from assay.environments.workspace.images import BuildOptions, build_image, import_root
from assay.environments.workspace.layer_use import LayerPins, clean_layers, note_fetched
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.tasks import load_task
from tests.admission.folders import CAREFUL, write_task

MIB = 1 << 20
HOLD = """
import sys, time
from pathlib import Path
from assay.environments.workspace.layer_use import process_pins
assert process_pins().pin([Path(sys.argv[1])])
print("pinned", flush=True)
time.sleep(600)
"""
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from assay.environments.workspace import layer_use
layer_use.FRESH_S = 0.0
shutil.rmtree = lambda _: os.kill(os.getpid(), signal.SIGKILL)
layer_use.clean_layers(Path(sys.argv[1]), 0)
"""


@pytest.fixture(autouse=True)
def none_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_use, "FRESH_S", 0.0)


def _make_layer(cache: Path, digit: str, *, used: float) -> Path:
    """Makes a layer of one MiB with a folder that cannot be written, which was used so many seconds ago."""
    folder = cache / "images" / (digit * 32)
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "data").write_bytes(os.urandom(MIB))
    (folder / "deep").chmod(0o500)
    pins = LayerPins()
    assert pins.pin([folder])
    pins.close()
    note = cache / "layers" / "used" / f"images-{folder.name}.json"
    now = note.stat().st_mtime
    os.utime(note, (now - used, now - used))
    return folder


def test_the_least_recently_used_layers_are_removed_until_the_limit(tmp_path: Path) -> None:
    layers = [_make_layer(tmp_path, digit, used=used) for digit, used in (("a", 100), ("b", 300), ("c", 200))]
    shown = clean_layers(tmp_path, int(1.5 * MIB), dry_run=True)
    assert [one.exists() for one in layers] == [True, True, True]
    report = clean_layers(tmp_path, int(1.5 * MIB))
    assert report.removed == shown.removed == (f"images/{'b' * 32}", f"images/{'c' * 32}")
    assert (report.bytes_freed >= 2 * MIB, report.kept, MIB <= report.bytes_kept < 1.5 * MIB) == (True, 1, True)
    assert [one.exists() for one in layers] == [True, False, False]
    assert clean_layers(tmp_path, int(1.5 * MIB)).removed == ()


def test_a_layer_that_another_process_uses_stays_until_that_process_is_gone(tmp_path: Path) -> None:
    used, other = (_make_layer(tmp_path, digit, used=100) for digit in "ab")
    with subprocess.Popen([sys.executable, "-c", HOLD, str(used)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"pinned\n"
        report = clean_layers(tmp_path, 0)
        assert (report.removed, report.in_use, used.is_dir(), other.exists()) == (
            (f"images/{other.name}",),
            1,
            True,
            False,
        )
        holder.kill()
    assert clean_layers(tmp_path, 0).removed == (f"images/{used.name}",)


def test_pins_of_a_removed_layer_are_not_renewed(tmp_path: Path) -> None:
    first, second = (_make_layer(tmp_path, digit, used=100) for digit in "ab")
    pins = LayerPins()
    assert pins.pin([first, second])
    assert clean_layers(tmp_path, 0).removed == ()
    pins.close()
    assert pins.renew()
    pins.close()
    assert len(clean_layers(tmp_path, 0).removed) == 2
    assert (pins.renew(), LayerPins().pin([first])) == (False, False)


def test_a_killed_cleaner_leaves_a_layer_whole_or_absent(tmp_path: Path) -> None:
    layer = _make_layer(tmp_path, "a", used=100)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    assert (killed.returncode, layer.exists()) == (-signal.SIGKILL, False)
    assert len(list((tmp_path / "images").glob(".removed-*"))) == 1
    clean_layers(tmp_path, MIB)
    assert [path.name for path in (tmp_path / "images").iterdir()] == [".use.lock"]


def test_what_cannot_be_made_again_stays(tmp_path: Path) -> None:
    (tmp_path / "root" / "bin").mkdir(parents=True)
    (tmp_path / "root" / "bin" / "sh").write_text("sh", encoding="utf-8")
    root = tmp_path / "images" / import_root("base:1", tmp_path / "root", tmp_path)
    tools = tmp_path / "tools" / ("d" * 32)
    tools.mkdir(parents=True)
    (tmp_path / "agents" / "one-1").mkdir(parents=True)
    (tmp_path / "agents" / "one-1" / "installed.json").write_text(f'{{"python": "tools/{tools.name}"}}')
    assert clean_layers(tmp_path, 0).removed == ()
    note_fetched(root)  # as for one that another machine put into the place
    assert clean_layers(tmp_path, 0).removed == (f"images/{root.name}",)
    (tmp_path / "agents" / "one-1" / "installed.json").unlink()
    assert clean_layers(tmp_path, 0).removed == (f"tools/{tools.name}",)


def test_the_layers_of_another_cache_are_left_alone(tmp_path: Path) -> None:
    layer = _make_layer(tmp_path / "one", "a", used=100)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "images").symlink_to(tmp_path / "one" / "images")
    assert clean_layers(tmp_path / "two", 0).removed == ()
    assert layer.is_dir()


@pytest.mark.long
async def test_a_removed_layer_is_made_again(backends: dict[str, Backend], tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "Dockerfile").write_text("FROM scratch\nRUN echo made > /stamp\n", encoding="utf-8")
    pins = LayerPins()
    options = BuildOptions(cache=tmp_path / "cache", pins=pins)
    image = await build_image(tmp_path / "task", options, backend=backends["namespaces"])
    assert clean_layers(tmp_path / "cache", 0).in_use == 1
    workspace = await backends["namespaces"].open(WorkspaceSpec(image=image))
    assert (await workspace.exec("cat /stamp")).stdout == "made\n"
    await workspace.close()
    pins.close()
    assert len(clean_layers(tmp_path / "cache", 0).removed) == 1
    assert await build_image(tmp_path / "task", options, backend=backends["namespaces"]) == image
    assert pins.renew()


@pytest.mark.long
async def test_a_run_keeps_its_cache_below_a_limit_and_what_attempts_use(
    backends: dict[str, Backend], cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "tools").symlink_to(cache / "tools")
    settings = Settings(cache=tmp_path / "cache", store=tmp_path, cache_gib=0.0)
    preparer = Preparer(backends["namespaces"], RunConfig(tasks=("-",)), settings)
    tasks = []
    for name in "ab":
        folder = write_task(tmp_path / name, CAREFUL)
        dockerfile = folder / "environment" / "Dockerfile"
        dockerfile.write_text(f"FROM scratch\nRUN echo {name} > /stamp\n", encoding="utf-8")
        tasks.append(load_task(folder))
    first, second = tasks

    def stamps() -> list[str]:
        return sorted(path.read_text() for path in (tmp_path / "cache" / "images").glob("*/stamp"))

    await preparer.spec(first)
    await preparer.spec(first)
    await preparer.spec(second)
    assert stamps() == ["a\n", "b\n"]  # both are in use
    preparer.release(second)
    preparer.release(first)
    await preparer.spec(second)
    assert stamps() == ["a\n", "b\n"]  # nothing was made, and another attempt has the first one
    preparer.release(first)
    clean_layers(tmp_path / "cache", 0)
    assert stamps() == ["b\n"]
    spec = await preparer.spec(first)  # is made again
    assert stamps() == ["a\n", "b\n"]
    workspace = await preparer.backend.open(spec)
    assert (await workspace.exec("cat /stamp")).stdout == "a\n"
    await workspace.close()
    preparer.close()
    assert len(clean_layers(tmp_path / "cache", 0).removed) == 2
