"""What tokens cost: a dated table, and a TOML file of the user's that goes before it.

A price that is not known is None, never 0. The built-in table holds list prices of one provider as they were on the
date beside them, and is used only for that provider's own address; check a bill against the provider, not against it.

The user's file, named by `ASSAY_PRICES`, in US dollars for a million tokens:

    [models."my-model"]
    input = 0.20
    cached_input = 0.05   # optional; default: `input`
    output = 0.80
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from assay.errors import UserError
from assay.records import Usage

__all__ = ["BUILT_IN", "BUILT_IN_HOST", "Price", "Prices"]

Dollars = Annotated[float, msgspec.Meta(ge=0)]
_MILLION = 1_000_000
_MAX_FILE = 1 << 20
BUILT_IN_HOST = "api.openai.com"


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


BUILT_IN: dict[str, Price] = {
    "gpt-4.1": Price(2.00, 8.00, 0.50, "2025-08-07"),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10, "2025-08-07"),
    "gpt-4.1-nano": Price(0.10, 0.40, 0.025, "2025-08-07"),
    "gpt-4o": Price(2.50, 10.00, 1.25, "2025-08-07"),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075, "2025-08-07"),
    "gpt-5": Price(1.25, 10.00, 0.125, "2025-08-07"),
    "gpt-5-mini": Price(0.25, 2.00, 0.025, "2025-08-07"),
    "gpt-5-nano": Price(0.05, 0.40, 0.005, "2025-08-07"),
    "o3": Price(2.00, 8.00, 0.50, "2025-08-07"),
    "o4-mini": Price(1.10, 4.40, 0.275, "2025-08-07"),
}


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: dict[str, Price] = {}


class Prices(msgspec.Struct, frozen=True):
    """Where prices are looked up, by the exact name of the model."""

    own: dict[str, Price] = {}
    """The user's; they hold for any server."""

    @classmethod
    def from_file(cls, path: Path) -> Prices:
        """Reads the user's file. Raises `UserError` naming the file and the field where it does not fit."""
        try:
            with path.open("rb") as stream:
                data = stream.read(_MAX_FILE + 1)
            if len(data) > _MAX_FILE:
                message = f"price file {path}: longer than {_MAX_FILE} bytes; is it the right file?"
                raise UserError(message)
            return cls(own=msgspec.toml.decode(data, type=_File).models)
        except OSError as exc:
            message = f"price file {path}: {exc.strerror or exc}; correct ASSAY_PRICES or unset it"
            raise UserError(message) from exc
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
            message = f'price file {path}: {exc}; expected [models."NAME"] with input and output in dollars a million'
            raise UserError(message) from exc

    def find(self, model: str, host: str | None) -> Price | None:
        """The price of a model at a server, or None where nobody said."""
        own = self.own.get(model)
        if own is not None or host != BUILT_IN_HOST:
            return own
        return BUILT_IN.get(model)
