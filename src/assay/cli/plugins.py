"""`assay plugins`."""

from __future__ import annotations

from .output import emit_json
from .shared import JsonOption
from .tables import print_rows

KINDS = ("agents", "environments", "checks", "tasks", "formats", "signals", "advantages")


def plugins(as_json: JsonOption = False) -> None:
    """Lists installed plugins and their origin, without loading them.

    Examples:

      assay plugins

      assay plugins --json
    """
    from assay import plugins as registry

    found = [
        {"kind": kind, "name": name, "from": point.value, "package": point.dist.name if point.dist else "-"}
        for kind in KINDS
        for name, point in sorted(registry.names(kind).items())
    ]
    if as_json:
        emit_json({"plugins": found})
    else:
        print_rows(found)
