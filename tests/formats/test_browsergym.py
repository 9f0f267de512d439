"""Runs of AgentLab in BrowserGym: turns, pages and rewards as its files state them, read without unpickling."""

from __future__ import annotations

import gzip
import json
import math
import os
import pickle
import random
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.formats.browsergym.actions import parse_action
from assay.formats.browsergym.agentlab import AgentLabFormat
from assay.formats.browsergym.reward_bench import AgentRewardBenchFormat
from assay.formats.registry import find_format
from assay.formats.shared.pickle_data import PickledObject, PlainReader, fields_of, load_pickled_data, read_pickle
from assay.records import Trajectory
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings
from assay.store import RunStore
from tests.formats.generated import Blobs, read_all, read_whole

HERE = Path(__file__).parent / "benchmarks"
STUDY = HERE / "agentlab" / "scripted-on-miniwob"
CLEANED = HERE / "agent-reward-bench" / "miniwob.enter-text.json"
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def experiment(name: str) -> Path:
    return next(path for path in sorted(STUDY.iterdir()) if path.name.endswith(name))


def read_one(path: Path) -> Trajectory:
    (found,) = read_whole(find_format(path), path)
    return found


def called(found: Trajectory) -> list[tuple[str, Any]]:
    return [(call.name, call.parsed) for step in found.steps for call in step.tool_calls]


def test_turns_are_those_of_the_experiment() -> None:
    found = read_one(experiment("enter-text_3"))
    assert (found.task, found.agent, found.model, found.seed) == ("miniwob.enter-text", "Scripted", "scripted-model", 3)
    assert found.steps[0].message == 'Enter "Cheree" into the text field and press Submit.'
    assert called(found) == [("fill", {"bid": "14", "value": "Cheree"}), ("click", {"bid": "15"})]
    agent = [step for step in found.steps if step.actor == "agent"]
    assert all(step.reasoning == f"The goal is: {found.steps[0].message}" for step in agent)
    assert "textbox '' value='Cheree'" in agent[0].observations[0].content
    assert all(step.ended is not None and step.ended >= (step.started or 0) > 1.7e9 for step in agent)
    assert agent[0].extra["stats"]["cost"] == 0.25


def test_rewards_are_claims_and_no_verdict() -> None:
    for path, reward in (("click-test_1", 1.0), ("enter-text_3", 1.0), ("enter-text_4", 0.0), ("click-dialog_6", 0.0)):
        found, summary = read_one(experiment(path)), json.loads((experiment(path) / "summary_info.json").read_text())
        (verdict,) = found.verdicts
        assert (verdict.status, verdict.score, verdict.marks) == ("unknown", None, ("imported",))
        assert verdict.rewards["cum_reward"] == summary["cum_reward"] == reward


def test_ends_are_told_apart() -> None:
    ends = [read_one(experiment(name)).finished for name in ("click-test_1", "enter-text_4", "click-dialog_6")]
    assert [(end.ended, end.stopped, end.broke) for end in ends if end is not None] == [
        ("the environment ended the episode", None, None),
        (None, None, "agent"),
        (None, "turns", None),
    ]
    assert ends[1] is not None
    assert "the model did not answer" in (ends[1].error or "")


def test_an_action_of_two_calls_and_its_error() -> None:
    found = read_one(experiment("click-dialog_6"))
    says = ("send_msg_to_user", {"text": "I can't do this\nat all."})
    assert called(found) == [says, ("noop", {"wait_ms": 10})] * 3
    answers = [step.observations[-1] for step in found.steps if step.actor == "agent"]
    assert all(answer.error and "Invalid action type 'send_msg_to_user'" in answer.content for answer in answers)


def test_screenshots_stand_beside_their_turns() -> None:
    blobs, path = Blobs(), experiment("enter-text_3")
    (imported,), _ = read_all(AgentLabFormat(), path, blobs)
    kinds = [type(body).__name__ for body in imported.bodies]
    assert kinds[:6] == ["StepAdded", "EvidenceAdded", "StepAdded", "EvidenceAdded", "StepAdded", "EvidenceAdded"]
    screens = [
        body.evidence for body in imported.bodies if getattr(getattr(body, "evidence", None), "kind", "") == "screen"
    ]
    assert [screen.data["act"] for screen in screens] == ["", "fill", "click"]
    stored = [blobs.content(screen.data["image"]) for screen in screens]
    assert stored == [(path / f"screenshot_step_{at}.png").read_bytes() for at in range(3)]


def test_a_study_is_imported_with_its_conversion(tmp_path: Path) -> None:
    report = import_paths(ImportConfig((str(STUDY), str(CLEANED))), Settings(cache=tmp_path / "cache", store=tmp_path))
    assert (report.read, report.unreadable_total) == (5, 0)
    with RunStore.open(tmp_path, report.run) as store:
        assert {row.task for row in store.attempts()} == {
            "miniwob.click-test",
            "miniwob.enter-text",
            "miniwob.click-dialog",
        }


