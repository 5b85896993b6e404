"""Events of the Agent Development Kit as ours, and back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from google.adk.events.event import Event
from google.adk.sessions import State

from holdfast.errors import Conflict, NotFound
from holdfast.integrations._units import Form, Unit, Words, blocks_of, heard, spoken, stored
from holdfast.replay import to_dialect
from holdfast.storage import MUST_NOT_EXIST

if TYPE_CHECKING:
    import holdfast

VARIABLE = "variable_set"


def by_owner(delta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a change of state by its owner; temporary keys have none."""
    parts: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}, "nobody": {}}
    prefixes = {State.APP_PREFIX: "app", State.USER_PREFIX: "user", State.TEMP_PREFIX: "nobody"}
    for name, value in delta.items():
        prefix = next(filter(name.startswith, prefixes), "")
        parts[prefixes.get(prefix, "session")][name.removeprefix(prefix)] = value
    return parts


def variables(values: dict[str, Any]) -> Words:
    """Return the events that set variables of a session."""
    return [(VARIABLE, {"name": name, "value": value}) for name, value in values.items()]


def events_of(units: list[Unit], author: str) -> list[Event]:
    """Return the events for the runner: its own unchanged, those of others in its form."""
    made: list[Event] = []
    seq = -1
    for unit in heard(units):
        if unit.own:
            made.append(Event.model_validate(unit.fresh))
            continue
        # A result that is inserted for a call without one belongs to no event: it is named after the
        # event of the call, and has its time.
        seq, name = (unit.seqs[0], "holdfast") if unit.seqs else (seq, "holdfast-lost")
        at = unit.at / 1000 if unit.seqs else made[-1].timestamp
        role = unit.item["role"]
        asked = role == "user" and all(block["type"] != "tool_result" for block in unit.blocks)
        about = {"id": f"{name}-{seq}", "author": "user" if asked else author, "timestamp": at}
        contents = to_dialect([unit.item], "gemini") if role != "system" else []
        made += [Event.model_validate({**about, "content": content}) for content in contents]
    return made


def _tell(item: dict[str, Any]) -> Words:
    content = item.get("content")
    words = spoken(content, "gemini") if isinstance(content, dict) else []
    usage = item.get("usageMetadata") or {}
    counts = {"input_tokens": "promptTokenCount", "output_tokens": "candidatesTokenCount"}
    spent = {name: usage[theirs] for name, theirs in counts.items() if usage.get(theirs)}
    for type, data in words:
        if type == "assistant" and spent:
            data["usage"] = spent
    changes = variables(by_owner(item.get("actions", {}).get("stateDelta", {}))["session"])
    return [*(words or [stored()]), *changes] if changes else words


