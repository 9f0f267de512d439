"""What no chain can show, and a receipt that was kept elsewhere does."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError, UserError
from assay.records import AttemptEnded, Body, Noted, Verdict, VerdictAdded
from assay.store import (
    Receipt,
    RunStore,
    annotate,
    append_addendum,
    audit,
    check_receipt,
    make_receipt,
    new_key,
    public_key,
    read_receipt,
    seal,
    write_receipt,
)
from assay.store.merkle import ChainHead, inclusion_proof, leaf_digest, merkle_root, root_from_proof
from tests.store.conftest import started, whole_chain

pytestmark = pytest.mark.newest
Fill = Callable[..., None]
Rewrite = Callable[[dict[str, list[Body]]], None]
CHECKER = Path(__file__).parents[2] / "docs_src" / "check_receipt.py"


def rewritten(root: Path, change: Rewrite) -> None:
    """Writes the whole run anew as somebody who may write to the store can: every digest holds again."""
    with RunStore.open(root, "r") as store:
        chains = {row.chain: [event.body for event in store.events(row.chain)] for row in store.attempts()}
        manifest, sealed = store.manifest(), store.is_sealed
    change(chains)
    shutil.rmtree(root / "runs" / "r")
    with RunStore.create(root, "r", manifest) as store:
        for chain, bodies in chains.items():
            store.append(chain, bodies)
    if sealed:
        seal(root, "r")


def forge(chains: dict[str, list[Body]]) -> None:
    chains["t.a.1.0"][4] = VerdictAdded(Verdict("tests", "outcome", "pass", 1.0, "never looked"))


def cut(chains: dict[str, list[Body]]) -> None:
    del chains["t.a.1.0"][5:]


def drop(chains: dict[str, list[Body]]) -> None:
    del chains["t.a.1.0"]


def put_in(chains: dict[str, list[Body]]) -> None:
    chains["t.a.7.0"] = [started(7), AttemptEnded("done", at=9.0)]


REWRITES: dict[str, tuple[Rewrite, tuple[str, int | None], str]] = {
    "a complete rewrite": (forge, ("t.a.1.0", None), "rewritten"),
    "a cut tail": (cut, ("t.a.1.0", 5), "it was truncated"),
    "a dropped chain": (drop, ("t.a.1.0", None), "it was removed"),
}


@pytest.mark.parametrize("what", REWRITES)
def test_a_rewrite_is_found_with_a_receipt_alone(run: Path, what: str) -> None:
    change, place, said = REWRITES[what]
    receipt = make_receipt(run, "r")
    rewritten(run, change)
    assert audit(run, "r") == ()  # no digest shows it
    found = check_receipt(run, "r", receipt).problems
    assert [(p.chain, p.index) for p in found if said in p.what] == [place]


def test_what_was_not_changed_holds(run: Path) -> None:
    receipt = make_receipt(run, "r")
    rewritten(run, lambda chains: None)
    found = check_receipt(run, "r", receipt)
    assert found.problems == ()
    assert found[1:] == (4, 22, 0, 0, 0, 0, None)


def test_an_attempt_put_into_a_sealed_run_is_found(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    receipt = make_receipt(tmp_path, "r")
    rewritten(tmp_path, put_in)
    assert [p.chain for p in check_receipt(tmp_path, "r", receipt).problems] == ["t.a.7.0"]


def test_a_receipt_of_a_live_run_covers_a_prefix_and_says_so(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r", write=True) as store:
        receipt = make_receipt(tmp_path, "r")  # beside the writer
        store.append("t.a.99.0", whole_chain("blake3:" + "0" * 64, 99)[5:])
        store.append("t.a.5.0", [started(5)])
    annotate(tmp_path, "r", "t.a.0.0", [Noted("remark")])
    found = check_receipt(tmp_path, "r", receipt)
    assert (found.problems, found.later_chains, found.later_events) == ((), 1, 4)
    seal(tmp_path, "r")
    assert check_receipt(tmp_path, "r", receipt)[:3] == ((), 4, 22)


def test_a_receipt_of_a_live_run_shows_a_changed_prefix_of_a_longer_chain(tmp_path: Path, fill: Fill) -> None:
    fill()
    receipt = make_receipt(tmp_path, "r")

    def change(chains: dict[str, list[Body]]) -> None:
        forge(chains)
        chains["t.a.1.0"].append(Noted("remark"))

    rewritten(tmp_path, change)
    assert [p.chain for p in check_receipt(tmp_path, "r", receipt).problems] == ["t.a.1.0"]


def test_addenda_after_the_receipt_are_not_covered_and_those_before_are(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    append_addendum(tmp_path, "r", [Noted("first")])
    receipt = make_receipt(tmp_path, "r")
    append_addendum(tmp_path, "r", [Noted("second")])
    assert check_receipt(tmp_path, "r", receipt)[:1] + check_receipt(tmp_path, "r", receipt)[3:7] == ((), 1, 0, 0, 1)
    shutil.rmtree(tmp_path / "runs" / "r" / "addenda")
    assert audit(tmp_path, "r") == ()
    assert "the last ones were removed" in check_receipt(tmp_path, "r", receipt).problems[0].what
    append_addendum(tmp_path, "r", [Noted("another")])
    assert [p.chain for p in check_receipt(tmp_path, "r", receipt).problems] == ["addendum.0"]


def test_another_manifest_is_found(run: Path) -> None:
    receipt = make_receipt(run, "r")
    with RunStore.open(run, "r") as store:
        asked, chains = store.manifest(), {r.chain: [e.body for e in store.events(r.chain)] for r in store.attempts()}
        sealed = store.is_sealed
    shutil.rmtree(run / "runs" / "r")
    with RunStore.create(run, "r", {**asked, "what": "something else"}) as store:
        for chain, bodies in chains.items():
            store.append(chain, bodies)
    if sealed:
        seal(run, "r")
    assert audit(run, "r") == ()
    assert ["manifest differs" in p.what for p in check_receipt(run, "r", receipt).problems] == [True]


def test_no_receipt_is_made_of_a_damaged_run(run: Path) -> None:
    path = run / "runs" / "r" / "manifest.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(StoreError, match="damaged"):
        make_receipt(run, "r")
    assert make_receipt(run, "r", check=False).statement.chains == 4


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key file."""
    new_key(tmp_path / "lab.key")
    return tmp_path / "lab.key"


