"""Log of the calls that tasks of tau2-bench judge by themselves (`ACTION`); no part of the original's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Transaction


class SucceededCall(msgspec.Struct):
    """A call of an action that was not refused."""

    id: str
    action: str
    arguments: dict[str, Any]


class CallLog:
    """Table of the calls of a world, which is not judged by its changes.

    Args:
        services: Services that have the table.
    """

    def __init__(self, services: Sequence[Service]) -> None:
        first, *others = services
        self._calls = Documents(first, SucceededCall, "calls", judged=False, also=others)

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns an action that logs its calls."""

        @wraps(function)
        def run(tx: Transaction, **arguments: Any) -> Any:
            result = function(tx, **arguments)
            number = len(self._calls.find(tx))
            self._calls.insert(tx, SucceededCall(f"{number:04}", function.__name__, msgspec.to_builtins(arguments)))
            return result

        return run

    def has_call(self, tx: Transaction, action: str, arguments: Mapping[str, Any]) -> bool:
        """Returns whether an action was called with these arguments, whatever its others were."""
        wanted = _parsed(arguments).items()
        return any(wanted <= _parsed(call.arguments).items() for call in self._calls.find(tx, action=action))


def _parsed(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns arguments as texts that are equal if they are; a text that holds JSON is compared as data."""
    return {name: repr(_as_data(value)) for name, value in arguments.items()}


def _as_data(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
