"""Token prices from the user's price file.

An unknown price stays None, never 0. No prices are built in: list prices change, and stale ones would falsify records.

The file, named by `ASSAY_PRICES`, in US dollars for a million tokens:

    [models."my-model"]
    input = 0.20
    cached_input = 0.05   # optional; default: `input`
    output = 0.80
    as_of = "2026-11-01"  # optional; when it was the price
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from assay.errors import UserError
from assay.records import Usage

Dollars = Annotated[float, msgspec.Meta(ge=0)]
_MILLION = 1_000_000
_MAX_FILE = 1 << 20


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    """For prompt tokens that the server took from its cache; None means the price of `input`."""
    as_of: str | None = None
    """The day on which this was the price, as YYYY-MM-DD."""

    def cost(self, usage: Usage) -> float | None:
        """The cost of one call; None where the server did not report what is needed for it."""
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
        cached_price = self.input if self.cached_input is None else self.cached_input
        dollars = (usage.prompt_tokens - cached) * self.input + cached * cached_price
        return (dollars + usage.completion_tokens * self.output) / _MILLION


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: dict[str, Price] = {}


class Prices(msgspec.Struct, frozen=True):
    """Prices by exact model name."""

    own: dict[str, Price] = {}
    """Exact model name to price."""

    @classmethod
    def from_file(cls, path: Path) -> Prices:
        """Reads the user's file. Raises `UserError` naming the file and the field where it does not fit."""
        try:
            with path.open("rb") as stream:
                data = stream.read(_MAX_FILE + 1)
            if len(data) > _MAX_FILE:
                raise UserError(f"price file {path}: longer than {_MAX_FILE} bytes; is it the right file?")
            return cls(own=msgspec.toml.decode(data, type=_File).models)
        except OSError as exc:
            raise UserError(f"price file {path}: {exc.strerror or exc}; correct ASSAY_PRICES or unset it") from exc
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
            raise UserError(
                f'price file {path}: {exc}; expected [models."NAME"] with input and output in dollars a million'
            ) from exc

    def find(self, model: str) -> Price | None:
        """Returns the price of a model, or None if the file does not list it."""
        return self.own.get(model)
