"""Rules of `[metadata.assay]` beyond its types. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from assay.validation_messages import describe_value

from .assay_config import AssayTable
from .harbor_config import HarborTask
from .shape import Misfit

_AT = "metadata.assay"


def check_assay_rules(table: AssayTable, config: HarborTask) -> Iterator[Misfit]:
    """Yields every broken rule."""
    environment = table.environment
    for index, path in enumerate(environment.masks):
        if not path.startswith("/") or ".." in PurePosixPath(path).parts or path.strip("/") == "" or "\0" in path:
            message = f"expected an absolute path without '..', got {describe_value(path)}"
            yield Misfit(f"{_AT}.environment.masks[{index}]", message, 'write for example "/usr/lib/python3/x"')
    for index, name in enumerate(environment.masked_packages):
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?", name):
            message = f"expected a package's name, got {describe_value(name)}"
            yield Misfit(f"{_AT}.environment.masked_packages[{index}]", message, 'write for example "networkx"')
    for index, requirement in enumerate(environment.requirements):
        if not is_pinned(requirement):
            message = f"expected a pinned package, got {describe_value(requirement)}"
            yield Misfit(f"{_AT}.environment.requirements[{index}]", message, 'write for example "pytest==8.3.4"')
    seen: set[str] = set()
    for index, check in enumerate(table.checks):
        if check.name in seen:
            yield Misfit(f"{_AT}.checks[{index}].name", f"{check.name!r} is used twice", "give each check its own name")
        seen.add(check.name)
    if table.checks and config.steps:
        yield Misfit(f"{_AT}.checks", "is given in a task with steps", "judge each step by its tests/test.sh")


def is_pinned(requirement: str) -> bool:
    """Returns whether it names one version of one package, and no address."""
    from packaging.requirements import InvalidRequirement, Requirement

    if len(requirement) > 500:
        return False
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return False
    pins = [s for s in parsed.specifier if s.operator in ("==", "===") and "*" not in s.version]
    return parsed.url is None and len(pins) == 1 and len(parsed.specifier) == 1
