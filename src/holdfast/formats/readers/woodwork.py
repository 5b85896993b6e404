"""woodwork-engine: a conversation session as a dict, dumped as JSON; one, a list, or a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, ForeignDraft, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers import _values as v
from holdfast.model import encode_value

TOOL = "woodwork"
_FIELDS = frozenset(
    {"id", "conversation_history", "workflow_variables", "current_prompt", "created_at", "last_activity"}
)
_SPOKEN = frozenset({"role", "content", "timestamp"})


class Woodwork:
    """Reads sessions of woodwork-engine."""

    tool = TOOL

    def claims(self, source: Source) -> bool:
        """Return whether it is a session, or several of them."""
        found = (source.first(source.name), *_sessions(source.glimpse(source.name))) if source.is_file else ()
        return any(map(_is_session, found))

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield every session in the file."""
        if source.glimpse(source.name) is not None:
            yield from map(_foreign, _sessions(source.json(source.name)))
            return
        problems: list[str] = []
        for _, line in source.values(source.name, problems):
            for foreign in map(_foreign, _sessions(line)):
                foreign.problems += problems
                problems.clear()
                yield foreign


READER = Woodwork()


def _is_session(value: Any) -> bool:
    is_talk = isinstance(v.member(value, "conversation_history"), list)
    return is_talk and (isinstance(value.get("id"), (str, int)) or "workflow_variables" in value)


def _sessions(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the sessions in a value: itself, or those in its list or map; a map's name is the id."""
    if _is_session(value):
        yield value
        return
    inner = value.get("sessions", value) if isinstance(value, dict) else value
    named = ({"id": name, **item} for name, item in v.mapping(inner).items() if isinstance(item, dict))
    yield from filter(_is_session, inner if isinstance(inner, list) else named)


def _foreign(value: dict[str, Any]) -> Foreign:
    created, last = read_time(value.get("created_at")), read_time(value.get("last_activity"))
    drafts = [draft for turn in value["conversation_history"] for draft in _turn(turn)]
    for name, item in v.mapping(value.get("workflow_variables")).items():
        data = {"name": str(name), "value": encode_value(item)[0]}
        drafts.append(ForeignDraft("variable_set", data, last, key=f"variable.{v.digest(data)}"))
    # Neither messages nor variables: the accumulated prompt, and unknown members.
    rest = {name: item for name, item in value.items() if name not in _FIELDS}
    prompt = value.get("current_prompt")
    data = {TOOL: rest | ({"current_prompt": prompt} if prompt else {})}
    drafts.append(ForeignDraft("metadata", data, last, key=f"about.{v.digest(data, last)}"))
    return Foreign(
        TOOL,
        v.as_text(value.get("id")) or v.digest(value["conversation_history"][:1]),
        drafts,
        title=v.text(value.get("title")) or None,
        created_at=created,
        # Every session at a terminal has the same id there.
        scope=None if created is None else str(created),
    )


def _turn(turn: Any) -> list[ForeignDraft]:
    if not isinstance(turn, dict) or "role" not in turn:
        return [frame(TOOL, turn)]
    extra = {name: item for name, item in turn.items() if name not in _SPOKEN}
    content = turn.get("content")
    said = content if isinstance(content, list) else v.as_text(content)
    return v.speak(turn["role"], said, read_time(turn.get("timestamp")), turn, metadata=extra or None)
