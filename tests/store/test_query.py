from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from assay.errors import StoreError, UserError
from assay.records import Noted
from assay.store import Hit, QueryLimits, RunStore, query, seal, search
from assay.store.tables import IN_QUERIES, TABLES, VIEWS

pytestmark = pytest.mark.newest
Fill = Callable[..., None]


@pytest.fixture
def two(tmp_path: Path, fill: Fill) -> Path:
    """A sealed run and a live one."""
    fill("old", 2)
    seal(tmp_path, "old")
    fill("new", 3)
    return tmp_path


def test_query_sees_live_and_sealed_runs_alike(two: Path) -> None:
    found = query(two, "SELECT run, count(*) AS n, sum(steps)::INT AS s FROM trajectories GROUP BY run ORDER BY run")
    assert found.columns == ("run", "n", "s")
    assert found.rows == (("new", 4, 3), ("old", 3, 2))
    assert query(two, "SELECT count(*) FROM events", runs=["old"]).rows == ((15,),)


@pytest.mark.long
def test_every_table_of_live_and_sealed_has_the_same_rows(tmp_path: Path, fill: Fill) -> None:
    fill()
    before = {name: query(tmp_path, f"FROM {name} ORDER BY ALL") for name in TABLES}
    seal(tmp_path, "r")
    assert {name: query(tmp_path, f"FROM {name} ORDER BY ALL") for name in TABLES} == before
    columns = {name: [*columns, *IN_QUERIES.get(name, {})] for name, columns in TABLES.items()}
    assert {name: list(r.columns) for name, r in before.items()} == columns


def test_rows_beyond_the_bound_are_cut_and_it_says_so(two: Path) -> None:
    found = query(two, "SELECT * FROM events", limit=5)
    assert (len(found.rows), found.cut) == (5, True)
    assert not query(two, "SELECT 1 FROM events LIMIT 5", limit=5).cut


def test_query_works_while_the_run_is_written(two: Path) -> None:
    with RunStore.open(two, "new", write=True) as store:
        for count in range(3):
            store.append("t.a.99.0", [Noted("x")])
            assert query(two, "SELECT count(*) FROM events", runs=["new"]).rows == ((23 + count,),)


def test_the_tables_can_be_listed(two: Path) -> None:
    assert {row[0] for row in query(two, "SHOW TABLES").rows} == {*TABLES, *VIEWS}
    assert [row[0] for row in query(two, "DESCRIBE verdicts").rows] == [*TABLES["verdicts"], "addendum"]


HOSTILE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_parquet('/etc/*')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_csv('https://example.org/x.csv')",
    "SELECT getenv('HOME') FROM steps",
    "SELECT * FROM query('COPY steps TO ''/tmp/out''')",
    "SELECT * FROM query_table('/etc/passwd')",
    "SELECT * FROM secret_variable",
    "SELECT * FROM parquet_metadata('/etc/x.parquet')",
    "SELECT * FROM parquet_file_metadata('/etc/*')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_ndjson_objects('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM enable_logging(storage := 'file', storage_path := '/tmp/out.csv')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/passwd'')'))",
    "SELECT * FROM sqlite_scan('/tmp/x.db', 't')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "FROM steps SELECT * INTO OUTFILE '/tmp/x'",
    "WITH x AS (DELETE FROM steps RETURNING *) SELECT * FROM x",
    "COPY steps TO '/tmp/out.csv'",
    "COPY (SELECT 1) TO '/tmp/out.csv'",
    "EXPORT DATABASE '/tmp/out'",
    "ATTACH '/tmp/out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "SET threads = 64",
    "RESET enable_external_access",
    "CALL pragma_version()",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW steps",
    "DELETE FROM steps",
    "INSERT INTO steps SELECT * FROM steps",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY steps TO '/tmp/out.csv'",
    "CHECKPOINT",
    "EXPLAIN ANALYZE SELECT 1",
    "",
    ";",
    "-- nothing",
    "SELECT $1",
    "SELECT nothing FROM steps",
    "SELECT",
    "\x00",
    "SELECT '\udcff'",
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_anything_but_one_select_over_the_tables_is_refused(live: RunStore, tmp_path: Path, sql: str) -> None:
    secret_variable = {"a": [1]}
    with pytest.raises(UserError) as caught:
        query(tmp_path, sql)
    assert str(caught.value).strip()
    assert "Traceback" not in str(caught.value)
    assert secret_variable


