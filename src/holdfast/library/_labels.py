"""What people call a session: its title and tags, and that it must stay."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge, UsageError
from holdfast.library._arguments import whole
from holdfast.library._finder import Finding

if TYPE_CHECKING:
    from holdfast.catalog import Topic
    from holdfast.session import Session

_REASON_CHARS_MAX = 2_000


class Labels(Finding):
    """Labels are events: each method opens the session, records, and closes it again.

    A session that this process has open is used as it is. All raise NotFound if there is none, and
    Locked while another process has it.
    """

    if TYPE_CHECKING:

        def session(self, id: str | None = None, **options: Any) -> Session:
            """See :class:`Holdfast`."""

    def title(self, id: str, text: str | None = None) -> str | None:
        """The title of a session; with ``text`` it gets this one. Raises TooLarge."""
        if text is None:
            return self.info(id).title
        with self._labelled(id) as session:
            session.title = text
            return session.title

    def tag(self, id: str, *tags: str) -> builtins.list[str]:
        """Add tags; all that the session then has. One that is there already changes nothing.

        Raises UsageError for an empty one, TooLarge for one over ``limits.tag_chars_max``, and
        records none of them then.
        """
        with self._labelled(id) as session:
            session.tag(*tags)
            return builtins.list(session.tags)

    def untag(self, id: str, *tags: str) -> builtins.list[str]:
        """Take tags away; all that the session then has."""
        with self._labelled(id) as session:
            session.untag(*tags)
            return builtins.list(session.tags)

    def pin(self, id: str) -> None:
        """Let no policy archive or delete this session."""
        self._set_metadata(id, {"pinned": True})

    def unpin(self, id: str) -> None:
        """Let policies have their way with it again."""
        self._set_metadata(id, {"pinned": None})

    def hold(self, id: str, reason: str) -> None:
        """Put a session under legal hold: neither a policy nor a person can delete it.

        Raises UsageError without a reason, and TooLarge for one that is too long.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError("a legal hold needs a reason")
        if len(reason) > _REASON_CHARS_MAX:
            raise TooLarge(
                f"the reason has {len(reason):,} characters,"
                f" at most {_REASON_CHARS_MAX:,} are allowed",
                limit="reason",
            )
        self._set_metadata(id, {"legal_hold": reason})

    def release(self, id: str) -> None:
        """End a legal hold."""
        self._set_metadata(id, {"legal_hold": None})

    def topics(self, id: str, n: int = 3) -> builtins.list[Topic]:
        """The automatic tags of a session with the reason for each, the strongest first."""
        from holdfast.catalog import Tally, topics

        return topics(Tally().feed(self.events(id)), whole("n", n))

    def _labelled(self, id: str) -> Session:
        self._stored(id)
        return self.session(id, resume="always")

    def _set_metadata(self, id: str, members: dict[str, Any]) -> None:
        with self._labelled(id) as session:
            known = session.live_state.metadata
            if any(known.get(name) != value for name, value in members.items()):
                session.append("metadata", members)
