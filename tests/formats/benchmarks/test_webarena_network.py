"""Network events of WebArena-Verified: judged as upstream judges them, and no trace of an agent's making passes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.formats.benchmarks.webarena_network import (
    NetworkEvaluator,
    find_value,
    judge_network,
)
from assay.formats.benchmarks.webarena_patterns import MOST_MATCHED, Uncovered, matches
from assay.formats.benchmarks.webarena_trace import MOST_EVENTS, read_trace
from assay.formats.benchmarks.webarena_verified import Recording, WebArenaTask, WebArenaVerifiedFormat, judge_task
from assay.formats.interface import ImportContext
from assay.records import VerdictAdded
from tests.environments.services.benchmark_data import shared_folder

from .webarena_cases import BASES, GOLDEN, cases, make_entry, network_evaluators

SHOP = {"__SHOPPING__": (BASES["__SHOPPING__"],)}


def judge(options: dict[str, Any], entries: list[Any], *, navigates: bool = False) -> str:
    evaluator = msgspec.convert({"evaluator": "NetworkEventEvaluator", **options}, NetworkEvaluator)
    return judge_network(evaluator, read_trace(entries), SHOP, navigates=navigates)


def wanted(**more: Any) -> dict[str, Any]:
    return {"url": "__SHOPPING__/review/post", "http_method": "POST", **more}


def test_cases_are_judged_as_upstream_judges_them() -> None:
    """10,443 traces of 663 evaluators; of 51 upstream makes an error of its own, and none of these passes."""
    data = (shared_folder("environments", "webarena") / "webarena-verified.json.gz").read_bytes()
    golden, wrong, errors = json.loads(GOLDEN.read_text()), [], 0
    for task in json.loads(gzip.decompress(data)):
        read = msgspec.convert(task, WebArenaTask)
        bases = {f"__{site.upper()}__": (BASES[f"__{site.upper()}__"],) for site in read.sites}
        for at, one in enumerate(network_evaluators(task)):
            evaluator = msgspec.convert(one, NetworkEvaluator)
            said = golden[f"{task['task_id']}.{at}"]
            for (name, trace), theirs in zip(cases(one["expected"]), said, strict=True):
                try:
                    reason = judge_network(evaluator, read_trace(trace), bases, navigates=read.navigates)
                    ours = "f" if reason else "p"
                except Uncovered:
                    ours = "u"
                errors += theirs == "e"
                if ours == "p" if theirs == "e" else ours != theirs:
                    wrong.append((task["task_id"], name, ours, theirs))
    assert wrong == []
    assert errors == 51


def test_a_log_is_judged_with_the_addresses_of_the_configuration(tmp_path: Path) -> None:
    response = {"task_type": "MUTATE", "status": "SUCCESS", "retrieved_data": None, "error_details": None}
    answer = {"evaluator": "AgentResponseEvaluator", "expected": {"task_type": "mutate", "status": "SUCCESS"}}
    network = {"evaluator": "NetworkEventEvaluator", "expected": wanted(post_data={"stars": "5"})}
    task = {"task_id": 7, "intent_template_id": 1, "sites": ["shopping"], "intent": "x", "start_urls": ["__SHOPPING__"]}
    (tmp_path / "webarena-verified.json").write_text(json.dumps([{**task, "eval": [answer, network]}]))
    folder = tmp_path / "logs" / "7"
    folder.mkdir(parents=True)
    (folder / "agent_response.json").write_text(json.dumps(response))

    def verdict(entries: list[Any]) -> tuple[str, str]:
        (folder / "network.har").write_text(json.dumps({"log": {"entries": entries}}))
        reading = ImportContext(lambda _: "0" * 64, lambda _: None)
        (read,) = WebArenaVerifiedFormat().read(folder / "agent_response.json", reading)
        found = next(body.verdict for body in read.bodies if isinstance(body, VerdictAdded))
        return found.status, found.reason

    right = make_entry(network["expected"])
    assert verdict([right]) == (
        "unknown",
        "the address of __SHOPPING__ is not known: config.json is looked for like the tasks",
    )
    secret = {"urls": [BASES["__SHOPPING__"]], "credentials": {"password": "x"}}
    (tmp_path / "config.json").write_text(json.dumps({"environments": {"__SHOPPING__": secret}}))
    assert verdict([right])[0] == "pass"
    assert verdict([{**right, "response": {"status": 500}}])[0] == "fail"
    assert verdict([right, {"request": {"method": "GET"}}]) == ("unknown", "1 entries of the trace are damaged")


@pytest.mark.parametrize(
    "damage",
    [
        None,
        [],
        {},
        {"request": None, "response": {}},
        {"request": {"method": 1, "url": "x", "headers": []}, "response": {"status": 200}},
        {"request": {"method": "GET", "url": "http://[", "headers": []}, "response": {"status": 200}},
        {"request": {"method": "GET", "url": "http://x:y/", "headers": []}, "response": {"status": 200}},
        {"request": {"method": "GET", "url": "http://x/", "headers": 3}, "response": {"status": 200}},
        {"request": {"method": "GET", "url": "http://x/", "headers": [{}]}, "response": {"status": 200}},
        {"request": {"method": "GET", "url": "http://x/"}, "response": {"status": True}},
        {"request": {"method": "GET", "url": "http://x/"}, "response": {"status": 200, "cookies": ["x"]}},
        {
            "request": {"method": "GET", "url": "http://x/", "postData": {"mimeType": "application/json", "text": "["}},
            "response": {"status": "200"},
        },
    ],
)
def test_with_a_damaged_entry_nothing_passes(damage: Any) -> None:
    right = make_entry(wanted())
    assert judge({"expected": wanted()}, [right]) == ""
    for options in ({"expected": wanted()}, {"expected": wanted(url="__SHOPPING__/a"), "should_not_exist": True}):
        with pytest.raises(Uncovered, match="1 entries of the trace are damaged"):
            judge(options, [right, damage])
    assert judge({"expected": wanted(url="__SHOPPING__/a")}, [right, damage]) != ""


@pytest.mark.parametrize(
    ("post_data", "sent"),
    [
        ({"nickname": "Emma"}, "^.*$"),
        ({"nickname": "^Emma$"}, "^.*$"),
        ({"nickname": "^Emma$"}, "Emma Lopez"),
        ({"nickname": "Emma"}, "Emma\x00Lopez"),
        ({"nickname": ["Emma", "Ema"]}, "Emma, Ema"),
    ],
)
def test_data_that_looks_like_a_pattern_matches_nothing(post_data: dict[str, Any], sent: str) -> None:
    entry = make_entry(wanted(post_data={"nickname": sent}))
    entry["request"]["postData"]["text"] = msgspec.json.encode({"nickname": sent}).decode()
    entry["request"]["postData"]["mimeType"] = "application/json"
    assert judge({"expected": wanted(post_data=post_data)}, [entry]) == f"POST {wanted()['url']}: other data"


def test_an_address_that_looks_like_a_pattern_or_holds_the_sites_own_is_another() -> None:
    for url in (
        "^.*$",
        "http://evil.test/?u=http://shop.test:7770/review/post",
        "http://shop.test:7770.evil.test/review/post",
    ):
        entry = make_entry(wanted())
        entry["request"]["url"] = url
        assert judge({"expected": wanted()}, [entry]) != ""
    entry["request"]["url"] = "http://shop.test:7770/x/../review/./post/"
    assert judge({"expected": wanted()}, [entry]) == ""


def test_patterns_are_tried_on_bounded_texts_only() -> None:
    pattern = "^.*(?=.*laundry)(?=.*detergent).*$"
    entry = make_entry(wanted(post_data={"text": "laundry detergent"}))
    assert judge({"expected": wanted(post_data={"text": pattern})}, [entry]) == ""
    entry["request"]["postData"]["text"] = f"text={'laundry' * MOST_MATCHED}"
    with pytest.raises(Uncovered, match="a pattern is not tried on more than"):
        judge({"expected": wanted(post_data={"text": pattern})}, [entry])


@pytest.mark.parametrize("pattern", ["^(a+)+b$", "^(a|a)*b$", "^.*(?=.*c)(?=.*d).*.*.*b$", "^(?!(a+)+b$).*c$"])
def test_no_pattern_takes_more_time_than_its_text(pattern: str) -> None:
    assert not matches(pattern, "a" * MOST_MATCHED)


@pytest.mark.parametrize("pattern", [r"^(a)\1$", "^(?<=a)b$", "^(?=^a)b$", "^a(?=b)c$", "^(?=(?!a)b)c$"])
def test_other_patterns_are_not_covered(pattern: str) -> None:
    with pytest.raises(Uncovered):
        matches(pattern, "ab")


@pytest.mark.parametrize(
    "more",
    [
        {"query_params_schema": {"properties": ["x"]}},
        {"query_params_schema": {"properties": {"x": 3}}},
        {"post_data_schema": {"properties": {"text": []}}},
        {"ignored_query_params_patterns": ["("]},
        {"query_params": {"x": 5}},
    ],
)
def test_evaluators_of_other_shapes_decide_nothing(more: dict[str, Any]) -> None:
    fields = {"query_params": more.pop("query_params", {"x": "1"}), "post_data": {"text": "a"}}
    evaluator = {"evaluator": "NetworkEventEvaluator", "expected": wanted(**fields), **more}
    given = {"task_id": 1, "intent_template_id": 1, "sites": ["shopping"], "intent": "", "start_urls": []}
    task = msgspec.convert({**given, "eval": [evaluator]}, WebArenaTask)
    entry = make_entry(wanted(query_params={"x": "1"}, post_data={"text": "a"}))
    judged = judge_task(task, {}, Recording(read_trace([entry]), SHOP))
    assert judged.status == "unknown"


def test_more_events_than_are_judged_do_not_pass() -> None:
    right = make_entry(wanted())
    with pytest.raises(Uncovered, match="2 entries"):
        judge({"expected": wanted()}, [right] * (MOST_EVENTS + 2))


def test_a_navigation_is_the_last_page_that_was_gone_to() -> None:
    there, elsewhere = (make_entry({"url": f"__SHOPPING__/{name}"}) for name in ("there", "elsewhere"))
    background = make_entry({"url": "__SHOPPING__/elsewhere"})
    background["request"]["headers"] = [{"name": "accept", "value": "application/json"}]
    options = {"expected": {"url": "__SHOPPING__/there"}}
    assert judge(options, [elsewhere, there, background], navigates=True) == ""
    assert judge(options, [there, elsewhere], navigates=True) != ""
    assert judge(options, [there, elsewhere]) == ""


def test_values_are_found_by_path_pattern_and_name() -> None:
    rows = [{"newProduct": 1, "a": 5}, {"newProduct": 0, "a": 6}, {"newProduct": 1, "a": 7}]
    data = {"note": '{"note": "hi"}', "m-x": json.dumps(rows), "items": [{"name": "x"}], "reply_7[c]": "y"}
    assert find_value(data, "$.note.note") == "hi"
    assert find_value(data, "$['m-x'][?(@.newProduct == 1)].a") == [5, 7]
    assert (find_value(data, "$.items[0].name"), find_value(data, "$.items[3].name")) == ("x", None)
    assert find_value(data, r"$.^reply_\d+\[c\]$") == "y"
    with pytest.raises(Uncovered, match="path"):
        find_value(data, "$..name")
