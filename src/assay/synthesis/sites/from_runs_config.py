"""Options of `assay synth site`; light, since help is printed from them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Reading = Literal["auto", "values", "pages"]


class SiteFromRunsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a site that is recovered from runs."""

    runs: tuple[str, ...]
    """Names of runs whose attempts used a site in a browser (environment `sites`, `observe=tree`)."""
    out: str
    """JSON file to write."""
    name: Annotated[str, msgspec.Meta(pattern=r"^([a-z]{2,30})?\Z")] = ""
    """Name of the site, 2 to 30 small letters; default: the first part of the path of its pages."""
    task: str = ""
    """Only attempts at tasks whose id begins so."""
    reading: Reading = "auto"
    """`values`: what pages show as terms is data of the site; `pages`: each page that differs is a screen; `auto`: the
    one that predicts more of attempts left out."""
    held_out: Annotated[float, msgspec.Meta(ge=0.0, lt=1.0)] = 0.25
    """Share of the attempts that the site is not recovered from, and on which its fidelity is measured."""
    seed: int = 0
    """Decides which attempts are held out."""
    without_browser: bool = False
    """Does not replay the attempts held out in a real Chromium."""
