"""The check `network`: the requests that an attempt's pages made must be what WebArena-Verified's evaluators demand.

The requests are the network events of the attempt's own record (`facts["browser"]["requests"]`), and the evaluators are
written as in WebArena-Verified's tasks, so a task of theirs can be judged on a site of ours. It lies here because it
joins a format with a check. Nothing that the agent wrote is executed.

Covered: where requests were left out of the record, or values were not kept whole, nothing that hangs on them is a fail
or a pass. Not covered: headers other than `accept`, cookies and contents of answers, which no record holds. What a
request changed is judged by the check `state`; an attempt that sends the right request and undoes it passes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote_plus

import msgspec
from msgspec import Meta

from assay.environments.browser.request_log import HIDDEN, LONGEST
from assay.errors import TaskError
from assay.formats.benchmarks.webarena_network import NetworkEvaluator, judge_network
from assay.formats.benchmarks.webarena_patterns import Uncovered
from assay.formats.benchmarks.webarena_trace import entries_of, read_trace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput
from assay.verify.world_rulings import Ruling, make_result, read_parameters, refuse_workspace

NETWORK: Final = "network"
"""Kind of the check, and of its evidence."""


class NetworkParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `network`."""

    evaluators: Annotated[tuple[NetworkEvaluator, ...], Meta(min_length=1, max_length=50)]
    """Evaluators of network events, all of which must be satisfied."""
    sites: dict[str, tuple[str, ...]]
    """Addresses of each site by the template that the evaluators use, as `{"__SHOP__": ["http://shop.test"]}`."""
    navigates: bool = False
    """True if the task is to go to a page: then the last page that was loaded is judged."""


class NetworkCheck:
    """Judges the requests of the pages of an attempt."""

    kind = NETWORK

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: a workspace has no pages."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        parameters = read_parameters(given, NetworkParameters)
        browser = given.facts.get("browser")
        requests = browser.get("requests") if isinstance(browser, Mapping) else None
        if not isinstance(requests, Mapping):
            ruling = Ruling("unknown", None, "the attempt has no record of requests: it used no pages")
        else:
            ruling = _rule(parameters, requests)
            cited.add("state", NETWORK, {"requests": requests["count"], "reason": ruling.reason})
        return make_result(given, ruling, cited)


def _rule(parameters: NetworkParameters, requests: Mapping[str, Any]) -> Ruling:
    trace = read_trace(entries_of(requests, hidden=HIDDEN, longest=LONGEST))
    try:
        reasons = [
            judge_network(one, trace, parameters.sites, navigates=parameters.navigates) for one in parameters.evaluators
        ]
    except Uncovered as exc:
        return Ruling("unknown", None, f"not covered: {exc}")
    except (AttributeError, TypeError, ValueError, LookupError, RecursionError) as exc:  # the task is a stranger's
        raise TaskError(f"an evaluator is not as WebArena-Verified writes them: {exc}"[:300]) from exc
    failed = [reason for reason in reasons if reason]
    if not failed:
        return Ruling("pass", 1.0, f"{len(reasons)} of {len(reasons)} evaluators are satisfied")
    if _is_cut(requests):
        return Ruling("unknown", None, f"{failed[0]}; the requests were not kept whole")
    return Ruling("fail", 0.0, f"{len(failed)} of {len(reasons)} evaluators: {failed[0]}")


def _is_cut(requests: Mapping[str, Any]) -> bool:
    """Returns whether requests, or parts of one, are missing in the record."""
    if requests["count"] > len(requests["last"]):
        return True
    for one in requests["last"]:
        data = one.get("data") or ()
        texts = [one["url"], *(text for field in data for text in field)]
        hidden = (HIDDEN, quote_plus(HIDDEN))
        if one.get("lacks") or any(len(text) >= LONGEST or any(h in text for h in hidden) for text in texts):
            return True
    return False
