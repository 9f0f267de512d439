"""Export configuration, for formats and for trainers."""

from __future__ import annotations

import difflib
from typing import Any, Literal

import msgspec

from assay import plugins
from assay.errors import UserError
from assay.learning.rows_config import ActorWeighting, RowsConfig
from assay.rollout.exchange.config import ExportConfig

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
    "swapped-instructions": "swapped_instructions:SwappedInstructions",
    "rows": "rows_file:RowsFile",
}
"""Target name to module and class, loaded on demand."""
IncludeOption = Literal["default", "passes", "judged", "all"]
_OF_FORMATS = ("to", "out", "attempts", "require", "failed_integrity", "with_secrets")


class WriteConfig(RowsConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of an export; those beyond `to`, `out`, `attempts` and `require` apply to trainer targets."""

    to: str
    """A format out of `assay formats`, or a target for trainers: trl-sft, trl-chat, trl-dpo, trl-grpo,
    verl, prime-rl, tinker, skyrl, openai, openai-dpo, hf-dataset,
    swapped-instructions, rows."""
    out: str
    """File or folder to create; losses are listed in OUT.losses.json."""
    include: IncludeOption = "default"
    """Attempts to export: undoubted `passes`, `judged` ones (undoubted passes and failures), or `all`; `default`
    depends on the target."""
    failed_integrity: bool = False
    """Also export attempts with failed integrity."""
    credit: str | None = None
    """Credit method for targets with advantages, as in `assay plugins`; default: grpo."""
    credit_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Options of the method, as key=value."""
    credit_actors: ActorWeighting = "equal"
    """Weights of a team's actors in the credit. `rank-consistency`: the larger, the better the rewards of an actor's
    own turns (`--turn-rewards`) order the attempts of a group as their outcomes do."""
    length: int = 0
    """Tokens of a packed sequence, for packing targets; 0: as long as the longest row."""
    split: str = "train"
    """Split name of a data set."""
    licence: str | None = None
    """Licence of a data set, for its card: an identifier such as `apache-2.0`."""

    def as_format(self) -> ExportConfig:
        """Returns the configuration of a format export. Raises `UserError` for options that formats do not have."""
        known = plugins.names("formats")
        if self.to not in known and ":" not in self.to and not self.to.endswith(".py"):
            near = difflib.get_close_matches(self.to, [*known, *TARGETS], n=1)
            hint = f"; did you mean {near[0]}?" if near else f": formats are {', '.join(known)}"
            raise UserError(f"{self.to!r} is neither a format nor a target for trainers ({', '.join(TARGETS)}){hint}")
        values = msgspec.structs.asdict(self)
        defaults = {field.name: field.default for field in msgspec.structs.fields(type(self)) if not field.required}
        unknown = sorted(n for n, value in values.items() if n not in _OF_FORMATS and value and value != defaults[n])
        if unknown:
            raise UserError(
                f"--{unknown[0].replace('_', '-')} is for trainers' targets, and {self.to} is a format: leave it out"
            )
        return ExportConfig(self.to, self.out, self.attempts, self.require, self.failed_integrity, self.with_secrets)
