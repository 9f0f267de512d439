"""Common parts of calls: types of parameters, and the person for whom the caller is signed in."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from assay.environments.services.transaction import Transaction

R = TypeVar("R", bound=msgspec.Struct)
Words = Annotated[str, Meta(max_length=200)]
Limit = Annotated[int, Meta(ge=1, le=50)]
Offset = Annotated[int, Meta(ge=0, le=100_000)]


def find_caller(tx: Transaction, row: type[R], default: str) -> R | None:
    """Returns the person for whom the caller is signed in, by identifier or email address; None if unknown.

    Args:
        tx: The transaction.
        row: Class of the persons' rows, which has a unique column `email` in lower case.
        default: Email address of the person without a sign-in.
    """
    actor = tx.actor or default
    return tx.get_or_none(row, actor) or next(iter(tx.find(row, email=actor.lower())), None)
