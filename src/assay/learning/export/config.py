"""What to export, as what, and how: for other formats and for trainers alike."""

from __future__ import annotations

import difflib
from typing import Any, Literal

import msgspec

from assay import plugins
from assay.errors import UserError
from assay.learning.reading import RowsConfig
from assay.rollout.exchange.exporting import ExportConfig

__all__ = ["TARGETS", "Include", "WriteConfig"]

TARGETS = {
    "trl-sft": "trl:TrlSft",
    "trl-chat": "trl:TrlChat",
    "trl-dpo": "trl_dpo:TrlDpo",
    "trl-grpo": "trl:TrlGrpo",
    "verl": "verl:Verl",
    "prime-rl": "prime_rl:PrimeRl",
    "tinker": "tinker:Tinker",
    "skyrl": "skyrl:SkyRl",
    "openai": "openai:OpenAi",
    "openai-dpo": "openai:OpenAiDpo",
    "hf-dataset": "hf_dataset:HfDataset",
    "rows": "rows_file:RowsFile",
}
"""Name to module and class; loaded when one is asked for."""
Include = Literal["default", "passes", "judged", "all"]
_OF_FORMATS = ("to", "out", "attempts", "require", "failed_integrity")


class WriteConfig(RowsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to write. Beside `to`, `out`, `attempts` and `require` the options are those of targets for trainers."""

    to: str
    """What to write: a format out of `assay formats`, or a target for trainers: trl-sft, trl-chat, trl-dpo, trl-grpo,
    verl, prime-rl, tinker, skyrl, openai, openai-dpo, hf-dataset, rows."""
    out: str
    """File or folder to make; what the target cannot hold is listed in OUT.losses.json."""
    include: Include = "default"
    """Which attempts: `passes` that nothing speaks against, `judged` ones (plain passes and failures), or `all`;
    `default` is what the target is for."""
    failed_integrity: bool = False
    """Also write attempts whose integrity failed; else they are left out, whatever their outcome."""
    credit: str | None = None
    """How turns are credited, for targets that take advantages: a method out of `assay plugins`; default: grpo."""
    credit_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Options of the method, as key=value."""
    length: int = 0
    """Tokens of a packed sequence, for targets that take such; 0: as long as the longest row."""
    split: str = "train"
    """Name of the split that a data set is."""
    licence: str | None = None
    """Licence of a data set, for its card: an identifier such as `apache-2.0`."""

    def as_format(self) -> ExportConfig:
        """The same for a format. Raises `UserError` where something was asked for that formats do not know."""
        known = plugins.names("formats")
        if self.to not in known and ":" not in self.to and not self.to.endswith(".py"):
            near = difflib.get_close_matches(self.to, [*known, *TARGETS], n=1)
            hint = f"; did you mean {near[0]}?" if near else f": formats are {', '.join(known)}"
            raise UserError(f"{self.to!r} is no format and no target for trainers ({', '.join(TARGETS)}){hint}")
        told = msgspec.structs.asdict(self)
        defaults = {field.name: field.default for field in msgspec.structs.fields(type(self)) if not field.required}
        unknown = sorted(n for n, value in told.items() if n not in _OF_FORMATS and value and value != defaults[n])
        if unknown:
            raise UserError(
                f"--{unknown[0].replace('_', '-')} is for trainers' targets, and {self.to} is a format: leave it out"
            )
        return ExportConfig(self.to, self.out, self.attempts, self.require, self.failed_integrity)
