"""Configurations of `assay synth rewrite`, `twins` and `augment`; light, since help is printed from them."""

from __future__ import annotations

import msgspec

from assay.errors import UserError


class RewriteConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tasks whose instructions a model rewrites."""

    tasks: tuple[str, ...]
    """Tasks: `family:services,app=shop,n=20`, with kind=possible and the levels explicit or implicit."""
    out: str
    """File that the kept tasks are written to, one a line; `family:written,path=FILE` reads it."""
    model: str
    """Model that rewrites, as for `assay run`; `scripted:FILE` for tests."""
    tries: int = 2
    """Rewrites that are asked for; after a rejected one the model is told why."""
    style: str = ""
    """Wanted style, as the model is told, for example `terse, without greetings`."""
    follower: str | None = None
    """Agent that must reach the goal with a rewrite at least once; default: the plan read back is enough."""
    follower_model: str | None = None
    """Model of the follower."""
    attempts: int = 2
    """Attempts of the follower at each rewrite."""

    def __post_init__(self) -> None:
        if self.tries < 1 or self.attempts < 1:
            raise UserError("tries and attempts must be at least 1")


class TwinsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tasks that are paired."""

    tasks: tuple[str, ...]
    """Tasks: `family:services,app=shop,n=20`, with kind=possible and the levels explicit or implicit."""
    out: str
    """File that both tasks of each pair are written to, one a line; `family:written,path=FILE` reads it."""
    seed: int = 0
    """Decides which slot or act is changed."""


class AugmentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tasks whose plans are varied."""

    tasks: tuple[str, ...]
    """Tasks of services, of any kind and level."""
    out: str
    """File that the kept variants are written to, one a line; `family:written,path=FILE` reads it."""
    names: int = 2
    """Variants of each plan with other names of tools and parameters."""
    rate: float = 0.5
    """Share of the names that are other ones."""
    orders: int = 2
    """At most so many variants of each plan with two writes exchanged."""
    seed: int = 0
    """Decides the other names."""

    def __post_init__(self) -> None:
        if self.names < 0 or self.orders < 0 or not 0 < self.rate <= 1:
            raise UserError("names and orders must be 0 or more, and rate above 0 and at most 1")
