"""A domain of tau2-bench as two services with the same state: in one the agent has the person's tools, too.

Calls of actions are logged, for the tasks that tau2-bench judges by their calls (`ACTION`). The log is not part of the
original's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar

import msgspec

from assay.environments.services.declaration import Role, Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Transaction

F = TypeVar("F", bound=Callable[..., Any])
AGENT: Final[tuple[Role, ...]] = ("agent",)
PERSON: Final[tuple[Role, ...]] = ("user",)
WORLD: Final[tuple[Role, ...]] = ("system",)


class SucceededCall(msgspec.Struct):
    """A call of an action that was not refused."""

    id: str
    action: str
    arguments: dict[str, Any]


class ServicePair:
    """The two services of a domain.

    Args:
        service: The service whose person has tools of their own.
        solo: The service whose agent has them.
    """

    def __init__(self, service: Service, solo: Service) -> None:
        self.service, self.solo = service, solo
        self._calls = Documents(service, SucceededCall, "calls", judged=False, also=[solo])

    def tool(
        self, roles: tuple[Role, ...] = AGENT, *, solo: tuple[Role, ...] | None = None, reads: bool = False
    ) -> Callable[[F], F]:
        """Declares an action of both services.

        Args:
            roles: Who may call it.
            solo: Who may call it where the agent has the person's tools; default: the same.
            reads: Whether it is a view.
        """

        def declare(function: F) -> F:
            for service, who in ((self.service, roles), (self.solo, roles if solo is None else solo)):
                if reads:
                    service.view(roles=who)(function)
                else:
                    service.action(roles=who)(self._logging(function))
            return function

        return declare

    def _logging(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(tx: Transaction, **arguments: Any) -> Any:
            result = function(tx, **arguments)
            number = len(self._calls.find(tx))
            self._calls.insert(tx, SucceededCall(f"{number:04}", function.__name__, msgspec.to_builtins(arguments)))
            return result

        return run

    def has_call(self, tx: Transaction, action: str, arguments: Mapping[str, Any]) -> bool:
        """Returns whether an action was called with these arguments, whatever its others were."""
        wanted = {name: _as_data(value) for name, value in arguments.items()}
        return any(
            all(name in call.arguments and _as_data(call.arguments[name]) == value for name, value in wanted.items())
            for call in self._calls.find(tx, action=action)
        )


def _as_data(value: Any) -> Any:
    """Returns an argument as it is compared: a text that holds JSON as data."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value
