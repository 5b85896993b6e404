"""What every part of the main screen knows of the others."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from textual.screen import Screen

from holdfast.apps.tui._conversation import Conversation
from holdfast.apps.tui._session_list import SessionList
from holdfast.model import SessionMetadata

if TYPE_CHECKING:
    from holdfast.apps.tui._app import SessionsApp

SLOW_S = 0.4  # after which one is told that something is under way


class MainParts(Screen[None]):
    """The list, the conversation, and which session is meant; parts of the screen build on it."""

    under_way = 0
    """How many actions were asked for and are not done yet."""

    if TYPE_CHECKING:

        @property
        def app(self) -> SessionsApp:  # type: ignore[override]  # no other app has this screen
            """The app that this screen is made for."""

    @property
    def sessions(self) -> SessionList:
        """The list."""
        return self.query_one("#sessions", SessionList)

    @property
    def conversation(self) -> Conversation:
        """What is read."""
        return self.query_one("#conversation", Conversation)

    @property
    def chosen(self) -> SessionMetadata | None:
        """The session that actions are about: the one that is read, else that under the cursor."""
        id = self.conversation.session_id
        row = self.sessions.chosen
        if self.is_reading and id is not None and (row is None or row.session_id != id):
            return self.app.tracking.known.get(id) or SessionMetadata(session_id=id)
        return row

    @property
    def is_reading(self) -> bool:
        """Whether the conversation is what the user looks at."""
        return self.has_class("-reading")

    def tell(self, text: str) -> None:
        """Say what was done."""
        self.app.tell(text)

    def tell_failure(self, error: object) -> None:
        """Say what went wrong, and what to do about it."""
        self.app.tell_failure(error)

    @abstractmethod
    def read(self, session_id: str, at: int | None = None) -> None:
        """Show a session's conversation, at its end or around an event."""

    @abstractmethod
    def refresh_list(self) -> None:
        """Something was changed here: look again now."""

    @abstractmethod
    def leave_reading(self) -> None:
        """Back from the conversation to the list."""

    @abstractmethod
    def tell_heading(self) -> None:
        """Say above the conversation whose it is."""

    @abstractmethod
    def tell_status(self) -> None:
        """Say on the bottom line how things are."""
