"""The check `network`: requests that an attempt recorded, judged as WebArena-Verified judges a trace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

from assay.environments.browser.request_log import MOST_REQUESTS, RequestLog
from assay.errors import TaskError
from assay.http.messages import RequestHead, Response
from assay.records import Check, EnvironmentSpec, Task, Verdict
from assay.rollout.attempt.network_check import NetworkCheck
from assay.verify.interface import WorldInput

ORIGIN = "http://bank.test"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def sends(data: Mapping[str, str | None], **more: Any) -> dict[str, Any]:
    url = "__BANK__/bank/remove_payee"
    expected = {"url": url, "http_method": "POST", "post_data": data, "response_status": 303}
    return {"evaluator": "NetworkEventEvaluator", "expected": expected, **more}


def logged(data: dict[str, str], target: str = "/bank/remove_payee") -> RequestLog:
    log = RequestLog()
    log.add(ORIGIN, RequestHead("POST", target, FORM), urlencode(data).encode(), Response(303, b"", {}))
    return log


def judge(log: RequestLog | None, *evaluators: dict[str, Any], **more: Any) -> Verdict:
    parameters = {"evaluators": list(evaluators), "sites": {"__BANK__": [ORIGIN]}, **more}
    task = Task("t", "", EnvironmentSpec("sites", {}, 0), (), digest="d")
    facts = {} if log is None else {"browser": {"requests": log.facts()}}
    given = WorldInput(task, Check("requests", "network", parameters), facts, None)
    return asyncio.run(NetworkCheck().judge_world(given)).verdict


@pytest.mark.parametrize(
    ("log", "data", "status", "reason"),
    [
        (logged({"f-payee_id": "PY-1"}), {"f-payee_id": "PY-1"}, "pass", "1 of 1 evaluators are satisfied"),
        (logged({"f-payee_id": "PY-2"}), {"f-payee_id": "PY-1"}, "fail", "other data"),
        (logged({"f-payee_id": "PY-1"}, "/bank/other"), {"f-payee_id": "PY-1"}, "fail", "no request POST"),
        (RequestLog(), {"f-payee_id": "PY-1"}, "fail", "no request POST"),
        (None, {"f-payee_id": "PY-1"}, "unknown", "it used no pages"),
        (logged({"f-pin": "1234"}), {"f-pin": "1234"}, "unknown", "were not kept whole"),
        (logged({"f-note": "x" * 400}), {"f-note": "x" * 400}, "unknown", "were not kept whole"),
        (logged({}, "/bank/remove_payee?token=1"), {"f-payee_id": "PY-1"}, "unknown", "were not kept whole"),
        (logged({f"f{at}": "1" for at in range(40)}), {"f39": "1"}, "unknown", "were not kept whole"),
        (logged({"f-note": "x" * 400}), {"f-note": "^.*$"}, "unknown", "values of f-note were not kept whole"),
        (logged({"f-note": "x" * 400}), {"$.^f-n.*$": "^x.*$"}, "unknown", "were not kept whole"),
        (logged({"f-pin": "refund"}), {"f-pin": "^(?!refund).*$"}, "unknown", "values of f-pin were not kept whole"),
        (logged({"f-pin": "1234"}), {"f-pin": None}, "unknown", "values of f-pin were not kept whole"),
        (logged({"f-to": "5", "f-pin": "1234"}), {"f-to": "^.*$"}, "pass", "evaluators are satisfied"),
    ],
)
def test_requests_are_judged_where_the_record_holds_them(
    log: RequestLog | None, data: dict[str, str | None], status: str, reason: str
) -> None:
    verdict = judge(log, sends(data))
    assert verdict.status == status
    assert reason in verdict.reason


@pytest.mark.parametrize(("name", "status"), [("token", "unknown"), ("to", "pass")])
def test_a_hidden_parameter_of_an_address_matches_no_pattern(name: str, status: str) -> None:
    wanted = sends({})
    wanted["expected"]["query_params"] = {name: "^.*$"}
    verdict = judge(logged({}, f"/bank/remove_payee?{name}=1"), wanted)
    assert verdict.status == status
    assert (f"values of {name} were not kept whole" in verdict.reason) is (status == "unknown")


def test_requests_that_were_left_out_are_neither_pass_nor_fail() -> None:
    log = logged({"f-payee_id": "PY-1"})
    for _ in range(MOST_REQUESTS):
        log.add(ORIGIN, RequestHead("GET", "/bank", {}), b"", Response(200, b"", {}))
    for evaluator in (sends({"f-payee_id": "PY-1"}), sends({"f-payee_id": "PY-1"}, should_not_exist=True)):
        assert judge(log, evaluator).status == "unknown"


def test_all_evaluators_must_be_satisfied_and_absence_can_be_demanded() -> None:
    log, right = logged({"f-payee_id": "PY-1"}), sends({"f-payee_id": "PY-1"})
    assert judge(log, right, sends({"f-payee_id": "PY-2"})).status == "fail"
    assert judge(log, sends({"f-payee_id": "PY-1"}, should_not_exist=True)).status == "fail"
    assert judge(RequestLog(), sends({"f-payee_id": "PY-1"}, should_not_exist=True)).status == "pass"


@pytest.mark.parametrize("more", [{"evaluators": []}, {"sites": 1}, {"other": 1}])
def test_wrong_parameters_are_an_error_of_the_task(more: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="check 'requests'"):
        judge(RequestLog(), sends({}), **more)


@pytest.mark.parametrize(
    "more",
    [
        {"post_data_schema": {"properties": 5}},
        {"post_data_schema": {"properties": ["f-t"]}},
        {"post_data_schema": {"properties": {"f-t": {"type": "array", "items": 5}}}},
        {"query_params_schema": {"properties": 5}},
    ],
)
def test_an_evaluator_of_another_shape_is_an_error_of_the_task(more: dict[str, Any]) -> None:
    target = "/bank/remove_payee?a=5" if "query_params_schema" in more else "/bank/remove_payee"
    with pytest.raises(TaskError, match="not as WebArena-Verified writes them"):
        judge(logged({"f-t": "[1]"}, target), sends({"f-t": [1]}, **more))
