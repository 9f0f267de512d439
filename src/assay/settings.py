"""The one module that reads environment variables. `Settings.from_environment` is called at the edges, never on import.

| variable | meaning | default |
|---|---|---|
| `ASSAY_CACHE` | tool layers, images, checked rows and a key | `$XDG_CACHE_HOME/assay`, else `~/.cache/assay` |
| `ASSAY_CACHE_GIB` | GiB of layers in the cache; those not in use are removed above it, the oldest first | all stay |
| `ASSAY_STORE` | the folder of runs and blobs | `.assay` in the working directory |
| `ASSAY_NODE_TOKEN` | the token that a run's command and its nodes share; never recorded | none |
| `ASSAY_PRICES` | a TOML file of what models cost; none is built in | none |
| `OPENAI_BASE_URL` | where `--model openai:NAME` asks | none |
| `OPENAI_API_KEY` | the credential for it; never recorded | none |
| `ANTHROPIC_BASE_URL` | where `--model anthropic:NAME` asks, without `/v1` | none |
| `ANTHROPIC_API_KEY` | the credential for it; never recorded | none |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from .errors import UserError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Of a URL, also after `Path` has joined its slashes."""
_PLACE_CREDENTIALS = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
)
"""Variables that the client of object storage reads."""
_COLLECTOR_HEADERS = tuple(f"OTEL_EXPORTER_OTLP_{kind}HEADERS" for kind in ("", "TRACES_", "METRICS_"))
_SHORTEST_HEADER = 16
"""Below which the value of a collector's header is taken for a name, such as that of a team."""


def store_folder(path: str | os.PathLike[str]) -> Path:
    """Returns the folder of a store. Raises `UserError` for a URL, which would name a folder such as `s3:` here."""
    if _URL.match(os.fspath(path)):
        raise UserError(
            f"the store {os.fspath(path)} is a URL: a store is a folder on this machine. Copy runs from and to object "
            "storage with `assay store copy FROM TO`"
        )
    return Path(path)


def _parse_gib(text: str | None) -> float | None:
    if not text:
        return None
    try:
        size = float(text)
    except ValueError:
        size = -1.0
    if not 0 <= size < float("inf"):
        raise UserError(f"ASSAY_CACHE_GIB={text[:50]!r} is not a number of GiB: write 0 or more, such as 20")
    return size


class Settings(msgspec.Struct, frozen=True):
    """Settings from environment variables."""

    cache: Path
    store: Path
    openai_base_url: str | None = None
    openai_api_key: str | None = None
    anthropic_base_url: str | None = None
    anthropic_api_key: str | None = None
    prices: Path | None = None
    node_token: str | None = None
    cache_gib: float | None = None
    """Limit of the layers in the cache; None: they are never removed."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Reads the variables from `environment`, by default the process's own."""
        variables = os.environ if environment is None else environment
        home_cache = Path(variables.get("XDG_CACHE_HOME") or Path(variables.get("HOME") or "/tmp") / ".cache")
        return cls(
            cache=Path(variables.get("ASSAY_CACHE") or home_cache / "assay"),
            store=store_folder(variables.get("ASSAY_STORE") or ".assay"),
            openai_base_url=variables.get("OPENAI_BASE_URL"),
            openai_api_key=variables.get("OPENAI_API_KEY") or None,
            anthropic_base_url=variables.get("ANTHROPIC_BASE_URL"),
            anthropic_api_key=variables.get("ANTHROPIC_API_KEY") or None,
            prices=Path(variables["ASSAY_PRICES"]) if variables.get("ASSAY_PRICES") else None,
            node_token=variables.get("ASSAY_NODE_TOKEN") or None,
            cache_gib=_parse_gib(variables.get("ASSAY_CACHE_GIB")),
        )

    @staticmethod
    def named(names: Iterable[str]) -> dict[str, str]:
        """Returns the named variables of the process; unset ones are absent."""
        return {name: os.environ[name] for name in names if name in os.environ}

    def secrets(self) -> dict[str, str]:
        """Returns credentials by variable name, those of places and collectors too. Records, errors and logs must not
        contain them."""
        named = [name for name in self.__struct_fields__ if name.endswith(("_key", "_token"))]
        credentials = {name.upper(): getattr(self, name) for name in named}
        for name in (n for n in self.__struct_fields__ if n.endswith("_base_url") and getattr(self, n)):
            for key, value in parse_qsl(urlsplit(getattr(self, name)).query):
                credentials[f"{name.upper()}?{key}"] = value
        credentials |= self.named(_PLACE_CREDENTIALS)
        for name, headers in self.named(_COLLECTOR_HEADERS).items():
            for key, _, value in (pair.partition("=") for pair in headers.split(",")):
                word = unquote(value).strip().rpartition(" ")[2]  # after `Bearer`
                if len(word) >= _SHORTEST_HEADER:
                    credentials[f"{name}?{key.strip()}"] = word
        return {name: value for name, value in credentials.items() if value}

    def __repr__(self) -> str:
        """Shows paths, never credentials."""
        return f"Settings(cache={self.cache}, store={self.store})"
