"""Any byte of a stored run that is changed is found, and the finding says where."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.errors import StoreError
from assay.records import Evidence, EvidenceAdded, Noted, Verdict, VerdictAdded, digest_bytes
from assay.store import LISTING, BlobStore, RunStore, StoreProblem, annotate, audit, seal, store_tree
from tests.sampling import WHOLE

Fill = Callable[..., None]
CHANGES = 200 if WHOLE else 80
COLUMNS = {
    "events": ("chain", "idx", "type", "body", "previous", "digest", "seq"),
    "attempts": ("chain", "row"),
    "meta": ("key", "value"),
}


class Change(NamedTuple):
    """What was done, and what a finding must say to have located it."""

    what: str
    located: Callable[[StoreProblem], bool]


def learn(root: Path) -> None:
    """Verdicts that came later, and a folder that was kept with one."""
    folder = root / "folder"
    (folder / "below").mkdir(parents=True, exist_ok=True)
    (folder / "below" / "file.txt").write_text("what the agent left")
    kept = store_tree(BlobStore(root / "blobs"), folder, most_bytes=1 << 20)
    tree = EvidenceAdded(Evidence("tree", "state", "file", {LISTING: kept.listing}, (kept.listing,)))
    for chain in ("t.a.0.0", "t.a.1.0"):
        found = VerdictAdded(Verdict("audit", "integrity", "fail", None, f"seen in {chain}", marks=("m",)))
        annotate(root, "r", chain, [found, tree, Noted("remark", {"of": "somebody"})])


@pytest.fixture
def live(tmp_path: Path, fill: Fill) -> Path:
    """The store of a live run, with verdicts that were learnt later."""
    fill()
    learn(tmp_path)
    return tmp_path


@pytest.fixture
def sealed(live: Path) -> Path:
    """The same run sealed, with two addenda."""
    seal(live, "r")
    learn(live)
    return live


def other_byte(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one of them changed."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([(data[at] + rng.randrange(1, 256)) % 256]) + data[at + 1 :]


def files_of(root: Path) -> list[Path]:
    run = root / "runs" / "r"
    found = [*run.glob("sealed/*"), *run.glob("addenda/*.json"), run / "manifest.json", *root.glob("blobs/??/*")]
    return sorted(found)


def names_file(root: Path, path: Path) -> Callable[[StoreProblem], bool]:
    if path.parent.name == "addenda":
        return lambda p: p.chain == f"addendum.{path.stem}" or f"addenda/{path.name}" in p.what
    if path.is_relative_to(root / "blobs"):
        return lambda p: path.name in p.what and p.chain is not None and p.index is not None
    return lambda p: path.name in p.what


def change_a_file(root: Path, rng: random.Random) -> Iterator[Change]:
    """Changes a byte of a file, and changes it back."""
    path = rng.choice(files_of(root))
    before = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(other_byte(before, rng))
    yield Change(str(path), names_file(root, path))
    path.write_bytes(before)


def change_a_value(root: Path, rng: random.Random) -> Iterator[Change]:
    """Changes a byte of one value in the database of a live run, and puts the whole file back."""
    path = root / "runs" / "r" / "run.sqlite"
    before = path.read_bytes()
    connection = sqlite3.connect(path, isolation_level=None)
    change = None
    while change is None:
        change = changed_value(connection, rng)
    connection.close()
    yield change
    for left in path.parent.glob("run.sqlite-*"):
        left.unlink()
    path.write_bytes(before)


def changed_value(connection: sqlite3.Connection, rng: random.Random) -> Change | None:
    table = rng.choice(["events", "events", "events", "attempts", "meta"])
    key = {"events": "seq", "attempts": "chain", "meta": "key"}[table]
    keys = [row[0] for row in connection.execute(f"SELECT {key} FROM {table}")]
    row, column = rng.choice(keys), rng.choice(COLUMNS[table])
    (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", (row,)).fetchone()
    place = (None, None)
    if table == "events":
        place = connection.execute("SELECT chain, idx FROM events WHERE seq = ?", (row,)).fetchone()
    put: Any = value ^ (1 << rng.randrange(40)) if isinstance(value, int) else other_byte(as_bytes(value), rng)
    slot = "?" if isinstance(value, int | bytes) else "CAST(? AS TEXT)"
    try:
        connection.execute(f"UPDATE {table} SET {column} = {slot} WHERE {key} = ?", (put, row))
    except sqlite3.IntegrityError:
        return None  # another row has that key
    return Change(f"{table}.{column} of {row}: {value!r} to {put!r}", names_value(table, column, row, place))


def as_bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def names_value(table: str, column: str, row: object, place: tuple[Any, Any]) -> Callable[[StoreProblem], bool]:
    if table == "meta":
        return lambda p: "run.sqlite" in p.what or "manifest.json" in p.what
    if table == "attempts":
        return lambda p: p.chain == row
    if column in (
        "idx",
        "chain",
    ):  # it breaks where the event stood, or where it stands now; one with one event is gone
        return lambda p: p.chain == place[0]
    return lambda p: (p.chain, p.index) == place


def missed(root: Path, rng: random.Random, change: Callable[[Path, random.Random], Iterator[Change]]) -> list[str]:
    """What was not found, or not located, of one change."""
    wrong = []
    for done in change(root, rng):
        found = audit(root, "r")
        if not any(done.located(problem) for problem in found):
            wrong.append(f"{done.what}: {found}")
    return wrong


def change_a_live_run(root: Path, rng: random.Random) -> Iterator[Change]:
    yield from (change_a_file if rng.random() < 0.25 else change_a_value)(root, rng)


KINDS = {"sealed": change_a_file, "live": change_a_live_run}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_changed_byte_is_found_and_located(request: pytest.FixtureRequest, kind: str) -> None:
    root: Path = request.getfixturevalue(kind)
    assert audit(root, "r") == ()
    rng = random.Random(kind)
    wrong = [line for _ in range(CHANGES) for line in missed(root, rng, KINDS[kind])]
    assert wrong == []
    assert audit(root, "r") == ()


def content(path: Path) -> list[list[tuple[Any, ...]]] | None:
    """All that any reader gets of a database; None where it cannot be read."""
    connection = sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)
    connection.text_factory = bytes
    orders = {
        "events": ("NOT INDEXED", "INDEXED BY events_by_chain ORDER BY chain, idx"),
        "attempts": ("",),
        "meta": ("",),
    }
    try:
        ways = [f"SELECT * FROM {table} {way}" for table, some in orders.items() for way in some]
        return [connection.execute(way).fetchall() for way in ways]
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()


@pytest.mark.long
def test_any_changed_byte_of_the_database_is_found_or_is_no_record(live: Path) -> None:
    path, rng = live / "runs" / "r" / "run.sqlite", random.Random(0)
    before, known = path.read_bytes(), content(path)
    wrong = []
    for _ in range(CHANGES):
        changed = other_byte(before, rng)
        path.write_bytes(changed)
        if not audit(live, "r") and content(path) != known:
            wrong.append([at for at, (a, b) in enumerate(zip(before, changed, strict=True)) if a != b])
        for left in path.parent.glob("run.sqlite-*"):
            left.unlink()
    assert wrong == []


def damaged(root: Path, *statements: str) -> list[tuple[str | None, int | None]]:
    """Where an audit finds something after the database of a live run was changed."""
    with closing(sqlite3.connect(root / "runs" / "r" / "run.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return [(problem.chain, problem.index) for problem in audit(root, "r")]


AT = "chain = 't.a.1.0' AND idx"
STRUCTURE = {
    "an event removed": ([f"DELETE FROM events WHERE {AT} = 2"], ("t.a.1.0", 2)),
    "the verdict removed": ([f"DELETE FROM events WHERE {AT} = 4"], ("t.a.1.0", 4)),
    "the last verdict removed": ([f"DELETE FROM events WHERE {AT} = 7"], ("t.a.1.0", 7)),
    "an event inserted": (
        ["INSERT INTO events SELECT 999, chain, 99, type, body, previous, digest FROM events WHERE " + AT + " = 4"],
        ("t.a.1.0", 99),
    ),
    "an event put at the end": (
        ["INSERT INTO events SELECT 29, chain, 10, type, body, previous, digest FROM events WHERE " + AT + " = 4"],
        ("t.a.1.0", 10),
    ),
    "two events swapped": (
        [
            f"UPDATE events SET idx = -1 WHERE {AT} = 3",
            f"UPDATE events SET idx = 3 WHERE {AT} = 4",
            f"UPDATE events SET idx = 4 WHERE {AT} = -1",
        ],
        ("t.a.1.0", 3),
    ),
    "two bodies swapped": (
        [f"UPDATE events SET body = (SELECT body FROM events WHERE {AT} = 4), type = 'verdict' WHERE {AT} = 3"],
        ("t.a.1.0", 3),
    ),
    "the verdicts of two attempts swapped": (
        [
            "UPDATE events SET chain = CASE chain WHEN 't.a.1.0' THEN 't.a.7.0' ELSE 't.a.1.0' END "
            "WHERE idx = 4 AND chain IN ('t.a.1.0', 't.a.2.0')"
        ],
        ("t.a.1.0", 4),
    ),
    "a chain without its row": (["DELETE FROM attempts WHERE chain = 't.a.1.0'"], ("t.a.1.0", None)),
    "a row without its chain": (["DELETE FROM events WHERE chain = 't.a.1.0'"], ("t.a.1.0", None)),
    "two chains swapped": (
        [
            "UPDATE events SET chain = CASE chain WHEN 't.a.1.0' THEN 'x' WHEN 't.a.2.0' THEN 't.a.1.0' ELSE chain END",
            "UPDATE events SET chain = 't.a.2.0' WHERE chain = 'x'",
        ],
        ("t.a.1.0", 0),
    ),
    "two events of a chain appended in another order": (
        [
            f"UPDATE events SET seq = -1 WHERE {AT} = 3",
            f"UPDATE events SET seq = seq - 1 WHERE {AT} = 4",
            f"UPDATE events SET seq = (SELECT seq + 1 FROM events WHERE {AT} = 4) WHERE {AT} = 3",
        ],
        ("t.a.1.0", 4),
    ),
}


@pytest.mark.newest
@pytest.mark.parametrize("what", STRUCTURE)
def test_what_was_removed_inserted_or_swapped_in_a_live_run_is_located(live: Path, what: str) -> None:
    statements, place = STRUCTURE[what]
    assert place in damaged(live, *statements)


def without(table: Any, chain: str, index: int | None = None) -> Any:
    import pyarrow.compute as pc

    drop = pc.equal(table.column("chain"), chain)
    if index is not None:
        drop = pc.and_(drop, pc.equal(table.column("index"), index))
    return table.filter(pc.invert(drop))


def swapped(table: Any, chain: str, other: str) -> Any:
    names = {chain: other, other: chain}
    renamed = [names.get(name, name) for name in table.column("chain").to_pylist()]
    return table.set_column(table.column_names.index("chain"), table.field("chain"), [renamed])


SEALED: dict[str, tuple[Callable[[Any], Any], tuple[str, int | None]]] = {
    "an event removed": (lambda t: without(t, "t.a.1.0", 3), ("t.a.1.0", 3)),
    "a chain removed": (lambda t: without(t, "t.a.1.0"), ("t.a.1.0", None)),
    "a chain put in twice": (lambda t: t.take([*range(len(t)), 0]), ("t.a.0.0", None)),
    "two events swapped": (lambda t: t.take([1, 0, *range(2, len(t))]), ("t.a.0.0", 0)),
    "two chains swapped": (lambda t: swapped(t, "t.a.0.0", "t.a.1.0"), ("t.a.1.0", 0)),
}


@pytest.mark.newest
@pytest.mark.parametrize("what", SEALED)
def test_what_was_removed_inserted_or_swapped_in_a_sealed_run_is_located(sealed: Path, what: str) -> None:
    import pyarrow.parquet as pq

    act, place = SEALED[what]
    path = sealed / "runs" / "r" / "sealed" / "events.parquet"
    pq.write_table(act(pq.read_table(path)), path)
    found = audit(sealed, "r")
    assert any("sealed/events.parquet" in problem.what for problem in found)
    assert place in [(problem.chain, problem.index) for problem in found]


@pytest.mark.newest
@pytest.mark.parametrize("name", ["sealed/steps.parquet", "sealed/seal.json", "manifest.json", "addenda/0.json"])
def test_a_file_that_was_removed_is_named(sealed: Path, name: str) -> None:
    (sealed / "runs" / "r" / name).unlink()
    said = " ".join(map(str, audit(sealed, "r"))) if name != "sealed/seal.json" else lost(sealed)
    assert name.rpartition("/")[2].replace("0.json", "addendum.0") in said


def lost(root: Path) -> str:
    with pytest.raises(StoreError) as raised:
        audit(root, "r")
    return str(raised.value)


@pytest.mark.newest
@pytest.mark.parametrize("name", ["sealed/more.parquet", "addenda/00.json", "addenda/x.json"])
def test_a_file_that_was_put_in_is_named(sealed: Path, name: str) -> None:
    shutil.copyfile(sealed / "runs" / "r" / "manifest.json", sealed / "runs" / "r" / name)
    assert any(name in problem.what for problem in audit(sealed, "r"))


@pytest.mark.newest
def test_a_swap_of_two_blobs_is_found(live: Path) -> None:
    with RunStore.open(live, "r") as store:
        other, mine = store.blobs.put(b"other bytes"), digest_bytes(b"the whole output of r")
    shutil.copyfile(live / "blobs" / other[7:9] / other[7:], aside := live / "aside")
    aside.replace(live / "blobs" / mine[7:9] / mine[7:])
    assert {("t.a.0.0", 2), ("t.a.0.0", 3)} <= {(p.chain, p.index) for p in audit(live, "r") if mine in p.what}