def test_the_conversion_has_the_same_turns() -> None:
    ours, theirs = read_one(experiment("enter-text_3")), read_one(CLEANED)
    assert isinstance(find_format(CLEANED), AgentRewardBenchFormat)
    assert called(ours) == called(theirs)
    assert [step.reasoning for step in ours.steps] == [step.reasoning for step in theirs.steps]
    assert [[o.content for o in step.observations] for step in ours.steps] == [
        [o.content for o in step.observations] for step in theirs.steps
    ]
    assert (ours.task, ours.seed, ours.verdicts[0].rewards) == (theirs.task, theirs.seed, theirs.verdicts[0].rewards)


def test_a_cut_experiment_has_the_steps_that_there_are(tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(experiment("enter-text_3"), folder)
    (folder / "summary_info.json").unlink()
    (folder / "step_1.pkl.gz").write_bytes(b"\x1f\x8b\x08 no gzip")
    (imported,), problems = read_all(AgentLabFormat(), folder, Blobs())
    assert sorted(problem.place for problem in problems) == ["step_1.pkl.gz", "summary_info.json"]
    assert sum(type(body).__name__ == "StepAdded" for body in imported.bodies) == 4
    shutil.copytree(folder, tmp_path / "_cut")
    assert read_all(AgentLabFormat(), tmp_path / "_cut", Blobs())[0] == []


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("click('12')", [("click", {"bid": "12"})]),
        ("click('a1', button='right')", [("click", {"bid": "a1", "button": "right"})]),
        ("upload_file('3', ['a.txt'])", [("upload_file", {"bid": "3", "file": ["a.txt"]})]),
        ("noop()  # waits\ngoto('http://x')", [("noop", {}), ("goto", {"url": "http://x"})]),
        ("own(1, 2)", [("own", {"argument 1": 1, "argument 2": 2})]),
        ("", None),
        ("click('1'", None),
        ("import os", None),
        ("os.system('true')", None),
        ("click(__import__('os').getcwd())", None),
        ("click(*['1'])", None),
        ("click('1', bid='2')", None),
        ("x" * 20_001, None),
        ("(" * 9_000, None),
        ("-" * 19_000 + "1", None),
        ("click({1: 2})", None),
        ("click(b'1')", None),
        ("noop(99999999999999999999)", None),
        ("noop(1e999)", None),
        ("fill('1', '\\ud800')", None),
    ],
)
def test_actions_are_calls_or_texts(text: str, calls: Any) -> None:
    found = parse_action(text)
    assert (None if found is None else [tuple(call) for call in found]) == calls


# The reader of pickles.


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=JSON)
def test_plain_data_is_what_unpickling_gives(protocol: int, value: Any) -> None:
    assert PlainReader().read(load_pickled_data(pickle.dumps(value, protocol))) == value


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(Path("made-by-a-pickle").absolute()),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_runs_nothing(protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = load_pickled_data(pickle.dumps([Runs(), {"a": Runs()}], protocol))
    assert isinstance(found[0], PickledObject)
    assert found[0].name in ("posix.mkdir", "nt.mkdir")
    assert PlainReader().read(found) == [f"<{found[0].name}>", {"a": f"<{found[0].name}>"}]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged"),
        (b"\x80\x04N", "damaged"),
        (b"Pname\n.", "PERSID is not an opcode of plain data"),
        (b"NQ.", "BINPERSID is not an opcode"),
        (b"\x82\x01.", "EXT1 is not an opcode"),
        (b"(ios\nsystem\n.", "INST is not an opcode"),
        (b"(cos\nsystem\no.", "OBJ is not an opcode"),
        (b"\x80\x05\x97.", "NEXT_BUFFER is not an opcode"),
        (b"h\x05.", "damaged"),
        (b"NNR.", "damaged"),
        (b"N}b.", "damaged"),
        (b"(N.", None),
        (b"t.", "damaged"),
        (b"\x8b\xff\xff\xff\x7f.", "damaged"),
        (b"I" + b"9" * 5_000 + b"\n.", "damaged"),
        (b"N" * 2_000_001, "more than 2,000,000 opcodes"),
    ],
)
def test_other_pickles_are_refused(data: bytes, message: str | None) -> None:
    if message is None:
        assert load_pickled_data(data) is None
        return
    with pytest.raises(UserError, match=message):
        load_pickled_data(data)


def test_what_is_read_out_is_bounded() -> None:
    own: list[Any] = []
    own.append(own)
    twice: list[Any] = ["x"]
    for _ in range(60):
        twice = [twice, twice]
    texts = ["x" * 1_000_000]
    began = time.process_time()
    for value in (own, twice, texts * 1_000):
        with pytest.raises(UserError, match="too many values"):
            PlainReader().read(load_pickled_data(pickle.dumps(value)))
    assert time.process_time() - began < 5
    assert PlainReader().read(load_pickled_data(pickle.dumps([2**80, float("nan"), "\ud800", b"ab"]))) == [
        "<int>", "<float>", "?", "<2 bytes>",
    ]  # fmt: skip