def test_times_with_a_zone_are_given_in_utc(live: RunStore, tmp_path: Path) -> None:
    """DuckDB alone would need pytz for these."""
    found = query(tmp_path, "SELECT x, TIMESTAMPTZ '2026-01-02 03:04:05+01' AS t FROM range(3) r(x) ORDER BY x DESC; ")
    assert [row[0] for row in found.rows] == [2, 1, 0]
    assert (found.columns, found.rows[0][1]) == (("x", "t"), datetime.fromisoformat("2026-01-02T02:04:05"))
    with pytest.raises(UserError, match="times with a time zone"):
        query(tmp_path, "SELECT [now()]")


def test_errors_carry_what_duckdb_says_and_what_to_do(live: RunStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'column "nothing" not found'):
        query(tmp_path, "SELECT nothing FROM steps")
    with pytest.raises(UserError, match=r"(?s)Table with name stepz .*trajectories, steps, calls"):
        query(tmp_path, "SELECT * FROM stepz")
    with pytest.raises(UserError, match=r"one SELECT statement over the tables .*; this is COPY"):
        query(tmp_path, "COPY steps TO '/tmp/x'")


def test_a_query_is_stopped_that_has_not_begun_when_its_time_is_over(live: RunStore, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = -1"
    with pytest.raises(UserError, match="took too long"):
        query(tmp_path, sql, bounds=QueryLimits(time_s=0))


def test_what_takes_too_long_is_stopped(live: RunStore, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = -1"
    with pytest.raises(UserError, match="took too long"):
        query(tmp_path, sql, bounds=QueryLimits(time_s=0.3))


def test_what_takes_too_much_memory_is_stopped(live: RunStore, tmp_path: Path) -> None:
    sql = "SELECT list(range) FROM range(100000000)"
    with pytest.raises(UserError, match="narrow the query"):
        query(tmp_path, sql, bounds=QueryLimits(memory_mib=64, disk_mib=16))


def test_no_run_and_a_wrong_name_say_what_to_do(tmp_path: Path, fill: Fill) -> None:
    with pytest.raises(UserError, match="assay run"):
        query(tmp_path, "SELECT 1")
    fill()
    with pytest.raises(StoreError, match="no run is called 'zebra'"):
        query(tmp_path, "SELECT 1 FROM steps", runs=["zebra"])
    with pytest.raises(UserError, match="is not a valid run name"):
        query(tmp_path, "SELECT 1 FROM steps", runs=["../r"])


def test_a_store_in_a_folder_with_odd_characters(tmp_path: Path) -> None:
    root = tmp_path / "it's [a] *store*?"
    with RunStore.create(root, "r", {}) as store:
        store.append("c", [Noted("x")])
    seal(root, "r")
    assert query(root, "SELECT count(*) FROM events").rows == ((1,),)


def test_damaged_parquet_is_a_store_error_of_the_query(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    (tmp_path / "runs" / "r" / "sealed" / "steps.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(StoreError, match="assay verify"):
        query(tmp_path, "SELECT * FROM steps")


def test_search_finds_literal_text_and_where_it_stands(two: Path) -> None:
    hits = search(two, "needle in")
    assert [(h.run, h.chain, h.place) for h in hits][:2] == [
        ("new", "t.a.0.0", "output"),
        ("new", "t.a.1.0", "output"),
    ]
    assert len(hits) == 5
    assert hits[0] == Hit("new", "t.a.0.0", "t.a.0", "t", 0, "output", "needle in output")
    assert search(two, "100%_") == ()
    assert {h.place for h in search(two, "ls")} == {"arguments"}


def test_search_ignores_case_when_told_and_bounds_its_answer(two: Path) -> None:
    assert search(two, "HÄAGEN") == ()
    assert len(search(two, "HÄAGEN", ignore_case=True)) == 5
    assert len(search(two, "needle", limit=2)) == 2
    assert len(search(two, "to stderr", runs=["old"])) == 2
    with pytest.raises(UserError, match="search text is empty"):
        search(two, "")


KERNEL = """
import sys, types
from pathlib import Path
ipython = types.ModuleType("IPython")
ipython.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = ipython
from assay.store import query
print(query(Path(sys.argv[1]), "SELECT count(*) FROM trajectories").rows)
"""


@pytest.mark.long
def test_query_works_in_a_notebook_kernel_without_widgets(two: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KERNEL, str(two)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("((7,),)\n", "")
