#!/usr/bin/env python3
"""The command `service`: calls the actions of the service that a task provides. A stand-alone program.

    service list                         the actions
    service help ACTION                  its arguments
    service policy                       the rules
    service ACTION --order-id ORD-1      calls it; --json '{...}' gives the arguments as JSON, - reads them from input
    service mcp                          MCP by standard input and output, for programs that speak nothing else

Standard library alone, Python 3.8. The address is in the variable ASSAY_SERVICE_URL. Exit codes: 0 the action was done,
1 it was refused, 2 the command line is wrong or the service does not answer.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
import urllib.error
import urllib.request
from typing import Any, NoReturn

TIMEOUT_S = 120
MOST_SHOWN = 200
DONE, REFUSED, USAGE = 0, 1, 2
META = "io.modelcontextprotocol/"
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class UsageError(Exception):
    """A command line that cannot be run."""


def request(path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Returns status and body. Raises `UsageError` if the service does not answer."""
    address = os.environ.get("ASSAY_SERVICE_URL")
    if not address:
        raise UsageError("ASSAY_SERVICE_URL is not set: this sandbox has no service")
    known = {"Content-Type": "application/json", **(headers or {})}
    asked = urllib.request.Request(address.rstrip("/") + path, data=body, headers=known)
    try:
        with NO_PROXY.open(asked, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read()
    except (OSError, ValueError) as exc:
        raise UsageError(f"The service at {address} does not answer: {exc}") from exc


def load_actions() -> dict[str, dict[str, Any]]:
    """Returns the operations of the service by name."""
    status, body = request("/openapi.json")
    if status != 200:
        raise UsageError(f"The service does not describe itself (HTTP {status})")
    document = json.loads(body.decode())
    return {item["post"]["operationId"]: item["post"] for item in document["paths"].values()}


def schema_of(action: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = action["requestBody"]["content"]["application/json"]["schema"]
    return found


def find_action(actions: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    found = actions.get(name) or actions.get(name.replace("-", "_"))
    if found is None:
        raise UsageError("Unknown action {!r}; the actions are: {}".format(name, ", ".join(sorted(actions))))
    return found


def describe_list(actions: dict[str, dict[str, Any]]) -> str:
    width = max(map(len, actions), default=0)
    lines = ["{}  {}".format(name.ljust(width), action["summary"]) for name, action in actions.items()]
    return "\n".join([*lines, "", "service help ACTION shows the arguments of an action."])


def describe_action(action: dict[str, Any]) -> str:
    schema = schema_of(action)
    required = schema.get("required", [])
    words, lines = ["service", action["operationId"]], []
    for name, field in schema.get("properties", {}).items():
        option = "--{} {}".format(name.replace("_", "-"), kind_of(field).upper().replace(" ", "-"))
        words.append(option if name in required else f"[{option}]")
        notes = [field["description"]] if field.get("description") else []
        notes += ["one of " + ", ".join(choices_of(field))] if choices_of(field) else []
        if name not in required:
            notes.append("default {}".format(json.dumps(field.get("default"), ensure_ascii=False)))
        lines.append("  --{}  {}".format(name.replace("_", "-"), "; ".join(notes)))
    text = [" ".join(words), "", *textwrap.wrap(action["description"], 100)]
    if lines:
        text += ["", "Arguments:", *lines]
    return "\n".join(text)


def variants(field: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = field.get("anyOf") or [field]
    return found


def types_of(field: dict[str, Any]) -> list[str]:
    """Returns the JSON types that an argument may have."""
    types = []
    for variant in variants(field):
        given = variant.get("type", "string")
        types += given if isinstance(given, list) else [given]
    return types


def kind_of(field: dict[str, Any]) -> str:
    return next((kind for kind in types_of(field) if kind != "null"), "null")


def choices_of(field: dict[str, Any]) -> list[str]:
    return [str(choice) for variant in variants(field) for choice in variant.get("enum", ()) if choice is not None]


def parse_value(field: dict[str, Any], name: str, text: str) -> Any:
    """Returns an option's text as the JSON value that the schema asks for. Raises `UsageError`."""
    types = types_of(field)
    if "string" in types:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        hint = "an argument of type " + " or ".join(types)
        shown = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
        raise UsageError(f"--{name} needs {hint}, and {shown!r} is not JSON, or too deep") from None


def parse_arguments(action: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Returns the arguments of a command line. Raises `UsageError`."""
    fields = schema_of(action).get("properties", {})
    arguments: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"{word!r} is not an option: arguments are given as --name value")
        option, equals, text = word[2:].partition("=")
        if not equals:
            if not rest:
                raise UsageError(f"--{option} needs a value")
            text = rest.pop(0)
        name = option.replace("-", "_")
        if name in fields:
            arguments[name] = parse_value(fields[name], option, text)
        elif option == "json":
            arguments.update(parse_object(sys.stdin.buffer.read() if text == "-" else text))
        else:
            known = ", ".join("--" + field.replace("_", "-") for field in fields) or "none"
            raise UsageError("{} has no argument --{}; it has: {}".format(action["operationId"], option, known))
    return arguments


def parse_object(text: str | bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as exc:
        raise UsageError(f"--json needs a JSON object: {exc}") from exc
    if not isinstance(found, dict):
        raise UsageError("--json needs a JSON object")
    return found


def call(name: str, arguments: dict[str, Any]) -> int:
    """Calls an action and prints what it returns."""
    try:
        sent = json.dumps(arguments).encode()
    except RecursionError:
        raise UsageError("The arguments are nested too deeply") from None
    status, body = request("/actions/" + name, sent)
    text = body.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(f"The service answered HTTP {status} without JSON") from None
    if status != 200:
        show(answer["message"] if isinstance(answer, dict) and "message" in answer else text)
        return REFUSED
    show(answer if isinstance(answer, str) else text)
    return DONE


def show(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def relay() -> int:
    """Passes MCP messages between standard input and output and the service."""
    for line in sys.stdin.buffer:
        if line.strip():
            _, body = request("/mcp", line, mcp_headers(line))
            if body:
                sys.stdout.buffer.write(body.strip() + b"\n")
                sys.stdout.buffer.flush()
    return DONE


def mcp_headers(line: bytes) -> dict[str, str]:
    """Returns the headers in which HTTP repeats version, method and name of a message."""
    try:
        message = json.loads(line.decode())
        params = message.get("params") or {}
        version = params["_meta"][META + "protocolVersion"]
        found = {"MCP-Protocol-Version": version, "Mcp-Method": message["method"]}
        if "name" in params:
            found["Mcp-Name"] = params["name"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}  # of the older era, or malformed, which the service answers
    plain = all(isinstance(text, str) and text.isascii() and text.isprintable() for text in found.values())
    return found if plain else {}


def run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h"):
        show((__doc__ or "").strip())
        return DONE if words else USAGE
    if words[0] == "mcp":
        return relay()
    if words[0] == "policy":
        show(request("/policy")[1].decode("utf-8", "replace"))
        return DONE
    actions = load_actions()
    if words[0] in ("list", "help") and words[0] not in actions:
        show(describe_list(actions) if len(words) == 1 else describe_action(find_action(actions, words[1])))
        return DONE
    action = find_action(actions, words[0])
    if "--help" in words[1:] or "-h" in words[1:]:
        show(describe_action(action))
        return DONE
    return call(action["operationId"], parse_arguments(action, words[1:]))


def main() -> NoReturn:
    try:
        code = run(sys.argv[1:])
    except UsageError as exc:
        sys.stderr.write(f"service: {exc}\n")
        code = USAGE
    except (BrokenPipeError, KeyboardInterrupt):
        code = USAGE
    sys.exit(code)


if __name__ == "__main__":
    main()
