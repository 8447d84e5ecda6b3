"""The first page: what today costs, how it goes, what failed last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from litestar import Request, Response, get

from gateway.core import Office
from gateway.domain.operators import Role
from gateway.domain.tenants import Project
from gateway.routes.panel.pages import MICROS, Pages
from gateway.storage.reports import Spending
from gateway.storage.traffic import HOUR, Traffic

DAYS_SHOWN = 30
HOURS_SHOWN = 24
MOST_SERIES = 7
FAILURES_SHOWN = 8


class ProjectToday(msgspec.Struct, frozen=True):
    """A project's line. Amounts are micro-dollars; `held` is what running calls and batches may still cost."""

    project: Project
    spent: int
    held: int
    calls: int
    failed: int

    @property
    def share(self) -> int | None:
        """Percent of the cap that is spent; None without a cap."""
        cap = self.project.daily_budget
        if cap is None:
            return None
        return 100 if cap == 0 else round(100 * self.spent / cap)


class Series(msgspec.Struct, frozen=True):
    """One colour of a chart."""

    name: str
    data: tuple[float, ...]


def dashboard_routes(office: Office, pages: Pages) -> list[Any]:
    """The route."""

    @get("/", opt={"role": Role.VIEWER})
    async def show_dashboard(request: Request[Any, Any, Any]) -> Response[bytes]:
        now = office.now()
        today = now.astimezone(office.zone).date()
        days = [today - timedelta(days=back) for back in reversed(range(DAYS_SHOWN))]
        midnight = datetime.combine(today, datetime.min.time(), office.zone).astimezone(UTC)
        hours = _hours(now.astimezone(office.zone), midnight)
        since = hours[-HOURS_SHOWN]
        projects = await office.tenants.list_projects()
        spending = await office.reports.spending(days[0], today)
        all_traffic = await office.reports.traffic.of(hours, now)
        traffic = [one for one in all_traffic if one.hour >= since]
        today_traffic = [one for one in all_traffic if one.hour >= midnight]
        durations = await office.reports.durations(since)
        others = pages.words(request)("dashboard.others")
        mine = _today(projects, [one for one in spending if one.day == today], today_traffic)
        context = {
            "projects": mine,
            "spent": sum(one.spent for one in mine),
            "held": sum(one.held for one in mine),
            "calls": sum(one.calls for one in today_traffic),
            "failed": sum(one.failed for one in today_traffic),
            "fallbacks": sum(one.fallbacks for one in today_traffic),
            "cached": sum(one.cached for one in today_traffic),
            "median": percentile(durations, 50),
            "p95": percentile(durations, 95),
            "failures": await office.reports.traffic.failures(traffic, FAILURES_SHOWN),
            "day_labels": [f"{day:%d/%m}" for day in days],
            "day_series": _by_day(spending, days, others),
            "hour_labels": [f"{hour.astimezone(office.zone):%H:%M}" for hour in hours[-HOURS_SHOWN:]],
            "hour_series": _by_hour(traffic, hours[-HOURS_SHOWN:], pages.words(request)("dashboard.calls")),
            "recipes": _totals(traffic, "recipe"),
            "models": _totals([one for one in traffic if one.model], "model"),
        }
        return pages.page(request, "dashboard.html", context)

    return [show_dashboard]


def _hours(now: datetime, midnight: datetime) -> list[datetime]:
    """Where the last hours begin, on the operators' clocks; those that are shown, and all of today's."""
    hour = now.replace(minute=0, second=0, microsecond=0, fold=now.fold).astimezone(UTC)
    count = max(HOURS_SHOWN, (hour - midnight) // HOUR + 1)
    return [hour - HOUR * back for back in reversed(range(count))]


def percentile(values: Sequence[int], percent: int) -> int | None:
    """The value that so many percent do not exceed, of sorted values; None when there are none."""
    if not values:
        return None
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def _today(
    projects: Sequence[Project], spending: Sequence[Spending], traffic: Sequence[Traffic]
) -> list[ProjectToday]:
    money = {one.project: one for one in spending}
    calls: defaultdict[str, int] = defaultdict(int)
    failed: defaultdict[str, int] = defaultdict(int)
    for one in traffic:
        calls[one.project] += one.calls
        failed[one.project] += one.failed
    lines = []
    for project in projects:
        found = money.get(project.name)
        spent, held = (found.settled, found.reserved + found.batches) if found else (0, 0)
        lines.append(ProjectToday(project, spent, held, calls[project.name], failed[project.name]))
    return sorted(lines, key=lambda line: (-line.spent, -line.calls, line.project.name))


def _by_day(spending: Sequence[Spending], days: Sequence[Any], others: str) -> list[Series]:
    """Spending in USD, a series for each of the dearest projects and one for the rest."""
    totals: defaultdict[str, int] = defaultdict(int)
    for one in spending:
        totals[one.project] += one.settled
    dearest = [name for name, total in sorted(totals.items(), key=lambda pair: -pair[1]) if total][
        :MOST_SERIES
    ]
    amounts: defaultdict[tuple[str, Any], int] = defaultdict(int)
    for one in spending:
        amounts[one.project if one.project in dearest else others, one.day] += one.settled
    names = [*dearest, *([others] if any(totals[name] for name in totals if name not in dearest) else [])]
    return [
        Series(name, tuple(round(amounts[name, day] / MICROS, 4) for day in days))
        for name in names or [others]
    ]


def _by_hour(traffic: Sequence[Traffic], hours: Iterable[datetime], name: str) -> list[Series]:
    calls: defaultdict[datetime, int] = defaultdict(int)
    for one in traffic:
        calls[one.hour] += one.calls
    return [Series(name, tuple(float(calls[hour]) for hour in hours))]


def _totals(traffic: Sequence[Traffic], field: str) -> list[dict[str, Any]]:
    """Calls, failures and cost by recipe or model, most called first."""
    totals: dict[str, dict[str, Any]] = {}
    for one in traffic:
        line = totals.setdefault(
            getattr(one, field), {"name": getattr(one, field), "calls": 0, "failed": 0, "cost": 0}
        )
        line["calls"] += one.calls
        line["failed"] += one.failed
        line["cost"] += one.cost
    return sorted(totals.values(), key=lambda line: -line["calls"])
