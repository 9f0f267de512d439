"""Stores of earlier code: sealed and audited runs, live runs, of scripts, tests and worlds.

`ungraded` was written before verdicts had a grade of separation, `graded` before modules and fields were renamed.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.store import RunStore, audit, list_runs, load_current_verdicts, query
from assay.verdicts import assess

GOLDEN = Path(__file__).parent / "golden"
SEALED, LIVE = "20261122-231054-143806-oracle", "20261122-231059-324914-null"
GRADED, GRADED_LIVE = "20261123-173626-398436-oracle", "20261123-173448-164857-null"
WORLDS = "20261123-173744-495688-oracle"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Returns the folder of the ungraded store."""
    return extract(tmp_path, "ungraded")


def extract(folder: Path, name: str) -> Path:
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # older releases of 3.11 have no filters
        archive.extractall(folder, **safe)
    return folder / "store"


@pytest.mark.newest
def test_chains_of_an_ungraded_store_verify(root: Path) -> None:
    assert sorted(list_runs(root)) == [SEALED, LIVE]
    assert audit(root, SEALED) == audit(root, LIVE) == ()


@pytest.mark.newest
def test_ungraded_pass_is_trusted_and_its_separation_unknown(root: Path) -> None:
    with RunStore.open(root, SEALED) as store:
        rows = {row.chain: row for row in store.attempts()}
    for chain, current in load_current_verdicts(root, SEALED).items():
        trust = assess(current, rows[chain])
        assert (trust.headline, trust.separation) == ("pass", "unknown")


@pytest.mark.newest
def test_ungraded_pass_does_not_meet_a_required_grade(root: Path) -> None:
    words = {assess(current, require="separate").headline for current in load_current_verdicts(root, SEALED).values()}
    assert words == {"pass (separation unknown)"}


@pytest.mark.newest
def test_queries_over_an_ungraded_store_say_unknown(root: Path) -> None:
    for run in ([SEALED], [LIVE], [SEALED, LIVE]):
        for table in ("trajectories", "verdicts"):
            assert query(root, f"SELECT DISTINCT separation FROM {table}", runs=run).rows == (("unknown",),)


@pytest.mark.newest
def test_steps_and_calls_of_an_older_store_have_no_actors_name(root: Path) -> None:
    for table in ("steps", "calls"):
        rows = query(root, f"SELECT DISTINCT actor_name FROM {table}", runs=[SEALED]).rows
        assert rows in ((), ((None,),))


@pytest.mark.newest
def test_a_graded_store_opens_and_its_chains_verify(tmp_path: Path) -> None:
    root = extract(tmp_path, "graded")
    assert sorted(list_runs(root)) == sorted([GRADED, GRADED_LIVE, WORLDS])
    assert audit(root, GRADED) == audit(root, GRADED_LIVE) == audit(root, WORLDS) == ()
    rows = query(root, "SELECT outcome, separation, count(*) FROM trajectories GROUP BY ALL ORDER BY ALL").rows
    assert rows == (("fail", "separate", 1), ("pass", "no-agent-code", 2), ("pass", "separate", 2))


@pytest.mark.newest
def test_passes_of_a_graded_store_have_their_grade_and_re_verification(tmp_path: Path) -> None:
    root = extract(tmp_path, "graded")
    for verdicts in load_current_verdicts(root, GRADED).values():
        assert (assess(verdicts).headline, verdicts.reverified) == ("pass", "agree")


@pytest.mark.long
@pytest.mark.parametrize(
    ("store", "run"),
    [("ungraded", SEALED), ("ungraded", LIVE), ("graded", GRADED), ("graded", GRADED_LIVE), ("graded", WORLDS)],
)
def test_stored_states_of_an_old_store_are_judged_again(tmp_path: Path, store: str, run: str) -> None:
    root = extract(tmp_path, store)
    done = CliRunner().invoke(build_app(), ["verify", run, "--again", "1", "--store", str(root)])
    assert done.exit_code == 0, done.output
    assert "0 disagree, 0 flaky, 0 cannot" in done.output