def _rebuild(words: Words) -> dict[str, Any]:
    delta = {data["name"]: data["value"] for type, data in words if type == VARIABLE}
    actions = {"stateDelta": delta, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}
    item: dict[str, Any] = {"actions": actions, "nodeInfo": {"path": ""}}
    said = [word for word in words if word[0] not in (VARIABLE, "frame")]
    if said:
        role = "user" if said[0][0] in ("user", "tool_result") else "model"
        item["content"] = {"role": role, "parts": [_part(block) for block in blocks_of(said)]}
    return item


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "tool_use":
            return {"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}}
        case "tool_result":
            return {"functionResponse": {"id": block["tool_use_id"], "response": {"result": block["content"]}}}
    return block


FORM = Form("adk/1", _tell, _rebuild)

# State that sessions of the Agent Development Kit share: that of a user, and that of an app.
#
# It is kept in one document for each, and changed by events in the logs of sessions. So that the two never
# disagree, whichever process is killed, a change is announced in the document, then recorded in the log, then
# applied to the values. An announced change is valid as soon as the log has it.
_DOCUMENT = "shared.json"
_SHARED = "shared"
_ATTEMPTS = 50
_OPENINGS = 2  # the one of the writer itself may come after its announcement; the next is another's

Values = dict[str, Any]


class _Change(msgspec.Struct):
    """A change that counts if the log of its session has its token."""

    token: str
    session: str
    after: int
    values: Values


class _Held(msgspec.Struct):
    """The contents of a document."""

    values: Values = msgspec.field(default_factory=dict)
    announced: list[_Change] = msgspec.field(default_factory=list)

    def add(self, change: _Change) -> None:
        self.announced.append(change)

    def take_out(self, change: _Change, *, happened: bool) -> None:
        left = [one for one in self.announced if one.token != change.token]
        if len(left) < len(self.announced) and happened:  # else somebody has put it there already
            self.values.update(change.values)
        self.announced = left


class Announced:
    """Announced changes: record ``words`` in the log, then ``end`` them."""

    def __init__(self, shared: Shared, changes: dict[str, _Change]) -> None:
        self._shared = shared
        self._changes = changes
        tokens = {change.token: None for change in changes.values()}
        self.words: Words = [stored(tool="adk", **{_SHARED: token}) for token in tokens]

    def end(self, *, happened: bool) -> None:
        """Apply the changes to the values if the log has the words; otherwise discard them."""
        for key, change in self._changes.items():
            self._shared.end(key, change, happened=happened)


class Shared:
    """The documents of shared state in one Holdfast."""

    def __init__(self, library: holdfast.Holdfast) -> None:
        self._library = library

    def read(self, key: str) -> Values:
        """Return the values of a document, as confirmed by the logs of all sessions."""
        found = self._library.store.documents(key).get(_DOCUMENT)
        if found is None:
            return {}
        return self._settled(msgspec.json.decode(found[0], type=_Held)).values

    def announce(self, changes: dict[str, Values], session_id: str, after: int) -> Announced:
        """Announce changes of documents for an event to follow ``after``, the newest event of a held session."""
        token = uuid.uuid4().hex
        made = {key: _Change(token, session_id, after, values) for key, values in changes.items()}
        for key, change in made.items():
            self._update(key, partial(_Held.add, change=change))
        return Announced(self, made)

    def end(self, key: str, change: _Change, *, happened: bool) -> None:
        """Remove an announced change from a document, and apply it if its event was recorded."""
        self._update(key, partial(_Held.take_out, change=change, happened=happened))

    def settle(self, key: str) -> None:
        """Apply all recorded changes to the values before a log is deleted."""
        self._update(key, lambda _: None)

    def set(self, key: str, values: Values) -> None:
        """Change values without an event of a session."""
        if values:
            self._update(key, lambda held: held.values.update(values))

    def _update(self, key: str, change: Callable[[_Held], None]) -> None:
        """Change a document that others may be changing at the same time."""
        documents = self._library.store.documents(key)
        for left in reversed(range(_ATTEMPTS)):
            data, etag = documents.get(_DOCUMENT) or (b"{}", MUST_NOT_EXIST)
            held = msgspec.json.decode(data, type=_Held)
            before = msgspec.json.encode(held)
            change(held)
            made = msgspec.json.encode(self._settled(held))
            if made == before:
                return
            try:
                documents.put(_DOCUMENT, made, if_match=etag)
                return
            # The document was changed in between: decide again on its current contents.
            except Conflict:
                if not left:
                    raise

    def _settled(self, held: _Held) -> _Held:
        open_ones: list[_Change] = []
        for change in held.announced:
            happened = self._happened(change)
            if happened:
                held.values.update(change.values)
            elif happened is None:
                open_ones.append(change)
        held.announced = open_ones
        return held

    def _happened(self, change: _Change) -> bool | None:
        """Return whether the log has a change; None while it may still get it."""
        openings = 0
        try:
            for event in self._library.events(
                change.session, change.after + 1, types={"frame", "opened"}, reverse=True
            ):
                if event.data.get(_SHARED) == change.token:
                    return True
                # Once another writer has opened the session, the announced event can no longer come.
                openings += event.type == "opened"
        except NotFound:
            return False
        return False if openings >= _OPENINGS else None
