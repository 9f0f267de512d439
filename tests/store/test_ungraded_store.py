"""A store written before verdicts had a grade of separation: one sealed and audited run, one live run."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.store import RunStore, audit, list_runs, load_current_verdicts, query
from assay.verdicts import assess

ARCHIVE = Path(__file__).parent / "golden" / "ungraded.tar.xz"
SEALED, LIVE = "20261122-231054-143806-oracle", "20261122-231059-324914-null"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Returns the folder of the store."""
    with tarfile.open(ARCHIVE) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # older releases of 3.11 have no filters
        archive.extractall(tmp_path, **safe)
    return tmp_path / "store"


@pytest.mark.quick
def test_chains_of_an_ungraded_store_verify(root: Path) -> None:
    assert sorted(list_runs(root)) == [SEALED, LIVE]
    assert audit(root, SEALED) == audit(root, LIVE) == ()


@pytest.mark.quick
def test_ungraded_pass_is_trusted_and_its_separation_unknown(root: Path) -> None:
    with RunStore.open(root, SEALED) as store:
        rows = {row.chain: row for row in store.attempts()}
    for chain, current in load_current_verdicts(root, SEALED).items():
        trust = assess(current, rows[chain])
        assert (trust.headline, trust.separation) == ("pass", "unknown")


@pytest.mark.quick
def test_ungraded_pass_does_not_meet_a_required_grade(root: Path) -> None:
    words = {assess(current, require="separate").headline for current in load_current_verdicts(root, SEALED).values()}
    assert words == {"pass (separation unknown)"}


@pytest.mark.quick
def test_queries_over_an_ungraded_store_say_unknown(root: Path) -> None:
    for run in ([SEALED], [LIVE], [SEALED, LIVE]):
        for table in ("trajectories", "verdicts"):
            assert query(root, f"SELECT DISTINCT separation FROM {table}", runs=run).rows == (("unknown",),)


@pytest.mark.slow
@pytest.mark.parametrize("run", [SEALED, LIVE])
def test_stored_states_of_an_ungraded_store_are_judged_again(root: Path, run: str) -> None:
    done = CliRunner().invoke(build_app(), ["verify", run, "--again", "1", "--store", str(root)])
    assert done.exit_code == 0, done.output
    assert "0 disagree, 0 flaky, 0 cannot" in done.output
