"""`--out FILE`: the result of any command that prints one, in a file whose name decides the form.

Known credentials and key-shaped text are redacted in the file, and named on stderr; stdout has them.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.errors import UserError, remove_partial

from .output import say

_ESCAPED = re.compile(rb"\\([_~{}*<>|&%$#])")
_FORMS = {".csv": "csv", ".md": "markdown", ".tex": "latex"}
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write the result to this file instead of stdout: FILE.json as JSON; FILE.csv, .md or .tex as a table, "
        "where the command has --format; any other name as text.",
        show_default=False,
    ),
]


def takes_out(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command that has `--json` the option `--out`; returns any other unchanged."""
    signature = inspect.signature(function, eval_str=True)
    if "as_json" not in signature.parameters or {"out", "output"} & set(signature.parameters):
        return function

    def command(*, out: Path | None = None, **values: Any) -> None:
        if out is None:
            function(**values)
            return
        form = _FORMS.get(out.suffix)
        if form is not None and "form" not in values:
            raise UserError(f"this command writes no {form} table: name a file that ends in .json or .txt")
        if form is not None:
            values["form"] = form
        with _written(out):
            function(**{**values, "as_json": values["as_json"] or out.suffix == ".json"})

    keyword = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=OutOption)
    parameters = [*signature.parameters.values(), keyword]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__
    return command


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    """Writes everything printed to stdout to a file, also where the command ends with findings; nothing on an error."""
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"cannot be written: {path.parent} does not exist"
        raise UserError(f"--out {path} {what}; name a file")
    buffer = io.StringIO()
    ended: typer.Exit | None = None
    with contextlib.redirect_stdout(buffer):
        try:
            yield
        except typer.Exit as exc:
            ended = exc
    names = write_redacted(path, buffer.getvalue().encode())
    say(f"written to {path}" + (f", without {', '.join(names)}: a secret was redacted" if names else ""))
    if ended is not None:
        raise ended


def write_redacted(path: Path, data: bytes) -> tuple[str, ...]:
    """Writes text or JSON with its secrets redacted; returns their names.

    Raises:
        UserError: The escapes of a Markdown or LaTeX table split a secret, so that it cannot be redacted there.
    """
    from assay.rollout.exchange.secret_check import SecretCheck
    from assay.settings import Settings

    check = SecretCheck([], Settings.from_environment())
    cleaned = check.clean(data)
    escaped = check.clean(_ESCAPED.sub(rb"\1", cleaned.data)).names if path.suffix in (".md", ".tex") else ()
    if escaped:
        raise UserError(f"the table holds {', '.join(escaped)}: name a .json or .csv file, where secrets are redacted")
    with remove_partial(path):
        path.write_bytes(cleaned.data)
    return cleaned.names
