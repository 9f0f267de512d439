"""`assay doctor`."""

from __future__ import annotations

import asyncio

from .output import console, emit_json, plain
from .shared import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Tests every sandbox and reports which ones work here, which limits the kernel enforces, and how to enable more.

    Of each it says what was found, what that means, and what to do. The last line says which one a run would use.

    Examples:

      assay doctor

      assay doctor --json
    """
    from assay.environments.workspace.choose import choose_preferred, probe_all_backends

    reports = asyncio.run(probe_all_backends())
    if as_json:
        emit_json({"backends": reports})
        return
    out = console()
    for report in reports:
        out.print(plain(str(report)))
    used = choose_preferred(reports)
    out.print(
        f"A run uses {used} unless --backend names another."
        if used
        else "A run refuses to start, because nothing that isolates works here: do what stands under one of them."
    )
