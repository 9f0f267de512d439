"""The network events of an attempt: bounded, without secrets, and judged like those of a HAR file."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl, urlencode

import pytest

from assay.environments.browser.request_log import HIDDEN, LONGEST, MOST_REQUESTS, RecordedRequest, RequestLog
from assay.formats.benchmarks.webarena_network import (
    NetworkEvaluator,
    NetworkSpec,
    judge_network,
)
from assay.formats.benchmarks.webarena_patterns import Uncovered
from assay.formats.benchmarks.webarena_trace import entries_of, read_trace
from assay.http.messages import RequestHead, Response

ORIGIN = "http://bank.test"


def add(
    log: RequestLog, target: str, data: dict[str, str] | None = None, kind: str = "text/html", status: int = 200
) -> None:
    head = RequestHead("GET" if data is None else "POST", target, {"cookie": "session=hidden"})
    log.add(ORIGIN, head, urlencode(data or {}).encode(), Response(status, b"", {"Content-Type": kind}))


def test_secrets_are_not_kept() -> None:
    log = RequestLog()
    add(log, "/login?token=t0p&next=%2Fa", {"user": "emma", "f-password": "hunter2", "api_key": "k1", "f-pin": "1234"})
    (one,) = log.listed
    assert one.url == "http://bank.test/login?token=%5Bnot+kept%5D&next=%2Fa"
    assert dict(one.data) == {
        "user": "emma",
        "f-password": "[not kept]",
        "api_key": "[not kept]",
        "f-pin": "[not kept]",
    }
    assert "hidden" not in str(log.facts())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '{"password":"hunter2"}'),
        ("text/plain", "hunter2"),
        (
            "multipart/form-data; boundary=W",
            '--W\r\nContent-Disposition: form-data; name="pass"\r\n\r\nhunter2\r\n--W--',
        ),
        ("application/x-www-form-urlencoded; charset=utf-8", "next=%2Freset%3Ftoken%3Dhunter2"),
        ("application/x-www-form-urlencoded", "credential=hunter2&otp=hunter2&session_id=hunter2&card-number=hunter2"),
    ],
)
def test_secrets_of_other_bodies_and_of_addresses_in_fields_are_not_kept(kind: str, body: str) -> None:
    log = RequestLog()
    head = RequestHead("POST", "/login?next=%2Freset%3Fa%3D1%26token%3Dhunter2", {"content-type": kind})
    log.add(ORIGIN, head, body.encode(), Response(200, b"", {"Content-Type": "text/html"}))
    assert log.count == 1
    assert "hunter2" not in str(log.facts())


def test_requests_that_were_left_out_prove_no_absence() -> None:
    log = RequestLog()
    for number in range(MOST_REQUESTS + 1):
        add(log, "/bank/close_account" if number == 0 else "/bank")
    absent = NetworkEvaluator(NetworkSpec(url="__BANK__/bank/close_account"), should_not_exist=True)
    older = RecordedRequest(
        "GET", f"{ORIGIN}/{'a' * (LONGEST - len(ORIGIN) - 1)}", 200
    )  # says not that it lacks a part
    for one in (log, RequestLog(1, [older])):
        trace = read_trace(entries_of(one.facts(), hidden=HIDDEN, longest=LONGEST))
        with pytest.raises(Uncovered):
            judge_network(absent, trace, {"__BANK__": (ORIGIN,)}, navigates=False)


def test_numbers_and_sizes_are_bounded() -> None:
    log = RequestLog()
    for number in range(MOST_REQUESTS + 5):
        add(log, f"/{number}", {f"f{at}": "x" * 1_000 for at in range(100)})
    assert (log.count, len(log.listed), log.listed[0].url) == (MOST_REQUESTS + 5, MOST_REQUESTS, "http://bank.test/5")
    assert len(log.listed[-1].data) == 30
    assert max(len(value) for _, value in log.listed[-1].data) == 300
    add(log, "/" + "a" * 5_000, {"a": "1"} | {str(at): "" for at in range(20_000)})
    assert (len(log.listed[-1].url), log.listed[-1].data) == (300, ())


def test_files_of_a_page_are_left_out() -> None:
    log = RequestLog()
    add(log, "/-/style.css", kind="text/css; charset=utf-8")
    add(log, "/", kind="text/html; charset=utf-8")
    assert [one.url for one in log.listed] == ["http://bank.test/"]
    assert RequestLog(log.count, log.listed).facts() == log.facts()


def test_recorded_requests_are_judged_like_those_of_a_trace() -> None:
    log = RequestLog()
    add(log, "/bank")
    add(log, "/bank/remove_payee", {"f-payee_id": "PY-1"}, status=303)
    trace = read_trace(entries_of(log.facts(), hidden=HIDDEN, longest=LONGEST))

    def judge(payee: str) -> str:
        url, data = "__BANK__/bank/remove_payee", {"f-payee_id": payee}
        spec = NetworkSpec(url=url, http_method="POST", post_data=data, response_status=303)
        return judge_network(NetworkEvaluator(spec), trace, {"__BANK__": (ORIGIN,)}, navigates=False)

    assert judge("PY-1") == ""
    assert judge("PY-2") == "POST __BANK__/bank/remove_payee: other data"
    page = NetworkEvaluator(NetworkSpec(url="__BANK__/bank"))
    assert judge_network(page, trace, {"__BANK__": (ORIGIN,)}, navigates=True) == ""


def test_what_is_kept_of_a_large_form_takes_no_longer_than_reading_it() -> None:
    form = {"f-text": "?" * 330_000}
    began = time.process_time()
    for _ in range(5):
        parse_qsl(urlencode(form))
    read_s, log, began = time.process_time() - began, RequestLog(), time.process_time()
    for _ in range(5):
        add(log, "/search", form)
    assert time.process_time() - began < 3 * read_s
    assert dict(log.listed[-1].data) == {"f-text": "?" * 299 + "…"}


@pytest.mark.parametrize("target", ["/" * 300 + "bank/close_account", "/bank?" + "&".join(["q=1"] * 40)])
def test_an_address_that_is_not_whole_may_be_any(target: str) -> None:
    log = RequestLog()
    add(log, "/bank")
    add(log, target)
    trace = read_trace(entries_of(log.facts(), hidden=HIDDEN, longest=LONGEST))
    absent = NetworkEvaluator(NetworkSpec(url="__BANK__/bank/close_account"), should_not_exist=True)
    for evaluator in (absent, NetworkEvaluator(NetworkSpec(url="__BANK__/bank"))):
        with pytest.raises(Uncovered):
            judge_network(evaluator, trace, {"__BANK__": (ORIGIN,)}, navigates=False)


def test_of_fields_with_one_name_the_last_counts_as_for_the_site() -> None:
    log = RequestLog()
    add(log, "/bank?q=a&q=z")
    body = b"f-payee=PY-1&f-payee=PY-2"
    head = RequestHead("POST", "/bank/pay", {"content-type": "application/x-www-form-urlencoded"})
    log.add(ORIGIN, head, body, Response(303, b"", {}))
    trace = read_trace(entries_of(log.facts(), hidden=HIDDEN, longest=LONGEST))

    def judge(spec: NetworkSpec) -> str:
        return judge_network(NetworkEvaluator(spec), trace, {"__BANK__": (ORIGIN,)}, navigates=False)

    for value, is_sent in (("a", False), ("z", True)):
        assert (judge(NetworkSpec(url=f"__BANK__/bank?q={value}")) == "") is is_sent
    for payee, is_sent in (("PY-1", False), ("PY-2", True)):
        spec = NetworkSpec(
            url="__BANK__/bank/pay", http_method="POST", post_data={"f-payee": payee}, response_status=303
        )
        assert (judge(spec) == "") is is_sent


def test_a_shortened_value_is_not_compared_and_fields_that_are_left_out_are_missing() -> None:
    log = RequestLog()
    add(log, "/bank/note", {"f-text": "x" * 300 + "y"}, status=303)
    add(log, "/bank/rows", {f"f-{at}": "1" for at in range(31)}, status=303)
    trace = read_trace(entries_of(log.facts(), hidden=HIDDEN, longest=LONGEST))

    def judge(path: str, data: dict[str, str]) -> str:
        spec = NetworkSpec(url=f"__BANK__/bank/{path}", http_method="POST", post_data=data, response_status=303)
        return judge_network(NetworkEvaluator(spec), trace, {"__BANK__": (ORIGIN,)}, navigates=False)

    with pytest.raises(Uncovered, match="values of f-text were not kept whole"):
        judge("note", {"f-text": "x" * 300})
    assert judge("rows", {"f-0": "1"}).endswith("other data")
