"""Messages of commands that were given a wrong file, folder, name or option: each says where, why, and what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.learning.row_files import read_rows
from assay.tasks import init_task
from tests.viewer.made_runs import small_run

pytestmark = pytest.mark.quick
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    """A file system with room for folders, and none for data."""
    (small_disk / "ballast").write_bytes(b"x" * (2 << 20))
    return small_disk


@pytest.fixture
def read_only_disk(small_disk: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    return small_disk


def test_pages_on_a_full_disk_leave_nothing(say: Say, tmp_path: Path, full_disk: Path) -> None:
    small_run(tmp_path / "store")
    for _ in range(2):  # the repeat is not refused for what the first left
        code, out, err = say("view", "r", "--export", str(full_disk / "site"))
        assert (code, out) == (3, "")
        assert err.startswith(f"assay: {full_disk}/site: the disk is full: free some space, or choose another folder")
        assert not (full_disk / "site").exists()


def test_selection_on_a_full_disk_names_the_file(say: Say, full_disk: Path) -> None:
    say("run", "family:grid,n=2", "--agent", "expert", "--run", "mine")
    code, _, err = say("curate", "mine", "--where", "verdicts", "--out", str(full_disk / "rows"))
    assert (code, f"assay: {full_disk}/" in err, ": the disk is full: free some space" in err) == (3, True, True), err


@pytest.mark.parametrize("words", [("receipt", "r"), ("ls", "r")])
def test_file_that_a_full_disk_cuts_is_removed(
    words: tuple[str, ...], say: Say, tmp_path: Path, full_disk: Path
) -> None:
    small_run(tmp_path / "store")
    code, _, err = say(*words, "--out", str(full_disk / "out.txt"))
    assert (code, err.count(f"{full_disk}/out.txt: the disk is full: free some space")) == (3, 1), err
    assert not (full_disk / "out.txt").exists()


def test_synthesis_on_a_full_disk_is_no_failure_of_the_store(say: Say, full_disk: Path) -> None:
    code, _, err = say("synth", "repository", "x", "--out", str(full_disk / "made"))
    assert (code, f"assay: {full_disk}/made" in err, "the disk is full: free some space" in err) == (3, True, True), err
    assert "Errno" not in err
    assert "store failed" not in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("formats", "--out", "{}/formats.txt"), 3),
        (("init", "agent", "{}/agent.py"), 2),
        (("init", "task", "{}/hello"), 2),
        (("synth", "repository", "x", "--out", "{}/made"), 3),
        (("run", "family:grid,n=1", "--agent", "expert", "--store", "{}/store"), 3),
        (("run", "family:grid,n=1", "--agent", "expert", "--junit", "{}/j.xml"), 2),
        (("keys", "new", "{}/lab.key"), 2),
    ],
)
def test_read_only_file_system_is_named_as_the_cause(
    words: tuple[str, ...], code: int, say: Say, read_only_disk: Path
) -> None:
    found, _, err = say(*(word.format(read_only_disk) for word in words))
    assert (found, "the file system is read-only: choose another folder" in err) == (code, True), err
    assert str(read_only_disk) in err
    assert "permission" not in err


def test_truncated_database_is_not_sent_from_verify_to_verify(say: Say, tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    database = tmp_path / "store" / "runs" / "r" / "run.sqlite"
    database.write_bytes(database.read_bytes()[:5000])
    code, out, _ = say("verify", "r")
    assert (code, "it is damaged: restore it from a copy" in out, "assay verify" in out) == (1, True, False), out


GOOD = '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}\n'


def test_format_is_detected_from_later_lines_where_the_first_is_bad(say: Say) -> None:
    Path("mixed.jsonl").write_text('{"messages": "lost"}\n' + GOOD + '{"messages": [{"ro\n')
    code, out, err = say("import", "mixed.jsonl")
    assert (code, "1 trajectory read, 0 there already, 2 unreadable; 1 file (1 chat)" in out) == (1, True), err
    assert "mixed.jsonl, line 1: expected an object with an array of messages" in err
    assert "mixed.jsonl, line 3: invalid JSON" in err


def test_format_is_not_detected_from_few_lines_among_others(say: Say) -> None:
    Path("log.jsonl").write_text('{"event": "x"}\n' * 5 + GOOD)
    code, _, err = say("import", "log.jsonl")
    assert (code, "log.jsonl is of no known format" in err) == (2, True)


def test_cut_document_is_reported_where_it_ends(say: Say) -> None:
    Path("bad.json").write_text(
        '{"messages": [{"role": "user", "content": "hi"},\n {"role": "assistant", "content": "y"'
    )
    code, _, err = say("import", "bad.json")
    assert (code, "bad.json, line 1: the document ends early (byte 86, line 2)" in err) == (2, True), err


def test_empty_folder_of_an_import_is_named_as_empty(say: Say) -> None:
    Path("empty/inner").mkdir(parents=True)
    code, out, err = say("import", "empty")
    assert (code, out) == (2, "")
    assert err == "assay: empty is empty: no file is in it; name the folder that holds the records\n"


def test_unknown_role_of_a_mapping_is_answered_with_the_roles(say: Say) -> None:
    Path("map.toml").write_text('turns = "talk"\n[roles]\nA = "user"\nB = "robot"\n')
    Path("talk.json").write_text("{}")
    code, _, err = say("import", "--map", "map.toml", "talk.json")
    assert (code, "[roles] maps 'B' to 'robot', which is not a role" in err) == (2, True)
    assert "roles are user, assistant, system, tool" in err


def test_export_of_a_run_without_a_model_says_so(say: Say) -> None:
    init_task(Path("hello"))
    say("run", "hello", "--agent", "oracle", "--run", "solved")
    code, _, err = say("export", "solved", "--to", "openai", "--out", "rows.jsonl")
    assert (code, err.startswith("assay: no attempt of this run asked a model, and the tools")) == (2, True), err


def test_rows_that_are_no_parquet_are_answered_with_the_command_that_writes_them(say: Say) -> None:
    Path("q.jsonl").write_text(GOOD)
    with pytest.raises(UserError, match=r"assay export RUN --to rows --out q\.parquet` writes"):
        next(read_rows(Path("q.jsonl")))


def test_missing_task_folder_of_a_verification_is_refused(say: Say) -> None:
    init_task(Path("hello"))
    say("run", "hello", "--agent", "oracle", "--run", "mine")
    assert say("verify", "mine", "--again", "1", "--tasks", "hello")[0] == 0
    code, out, err = say("verify", "mine", "--again", "1", "--tasks", "nowhere")
    assert (code, out, "'nowhere' does not exist" in err) == (2, "", True), err


@pytest.mark.parametrize("sql", ["selct 1", "select from from", "select 'a"])
def test_query_that_is_no_sql_is_answered_with_the_tables_and_an_example(sql: str, say: Say) -> None:
    code, out, err = say("query", sql)
    assert (code, out, err.startswith("assay: the query is not valid SQL, ")) == (2, "", True), err
    assert "one SELECT statement over the tables trajectories, steps, calls" in err
    assert "for example 'select agent, outcome, count(*) from trajectories where final group by all'" in err
    assert "LINE 1" not in err


def test_source_of_copy_that_is_missing_is_found_by_lint_and_named_by_the_run(say: Say) -> None:
    init_task(Path("hello"))
    Path("hello/environment/Dockerfile").write_text(
        "FROM scratch AS one\nCOPY nummern.txt /workspace/\nCOPY --from=one a b\nADD $NAME *.csv here.md /workspace/\n"
    )
    Path("hello/environment/numern.txt").touch()
    Path("hello/environment/here.md").touch()
    code, out, _ = say("lint", "hello")
    said = "COPY: nummern.txt is not in environment/, from which the Dockerfile copies"
    assert (code, f"environment/Dockerfile:2: {said}; did you mean numern.txt?" in out) == (1, True), out
    assert "environment/Dockerfile:4: ADD: *.csv is not in environment/" in out
    assert len(out.splitlines()) == 3
    assert f"{said}: did you mean numern.txt?" in say("run", "hello", "--agent", "null")[2]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"FROM scratch\nRAN make\n", "environment/Dockerfile:2: "),
        (b"RUN make\n", "environment/Dockerfile:1: RUN before the first FROM"),
        (b"FROM scratch\nRUN \xff\n", "environment/Dockerfile: "),
    ],
)
def test_dockerfile_that_cannot_be_built_is_found_by_lint(text: bytes, place: str, say: Say) -> None:
    init_task(Path("hello"))
    Path("hello/environment/Dockerfile").write_bytes(text)
    code, out, _ = say("lint", "hello")
    assert (code, place in out) == (1, True), out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("synth", "repository", "x", "--out", "o", "--kind", "operator", "--kind", "featur"),
            "--kind 'featur' is not a choice: did you mean feature? use operator, feature, combination, commit",
        ),
        (
            ("synth", "repository", "x", "--out", "o", "--separation", "on"),
            "--separation 'on' is not a choice: use required, recorded, off",
        ),
        (("verify", "r", "--check-version", "now"), "--check-version 'now' is not a choice: use recorded, today"),
    ],
)
def test_wrong_choice_names_the_option(words: tuple[str, ...], said: str, say: Say) -> None:
    code, _, err = say(*words)
    assert (code, err) == (2, f"assay: {said}\n")
