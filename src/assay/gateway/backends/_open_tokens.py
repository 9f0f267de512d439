"""Opens a token backend and its renderer from a model name.

| name | backend |
|---|---|
| `local:PATH` | the built-in engine on a checkpoint's folder |
| `vllm:http://host:8000#NAME?tokenizer=PATH` | a vLLM server; `route=completions` asks `/v1/completions` instead |
| `sglang:http://host:30000#NAME?tokenizer=PATH` | an SGLang server |

Options after `?`: `renderer` (the template's name), `thinking` (true or false), `context` (tokens; servers only),
`device` and `dtype` (`local` only), `steer` (`local` only), and sampling options that go before the client's:
`temperature`, `top_p`, `top_k`, `min_p`, `max_tokens`, `seed`.

`steer` names a script, as `scripted:` does: the model writes the script's replies, in its own template and tokens, each
with the log-probability that the model gives it. With a model of random weights (`assay init model FOLDER`) a whole
pipeline can be tried without a trained model. What comes out measures the script, not the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from assay.errors import UserError
from assay.settings import Settings

if TYPE_CHECKING:
    from assay.gateway.interface import ModelRequest
    from assay.gateway.tokens import RenderedBackend
    from assay.gateway.tokens.library import LibraryRenderer
    from assay.gateway.tokens.model import Steer

    from .scripted import ScriptedBackend

_SAMPLING: dict[str, Callable[[str], Any]] = {
    "temperature": float, "top_p": float, "min_p": float, "top_k": int, "max_tokens": int, "seed": int,
}  # fmt: skip
_COMMON = {"renderer", "thinking", *_SAMPLING}
_LOCAL = {*_COMMON, "device", "dtype", "steer"}
_SERVER = {*_COMMON, "tokenizer", "context", "route"}


def open_token_backend(kind: str, rest: str, settings: Settings) -> RenderedBackend:
    """Opens `local:`, `vllm:` and `sglang:` models. Raises `UserError` naming the option that is wrong or missing."""
    return _local(rest) if kind == "local" else _server(kind, rest, settings)


def open_versioned_local(model: str, name: str, version: str) -> RenderedBackend:
    """Opens a `local:` model under a name of its own, with `version` as the version of its weights, so that both stay
    where `LocalBackend.load` replaces the weights. Raises `UserError` as `open_backend`."""
    return _local(model.removeprefix("local:"), name, version)


def _local(rest: str, name: str | None = None, version: str | None = None) -> RenderedBackend:
    from assay.gateway.tokens import RenderedBackend

    from .local import open_local

    folder, _, query = rest.partition("?")
    name = name or f"local:{Path(folder).name}"
    options = _options(f"local:{rest}", query, _LOCAL)
    renderer = _renderer(Path(folder), options)
    placed = {key: options[key] for key in ("device", "dtype") if key in options}
    steer = None
    if "steer" in options:
        from ._open import open_scripted

        steer = steer_with(renderer, open_scripted(options["steer"], f"--model local:{folder}: steer="))
    tokens = open_local(Path(folder), name, version=version, **placed)
    return RenderedBackend(tokens, renderer, _forced_sampling(options), steer)


class TemplateOptions(NamedTuple):
    """Options of the chat template in a model's name, and who chose its tokens; None is the default."""

    folder: str | None = None
    """Folder of its tokenizer."""
    renderer: str | None = None
    thinking: bool | None = None
    steered: bool = False
    """A script chose the tokens, not the model."""


def template_options(model: str) -> TemplateOptions:
    """Returns the template options in a model's name, as a run records it; all None for a model that takes text."""
    kind, _, rest = model.partition(":")
    if kind not in {"local", "vllm", "sglang"}:
        return TemplateOptions()
    path, _, query = rest.partition("?")
    options = dict(parse_qsl(query))
    folder = path if kind == "local" else options.get("tokenizer")
    return TemplateOptions(folder, options.get("renderer"), _thinking(options), "steer" in options)


def _thinking(options: dict[str, str]) -> bool | None:
    return options["thinking"] == "true" if "thinking" in options else None


def steer_with(renderer: LibraryRenderer, script: ScriptedBackend) -> Steer:
    """Makes a model produce a script's replies, in its own template."""

    async def steer(request: ModelRequest) -> Sequence[int]:
        return renderer.render_reply((await script.complete(request)).message)

    return steer


def _server(kind: str, rest: str, settings: Settings) -> RenderedBackend:
    from assay.gateway.tokens import RenderedBackend

    from .sglang import SGLangBackend
    from .vllm import VLLMBackend, VLLMCompletions

    whole = f"{kind}:{rest}"
    url, _, named = rest.partition("#")
    model, _, query = named.partition("?")
    parts = check_url(url, f"--model {kind}", "OPENAI_API_KEY")
    options = _options(whole, query, _SERVER)
    if not model or "tokenizer" not in options:
        raise UserError(
            f"--model {whole}: which model, and where is its tokenizer? "
            f"For example {kind}:{url}#my-model?tokenizer=/models/my-model"
        )
    routes = {"generate": VLLMBackend, "completions": VLLMCompletions}
    route = options.get("route", "generate")
    if route not in routes or (kind == "sglang" and "route" in options):
        raise UserError(f"--model {whole}: no such route: {route!r}; vllm has {' and '.join(routes)}, sglang one only")
    own = urlsplit(settings.openai_base_url or "")
    key = settings.openai_api_key if (own.scheme, own.netloc) == (parts.scheme, parts.netloc) else None
    made = SGLangBackend if kind == "sglang" else routes[route]
    name = f"{kind}:{parts.scheme}://{parts.netloc}{parts.path}#{model}"
    context = _number(whole, "context", options, int) if "context" in options else None
    tokens = made(name, url, key, model=model, context=context)
    return RenderedBackend(tokens, _renderer(Path(options["tokenizer"]), options), _forced_sampling(options))


def _options(whole: str, query: str, allowed: set[str]) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - allowed)
    if unknown:
        raise UserError(
            f"--model {whole}: no such option: {', '.join(unknown)}; known are {', '.join(sorted(allowed))}"
        )
    for key in options.keys() & _SAMPLING.keys():
        _number(whole, key, options, _SAMPLING[key])
    if options.get("thinking", "true") not in {"true", "false"}:
        raise UserError(f"--model {whole}: thinking is true or false, not {options['thinking']!r}")
    return options


def _number(whole: str, key: str, options: dict[str, str], kind: Callable[[str], Any]) -> Any:
    try:
        return kind(options[key])
    except ValueError as exc:
        raise UserError(f"--model {whole}: {key} must be a number, not {options[key]!r}") from exc


def _forced_sampling(options: dict[str, str]) -> dict[str, Any]:
    return {key: kind(options[key]) for key, kind in _SAMPLING.items() if key in options}


def _renderer(folder: Path, options: dict[str, str]) -> Any:
    from assay.gateway.tokens.library import open_renderer

    return open_renderer(folder, options.get("renderer"), thinking=_thinking(options))


def check_url(url: str, what: str, credential: str) -> SplitResult:
    """Returns the parts of a usable URL."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as exc:
        raise UserError(f"{what} is not a valid URL: {exc}; expected for example http://127.0.0.1:8000/v1") from exc
    if parts.username is not None or parts.password is not None:
        raise UserError(
            f"{what}: a URL with a user name or password would be recorded; put the credential in {credential}"
        )
    if not usable:
        raise UserError(f"{what} is not a valid URL: {url!r}; expected for example http://127.0.0.1:8000/v1")
    return parts