def _sized(opcode: bytes, data: bytes) -> bytes:
    return opcode + struct.pack("<I", len(data)) + data


LONG_NAME = _sized(b"X", b"a" * 1_000_000) + _sized(b"X", b"b") + b"\x93q\0]("


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x80\x04(.", UserError),
        (b"\x80\x04(\x85.", UserError),
        (LONG_NAME + b"h\0)R" * 5_000 + b"e.", UserError),
        (LONG_NAME + b"h\0" * 5_000 + b"e.", UserError),
        (_sized(b"X", b"\xed\xa0\x80") + _sized(b"X", b"b") + b"\x93.", UserError),
        (b"}" + _sized(b"\x8b", b"\x7f" * 3_000) + b"Ns.", {"<int>": None}),
        (b"}" + _sized(b"B", b"\xff" * 4_000_000) + b"Nsq\0](" + b"h\0" * 300 + b"e.", None),
        (b"cn.multiarray\nscalar\n(cn\ndtype\n(Vf8\ntRC\x08" + struct.pack("<d", math.nan) + b"tR.", "<float>"),
        (b"cn.multiarray\nscalar\n(cn\ndtype\n(Vu8\ntRC\x08" + b"\xff" * 8 + b"tR.", "<int>"),
    ],
    ids=("mark", "mark-inside", "name-called", "name-named", "name-half", "key-int", "key-bytes", "nan", "unsigned"),
)
def test_hostile_pickles_are_refused_or_read_within_bounds(data: bytes, found: Any) -> None:
    began = time.process_time()
    if found is UserError:
        with pytest.raises(UserError, match="damaged"):
            PlainReader().read(load_pickled_data(data))
    else:
        read = PlainReader().read(load_pickled_data(data))
        assert read == found or (found is None and len(msgspec.json.encode(read)) < 2_000_000)
    assert time.process_time() - began < 5


def test_keys_with_one_hash_are_read_in_the_time_of_their_number() -> None:
    keys = [(number * (2**61 - 1)).to_bytes(12, "little") for number in range(8, 20_000)]
    data = b"\x80\x04}(" + b"".join(b"\x8a\x0c" + key + b"N" for key in keys) + b"u."
    began = time.process_time()
    assert PlainReader().read(load_pickled_data(data)) == {"<int>": None}
    assert time.process_time() - began < 1


@pytest.mark.parametrize("start", [b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"])
def test_a_damaged_packed_file_is_refused(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "step_0.pkl.gz"
    path.write_bytes(start + b"junk" * 10)
    with pytest.raises(UserError, match="damaged"):
        read_pickle(path)


def test_what_an_experiment_holds_in_memory_is_bounded(tmp_path: Path) -> None:
    folder = tmp_path / "large"
    shutil.copytree(experiment("enter-text_3"), folder)
    packed = (folder / "step_2.pkl.gz").read_bytes()
    for at in range(40):
        (folder / f"step_{at}.pkl.gz").write_bytes(packed)
        with (folder / f"screenshot_step_{at}.png").open("wb") as stream:
            stream.truncate(16 << 20)
    found, problems = read_all(AgentLabFormat(), folder, Blobs())
    assert len(found) == 1
    assert [(one.place, "left out" in one.problem) for one in problems] == [("step_16.pkl.gz", True)]


def test_a_packed_file_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "step_0.pkl.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for _ in range(65):
            stream.write(bytes(1 << 20))
    with pytest.raises(UserError, match="larger than the 67,108,864 bytes"):
        read_pickle(path)


def test_numbers_of_numpy_are_numbers() -> None:
    info = fields_of(read_pickle(experiment("enter-text_3") / "step_1.pkl.gz"))
    reader = PlainReader()
    assert reader.read(info["obs"]["active_page_index"]) == [0]
    (elapsed,) = reader.read(info["obs"]["elapsed_time"])
    assert 0 < elapsed < 600


def test_damaged_experiments_end_no_import(tmp_path: Path) -> None:
    """Any byte of a pickle may be another one: what is read is data, or a problem is reported."""
    draw, source = random.Random(4), experiment("enter-text_3")
    data = {name: _unpacked(source / name) for name in ("exp_args.pkl", "step_0.pkl.gz", "goal_object.pkl.gz")}
    for number in range(150):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, whole in data.items():
            changed = bytearray(whole)
            for _ in range(draw.choice((1, 3, 30))):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            (folder / name).write_bytes(bytes(changed))
        found, _ = read_all(AgentLabFormat(), folder, Blobs())
        assert len(found) == 1
        msgspec.json.encode(found[0])


def _unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
