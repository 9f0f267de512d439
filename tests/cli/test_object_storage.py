"""`assay store copy`, `check` and `gc`: what they print, how they end, and that an interrupted copy goes on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.cli import main
from assay.store import audit
from tests.optional import require_packages
from tests.processes import ASSAY
from tests.store.conftest import write_run
from tests.store.objects.s3_server import S3Server, serve_s3

require_packages("obstore")
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the sealed run `r` and the live run `live`."""
    from assay.store import seal

    root = tmp_path_factory.mktemp("runs")
    write_run(root, "r", 2)
    seal(root, "r")
    write_run(root, "live", 1)
    return root


@pytest.fixture
def say(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Calls the program in a folder with the store `runs`; returns its exit code, stdout and stderr."""
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        return code, *capsys.readouterr()

    return call


def test_runs_are_copied_checked_collected_and_fetched(say: Say, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/objects"
    code, out, err = say("store", "copy", "runs", url)
    assert (code, out[:23]) == (0, "run r: copied 10 object")
    assert "not copied, because they are live (`assay seal RUN`): live" in err
    assert say("store", "check", url)[:2] == (
        0,
        f"{url}: creates objects once; 1 sealed run, 0 runs on nodes, 10 objects (0.0 MiB), 0 problems\n",
    )
    assert "kept 10 objects of runs" in say("store", "gc", url)[1]
    code, out, _ = say("store", "copy", url, "copy", "--json")
    assert [(one["run"], one["sent"], one["already"]) for one in json.loads(out)] == [("r", 10, 0)]
    assert audit(tmp_path / "copy", "r") == ()


def test_a_damaged_object_ends_check_with_1_and_copy_with_3(say: Say, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/objects"
    say("store", "copy", "runs", url)
    (events,) = tmp_path.glob("objects/runs/r/segments/*/events.parquet")
    events.chmod(0o644)
    events.write_bytes(events.read_bytes()[:-1])
    key = str(events.relative_to(tmp_path / "objects"))
    code, out, _ = say("store", "check", url)
    assert (code, key in out, "1 problem" in out) == (1, True, True)
    code, _, err = say("store", "copy", url, "copy")
    assert (code, f"{key} was cut" in err) == (3, True)


def test_collection_is_a_dry_run_unless_asked(say: Say, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/objects"
    say("store", "copy", "runs", url)
    left = tmp_path / "objects" / "blobs" / "ab" / ("a" * 64)
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"left")
    assert "1 more are younger than 168 h" in say("store", "gc", url)[2]
    assert "would delete 1 object" in say("store", "gc", url, "--min-age-h", "0")[1]
    assert left.exists()
    assert "deleted 1 object" in say("store", "gc", url, "--min-age-h", "0", "--delete")[1]
    assert not left.exists()


WRONG = {
    ("copy", "runs", "other"): "two folders: write file:///FOLDER",
    ("copy", "s3://a/b", "s3://c/d"): "two URLs: copy to a folder first",
    ("copy", "runs", "memory://"): "memory:// is for tests",
    ("copy", "runs", "ftp://x"): "not a kind of object store",
    ("copy", "runs", "file:///tmp", "--run", "nope"): "no run is called 'nope'",
    ("copy", "nowhere", "file:///tmp"): "no sealed runs in nowhere",
    ("copy", "file:///no/such/folder", "copy"): "does not exist",
    ("check", "runs"): "is not a URL: write file:///FOLDER",
    ("gc", "s3://user:password@bucket"): "without credentials",
    ("gc", "file:///tmp", "--min-age-h", "-1"): "--min-age-h",
}


@pytest.mark.parametrize(("words", "what"), WRONG.items(), ids=lambda value: " ".join(value)[:40])
def test_wrong_use_is_one_paragraph(words: tuple[str, ...], what: str, say: Say) -> None:
    code, out, err = say("store", *words)
    assert (code, out) == (2, "")
    assert what in " ".join(err.split())
    assert "Traceback" not in err
    assert "password" not in err


@pytest.mark.long
async def test_an_interrupted_copy_goes_on(runs: Path, tmp_path: Path) -> None:
    server = S3Server()
    async with serve_s3(server) as endpoint:
        keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_ENDPOINT_URL": endpoint}

        async def copy() -> asyncio.subprocess.Process:
            words = ("store", "copy", str(runs), "s3://bucket/x", "--run", "r")
            return await asyncio.create_subprocess_exec(
                *ASSAY, *words, stderr=asyncio.subprocess.PIPE, env={**os.environ, **keys}
            )

        server.stalls_from = 16  # 10 are of the self-test
        process = await copy()
        while server.puts < server.stalls_from:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
        assert (process.returncode, b"`store copy` go on" in err, b"Traceback" in err) == (130, True, False)
        server.stalls_from = None
        sent = {key: data for key, data in server.objects.items() if "self-test" not in key}
        process = await copy()
        await process.communicate()
        assert process.returncode == 0
        assert sent.items() <= server.objects.items()
        assert len([key for key in server.objects if "/index/" not in key and "self-test" not in key]) == 10


def test_runs_of_a_place_are_queried_where_they_are(say: Say, tmp_path: Path) -> None:
    url, statement = f"file://{tmp_path}/objects", "select run, count(*) as n from trajectories group by 1"
    say("store", "copy", "runs", url)
    code, out, err = say("query", statement, "--place", url, "--run", "r", "--json")
    assert (code, json.loads(out)["rows"]) == (0, [{"run": "r", "n": 3}]), err
    code, _, err = say("query", statement, "--place", url, "--run", "other")
    assert code != 0
    assert "no run is called 'other'" in err
    assert say("query", statement, "--place", url, "--store", "runs")[0] == 2
