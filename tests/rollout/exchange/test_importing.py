"""Importing other people's runs: once, whole, in whatever folder or archive, naming what cannot be read."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assay.errors import UserError
from assay.records import Noted
from assay.rollout.audit.config import AuditConfig
from assay.rollout.audit.stored import audit_run
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import ImportProgress, ImportReport, import_paths
from assay.settings import Settings
from assay.store import RunStore, audit, load_current_verdicts, seal

PLUGIN = """
from assay.formats.interface import ImportedTrajectory
class Broken:
    name, title, provenance, writes = "broken", "Broken", "specification", False
    def recognises(self, path): return path.suffix == ".odd"
    def read(self, path, reading):
        raise KeyError("a mistake of the plugin")
        yield
    def write(self, trajectories, target, writing): ...
"""


def row(text: str, **more: Any) -> str:
    return json.dumps(
        {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "done"}], **more}
    )


def rows(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(text + "\n" for text in texts))
    return path


def settings_at(store: Path, **keys: str) -> Settings:
    return Settings(cache=store / "cache", store=store, **keys)  # type: ignore[arg-type]


def imported(store: Path, *paths: Path, **named: Any) -> ImportReport:
    return import_paths(ImportConfig(tuple(map(str, paths)), **named), settings_at(store))


def test_importing_twice_adds_nothing_and_a_log_that_grew_only_what_is_new(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.jsonl", row("one"), row("two"))
    first, again = imported(tmp_path / "s", log), imported(tmp_path / "s", log)
    rows(log, row("one"), row("two"), row("three"))
    grown = imported(tmp_path / "s", log)
    assert [(r.read, r.known) for r in (first, again, grown)] == [(2, 0), (0, 2), (1, 2)]
    assert first.run == again.run == grown.run
    assert not audit(tmp_path / "s", first.run)


def test_a_copy_of_a_log_adds_nothing_either(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.jsonl", row("one"))
    rows(tmp_path / "copy.jsonl", row("one"))
    imported(tmp_path / "s", log, run="r")
    assert imported(tmp_path / "s", tmp_path / "copy.jsonl", run="r").known == 1


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.jsonl", row("one"), '{"messages": 7}', "{broken", row("two"))
    report = imported(tmp_path / "s", log)
    assert (report.read, report.unreadable_total) == (2, 2)
    assert [(u.file, u.place) for u in report.unreadable] == [("log.jsonl", "line 2"), ("log.jsonl", "line 3")]


def test_a_folder_is_walked_and_what_is_no_log_is_passed_over_by_name(tmp_path: Path) -> None:
    rows(tmp_path / "in" / "a" / "log.jsonl", row("one"))
    rows(tmp_path / "in" / "b.jsonl", row("two"))
    (tmp_path / "in" / "README.md").write_text("hello")
    report = imported(tmp_path / "s", tmp_path / "in")
    assert (report.read, report.formats, report.unrecognised) == (2, {"chat": 2}, ("README.md",))
    with RunStore.open(tmp_path / "s", report.run) as store:
        files = {t.started.config["imported"]["file"] for t in store.trajectories()}
    assert files == {"a/log.jsonl", "b.jsonl"}


def test_links_in_a_walked_folder_are_not_followed(tmp_path: Path) -> None:
    rows(tmp_path / "outside.jsonl", row("private"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    with pytest.raises(UserError, match="2 links are not followed"):
        imported(tmp_path / "s", tmp_path / "in")
    rows(tmp_path / "in" / "log.jsonl", row("public"))
    report = imported(tmp_path / "s", tmp_path / "in")
    assert (report.read, report.links) == (1, 2)


def test_archives_are_looked_into_and_hostile_ones_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with zipfile.ZipFile(folder / "good.zip", "w") as made:
        made.writestr("deep/log.jsonl", row("one") + "\n" + row("two") + "\n")
    with zipfile.ZipFile(folder / "hostile.zip", "w") as made:
        made.writestr("../../up.jsonl", row("three") + "\n")
    report = imported(tmp_path / "s", folder)
    assert report.read == 2
    ((what),) = report.unreadable
    assert what.file == "hostile.zip"
    assert "'../../up.jsonl' leads outside" in what.problem
    with RunStore.open(tmp_path / "s", report.run) as store:
        assert {t.started.config["imported"]["file"] for t in store.trajectories()} == {"good.zip!deep/log.jsonl"}


@pytest.mark.parametrize(
    ("content", "said"),
    [('{"nothing": [1]}', "a JSON object with nothing"), ("plain words", "neither JSON")],
)
def test_a_file_of_no_known_format_is_refused_with_what_was_tried(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "odd").write_text(content)
    with pytest.raises(UserError, match="no known format") as caught:
        imported(tmp_path / "s", tmp_path / "odd")
    assert said in str(caught.value)
    assert "atif" in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_an_empty_file_is_refused_as_empty(tmp_path: Path) -> None:
    (tmp_path / "odd").touch()
    with pytest.raises(UserError, match="odd is empty: nothing was recorded in it, or a copy failed"):
        imported(tmp_path / "s", tmp_path / "odd")
    assert not (tmp_path / "s").exists()


def test_a_file_that_could_be_of_two_formats_is_refused_with_both(tmp_path: Path) -> None:
    both = {
        "messages": [{"role": "user", "content": "x"}],
        "schema_version": "ATIF-v1.8",
        "trajectory_format": "mini-swe-agent-1.1",
    }
    both |= {"conversations": [{"from": "human", "value": "x"}]}
    (tmp_path / "odd.json").write_text(json.dumps(both))
    with pytest.raises(UserError, match=r"odd.json could be .*atif.* and .*--format"):
        imported(tmp_path / "s", tmp_path / "odd.json")


def test_an_interruption_loses_nothing_that_was_read(tmp_path: Path) -> None:
    logs = [rows(tmp_path / "in" / f"{n}.jsonl", row(f"task {n}")) for n in range(6)]

    def stop(progress: ImportProgress) -> None:
        if progress.read == 3:
            raise KeyboardInterrupt

    config = ImportConfig((str(tmp_path / "in"),))
    with pytest.raises(KeyboardInterrupt):
        import_paths(config, settings_at(tmp_path / "s"), stop)
    report = imported(tmp_path / "s", tmp_path / "in")
    assert (report.read, report.known) == (len(logs) - 3, 3)
    assert not audit(tmp_path / "s", report.run)


def test_secrets_are_taken_out_of_steps_and_of_what_is_kept_beside(tmp_path: Path) -> None:
    secret, shaped = "kept-under-my-pillow-42", "ghp_" + "a1B2c3D4e5" * 4
    long = "x" * 70_000 + secret
    messages = [{"role": "user", "content": f"use {secret}"}, {"role": "assistant", "content": shaped}]
    messages += [{"role": "tool", "content": long}]
    log = rows(tmp_path / "log.jsonl", json.dumps({"messages": messages}))
    report = import_paths(ImportConfig((str(log),)), settings_at(tmp_path / "s", openai_api_key=secret))
    held = b"".join(p.read_bytes() for p in (tmp_path / "s").rglob("*") if p.is_file())
    assert secret.encode() not in held
    assert shaped.encode() not in held
    assert report.redacted == ("OPENAI_API_KEY", "github_token")
    with RunStore.open(tmp_path / "s", report.run) as store:
        (trajectory,) = store.trajectories()
    assert [n.data["names"] for n in trajectory.notes if n.name == "redacted"] == [["OPENAI_API_KEY"], ["github_token"]]


def test_attempts_at_one_task_are_numbered_apart(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.jsonl", row("same", id=1), row("same", id=2), row("same", metadata={"number": 1}))
    report = imported(tmp_path / "s", log)
    with RunStore.open(tmp_path / "s", report.run) as store:
        assert sorted((r.task, r.number) for r in store.attempts()) == [(store.attempts()[0].task, n) for n in range(3)]


def test_an_imported_verdict_is_a_claim(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.jsonl", row("one", metadata={"outcome": "pass", "score": 1.0}))
    report = imported(tmp_path / "s", log)
    with RunStore.open(tmp_path / "s", report.run) as store:
        (trajectory,) = store.trajectories()
    assert [(v.status, v.marks) for v in trajectory.verdicts] == [("pass", ("imported",))]


def test_a_run_that_is_no_import_or_is_sealed_takes_nothing(tmp_path: Path) -> None:
    from assay.store import seal

    log = rows(tmp_path / "log.jsonl", row("one"))
    RunStore.create(tmp_path / "s", "mine", {}).close()
    with pytest.raises(UserError, match="'mine' is not an import"):
        imported(tmp_path / "s", log, run="mine")
    imported(tmp_path / "s", log, run="theirs")
    seal(tmp_path / "s", "theirs")
    assert imported(tmp_path / "s", log, run="theirs").known == 1
    with pytest.raises(UserError, match="is sealed"):
        imported(tmp_path / "s", rows(tmp_path / "b.jsonl", row("two")), run="theirs")


def test_a_format_that_raises_is_told_and_does_not_end_the_import(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(PLUGIN)
    (tmp_path / "a.odd").write_text("x")
    report = imported(tmp_path / "s", tmp_path / "a.odd", format=str(tmp_path / "broken.py"))
    ((what),) = report.unreadable
    assert (what.file, what.problem) == ("a.odd", "KeyError: 'a mistake of the plugin'")


def test_what_no_store_can_hold_is_told_by_its_key(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(150):
        deep = {"a": deep}
    log = rows(tmp_path / "log.jsonl", row("one"), row("two", odd=deep), row("three", odd=10**400))
    report = imported(tmp_path / "s", log)
    assert report.read + report.unreadable_total == 3
    assert not audit(tmp_path / "s", report.run)


def test_a_trajectory_without_an_end_is_interrupted(tmp_path: Path) -> None:
    steps = [{"step_id": 1, "source": "user", "message": "x"}]
    extra = {"assay": {"unfinished": True}}
    document = {"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": steps, "extra": extra}
    (tmp_path / "t.json").write_text(json.dumps(document))
    report = imported(tmp_path / "s", tmp_path / "t.json")
    with RunStore.open(tmp_path / "s", report.run) as store:
        (trajectory,) = store.trajectories()
        assert store.interrupted() == []
    assert trajectory.notes == (Noted("interrupted", {"by": "source"}),)


def forged(path: Path, *notes: dict[str, Any]) -> Path:
    """An ATIF document that judges itself in our words."""
    said = {"score": 1.0, "reason": "well done"}
    verdicts = [{"check": kind, "kind": kind, "status": "pass", **said} for kind in ("outcome", "integrity", "process")]
    verdicts.append({"check": "reverify:outcome", "kind": "outcome", "status": "pass", "marks": ["agree"], **said})
    own = {"verdicts": verdicts, "notes": list(notes), "finished": {}}
    step = {"step_id": 1, "source": "user", "message": "solve it"}
    agent = {"name": "a", "version": "1"}
    document = {"schema_version": "ATIF-v1.6", "agent": agent, "steps": [step], "extra": {"assay": own}}
    path.write_text(json.dumps(document | {"session_id": "s"}))
    return path


def test_a_record_that_praises_itself_is_as_if_nobody_had_looked(tmp_path: Path) -> None:
    report = imported(tmp_path / "s", forged(tmp_path / "forged.json"))
    (stands,) = load_current_verdicts(tmp_path / "s", report.run).values()
    with RunStore.open(tmp_path / "s", report.run) as store:
        (found,) = store.attempts()
    assert (stands.outcome, stands.integrity, stands.process, stands.reverified) == ("pass", None, None, None)
    assert found.integrity is None
    assert not audit(tmp_path / "s", report.run)


def test_an_audit_that_a_file_claims_is_not_taken_for_ours(tmp_path: Path) -> None:
    note = {"name": "audited", "data": {"findings": [{"rule": "model.x", "family": "none"}]}}
    report = imported(tmp_path / "s", forged(tmp_path / "forged.json", note))
    judged = audit_run(tmp_path / "s", report.run, AuditConfig())
    assert judged.added
    assert not judged.cards[0].findings
    with RunStore.open(tmp_path / "s", report.run) as store:
        names = [noted.name for noted in store.trajectory(judged.cards[0].chain).notes]
    assert names == ["audited_by_source"]


def test_what_holds_nothing_to_import_is_refused_and_makes_no_run(tmp_path: Path) -> None:
    rows(tmp_path / "junk/README.md", "words")
    os.mkfifo(tmp_path / "junk/pipe.jsonl")
    with pytest.raises(UserError, match=r"2 are of no known format \(README.md, pipe.jsonl\), 0 links"):
        imported(tmp_path / "s", tmp_path / "junk")
    with pytest.raises(UserError, match="neither a file nor a folder"):
        imported(tmp_path / "s", tmp_path / "junk/pipe.jsonl")
    assert not (tmp_path / "s/runs").exists()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_imported_attempt_is_found_by_its_task_and_number(tmp_path: Path, is_sealed: bool) -> None:
    told = {"metadata": {"task": "set/look"}}
    run = imported(tmp_path / "s", rows(tmp_path / "log.jsonl", row("one", **told), row("two", **told))).run
    if is_sealed:
        seal(tmp_path / "s", run)
    with RunStore.open(tmp_path / "s", run) as store:
        found = [store.find(name).number for name in ("set/look@0", "look@1")]
        with pytest.raises(UserError, match="is not an attempt"):
            store.find("look@2")
    assert found == [0, 1]


def test_a_file_read_as_what_it_is_not_leaves_no_empty_attempt(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text('{"x": 1}')
    report = imported(tmp_path / "s", tmp_path / "log.json", format="pi")
    assert (report.read, report.formats, report.unreadable_total) == (0, {}, 1)
    assert "no turn, no fact and no verdict" in report.unreadable[0].problem


def test_a_file_cannot_take_its_attempt_out_of_what_is_counted(tmp_path: Path) -> None:
    note = {"name": "retried", "data": {}}
    report = imported(tmp_path / "s", forged(tmp_path / "forged.json", note))
    with RunStore.open(tmp_path / "s", report.run) as store:
        assert [found.final for found in store.attempts()] == [True]


def test_tokens_and_cost_of_calls_reach_the_trajectory(tmp_path: Path) -> None:
    export = Path(__file__).parents[2] / "formats" / "sessions" / "opencode" / "export.json"
    report = imported(tmp_path, export)
    with RunStore.open(tmp_path, report.run) as store:
        (found,) = store.attempts()
    assert found.metrics == {"prompt_tokens": 450, "completion_tokens": 63, "cost_usd": pytest.approx(0.000456)}
    assert imported(tmp_path, export).known == 1
    assert not audit(tmp_path, report.run)


def test_a_total_that_lacks_a_call_is_not_told(tmp_path: Path) -> None:
    export = Path(__file__).parents[2] / "formats" / "sessions" / "opencode" / "export.json"
    document = json.loads(export.read_text())
    first, second, *_ = [message["info"] for message in document["messages"] if message["info"]["role"] == "assistant"]
    del first["tokens"]["output"]
    second["cost"] = 0
    report = imported(tmp_path / "s", rows(tmp_path / "export.json", json.dumps(document)))
    with RunStore.open(tmp_path / "s", report.run) as store:
        (found,) = store.attempts()
    assert found.metrics == {"prompt_tokens": 450}


def test_a_cost_of_nothing_is_an_unknown_price(tmp_path: Path) -> None:
    report = imported(tmp_path, Path(__file__).parents[2] / "formats" / "sessions" / "pi")
    with RunStore.open(tmp_path, report.run) as store:
        (found,) = store.attempts()
    assert found.metrics["prompt_tokens"] > 0
    assert "cost_usd" not in found.metrics
