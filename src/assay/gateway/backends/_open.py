"""Opens a backend from a model name.

| name | backend |
|---|---|
| `openai:NAME` | the server at `OPENAI_BASE_URL`, with `OPENAI_API_KEY` |
| `anthropic:NAME` | the server at `ANTHROPIC_BASE_URL`, with `ANTHROPIC_API_KEY` |
| `http://host/v1#NAME` | that server; the credential is sent only where the URL lies under `OPENAI_BASE_URL`'s host |
| `local:PATH`, `vllm:...`, `sglang:...` | models that take tokens: the table below this one |
| `small:NAME` | a small language model from packages, on one CPU thread: [small models](#a-small-model) |
| `scripted:PATH` | replies from a JSON, TOML or YAML file: [scripts](#scripts) |
| `scripted:module:function`, `scripted:file.py:function` | replies from a function: [scripts](#scripts) |
| `replay:ATTEMPT`, `replay:RUN:ATTEMPT` | the replies of a recorded attempt, again (in runs; see `replay`) |
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from assay import plugins
from assay.errors import UserError
from assay.gateway.interface import ModelBackend
from assay.settings import Settings

from ._open_tokens import check_url
from .pricing import Prices

if TYPE_CHECKING:
    from .scripted import ScriptedBackend

_FORMS = (
    "openai:NAME, anthropic:NAME, http://host/v1#NAME, local:PATH, vllm:URL#NAME?tokenizer=PATH, "
    "sglang:URL#NAME?tokenizer=PATH, small:NAME, scripted:PATH, scripted:module:function or replay:ATTEMPT"
)
_EXAMPLES = {
    "openai": "http://127.0.0.1:8000/v1 or https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}


def open_backend(model: str, settings: Settings) -> ModelBackend:
    """Opens the backend of `--model`; the caller closes it.

    Raises:
        UserError: No such form, or something that it needs is not set; the message says what to set.
    """
    kind, _, rest = model.partition(":")
    if kind in _EXAMPLES and rest:
        return _open_provider(kind, rest, settings)
    if kind in {"http", "https"}:
        return _open_url(model, settings)
    if kind == "scripted" and rest:
        return open_scripted(rest)
    if kind in {"local", "vllm", "sglang"} and rest:
        from ._open_tokens import open_token_backend  # late: it brings the rendering with it

        return open_token_backend(kind, rest, settings)
    if kind == "small" and rest:
        from .small import open_small

        return open_small(rest)
    raise UserError(f"--model {model!r}: no such kind of model; expected {_FORMS}")


def require_model_form(model: str) -> None:
    """Raises `UserError` for a name of no form that a run takes; nothing is opened."""
    kind, _, rest = model.partition(":")
    if not rest or kind not in {*_EXAMPLES, "http", "https", "scripted", "local", "vllm", "sglang", "small", "replay"}:
        raise UserError(f"{model!r}: no such kind of model; expected {_FORMS}")


def _open_provider(kind: str, name: str, settings: Settings) -> ModelBackend:
    """Opens `openai:NAME` or `anthropic:NAME`, at the URL that the environment names."""
    variable, variable_of_key = f"{kind.upper()}_BASE_URL", f"{kind.upper()}_API_KEY"
    url: str | None = getattr(settings, f"{kind}_base_url")
    key: str | None = getattr(settings, f"{kind}_api_key")
    if not url:
        raise UserError(
            f"--model {kind}:{name}: {variable} is not set. Set it to the server to ask, for example "
            f"{_EXAMPLES[kind]}; nothing is sent anywhere by default"
        )
    parts = check_url(url, variable, variable_of_key)
    if parts.hostname == f"api.{kind}.com" and not key:
        raise UserError(f"--model {kind}:{name}: {parts.hostname} wants a credential: set {variable_of_key}")
    if kind == "openai":
        return _client(f"openai:{name}", url, name, settings, key=key)
    from .anthropic import AnthropicBackend

    return AnthropicBackend(f"anthropic:{name}", url, key, model=name, prices=_prices(settings))


def _open_url(model: str, settings: Settings) -> ModelBackend:
    url, _, name = model.partition("#")
    parts = check_url(url, "--model", "OPENAI_API_KEY")
    if not name:
        raise UserError(f"--model {url}: which model? Add its name after #, for example {url}#my-model")
    record = f"{parts.scheme}://{parts.netloc}{parts.path}#{name}"
    own = urlsplit(settings.openai_base_url or "")
    same = (own.scheme, own.netloc) == (parts.scheme, parts.netloc)
    return _client(record, url, name, settings, key=settings.openai_api_key if same else None)


def _client(record: str, url: str, name: str, settings: Settings, *, key: str | None) -> ModelBackend:
    from .openai_chat import OpenAIChatBackend  # late: a scripted run needs no HTTP client

    return OpenAIChatBackend(record, url, key, model=name, prices=_prices(settings))


def _prices(settings: Settings) -> Prices | None:
    return Prices.from_file(settings.prices) if settings.prices is not None else None


def open_scripted(rest: str, what: str = "--model scripted:") -> ScriptedBackend:
    """Opens a script by the path of its file or the name of its function; `what` precedes that name in messages."""
    from .scripted import ScriptedBackend, load_script

    path = Path(rest)
    if path.suffix in {".json", ".toml", ".yaml", ".yml"}:
        return ScriptedBackend(load_script(path), f"scripted:{path.name}")
    if ":" not in rest:
        raise UserError(f"{what}{rest}: expected a .json, .toml or .yaml file, or module:function")
    function = plugins.load("scripts", rest)
    if not callable(function):
        raise UserError(f"{what}{rest}: expected a function, got {type(function).__name__}")
    place, _, attribute = rest.rpartition(":")
    return ScriptedBackend(function, f"scripted:{Path(place).name}:{attribute}")
