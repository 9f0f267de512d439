"""Traces made of what evaluators of network events demand: one that has it, and others that differ in one thing.

Run by hand with WebArena-Verified 1.2.3 installed, it writes what upstream says of each (`webarena_network.json`):

    python tests/formats/benchmarks/webarena_cases.py TASKS.json.gz
"""

from __future__ import annotations

import copy
import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # a sampler of patterns reads parsed ones
from re import _parser as patterns  # type: ignore[attr-defined]
from typing import Any
from urllib.parse import quote, urlencode

BASES = {
    "__GITLAB__": "http://git.test:8023",
    "__MAP__": "http://map.test:3000",
    "__REDDIT__": "http://forum.test:9999",
    "__SHOPPING__": "http://shop.test:7770",
    "__SHOPPING_ADMIN__": "http://shop.test:7780/admin",
    "__WIKIPEDIA__": "http://wiki.test:8888",
}
GOLDEN = Path(__file__).with_name("webarena_network.json")
PAGE = {"accept": "text/html", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate", "sec-fetch-user": "?1"}


def sample(pattern: str) -> str:
    """Returns a text that a simple pattern matches."""
    return _sample(patterns.parse(pattern.replace("(?=", "(?:") if "(?=" in pattern else pattern))


def _sample(parsed: Any) -> str:
    found = ""
    for code, value in parsed:
        if code is codes.LITERAL:
            found += chr(value)
        elif code is codes.ANY:
            found += "x"
        elif code is codes.IN:
            kind, one = value[0]
            found += chr(one if kind is codes.LITERAL else one[0] if kind is codes.RANGE else ord("7"))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            found += _sample(value[2]) * max(value[0], 1 if value[1] > 1 else 0)
        elif code is codes.SUBPATTERN:
            found += _sample(value[3])
        elif code is codes.BRANCH:
            found += _sample(value[1][0])
    return found


def render(text: str) -> str:
    for template in sorted(BASES, key=len, reverse=True):
        text = text.replace(template, BASES[template])
    return text


def _value(wanted: Any) -> Any:
    if isinstance(wanted, str):
        is_pattern = len(wanted) > 1 and wanted[0] == "^" and wanted[-1] == "$"
        return render(sample(wanted) if is_pattern else wanted)
    return wanted


def _body(wanted: dict[str, Any]) -> dict[str, str]:
    if not any(name.startswith("$") or isinstance(one, list) for name, one in wanted.items()):
        fields = {name: "" if one is None else str(_value(one)) for name, one in wanted.items() if one is not None}
        return {"mimeType": "application/x-www-form-urlencoded", "text": urlencode(fields)}
    found: dict[str, Any] = {}
    for name, one in wanted.items():
        if name.startswith("$.^"):
            found[sample(name[2:])] = _value(one)
        elif name.startswith("$['"):
            outer, field, attribute = re.findall(r"\w[\w-]*", name)[0], "newProduct", name.rpartition(".")[2]
            rows = [{field: 1, attribute: value} for value in one] if isinstance(one, list) else [{attribute: one}]
            found[outer] = json.dumps([*rows, {field: 0, attribute: "another"}])
        elif name.startswith("$."):
            _put(found, name[2:], _value(one))
        else:
            found[name] = _value(one)
    return {"mimeType": "application/json", "text": json.dumps(found)}


def _put(data: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    for part in way:
        listed = re.fullmatch(r"(\w+)\[(\d+)\]", part)
        if listed:
            rows = data.setdefault(listed[1], [])
            rows += [{} for _ in range(int(listed[2]) + 1 - len(rows))]
            data = rows[int(listed[2])]
        else:
            data = data.setdefault(part, {})
    data[last] = value


def make_entry(expected: dict[str, Any]) -> dict[str, Any]:
    """Returns an entry of a HAR file that has what an evaluator demands."""
    url = expected["url"] if isinstance(expected["url"], str) else expected["url"][0]
    url = str(_value(url))
    if expected.get("query_params"):
        pairs = [
            (k, str(_value(v)))
            for k, vs in expected["query_params"].items()
            for v in ([vs] if isinstance(vs, str) else vs)
        ]
        url = f"{url.partition('?')[0]}?{urlencode(pairs)}"
    headers = {**PAGE, **{name: str(_value(one)) for name, one in (expected.get("headers") or {}).items()}}
    status = expected.get("response_status", 200)
    response: dict[str, Any] = {"status": status, "redirectURL": "", "headers": []}
    if expected.get("response_content"):
        response["content"] = _body(expected["response_content"])
        response["content"]["mimeType"] = "application/json"
        if not response["content"]["text"].startswith("{"):
            response["content"]["text"] = json.dumps(expected["response_content"])
    cookies = expected.get("response_cookies") or {}
    response["cookies"] = [{"name": name, "value": quote(str(_value(one)))} for name, one in cookies.items()]
    request: dict[str, Any] = {
        "method": expected.get("http_method", "GET"),
        "url": url,
        "headers": [{"name": name, "value": value} for name, value in headers.items()],
    }
    if expected.get("post_data"):
        request["postData"] = _body(expected["post_data"])
    return {"request": request, "response": response}


def cases(expected: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields traces by name."""
    right = make_entry(expected)
    other = make_entry({"url": "__WIKIPEDIA__/wiki/Elsewhere"})

    def changed(change: Any) -> dict[str, Any]:
        entry = copy.deepcopy(right)
        change(entry)
        return entry

    def set_url(entry: dict[str, Any], new: str) -> None:
        entry["request"]["url"] = new

    url = right["request"]["url"]
    more = f"{url}{'&' if '?' in url else '?'}unexpected=1"
    wrong_url = changed(lambda entry: set_url(entry, f"{url.partition('?')[0]}/elsewhere"))
    yield "right", [other, right]
    yield "nothing", [other]
    yield "other status", [changed(lambda entry: entry["response"].update(status=418))]
    yield "other method", [changed(lambda entry: entry["request"].update(method="PATCH"))]
    yield "other path", [wrong_url]
    yield "more parameters", [changed(lambda entry: set_url(entry, more))]
    yield (
        "ends in a slash",
        [
            changed(
                lambda entry: set_url(entry, f"{url.partition('?')[0]}/{url.partition('?')[1]}{url.partition('?')[2]}")
            )
        ],
    )
    yield "upper case host", [changed(lambda entry: set_url(entry, url.replace(".test", ".TEST")))]
    yield "other site", [changed(lambda entry: set_url(entry, url.replace(".test", ".example")))]
    yield "no headers", [changed(lambda entry: entry["request"].update(headers=[]))]
    yield "wrong after right", [right, changed(lambda entry: entry["response"].update(status=418))]
    yield "right after wrong", [changed(lambda entry: entry["response"].update(status=418)), right]
    yield "another page after", [right, other]
    if "postData" in right["request"]:
        data = right["request"]["postData"]
        yield "no data", [changed(lambda entry: entry["request"].pop("postData"))]
        yield "other data", [changed(lambda entry: entry["request"]["postData"].update(text=_other(data)))]
        yield (
            "data of another kind",
            [changed(lambda entry: entry["request"]["postData"].update(mimeType="text/plain"))],
        )
        yield "data in upper case", [changed(lambda entry: entry["request"]["postData"].update(text=_upper(data)))]
    if "content" in right["response"]:
        yield "other content", [changed(lambda entry: entry["response"]["content"].update(text='{"a": 1}'))]
    if right["response"]["cookies"]:
        yield "no cookie", [changed(lambda entry: entry["response"].update(cookies=[]))]


def _other(data: dict[str, str]) -> str:
    if data["text"].startswith("{"):
        return data["text"].replace('": "', '": "no such ', 1).replace("[1", "[77")
    name, _, rest = data["text"].partition("=")
    return f"{name}=no+such{rest}"


def _upper(data: dict[str, str]) -> str:
    if data["text"].startswith("{"):
        return data["text"]
    return "&".join(
        f"{k}={v.upper() if '%' not in v else v}" for k, _, v in (one.partition("=") for one in data["text"].split("&"))
    )


def network_evaluators(task: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in task["eval"] if one["evaluator"] == "NetworkEventEvaluator"]


def main() -> None:
    """Writes what upstream says of each case."""
    import logging

    from webarena_verified import WebArenaVerified  # type: ignore[import-not-found]
    from webarena_verified.types.config import WebArenaVerifiedConfig  # type: ignore[import-not-found]

    logging.disable(logging.CRITICAL)
    environments = {name: {"urls": [url]} for name, url in BASES.items()}
    judge = WebArenaVerified(config=WebArenaVerifiedConfig(environments=environments))
    tasks = json.loads(gzip.decompress(Path(sys.argv[1]).read_bytes()))
    found: dict[str, list[str]] = {}
    for task in tasks:
        for at, one in enumerate(network_evaluators(task)):
            said = ""
            for _, trace in cases(one["expected"]):
                result = judge.evaluate_task(task_id=task["task_id"], agent_response={}, network_trace=trace)
                ours = [r for r in result.evaluators_results if r.evaluator_name == "NetworkEventEvaluator"][at]
                said += {"success": "p", "failure": "f"}.get(str(ours.status), "e")
            found[f"{task['task_id']}.{at}"] = said
    GOLDEN.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
