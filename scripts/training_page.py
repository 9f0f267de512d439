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

_HEAD = """# Training rows and export targets

A training row is one path of an attempt's model calls as flat columns over its tokens: prompt tokens and sampled
tokens, in the order of the context. Text is never tokenized again. An attempt has one row, and one
more for each branch of a conversation (a repeated request, a compaction, a sub-agent). A client that sends an answer
back without its empty fields begins no branch: where no token differs, the conversation goes on.

- **Certified.** A row consists of spans whose context is proved to be the context they were sampled under
  ([how](../explanation/tokens.md)). A span without a certificate is rejected, or kept as context and named
  (`--uncertified mask`). A run with a broken chain gives no row, and an imported record has no
  certificates.
- **Once.** A token that several rows of an attempt hold as context is trained in one of them. `shared` is the number of
  leading tokens that an earlier row holds, for code that counts or trains other tokens (for example observations).
- **Roles.** {roles}.
  The prompt is rendered again to assign the roles. If that does not give exactly the prompt tokens of the
  call, their role is `unknown`. A token that ends a message and begins scaffold belongs to the message.
- **Rendered** rows (`origin`) come from attempts without tokens: experts, models behind an API, imported records.
  They are rendered turn by turn, as the gateway would have rendered the prompt and the model its reply; they have no
  log-probabilities and are for supervised training only. An expert's prompt is that of the agent `loop`.
  Records sort the keys of tools, so for a recorded model request the tools are rendered with sorted keys.
- **Weights.** A loss that weighs attempts, not rows, weighs each row by 1 / `attempt_rows`.

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

`assay export RUN --to TARGET --out OUT` ([how to train on it](../how-to/train-with-another-trainer.md)). *Attempts*:
those written by default. A contradicted pass (its integrity verdict is not a pass, or judging its state again
disagreed) is never exported as a plain pass: supervised targets leave it out, targets with advantages give it no
positive one, and targets with a field for the outcome omit `outcome`. Passes without an integrity verdict are counted
in the report (`assay audit` judges them). `OUT.losses.json` lists the fields that a target cannot represent, and every
omitted attempt with the reason.

| target | content | attempts | advantages | sampled tokens only |
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
