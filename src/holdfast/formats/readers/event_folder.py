"""Plain event logs: ``<session>/events.jsonl`` with ``{type, timestamp, data}`` in each line.

The form is ours, so lines pass unchanged. Usage and model are at the level of the line there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, ForeignDraft, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.formats.readers._files import first_records

TOOL = "event-folder"
_LOG = "events.jsonl"
_OWN = frozenset({"session_start", "opened", "closed", "imported"})


class EventFolder:
    """Reads folders of recorded events."""

    tool = TOOL

    def claims(self, source: Source) -> bool:
        """Return whether the first lines of the file are events."""
        return source.is_file and any(_is_event(value) for value in first_records(source, source.name)[:_LINES_SEEN])

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the session: its id is the folder's name, else the file's."""
        problems: list[str] = []
        lines = list(source.values(source.name, problems))
        drafts = [_draft(line, value) for line, value in lines]
        plain = source.name.removesuffix(".gz").removesuffix(".zst")
        named = source.folder if plain == _LOG else plain.removesuffix(".jsonl")
        stamps = [draft.timestamp for draft in drafts if draft.timestamp]
        yield Foreign(
            TOOL,
            named or source.name,
            drafts,
            created_at=min(stamps, default=None),
            # Folders of other projects may have the same name.
            other_scope=v.digest(next((value for _, value in lines if _is_event(value)), None)),
            problems=problems,
        )


READER = EventFolder()
_LINES_SEEN = 3


def _is_event(value: Any) -> bool:
    is_typed = isinstance(v.member(value, "type"), str) and "." not in value["type"]
    return is_typed and isinstance(value.get("data"), dict) and read_time(value.get("timestamp")) is not None


def _draft(line: bytes, value: Any) -> ForeignDraft:
    if not isinstance(v.member(value, "type"), str):
        return frame(TOOL, line)
    when, data = read_time(value.get("timestamp")), value.get("data")
    if not isinstance(data, dict) or value["type"] in _OWN:
        return frame(TOOL, line, when)
    run, about = value.get("run"), value.get("metadata")
    if isinstance(about, dict):
        cost, usage = about.get("cost"), about.get("usage")
        if isinstance(cost, dict):
            cost = cost.get("totalCost", cost.get("total"))
        # We count a cost among the figures of the usage.
        if type(cost) in (int, float) and isinstance(usage, dict):
            about = {**about, "usage": {"cost": cost, **usage}}
        data = {**data, "metadata": {**about, **v.mapping(data.get("metadata"))}}
    return ForeignDraft(value["type"], data, when, run if isinstance(run, str) else None, raw=line)
