"""Fuzzes what the gateway reads of strangers: `python -m tests.fuzz.gateway TARGET [libFuzzer's options] [CORPUS]`.

Targets: the dialects by name (a request body), `chat-stream` and `message-stream` (a server's event stream). A request
must be refused with `BadRequest`, or be answered and brought to both kinds of servers; a stream must be refused with
`ProviderError`, or make a whole reply that is read as a `ProviderError` or a message.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["assay.gateway"]):
    from assay.errors import ProviderError
    from assay.gateway.backends._anthropic_body import anthropic_body
    from assay.gateway.backends._anthropic_reply import MessageStream, read_message
    from assay.gateway.backends._chat_body import chat_body
    from assay.gateway.backends._chat_stream import ChatStream
    from assay.gateway.backends._client import EventStreamParser
    from assay.gateway.backends._reply import read_completion
    from assay.gateway.call_tree import CallTree
    from assay.gateway.dialects import DIALECTS, BadRequest, Dialect, RequestTarget

from tests.fuzz import seeds
from tests.gateway.dialects.shapes import WORDS, answer, streamed

NAMED = {dialect.name: dialect for dialect in DIALECTS}


def request(dialect: Dialect, target: RequestTarget) -> Callable[[bytes], None]:
    """Reads bytes as a request body of a dialect."""

    def one(data: bytes) -> None:
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(body, dict):
            return
        try:
            parsed = dialect.parse(target, body)
        except BadRequest:
            return
        dialect.lineage(target, body)
        dialect.reply(parsed, answer(), "id", 0.0)
        streamed(dialect, parsed, answer(), 1000)
        chat_body(parsed.request, "m")
        anthropic_body(parsed.request, "m")
        forest = CallTree()
        forest.add("c", forest.locate(parsed.request), parsed.request, answer().message)
        forest.locate(parsed.request)

    return one


def stream(make: Callable[[str], Any], read: Callable[[bytes, str], Any]) -> Callable[[bytes], None]:
    """Reads bytes as a server's event stream."""

    def one(data: bytes) -> None:
        events, growing = EventStreamParser(), make("here")
        try:
            for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
                growing.feed(events.feed(piece))
            read(json.dumps(growing.assemble()).encode(), "here")
        except ProviderError:
            return

    return one


def mutated(data: bytes, most: int, seed: int) -> bytes:
    """Changes a value of the JSON, so that what is deep in it is reached; now and then the bytes themselves."""
    chance = random.Random(seed)
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        return bytes(atheris.Mutate(data, most))
    if chance.random() < 0.2 or not isinstance(whole, dict):
        return bytes(atheris.Mutate(data, most))
    place: Any = whole
    while isinstance(place, dict | list) and place:
        key: Any = chance.choice(sorted(place)) if isinstance(place, dict) else chance.randrange(len(place))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.25:
            _change(place, key, chance)
            break
        place = inner
    return json.dumps(whole).encode()[:most]


def _change(place: Any, key: Any, chance: random.Random) -> None:
    values = [None, True, 0, -1, 1e300, "", "x", [], {}, [place[key]], {"type": place[key]}, chance.choice(WORDS)]
    kind = chance.randrange(4)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[chance.choice(WORDS)] = chance.choice([*values, place[key]])
    elif kind == 1:
        place.append(place[key])
    else:
        place[key] = chance.choice(values)


def main() -> None:
    """Runs one target until libFuzzer's options end it."""
    name, options = sys.argv[1], sys.argv[2:]
    if name in NAMED:
        one = request(NAMED[name], seeds.TARGETS[name])
    else:
        one = stream(ChatStream, read_completion) if name == "chat-stream" else stream(MessageStream, read_message)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds.SEEDS[name]):
            Path(corpus, str(number)).write_bytes(seed)
        arguments = [sys.argv[0], "-max_len=20000", "-timeout=20", "-rss_limit_mb=2048", *options, corpus]
        if name in NAMED:
            atheris.Setup(arguments, one, custom_mutator=mutated)
        else:
            atheris.Setup(arguments, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
