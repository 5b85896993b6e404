"""What a store is like, as figures: for Prometheus, and for whoever looks after it."""

from __future__ import annotations

import os
from collections import Counter
from importlib.resources import files

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import FORMAT_VERSION, STATUSES, VERSION
from holdfast.observe._figures import Figures

_STATES = ("ok", "damaged", "sealed", "too_new", "unreadable")
_PAGE = 1000


def store_figures(hf: Holdfast) -> Figures:
    """A look at a whole store: every session is listed once. Never raises about its content.

    A store that cannot be used is told as ``holdfast_up 0``, and nothing else.
    """
    figures = Figures()
    if add_health(figures, [hf]):
        _add_sessions(figures, hf)
    return figures


def add_health(figures: Figures, libraries: list[Holdfast]) -> bool:
    """What costs little to know of stores, summed; whether all can be used."""
    figures.set("holdfast_info", 1, VERSION, str(FORMAT_VERSION))
    try:
        health = [_health(library) for library in libraries]
    except HoldfastError:
        figures.set("holdfast_up", 0)
        return False
    figures.set("holdfast_up", 1)
    for place, name in enumerate(("sessions", "index_lag_sessions", "index_lag_bytes")):
        figures.set(f"holdfast_{name}", sum(found[place] for found in health))
    free = [found for library in libraries if (found := disk_free(library)) is not None]
    if free:
        figures.set("holdfast_disk_free_bytes", min(free))
    return True


def disk_free(hf: Holdfast) -> int | None:
    """The bytes that are left where a store of files is; None for any other."""
    path = getattr(hf.store, "path", None)
    if path is None:
        return None
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def _health(hf: Holdfast) -> tuple[int, int, int]:
    hf.store.check()
    health = hf.catalog_health()
    return health.sessions, health.lag_sessions, health.lag_bytes


def _add_sessions(figures: Figures, hf: Holdfast) -> None:
    states = Counter(dict.fromkeys(_STATES, 0))
    statuses: Counter[str] = Counter(dict.fromkeys(STATUSES, 0))
    size = is_open = archived = newest = 0
    page = hf.list(_PAGE)
    while True:
        for row in page:
            states[row.state] += 1
            statuses[row.status] += 1
            size += row.size_bytes
            is_open += row.open
            archived += row.archived
            newest = max(newest, row.updated_at)
        if page.next is None:
            break
        page = hf.list(_PAGE, after=page.next)
    for state, count in states.items():
        figures.set("holdfast_sessions_by_state", count, state)
    for status, count in statuses.items():
        figures.set("holdfast_sessions_by_status", count, status)
    figures.set("holdfast_stored_bytes", size)
    figures.set("holdfast_sessions_open", is_open)
    figures.set("holdfast_sessions_archived", archived)
    figures.set("holdfast_trash_sessions", sum(1 for _ in hf.store.entries("trash/")))
    if newest:
        figures.set("holdfast_last_activity_seconds", newest / 1000)


# The dashboard for Grafana that comes along.


def dashboard() -> str:
    """The dashboard as JSON, to be imported into Grafana; it asks for a Prometheus data source."""
    return files("holdfast.observe").joinpath("grafana-dashboard.json").read_text("utf-8")
