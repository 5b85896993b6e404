"""What people call a session: its title, its tags, and the topics found in it.

Labels are events: each function opens the session, records, and closes it again. A session that
this process has open is used as it is. All raise NotFound, and Locked while another process has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.library import _finder, _sessions, _views
from holdfast.library._arguments import whole
from holdfast.library._core import Core

if TYPE_CHECKING:
    from holdfast.catalog import Topic
    from holdfast.session import Session


def title(core: Core, id: str, text: str | None = None) -> str | None:
    """The title of a session; with ``text`` it gets this one. Raises TooLarge."""
    if text is None:
        return _finder.info(core, id).title
    with _labelled(core, id) as session:
        session.title = text
        return session.title


def tag(core: Core, id: str, *tags: str) -> list[str]:
    """Add tags; all that the session then has. One that is there already changes nothing."""
    with _labelled(core, id) as session:
        session.tag(*tags)
        return list(session.tags)


def untag(core: Core, id: str, *tags: str) -> list[str]:
    """Take tags away; all that the session then has."""
    with _labelled(core, id) as session:
        session.untag(*tags)
        return list(session.tags)


def topics(core: Core, id: str, n: int = 3) -> list[Topic]:
    """The automatic tags of a session with the reason for each, the strongest first."""
    from holdfast.catalog import Tally
    from holdfast.catalog import topics as topics_of

    return topics_of(Tally().feed(_views.events(core, id)), whole("n", n))


def _labelled(core: Core, id: str) -> Session:
    core.stored(id)
    return _sessions.open_session(core, id, resume="always")


def set_metadata(core: Core, id: str, members: dict[str, Any]) -> None:
    """Record what is new of these members of a session's metadata."""
    with _labelled(core, id) as session:
        known = session.live_state.metadata
        if any(known.get(name) != value for name, value in members.items()):
            session.append("metadata", members)
