"""The network events of an attempt: bounded, without secrets, and judged like those of a HAR file."""

from __future__ import annotations

from urllib.parse import urlencode

from assay.environments.browser.request_log import MOST_REQUESTS, RequestLog
from assay.formats.benchmarks.webarena_network import (
    NetworkEvaluator,
    NetworkSpec,
    judge_network,
)
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
    trace = read_trace(entries_of(log.facts()["last"]))

    def judge(payee: str) -> str:
        url, data = "__BANK__/bank/remove_payee", {"f-payee_id": payee}
        spec = NetworkSpec(url=url, http_method="POST", post_data=data, response_status=303)
        return judge_network(NetworkEvaluator(spec), trace, {"__BANK__": (ORIGIN,)}, navigates=False)

    assert judge("PY-1") == ""
    assert judge("PY-2") == "POST __BANK__/bank/remove_payee: other data"
    page = NetworkEvaluator(NetworkSpec(url="__BANK__/bank"))
    assert judge_network(page, trace, {"__BANK__": (ORIGIN,)}, navigates=True) == ""
