"""Values that the airlines of tau-bench and tau2-bench share."""

from __future__ import annotations

from typing import Annotated, Final

from assay.environments.services.schema import identifier

UserId = Annotated[str, identifier("airline user", description="Identifier of the user, such as sara_doe_496")]
ReservationId = Annotated[str, identifier("reservation", description="Identifier of the reservation, such as ZFA04Y")]

NOW: Final = "2024-05-15T15:00:00"
NEW_RESERVATIONS: Final = ("HATHAT", "HATHAU", "HATHAV")
"""Identifiers of new reservations: the originals have three."""
CERTIFICATES: Final = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
"""Identifiers of new certificates of one user."""

_AIRPORTS: Final = {
    "SFO": "San Francisco", "JFK": "New York", "LAX": "Los Angeles", "ORD": "Chicago", "DFW": "Dallas",
    "DEN": "Denver", "SEA": "Seattle", "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix",
    "IAH": "Houston", "LAS": "Las Vegas", "MCO": "Orlando", "EWR": "Newark", "CLT": "Charlotte", "MSP": "Minneapolis",
    "DTW": "Detroit", "PHL": "Philadelphia", "LGA": "LaGuardia",
}  # fmt: skip


def airport_cities() -> dict[str, str]:
    """Returns the cities of all airports by code."""
    return dict(_AIRPORTS)
