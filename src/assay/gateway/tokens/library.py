"""Renderers of the `renderers` library (Apache-2.0), which has the templates of the open model families.

Its bridge keeps sampled tokens and appends only new messages, with reasoning retained (`thinking_retention="all"`).
Results are validated: an extension must begin with the given tokens. The library imports the OpenAI client, so it is
imported when a model is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import ProviderError, UserError, boundary

from .interface import ParsedCall, ParsedReply, TokenAttribution
from .messages import template_continuation, template_messages
from .text_escape import EscapingTokenizer

_FAMILIES = {"qwen3": "qwen3", "qwen3_moe": "qwen3", "gpt_oss": "gpt-oss", "glm4_moe": "glm-4.5"}
"""Renderers by the model type of a checkpoint's `config.json`, where the type has one template only."""
_NAME = re.compile(r'"name"\s*:\s*"((?:[^"\\]|\\.)*)"')
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*')
_MAX_FILE = 256 << 20
_MISSING = "rendering prompts needs the package {} ({}); install assay[tokens] (in a clone: make model)"


class LibraryRenderer:
    """Implements `Renderer` and `AttributingRenderer`."""

    def __init__(self, inner: Any, tokenizer: EscapingTokenizer, name: str) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.stop_ids = tuple(inner.get_stop_token_ids())
        self._inner = inner
        self._guard = tokenizer.guard

    def render(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> list[int]:
        marked = self._guard.value(template_messages(messages))
        return list(self._inner.render_ids(marked, tools=self._tools(tools), add_generation_prompt=True))

    def extend(
        self, before: Sequence[int], sampled: Sequence[int], messages: Sequence[dict[str, Any]], names: dict[str, str]
    ) -> list[int] | None:
        if not messages or any(message.get("role") == "assistant" for message in messages):
            return None
        marked = self._guard.value(template_continuation(messages, names))
        whole = self._inner.bridge_to_next_turn(list(before), list(sampled), marked)
        if whole is None:
            return None
        ids = list(whole.token_ids)
        known = [*before, *sampled]
        return ids if ids[: len(known)] == known else None

    def attribute(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> TokenAttribution | None:
        given_messages = template_messages(messages)
        whole = self._inner.render(
            self._guard.value(given_messages), tools=self._tools(tools), add_generation_prompt=True
        )
        return _attribution(whole, 0, given_messages)

    def attribute_extension(
        self, before: Sequence[int], sampled: Sequence[int], messages: Sequence[dict[str, Any]], names: dict[str, str]
    ) -> TokenAttribution | None:
        if not messages or any(message.get("role") == "assistant" for message in messages):
            return None
        given_messages = template_continuation(messages, names)
        whole = self._inner.bridge_to_next_turn(list(before), list(sampled), self._guard.value(given_messages))
        return None if whole is None else _attribution(whole, len(before) + len(sampled), given_messages)

    def parse(self, sampled: Sequence[int], before: Sequence[int], tools: Sequence[dict[str, Any]]) -> ParsedReply:
        parsed = self._inner.parse_response(list(sampled), tools=self._tools(tools), prompt_ids=list(before))
        calls: list[ParsedCall] = []
        unparsed: list[str] = []
        for found in parsed.tool_calls:
            call = _call(found)
            if call is None:
                unparsed.append(found.raw)
            else:
                calls.append(call)
        text = "\n".join(filter(None, [parsed.content.strip(), *unparsed]))
        return ParsedReply(text, (parsed.reasoning_content or "").strip(), tuple(calls))

    def render_reply(self, message: dict[str, Any]) -> list[int]:
        question = {"role": "user", "content": "?"}
        answer = self._guard.value({**message, "content": message.get("content") or ""})
        before = list(self._inner.render_ids([question], add_generation_prompt=True))
        whole = list(self._inner.render_ids([question, answer]))
        end = max(position for position, token in enumerate(whole) if token in self.stop_ids)
        return whole[len(before) : end + 1]

    def text(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(tokens)

    def is_plain(self, token: int) -> bool:
        return token not in self.tokenizer.added_ids

    def _tools(self, tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
        functions = [tool for tool in tools if isinstance(tool.get("function"), dict)]
        return self._guard.value(functions) if functions else None


def _attribution(whole: Any, start: int, given_messages: list[dict[str, Any]]) -> TokenAttribution | None:
    """Returns the library's attribution of the tokens from `start` on; None if its columns are missing or
    inconsistent."""
    columns = (whole.token_ids, whole.message_indices, whole.is_content, whole.sampled_mask)
    if any(len(column) != len(whole.token_ids) for column in columns):
        return None
    ids, owners, body, sampled = (list(column[start:]) for column in columns)
    return TokenAttribution(ids, owners, body, sampled, given_messages)


def _call(found: Any) -> ParsedCall | None:
    """Returns the library's call with its raw arguments; None if it has no name."""
    written = raw_call(found.raw)
    name = found.name or (written[0] if written else None)
    if not name:
        return None
    if written is not None and written[0] == name:
        return ParsedCall(name, written[1], found.id)
    arguments = found.arguments
    return ParsedCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments or {}), found.id)


def raw_call(raw: str) -> tuple[str, str] | None:
    """Returns name and raw argument text of a call written as a JSON object, even a truncated one.

    None if it has no name or another form.
    """
    name = _NAME.search(raw)
    if not raw.lstrip().startswith("{") or name is None:
        return None
    try:
        decoded = json.loads(f'"{name.group(1)}"', strict=False)
    except json.JSONDecodeError:
        decoded = name.group(1)
    begins = _ARGUMENTS.search(raw, name.end()) or _ARGUMENTS.search(raw)
    if begins is None:
        return decoded, "{}"
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(raw, begins.end())
    except (json.JSONDecodeError, RecursionError):
        broken = raw[begins.end() :].rstrip()
        return decoded, broken.removesuffix("}").rstrip() if broken.endswith("}}") else broken
    return decoded, value if isinstance(value, str) else raw[begins.end() : end]


def open_tokenizer(folder: Path) -> EscapingTokenizer:
    """Opens the tokenizer of a checkpoint folder. Raises `UserError` naming the missing or invalid file."""
    try:
        from tokenizers import Tokenizer
    except ImportError as exc:
        raise UserError(_MISSING.format("tokenizers", exc)) from exc
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"{folder}: no tokenizer.json there; expected the folder of a checkpoint with a fast tokenizer")
    config = _json(folder / "tokenizer_config.json")
    eos = config.get("eos_token")
    eos = eos.get("content") if isinstance(eos, dict) else eos
    try:
        with boundary(ProviderError, "not usable"):  # the library raises plain exceptions only
            inner = Tokenizer.from_file(str(path))
    except ProviderError as exc:
        raise UserError(f"{path}: {exc}") from exc
    name = str(_json(folder / "config.json").get("_name_or_path") or folder)
    return EscapingTokenizer(inner, name, eos if isinstance(eos, str) else None, config.get("chat_template"))


def open_renderer(folder: Path, name: str | None = None, *, thinking: bool | None = None) -> LibraryRenderer:
    """Opens the renderer of a checkpoint folder with at least `tokenizer.json`.

    `name` is the library's name of the template, by default derived from the model. `thinking` lets the model think,
    for templates that can say so; None leaves their default.

    Raises:
        UserError: No renderer is known for the model, or something is missing; the message says what to name.
    """
    tokenizer = open_tokenizer(folder)
    try:
        from renderers import create_renderer
        from renderers.base import MODEL_RENDERER_MAP
        from renderers.configs import config_from_name
    except ImportError as exc:
        raise UserError(_MISSING.format("renderers", exc)) from exc
    kind = str(_json(folder / "config.json").get("model_type") or "")
    chosen = name or MODEL_RENDERER_MAP.get(tokenizer.name_or_path) or _FAMILIES.get(kind)
    known = ", ".join(sorted(set(MODEL_RENDERER_MAP.values())))
    if chosen is None or chosen in {"auto", "default"}:
        raise UserError(f"{folder}: no template is known for the model type {kind or '(none)'!r}; name one of {known}")
    options: dict[str, Any] = {"thinking_retention": "all"}
    if thinking is not None:
        options["enable_thinking"] = thinking
    try:
        with boundary(ProviderError, f"{folder}: the template {chosen!r} does not fit"):
            config = type(config_from_name(chosen)).model_validate({"name": chosen, **options})
            return LibraryRenderer(create_renderer(tokenizer, config), tokenizer, chosen)
    except ProviderError as exc:
        first = str(exc).splitlines()[0]
        raise UserError(f"{first} (known: {known})") from exc


def _json(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_FILE:
            return {}
        decoded = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError) as exc:
        raise UserError(f"{path}: {exc}") from exc
    return decoded if isinstance(decoded, dict) else {}