def test_a_signature_says_who_and_holds_only_for_what_was_signed(run: Path, key: Path) -> None:
    receipt, mine = make_receipt(run, "r", key=key), public_key(str(key))
    assert check_receipt(run, "r", receipt, key=mine).signed_by == mine
    other = new_key(run / "other.key")
    assert "and not by" in check_receipt(run, "r", receipt, key=other).problems[0].what
    forged = msgspec.structs.replace(receipt, statement=msgspec.structs.replace(receipt.statement, made="1999"))
    found = check_receipt(run, "r", forged)
    assert (found.signed_by, "is invalid" in found.problems[0].what) == (None, True)
    assert "not signed" in check_receipt(run, "r", make_receipt(run, "r"), key=mine).problems[0].what


def test_keys_are_written_once_and_for_their_owner_alone(key: Path) -> None:
    assert key.stat().st_mode & 0o077 == 0
    assert public_key(str(key)) == public_key(f"{key}.pub")
    with pytest.raises(UserError, match="not overwritten"):
        new_key(key)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nothing there", "no such file"),
        ("no key", "no private key"),
        ("public", "no private key"),
        ("readable", "chmod 600"),
        ("RSA", "another kind"),
    ],
)
def test_what_cannot_sign_is_answered_with_what_to_do(run: Path, key: Path, what: str, said: str) -> None:
    if what == "nothing there":
        key = run / "gone.key"
    elif what == "readable":
        key.chmod(0o644)
    else:
        key.write_bytes({"no key": b"hello", "public": Path(f"{key}.pub").read_bytes()}.get(what) or rsa())
    with pytest.raises(UserError, match=said):
        make_receipt(run, "r", key=key)


def rsa() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    made = ec.generate_private_key(ec.SECP256R1())
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem: bytes = made.private_bytes(serialization.Encoding.PEM, form, plain)
    return pem


def test_a_receipt_is_never_written_over(run: Path) -> None:
    write_receipt(make_receipt(run, "r"), run / "a.receipt")
    with pytest.raises(UserError, match="not overwritten"):
        write_receipt(make_receipt(run, "r"), run / "a.receipt")


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"assay_receipt":1,"statement":{}}', b"[" * 10_000, b"7"])
def test_what_is_no_receipt_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(UserError, match="not a receipt"):
        read_receipt(tmp_path / "x")


