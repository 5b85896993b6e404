"""woodwork-engine: a conversation session as a dict, dumped as JSON; one, a list, or a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.formats._foreign import Foreign, ForeignDraft, frame, read_time
from holdfast.formats._source import Source
from holdfast.formats.readers._values import as_text, digest, member, speak
from holdfast.model import encode_value

__all__ = ["READER"]

TOOL = "woodwork"
_FIELDS = frozenset(
    {"id", "conversation_history", "workflow_variables", "current_prompt", "created_at", "last_activity"}
)
_SPOKEN = frozenset({"role", "content", "timestamp"})


class Woodwork:
    """Reads sessions of woodwork-engine."""

    tool = TOOL
    places: tuple[str, ...] = ()

    def claims(self, source: Source) -> bool:
        """A session, or several of them."""
        if not source.is_file:
            return False
        if _is_session(source.first(source.name)):
            return True
        return next(_sessions(source.glimpse(source.name)), None) is not None

    def read(self, source: Source) -> Iterator[Foreign]:
        """Every session in the file."""
        value = source.glimpse(source.name)
        if value is not None:
            for found in _sessions(source.json(source.name)):
                yield _foreign(found)
            return
        problems: list[str] = []
        for _, line in source.values(source.name, problems):
            for found in _sessions(line):
                foreign = _foreign(found)
                foreign.problems += problems
                problems.clear()
                yield foreign


READER = Woodwork()


def _is_session(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("conversation_history"), list)
        and (isinstance(value.get("id"), (str, int)) or "workflow_variables" in value)
    )


def _sessions(value: Any) -> Iterator[dict[str, Any]]:
    """The sessions in a value: itself, or those in its list or map; a map's name is the id."""
    if _is_session(value):
        yield value
        return
    inner = value.get("sessions", value) if isinstance(value, dict) else value
    if isinstance(inner, list):
        yield from (item for item in inner if _is_session(item))
    elif isinstance(inner, dict):
        for name, item in inner.items():
            if isinstance(item, dict) and _is_session({"id": name, **item}):
                yield {"id": name, **item}


def _foreign(value: dict[str, Any]) -> Foreign:
    created, last = read_time(value.get("created_at")), read_time(value.get("last_activity"))
    drafts: list[ForeignDraft] = []
    for turn in value["conversation_history"]:
        drafts += _turn(turn)
    variables = value.get("workflow_variables")
    for name, item in variables.items() if isinstance(variables, dict) else ():
        data = {"name": str(name), "value": encode_value(item)[0]}
        drafts.append(ForeignDraft("variable_set", data, last, key=f"variable.{digest(data)}"))
    drafts.append(_rest(value, last))
    return Foreign(
        TOOL,
        as_text(value.get("id")) or digest(value["conversation_history"][:1]),
        drafts,
        title=value.get("title") if isinstance(value.get("title"), str) else None,
        created_at=created,
        # Every session at a terminal has the same id there.
        scope=None if created is None else str(created),
    )


def _turn(turn: Any) -> list[ForeignDraft]:
    if not isinstance(turn, dict) or "role" not in turn:
        return [frame(TOOL, turn)]
    when = read_time(turn.get("timestamp"))
    extra = {name: item for name, item in turn.items() if name not in _SPOKEN}
    content = turn.get("content")
    if not isinstance(content, (str, list)):
        content = as_text(content)
    return speak(turn["role"], content, when, turn, metadata=extra or None)


def _rest(value: dict[str, Any], last: int | None) -> ForeignDraft:
    """What is neither said nor a variable: the accumulated prompt, and what we do not know."""
    rest = {name: item for name, item in value.items() if name not in _FIELDS}
    prompt = member(value, "current_prompt")
    data = {TOOL: rest | ({"current_prompt": prompt} if prompt else {})}
    return ForeignDraft("metadata", data, last, key=f"about.{digest(data, last)}")
