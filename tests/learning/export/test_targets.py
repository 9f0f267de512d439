"""What each target writes, checked against the run that it was made of."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from assay.errors import StoreError, UserError
from assay.learning.export.config import TARGETS, WriteConfig
from assay.learning.export.exporting import export_for_training, load_target
from assay.learning.reading import rows_of_run
from assay.learning.row_files import read_rows
from assay.learning.rows import TrainingRow
from assay.records import Body, ModelCalled, SpanProof, StepAdded
from assay.rollout.exchange.exporting import ExportReport
from assay.settings import Settings
from tests.learning.recorded import asked_again, store_run
from tests.learning.rows.test_rendered import without_tokens_in

pytestmark = pytest.mark.newest
Export = Callable[..., Path]


@pytest.fixture
def export(small_run: Path, tmp_path: Path) -> Export:
    """Exports a run (`r` of the small store) and gives the file."""

    def make(to: str, store: Path = small_run, **how: Any) -> Path:
        out = tmp_path / to
        export_for_training("r", WriteConfig(to=to, out=str(out), **how), Settings(cache=tmp_path, store=store))
        return out

    return make


def sidecar(out: Path) -> dict[str, Any]:
    return dict(json.loads((out.parent / f"{out.name}.losses.json").read_text()))


def left_out(out: Path) -> dict[str, str]:
    return {loss["attempt"]: loss["why"] for loss in sidecar(out)["losses"] if loss["field"] == "attempt"}


def table(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).to_pylist())


def by_attempt(store: Path) -> dict[str, TrainingRow]:
    return {row.attempt: row for row in rows_of_run(Settings(store, store), "r")}


def test_help_names_every_target() -> None:
    source = inspect.getsource(WriteConfig)
    assert [name for name in TARGETS if not re.search(rf"\b{name}[,.]", source)] == []


@pytest.mark.parametrize(
    "name", [name for name in TARGETS if name not in ("rows", "hf-dataset", "swapped-instructions")]
)
def test_a_doubted_pass_is_a_plain_pass_for_no_trainer(export: Export, name: str) -> None:
    target = load_target(name)
    out = export(name, include="all", failed_integrity=True)
    if target.credit:
        assert "a2" not in left_out(out)  # it is there, and gains nothing: see the tests of credit
    else:
        assert left_out(out)["a2"] == "left out: it passed, and its integrity is fail"
    assert {stands["attempt"]: stands.get("doubt") for stands in sidecar(out)["attempts"]}["a2"] is not None


@pytest.mark.parametrize("name", ["trl-grpo", "tinker"])
def test_a_doubted_pass_gains_no_credit(export: Export, small_run: Path, name: str) -> None:
    out = export(name, failed_integrity=True)
    if name == "tinker":
        datums = [json.loads(line)["loss_fn_inputs"]["advantages"]["data"] for line in out.read_text().splitlines()]
        assert len(datums) == 5
        assert max(datums[2]) <= 0 < max(datums[0])
        return
    rows = {row["attempt"]: row for row in table(out)}
    assert max(rows["a2"]["advantages"]) <= 0 < max(rows["a0"]["advantages"])
    assert by_attempt(small_run)["a2"].outcome == "pass"


def test_supervised_tokens_are_the_sampled_ones(export: Export, small_run: Path) -> None:
    out, rows = export("trl-sft"), by_attempt(small_run)
    assert [row["attempt"] for row in table(out)] == ["a0", "a1"]
    for row in table(out):
        known = rows[row["attempt"]]
        labels = np.array(row["labels"])
        assert row["input_ids"] == known.token_ids.tolist()
        assert np.array_equal(labels != -100, known.loss_mask)
        assert np.array_equal(labels[known.loss_mask], known.token_ids[known.loss_mask])
    assert left_out(out)["a3"] == "left out: its outcome is fail"


def test_conversations_keep_the_arguments_of_each_call_apart(export: Export) -> None:
    row = table(export("trl-chat"))[1]
    messages, tools = json.loads(row["messages"]), json.loads(row["tools"])
    calls = [call["function"] for message in messages for call in message.get("tool_calls", ())]
    assert [call["arguments"] for call in calls] == [{"direction": "up"}, {"key": "k", "n": 1}, {"direction": "right"}]
    assert [message["role"] for message in messages[:4]] == ["system", "user", "assistant", "tool"]
    assert messages[3]["name"] == "move"
    assert messages[-1]["role"] == "assistant"
    assert [set(tool["function"]["parameters"]["properties"]) for tool in tools] == [{"direction"}, {"key", "n"}]


def test_preferences_are_single_messages_where_attempts_part(export: Export, small_run: Path) -> None:
    rows, known = table(export("trl-dpo")), by_attempt(small_run)
    sides = [(row["chosen_attempt"], row["rejected_attempt"]) for row in rows]
    assert sides == [("a0", "a3"), ("a0", "a4")]
    for row in rows:
        prompt, chosen, rejected = (json.loads(row[name]) for name in ("prompt", "chosen", "rejected"))
        assert [message["role"] for message in (*chosen, *rejected)] == ["assistant", "assistant"]
        assert prompt[-1]["role"] in {"user", "tool"}
        assert row["chosen_ids"] != row["rejected_ids"]
        for name in ("chosen", "rejected"):
            ids = row["prompt_ids"] + row[f"{name}_ids"]
            whole = known[row[f"{name}_attempt"]]
            assert whole.token_ids[: len(ids)].tolist() == ids
            assert whole.loss_mask[len(row["prompt_ids"]) : len(ids)].all()


def test_preferences_need_attempts_that_part(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export
) -> None:
    root = store_run(tmp_path / "s", [attempt("a0", "up"), attempt("a1", "up", outcome="fail", number=1)])
    with pytest.raises(UserError, match="no two attempts at one task part"):
        export("trl-dpo", store=root)
    assert not (tmp_path / "trl-dpo").exists()


def test_verl_rows_have_the_fields_of_an_agent_loop(export: Export, small_run: Path) -> None:
    out, known = export("verl"), by_attempt(small_run)
    rows = table(out / "rollouts.parquet")
    assert [row["reward_score"] for row in rows] == [1.0, 1.0, 0.0, 0.0]
    assert len({row["uid"] for row in rows}) == 1
    for row in rows:
        whole = known[json.loads(row["extra_fields"])["attempt"]]
        assert row["prompt_ids"] + row["response_ids"] == whole.token_ids.tolist()
        assert len(row["response_ids"]) == len(row["response_mask"]) == len(row["response_logprobs"])
        assert sum(row["response_mask"]) == whole.loss_mask.sum()
        assert row["response_mask"][0] == 1
    (prompt,) = table(out / "prompts.parquet")
    assert [message["role"] for message in prompt["prompt"]] == ["system", "user"]
    assert prompt["reward_model"]["style"] == "rule"


def test_prime_rl_batches_hold_every_row_once(export: Export, small_run: Path) -> None:
    known = by_attempt(small_run)
    longest = max(map(len, known.values()))
    out = export("prime-rl", length=2 * longest, failed_integrity=True)
    batches = msgspec.msgpack.decode((out / "rollouts" / "step_0" / "rank_0.bin").read_bytes())
    assert sum(len(batch[5]) for batch in batches) == 5
    for batch in batches:
        ids, mask, advantages, logprobs, positions, lengths, temperatures, names, seq_lens = batch[:9]
        total = len(ids)
        assert total <= 2 * longest
        assert {len(column) for column in (mask, advantages, logprobs, positions, temperatures, names)} == {total}
        assert sum(lengths) == sum(seq_lens) == total
        assert positions == [place for length in lengths for place in range(length)]
        assert sum(mask) == sum(known[chain.removesuffix(".0")].loss_mask.sum() for chain in batch[17])


def test_prime_rl_refuses_tokens_of_unknown_temperature(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export
) -> None:
    events = attempt("a0", "up")
    silent = [
        ModelCalled(msgspec.structs.replace(e.call, sampling={}, response={"choices": e.call.response["choices"]}))
        if isinstance(e, ModelCalled) and e.call.response
        else e
        for e in events
    ]
    with pytest.raises(UserError, match="does not say at which temperature"):
        export("prime-rl", store=store_run(tmp_path / "s", [silent]))


def test_tinker_datums_are_shifted_by_one(export: Export, small_run: Path) -> None:
    first, known = json.loads(export("tinker").read_text().splitlines()[0]), by_attempt(small_run)["a0"]
    inputs = first["loss_fn_inputs"]
    assert first["model_input"]["chunks"][0]["tokens"] == known.token_ids[:-1].tolist()
    assert inputs["target_tokens"]["data"] == known.token_ids[1:].tolist()
    assert inputs["logprobs"]["data"] == pytest.approx(known.logprobs[1:].tolist())
    trained = np.array(inputs["advantages"]["data"]) != 0
    assert np.array_equal(trained, known.loss_mask[1:])


def test_skyrl_output_fits_together(export: Export, small_run: Path) -> None:
    output, known = json.loads(export("skyrl").read_text()), by_attempt(small_run)
    assert output["rewards"] == [1.0, 1.0, 0.0, 0.0]
    assert [one["repetition_id"] for one in output["trajectory_ids"]] == [0, 1, 2, 3]
    assert "is_last_step" not in output
    parts = zip(output["prompt_token_ids"], output["response_ids"], output["loss_masks"], strict=True)
    for (prompt, response, mask), name in zip(parts, ("a0", "a1", "a3", "a4"), strict=True):
        assert prompt + response == known[name].token_ids.tolist()
        assert (len(mask), sum(mask)) == (len(response), known[name].loss_mask.sum())


def test_openai_lines_have_arguments_as_text(export: Export) -> None:
    lines = [json.loads(line) for line in export("openai").read_text().splitlines()]
    calls = [call for line in lines for message in line["messages"] for call in message.get("tool_calls", ())]
    assert {type(call["function"]["arguments"]) for call in calls} == {str}
    answered = {message["tool_call_id"] for message in lines[0]["messages"] if message["role"] == "tool"}
    assert answered < {call["id"] for call in calls}
    assert lines[0]["messages"][-1]["role"] == "assistant"
    assert all("weight" not in message for line in lines for message in line["messages"])


def test_openai_preferences_are_one_message_each(export: Export) -> None:
    for line in map(json.loads, export("openai-dpo").read_text().splitlines()):
        assert [len(line["preferred_output"]), len(line["non_preferred_output"])] == [1, 1]
        assert line["preferred_output"] != line["non_preferred_output"]
        assert line["input"]["messages"][-1]["role"] in {"user", "tool"}


def test_our_own_rows_hold_all(export: Export, small_run: Path) -> None:
    out = export("rows", failed_integrity=True)
    assert [row.attempt for row in read_rows(out)] == list(by_attempt(small_run))
    assert sidecar(out)["losses"] == []


def test_a_turn_of_two_lines_is_trained_in_one(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export
) -> None:
    events = asked_again(attempt("a0", "up", "right"))
    root = store_run(tmp_path / "s", [events])
    lines = [json.loads(line) for line in export("openai", store=root).read_text().splitlines()]
    weights = [[m.get("weight", 1) for m in line["messages"] if m["role"] == "assistant"] for line in lines]
    assert weights == [[1, 1], [0, 1]]
    output = json.loads(export("skyrl", store=root).read_text())
    assert output["is_last_step"] == [False, True]
    sampled = [len(e.call.completion_token_ids or ()) for e in events if isinstance(e, ModelCalled)]
    assert sum(map(sum, output["loss_masks"])) == sum(sampled)


def test_what_is_uncertified_is_refused_or_named(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export
) -> None:
    bad = SpanProof(certified=False, reason="the client edited it")
    events = [
        ModelCalled(msgspec.structs.replace(e.call, certificate=bad)) if isinstance(e, ModelCalled) and n == 3 else e
        for n, e in enumerate(attempt("a0", "up", "right"))
    ]
    root = store_run(tmp_path / "s", [events])
    with pytest.raises(UserError, match="not certified"):
        export("trl-sft", store=root)
    out = export("trl-sft", store=root, uncertified="mask")
    assert "the client edited it" in next(loss["why"] for loss in sidecar(out)["losses"] if loss["field"] == "span")


def test_nothing_is_taken_from_a_run_that_was_changed(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export
) -> None:
    import sqlite3
    from contextlib import closing

    root = store_run(tmp_path / "s", [attempt("a0", "up")])
    with closing(sqlite3.connect(next(root.rglob("*.sqlite")))) as database, database:
        database.execute('UPDATE events SET body = replace(body, \'"status":"pass"\', \'"status":"fail"\')')
    for name in TARGETS:
        with pytest.raises(StoreError, match="not what was recorded"):
            export(name, store=root)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s"]


def test_an_experts_run_is_exported_as_the_model_would_have_been_told(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export, model_folder: Path
) -> None:
    expert = [
        StepAdded(msgspec.structs.replace(e.step, call=None)) if isinstance(e, StepAdded) else e
        for e in attempt("a0", "up", "right", agent="expert", model=None)
        if not isinstance(e, ModelCalled)
    ]
    root = store_run(tmp_path / "s", [expert])
    with pytest.raises(UserError, match="task is not available"):
        export("trl-sft", store=root, model=str(model_folder), rendered=True)
    with pytest.raises(UserError, match=r"nothing to write .* --rendered --model"):
        export("trl-sft", store=root)


def test_what_a_format_does_not_know_is_refused() -> None:
    with pytest.raises(UserError, match="--credit is for trainers' targets, and atif is a format"):
        WriteConfig(to="atif", out="x", credit="gigpo").as_format()
    assert WriteConfig(to="atif", out="x", attempts=("a",)).as_format().attempts == ("a",)
    with pytest.raises(UserError, match="did you mean trl-sft"):
        WriteConfig(to="trl_sft", out="x").as_format()
    with pytest.raises(UserError, match="--model"):
        WriteConfig(to="trl-sft", out="x", rendered=True)


def test_the_report_counts_what_is_doubted(small_run: Path, tmp_path: Path) -> None:
    config = WriteConfig(to="trl-sft", out=str(tmp_path / "x"))
    report: ExportReport = export_for_training("r", config, Settings(cache=tmp_path, store=small_run))
    assert (report.written, report.doubted, report.losses["attempt"]) == (2, ("a2",), 3)


@pytest.mark.parametrize("name", [name for name in TARGETS if load_target(name).sampled])
def test_rendered_rows_are_for_no_policy_gradient(
    attempt: Callable[..., list[Body]], tmp_path: Path, export: Export, model_folder: Path, name: str
) -> None:
    both = [attempt("a0", "up"), without_tokens_in(attempt("a1", "up", outcome="fail", number=1))]
    out = export(name, store=store_run(tmp_path / "s", both), model=str(model_folder), rendered=True)
    assert next(loss["attempt"] for loss in sidecar(out)["losses"] if loss["field"] == "row") == "a1"


Attempts = Callable[..., list[Body]]


def report_of(store: Path, out: Path, **how: Any) -> ExportReport:
    return export_for_training("r", WriteConfig(out=str(out), **how), Settings(cache=out.parent, store=store))


def test_what_gives_no_example_is_explained_with_its_remedy(attempt: Attempts, tmp_path: Path) -> None:
    failed = store_run(tmp_path / "failed", [attempt("a0", "up", outcome="fail")])
    without = store_run(tmp_path / "without", [without_tokens_in(attempt("a0", "up"))])
    for store, to, said in (
        (failed, "trl-chat", r"\(the first, a0: its outcome is fail\); --include all takes attempts of every outcome$"),
        (without, "trl-sft", r"\(the first, a0: no tokens are known of it\); --rendered --model FOLDER renders"),
        (without, "trl-grpo", r"run the agent with a model that takes tokens \(--model local:FOLDER"),
    ):
        with pytest.raises(UserError, match=said):
            report_of(store, tmp_path / "out", to=to)


def test_unknown_roles_are_said_with_the_model_that_assigns_them(
    attempt: Attempts, model_folder: Path, tmp_path: Path
) -> None:
    name = f"local:{model_folder}?temperature=1"
    store = store_run(tmp_path / "s", [attempt("a0", "up")], config={"model": name})
    report = report_of(store, tmp_path / "without", to="rows")
    assert report.warnings == (f"the roles of prompt tokens are unknown in 1 row; --model {model_folder} assigns them",)
    assert report_of(store, tmp_path / "with", to="rows", model=str(model_folder)).warnings == ()
    assert report_of(store, tmp_path / "sft", to="trl-sft").warnings == ()


def test_a_template_that_does_not_render_the_prompts_is_said(
    attempt: Attempts, model_folder: Path, tmp_path: Path
) -> None:
    recorded = store_run(tmp_path / "s", [attempt("a0", "up")], config={"model": f"local:{model_folder}"})
    (warning,) = report_of(recorded, tmp_path / "a", to="rows", model=str(model_folder), thinking=False).warnings
    assert f"the template of {model_folder} does not render the recorded prompts" in warning
    # A run whose model was named with thinking=false is rendered so unless the export says otherwise.
    other = store_run(tmp_path / "o", [attempt("a0", "up")], config={"model": "local:elsewhere?thinking=false"})
    assert report_of(other, tmp_path / "b", to="rows", model=str(model_folder)).warnings
    assert not report_of(other, tmp_path / "c", to="rows", model=str(model_folder), thinking=True).warnings


def test_tokens_that_a_script_chose_are_said_to_be_off_policy(attempt: Attempts, tmp_path: Path) -> None:
    both = [attempt("a0", "up"), attempt("a1", "up", outcome="fail", number=1)]
    store = store_run(tmp_path / "s", both, config={"model": "local:tiny?steer=script.json&temperature=1"})
    (warning,) = report_of(store, tmp_path / "grpo", to="trl-grpo").warnings
    assert "a script chose the tokens of this run" in warning
    assert report_of(store, tmp_path / "sft", to="trl-sft").warnings == ()


def test_rows_that_teach_nothing_are_said(attempt: Attempts, tmp_path: Path) -> None:
    failed = [attempt(f"a{n}", "up", outcome="fail", number=n) for n in range(2)]
    report = report_of(store_run(tmp_path / "s", failed), tmp_path / "out", to="trl-grpo")
    assert (report.written, len(report.warnings)) == (2, 1)
    assert "every advantage is 0" in report.warnings[0]
    mixed = [attempt("b0", "up"), attempt("b1", "up", outcome="fail", number=1)]
    assert report_of(store_run(tmp_path / "t", mixed), tmp_path / "out2", to="trl-grpo").warnings == ()


def test_nothing_is_counted_as_lost_that_the_run_does_not_have(attempt: Attempts, tmp_path: Path) -> None:
    store = store_run(tmp_path / "s", [without_tokens_in(attempt("a0", "up"))])
    assert 0 not in report_of(store, tmp_path / "out", to="openai").losses.values()