def checked(path: Path, *words: str) -> tuple[int, str]:
    """What the program that needs no Assay says of a receipt."""
    argv = [sys.executable, "-S", "-c", ONLY, str(CHECKER), str(path), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


ONLY = """
import runpy, sys, importlib.util, pathlib
folders = {p for p in map(pathlib.Path, PATHS)}
sys.path += map(str, folders)
class Closed:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("assay", "msgspec"):
            raise ImportError("this program needs no " + name)
sys.meta_path.insert(0, Closed())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
""".replace("PATHS", repr([p for p in sys.path if "site-packages" in p]))


@pytest.mark.parametrize("more", [{}, {"attempt": "t.a.1"}, {"attempt": "t.a.1", "events": True}])
def test_others_check_a_receipt_without_our_code(run: Path, key: Path, more: dict[str, Any]) -> None:
    path = run / "a.receipt"
    write_receipt(make_receipt(run, "r", key=key, **more), path)
    code, said = checked(path, public_key(str(key)))
    assert (code, said.startswith("holds: ")) == (0, True), said
    assert check_receipt(run, "r", read_receipt(path)).problems == ()


WHOLE: dict[str, Any] = {}
ONE: dict[str, Any] = {"attempt": "t.a.1", "events": True}


@pytest.mark.parametrize(
    ("more", "old", "new"),
    [
        (WHOLE, "t.a.1.0", "t.a.7.0"),
        (WHOLE, '"chains":4', '"chains":5'),
        (ONE, "t.a.1.0", "t.a.7.0"),
        (ONE, '"chains":4', '"chains":9'),
        (ONE, "all passed", "all missed"),
    ],
)
def test_both_checkers_find_a_changed_receipt(run: Path, key: Path, more: dict[str, Any], old: str, new: str) -> None:
    path = run / "a.receipt"
    write_receipt(make_receipt(run, "r", key=key, **more), path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert check_receipt(run, "r", read_receipt(path)).problems
    assert checked(path)[0] == 1


@pytest.mark.long
def test_any_changed_character_of_a_receipt_is_found_or_means_nothing(tmp_path: Path, fill: Fill, key: Path) -> None:
    fill()
    receipt = make_receipt(tmp_path, "r", key=key, attempt="t.a.1", events=True)
    data = msgspec.json.encode(receipt)
    for at in range(0, len(data), 7):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        try:
            found = msgspec.json.decode(changed, type=Receipt)
        except (msgspec.DecodeError, ValueError):
            continue
        assert found == receipt or check_receipt(tmp_path, "r", found).problems, changed[at - 40 : at + 40]


heads = st.lists(st.text(max_size=4), min_size=1, max_size=40, unique=True).map(
    lambda names: [ChainHead(name, n, "blake3:" + f"{n:064x}") for n, name in enumerate(sorted(names))]
)


def slow_root(leaves: Sequence[str]) -> str:
    """The tree as RFC 6962 writes it down: split at the largest power of two below the number."""
    from assay.records import digest_bytes

    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    sides = [bytes.fromhex(slow_root(part)[7:]) for part in (leaves[:split], leaves[split:])]
    return digest_bytes(b"\x01" + sides[0] + sides[1])


@given(heads, st.data())
def test_the_tree_is_that_of_the_rfc_and_every_proof_leads_to_its_root(
    some: list[ChainHead], data: st.DataObject
) -> None:
    leaves = [leaf_digest(head) for head in some]
    assert merkle_root(leaves) == slow_root(leaves)
    index = data.draw(st.integers(0, len(some) - 1))
    path = inclusion_proof(leaves, index)
    assert root_from_proof(leaves[index], index, len(some), path) == merkle_root(leaves)
    assert root_from_proof(leaf_digest(ChainHead("forged", 1, "")), index, len(some), path) != merkle_root(leaves)
    assert root_from_proof(leaves[index], index, len(some), (*path, leaves[0])) is None
    assert not path or root_from_proof(leaves[index], index, len(some), path[:-1]) is None


@given(st.text(max_size=30))
def test_others_write_the_same_canonical_bytes(name: str) -> None:
    import json

    from assay.records import canonical_bytes

    value = {"b": [name, 3, None], "a": name}
    theirs = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_bytes(value) == theirs.encode()


# JSON has no NaN and no infinity: they would be written as null.
finite = st.floats(allow_nan=False, allow_infinity=False)
numbers: st.SearchStrategy[Any] = st.integers(-(2**70), 2**70) | finite
junk: st.SearchStrategy[Any] = st.none() | st.booleans() | numbers | st.text(max_size=5) | st.just([]) | st.just({})


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside a JSON value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(deeper for key, item in below for deeper in places(item, (*way, key)))]


@pytest.mark.parametrize("more", [WHOLE, ONE])
def test_no_receipt_makes_a_traceback(tmp_path: Path, fill: Fill, key: Path, more: dict[str, Any]) -> None:
    fill()
    plain = msgspec.json.decode(msgspec.json.encode(make_receipt(tmp_path, "r", key=key, **more)))
    ways = [way for way in places(plain) if way]
    path = tmp_path / "hostile"

    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from(ways), junk)
    def tried(way: tuple[Any, ...], value: Any) -> None:
        changed = msgspec.json.decode(msgspec.json.encode(plain))
        inner = changed
        for step in way[:-1]:
            inner = inner[step]
        same, inner[way[-1]] = inner[way[-1]] == value, value
        told_less = way[0] == "signature" or (way == ("proof", "events") and value is None)
        path.write_bytes(msgspec.json.encode(changed))
        with contextlib.suppress(UserError):
            assert check_receipt(tmp_path, "r", read_receipt(path)).problems or same or told_less

    tried()
