"""Website analytics of WorkBench: visits, and the plots that the agent makes.

Visits cannot be changed, so that plots alone are judged.

Source: WorkBench, `src/tools/analytics.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction

from .frames import WorkBenchKnobs, read_database, require_text, start_clock

VisitorId = Annotated[str, identifier("website visitor", description="Identifier of the visitor")]

_VALUES: Final = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)
_PLOT_TYPES: Final = ("bar", "line", "scatter", "histogram")

workbench_analytics = Service("workbenchanalytics", "The website analytics of WorkBench.", knobs=WorkBenchKnobs)


@workbench_analytics.table(indexes=[("visitor_id",)], judged=False)
class Visit(msgspec.Struct, frozen=True):
    position: int
    date_of_visit: str
    visitor_id: VisitorId
    page_views: str
    session_duration_seconds: str
    traffic_source: str
    user_engaged: bool


@workbench_analytics.table()
class Plot(msgspec.Struct, frozen=True):
    position: int
    file_path: str


class VisitorRecord(msgspec.Struct, frozen=True):
    """A visit as agents read it."""

    date_of_visit: str
    visitor_id: VisitorId
    page_views: str
    session_duration_seconds: str
    traffic_source: str
    user_engaged: bool


@workbench_analytics.generator
def _load(make: Generator, knobs: WorkBenchKnobs) -> None:
    table = read_database(knobs, "analytics_data.csv", VisitorRecord.__struct_fields__)
    visits = []
    for number, (*texts, engaged) in enumerate(table):
        row = (number, *(text or "" for text in texts), engaged == "True")
        visits.append(msgspec.convert(dict(zip(Visit.__struct_fields__, row, strict=True)), Visit))
        try:
            float(visits[-1].session_duration_seconds)
        except ValueError as exc:
            raise ValueError(f"analytics_data.csv in {knobs.data}: row {number + 1}: {exc}") from exc
    make.insert_all(visits)
    start_clock(make)


@workbench_analytics.view()
def get_visitor_information_by_id(tx: Transaction, visitor_id: VisitorId | None = None) -> list[VisitorRecord]:
    """Returns the visits of a visitor.

    Args:
        visitor_id: Identifier of the visitor.
    """
    visitor_id = require_text(tx, visitor_id, "Visitor ID not provided.")
    visits = tx.find(Visit, visitor_id=visitor_id)
    tx.require(visits, "Visitor not found.", "not_found")
    names = VisitorRecord.__struct_fields__
    return [VisitorRecord(*(getattr(visit, name) for name in names)) for visit in visits]


@workbench_analytics.action()
def create_plot(
    tx: Transaction,
    time_min: str | None = None,
    time_max: str | None = None,
    value_to_plot: str | None = None,
    plot_type: str | None = None,
) -> str:
    """Plots a value over a range of dates, and returns the path of the file.

    Args:
        time_min: First date, as YYYY-MM-DD.
        time_max: Last date, as YYYY-MM-DD.
        value_to_plot: total_visits, session_duration_seconds, user_engaged, visits_direct, visits_referral,
            visits_search_engine or visits_social_media.
        plot_type: bar, line, scatter or histogram.
    """
    require_text(tx, time_min, "Start date not provided.")
    require_text(tx, time_max, "End date not provided.")
    tx.require(
        value_to_plot in _VALUES,
        "Value to plot must be one of 'total_visits', 'session_duration_seconds', 'user_engaged', 'direct', "
        "'referral', 'search engine', 'social media'",
    )
    tx.require(plot_type in _PLOT_TYPES, "Plot type must be one of 'bar', 'line', 'scatter', or 'histogram'")
    path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
    tx.insert(Plot(tx.count(Plot), path))
    return path


@workbench_analytics.view()
def total_visits_count(tx: Transaction, time_min: str | None = None, time_max: str | None = None) -> dict[str, int]:
    """Returns the number of visits by date.

    Args:
        time_min: First date, as YYYY-MM-DD.
        time_max: Last date, as YYYY-MM-DD.
    """
    return {date: len(visits) for date, visits in _by_date(tx, time_min, time_max).items()}


@workbench_analytics.view()
def engaged_users_count(tx: Transaction, time_min: str | None = None, time_max: str | None = None) -> dict[str, int]:
    """Returns the number of engaged users by date.

    Args:
        time_min: First date, as YYYY-MM-DD.
        time_max: Last date, as YYYY-MM-DD.
    """
    return _count(tx, time_min, time_max, lambda visit: visit.user_engaged)


@workbench_analytics.view()
def traffic_source_count(
    tx: Transaction, time_min: str | None = None, time_max: str | None = None, traffic_source: str | None = None
) -> dict[str, int]:
    """Returns the number of visits from a source by date.

    Args:
        time_min: First date, as YYYY-MM-DD.
        time_max: Last date, as YYYY-MM-DD.
        traffic_source: direct, referral, search engine or social media; without it, visits from all.
    """
    return _count(tx, time_min, time_max, lambda visit: traffic_source in (None, "", visit.traffic_source))


@workbench_analytics.view()
def get_average_session_duration(
    tx: Transaction, time_min: str | None = None, time_max: str | None = None
) -> dict[str, float]:
    """Returns the average duration of a session in seconds by date.

    Args:
        time_min: First date, as YYYY-MM-DD.
        time_max: Last date, as YYYY-MM-DD.
    """
    durations = {
        date: [float(visit.session_duration_seconds) for visit in visits]
        for date, visits in _by_date(tx, time_min, time_max).items()
    }
    return {date: sum(values) / len(values) for date, values in durations.items()}


def _by_date(tx: Transaction, time_min: str | None, time_max: str | None) -> dict[str, list[Visit]]:
    """Returns the visits between two dates by date; dates are compared as texts."""
    found: dict[str, list[Visit]] = {}
    conditions = ["date_of_visit >= ?"] * bool(time_min) + ["date_of_visit <= ?"] * bool(time_max)
    limits = [limit for limit in (time_min, time_max) if limit]
    for visit in tx.select(Visit, " AND ".join(conditions), *limits, order_by="date_of_visit"):
        found.setdefault(visit.date_of_visit, []).append(visit)
    return found


def _count(
    tx: Transaction, time_min: str | None, time_max: str | None, is_counted: Callable[[Visit], bool]
) -> dict[str, int]:
    return {
        date: sum(is_counted(visit) for visit in visits) for date, visits in _by_date(tx, time_min, time_max).items()
    }
