"""Makes docs/reference/training-rows.md out of the records and targets themselves; see `make_reference`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module

from assay.learning.export.config import TARGETS, WriteConfig
from assay.learning.export.exporting import load_target
from assay.learning.packing import Pack
from assay.learning.row_files import SCHEMA, arrow_schema
from assay.learning.rows import ROLES, TrainingRow, TurnSpan

__all__ = ["training_rows_page"]

_HEAD = """# Training rows, and what they are exported to

A training row is one line of an attempt's model calls as flat columns over its tokens: what the model was told and what
it sampled, in the order in which it saw them. No text is ever made into tokens again. An attempt has one row, and one
more for each place where a conversation was left (a question asked again, a compaction, a sub-agent).

- **Certified.** A row is put together out of spans whose context is proved to be the context they were sampled under
  ([how](../explanation/tokens.md)). A span without a certificate is refused, or kept as context and named
  (`--uncertified mask`). A run in which a chain does not hold gives no row at all, and an imported record certifies
  nothing.
- **Once.** A token that several rows of an attempt hold as context is trained in one of them. `shared` says how many
  leading tokens an earlier row holds, for whoever counts or trains other tokens (observations, say).
- **Roles.** {roles}.
  The prompt is rendered again to see whose each token is; where that does not give the very tokens that the model was
  told, they are `unknown`. A token that ends a message and begins scaffold counts to the message.
- **Rendered** rows (`origin`) come from attempts that know no tokens: experts, models behind an API, imported records.
  They are written turn by turn, as the gateway would have told and the model would have said it; they have no
  log-probabilities and are for supervised training alone. What an expert was told is what the agent `loop` tells.
  Records sort the keys of tools, so where a model was asked, its tools are rendered with sorted keys.
- **Weights.** A loss that weighs attempts, not rows, gives each row one part in `attempt_rows`.

"""
_FILE = """## As a file

`assay export RUN --to rows --out rows.parquet` writes Parquet (zstd), one row each; its metadata say
`{schema}`. Reading checks every row. From Python: `assay.learning.row_files.write_rows` and `read_rows`;
`assay.learning.reading.rows_of_run` gives the rows of a stored run, `assay.learning.packing.pack` packs them.

| column | Arrow type |
|---|---|
{columns}
"""
_TARGETS = """## Targets

`assay export RUN --to TARGET --out OUT` ([how to train on it](../how-to/train-with-another-trainer.md)). *Attempts*: which are
written by default. A pass that something speaks against (its integrity was judged and is no pass, or judging its state
again disagreed) is a plain pass nowhere: supervised targets leave it out, those with advantages give it none that are
positive, and where there is a field to say so, it has no `outcome`. Passes at whose integrity nobody looked are counted
in the report (`assay audit` looks). What a target has no place for is in `OUT.losses.json`, with every attempt that was
left out and why.

| target | what | attempts | advantages | sampled tokens only |
|---|---|---|---|---|
{targets}
"""


def training_rows_page(section: Callable[..., str], options: Callable[[type], str]) -> str:
    """The page. `section` makes a heading, the docstring and the fields of a struct; `options` the fields alone."""
    columns = "".join(f"| `{field.name}` | `{_plain(str(field.type))}` |\n" for field in arrow_schema())
    found = [load_target(name) for name in TARGETS]
    table = "".join(
        f"| `{t.name}` | {t.title} | {t.include} | {'yes' if t.credit else 'no'} | {'yes' if t.sampled else 'no'} |\n"
        for t in found
    )
    made = _HEAD.format(roles=", ".join(f"`{role}`" for role in ROLES))
    made += section(TrainingRow) + "\n" + section(TurnSpan) + "\n"
    made += _FILE.format(schema=SCHEMA.decode(), columns=columns)
    made += f"## Packs\n\n{inspect.getdoc(import_module(Pack.__module__))}\n\n"
    made += _TARGETS.format(targets=table)
    seen: set[str] = set()
    for target in found:
        module = type(target).__module__
        if module not in seen:
            seen.add(module)
            names = ", ".join(f"`{t.name}`" for t in found if type(t).__module__ == module)
            made += f"### {names}\n\n{inspect.getdoc(import_module(module))}\n\n"
    return made + "## Options\n\n" + options(WriteConfig)


def _plain(kind: str) -> str:
    return kind.replace("|", "\\|")
