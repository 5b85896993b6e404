"""The loop of a chat: read a line, answer it or obey it, again."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.agent import EXIT_WORDS, fork_seq, offered_commands, plain_text, read_command
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE, explain, suggestion, tell
from holdfast.apps.cli._summary import print_conversation, print_header
from holdfast.apps.cli._talk import Talker
from holdfast.apps.cli.chat import Wishes, standard_input
from holdfast.apps.history import InputHistory
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import ago
from holdfast.errors import HoldfastError, UsageError
from holdfast.replay import is_complete
from holdfast.session import Session, now_ms

if TYPE_CHECKING:
    from holdfast.agent import PermissionRequest

_SHOWN_EVENTS = 40
_ANSWERS = {"y": "once", "yes": "once", "s": "session", "a": "always"}


class Chat:
    """A conversation at a terminal, or through a pipe: then each line is one message."""

    def __init__(self, app: App, wishes: Wishes) -> None:
        self.app = app
        self.is_over = False
        self.has_failed = False
        self.is_terminal = sys.stdin.isatty() and app.out.is_terminal
        self.talker = Talker(app, wishes, self._permit if self.is_terminal else None)
        self._reader = PromptReader(InputHistory(), [f"/{name}" for name in COMMANDS])

    @property
    def session_id(self) -> str | None:
        """The id of the current session, if it has begun."""
        return None if self.talker.session is None else self.talker.session.id

    def run(self) -> int:
        """Chat until the end; the exit code."""
        try:
            self.app.err.line(Span(self.talker.choice.explain(), "faint"))
            self.greet()
            if self.is_terminal:
                self.app.err.line(Span("/help lists the commands, /exit leaves.", "faint"))
            for line in self._lines():
                self._take(line)
                if self.is_over:
                    break
        finally:
            # Asked before: what is closed has no session any more.
            session_id = self.session_id
            self.talker.close()
        if self.is_terminal and session_id is not None:
            kept = Span(" is kept; `holdfast chat` goes on with it.", "faint")
            self.app.err.line(Span("Session ", "faint"), Span(session_id, "name"), kept)
        return EXIT_FAILED if self.has_failed and not self.is_terminal else EXIT_FINE

    def greet(self) -> None:
        """Say which session this is, and show the last of it."""
        self.talker.tell_session()
        session = self.talker.session
        if session is None or not session.restored:
            return
        if self.is_terminal:
            start = max(0, session.seq - _SHOWN_EVENTS)
            if start:
                self.app.out.line(Span("  … earlier: /history", "faint"))
            print_conversation(self.app, self.app.library.events(session.id, start), full=False, first=start)
            self.app.out.line()
        # A crash leaves a question without an answer, or a call without a result.
        messages, state = session.messages(), session.live_state
        if messages and (state.unfinished or not is_complete(messages)):
            what = "failed" if state.status == "failed" else "was interrupted"
            self.app.err.line(Span(f"The last answer {what}. /continue goes on with it.", "warning"))

    def say(self, text: str | None) -> None:
        """Give the agent a message, or let it go on, and show what it says."""
        try:
            result = self.talker.answer(text)
        except KeyboardInterrupt:
            self.app.err.line(Span("(stopped; what was said is kept)", "warning"))
            return
        if result.suspended is not None:
            self.app.err.line(Span("The agent waits for someone.", "warning"))
        if self.is_terminal:
            self.app.out.line()

    def confirm(self, question: str) -> bool:
        """Whether the user says yes; without a terminal nobody does."""
        return self.is_terminal and self._ask(f"{question} [y/N] ") in ("y", "yes")

    # -- inside ------------------------------------------------------------------------------
    def _lines(self) -> Iterator[str]:
        piped = standard_input()
        while True:
            try:
                if self.is_terminal:
                    yield self._reader.read("you> ")
                elif line := piped.readline():
                    yield line.rstrip("\n")
                else:
                    return
            except EOFError:
                self.app.out.line()
                return
            except KeyboardInterrupt:
                self.app.out.line()
                self.app.err.line(Span("(/exit or Ctrl-D leaves)", "faint"))

    def _take(self, line: str) -> None:
        text = plain_text(line).strip()
        if not text:
            return
        if text in EXIT_WORDS:
            self.is_over = True
            return
        try:
            command = read_command(text)
            if command is not None:
                obey(self, *command)
            else:
                # Two slashes say one: the way out for a message that begins with a slash.
                self.say(text.removeprefix("/") if text.startswith("//") else text)
        except HoldfastError as error:
            self.has_failed = True
            failure = explain(error, waits=self.app.takes_wait)
            tell(self.app.err, Span("error: ", "bad"), failure.message, failure.remedy)

    def _permit(self, request: PermissionRequest) -> Any:
        """Ask whether a tool may be used."""
        self.app.out.end_stream()
        shown = ", ".join(f"{name}={value!r}" for name, value in request.args.items())
        self.app.err.line(Span("May the agent use ", "warning"), f"{request.tool}({shown})?")
        # While a question waits Ctrl-C answers it, rather than stopping the run behind it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            answer = self._ask("[y]es once, for this [s]ession, [a]lways, [N]o: ")
        finally:
            signal.signal(signal.SIGINT, before)
        return _ANSWERS.get(answer, False)

    def _ask(self, question: str) -> str:
        try:
            return input(question).strip().lower()
        except (EOFError, KeyboardInterrupt):
            self.app.out.line()
            return ""


# Lines that are typed at a prompt, with what was typed before.
class PromptReader:
    """Lines from a terminal: edited, with what was typed before on the arrow keys and Ctrl-R."""

    def __init__(self, history: InputHistory, words: list[str]) -> None:
        self._history = history
        self._words = words
        self._readline: Any = None
        try:
            import readline
        except ImportError:  # without it lines can still be typed
            return
        self._readline = readline
        # Answers to questions, such as whether a tool may run, are not what was said.
        readline.set_auto_history(False)
        readline.clear_history()
        for line in self._history.lines():
            readline.add_history(line)
        # A slash is a delimiter otherwise, and commands begin with one.
        readline.set_completer_delims(" ")
        readline.set_completer(self._complete)
        readline.parse_and_bind("tab: complete")

    def read(self, prompt: str) -> str:
        """Return the next line. Raises EOFError at the end and KeyboardInterrupt for Ctrl-C."""
        line = input(prompt)
        if self._history.add(line) and self._readline is not None:
            self._readline.add_history(line)
        return line

    def _complete(self, text: str, state: int) -> str | None:
        fitting = [word for word in self._words if text.startswith("/") and word.startswith(text)]
        return fitting[state] if state < len(fitting) else None


# The commands of a chat: what begins with a slash.
_LISTED = 20
_LIST = (Column(""), Column("ID"), Column("UPDATED"), Column("TITLE", flexible=True), Column("MSGS", right=True))


def obey(chat: Chat, name: str, rest: str) -> None:
    """Carry out a command. Raises UsageError for one that is not known."""
    if name not in COMMANDS:
        remedy = "/help lists them. To say something that begins with a slash, write two."
        raise UsageError(f"there is no command /{name}{suggestion(name, COMMANDS)}", remedy=remedy)
    if name in OWN:
        OWN[name](chat, rest)
        return
    act = COMMANDS[name].act
    assert act is not None
    for line in act(_session(chat), rest).splitlines():
        chat.app.out.line(line)


def _help(chat: Chat, _: str) -> None:
    width = max(len(f"{name} {command.takes}") for name, command in COMMANDS.items()) + 2
    for name, command in COMMANDS.items():
        shown = f"/{name} {command.takes}".ljust(width + 1)
        chat.app.out.line(Span(f"  {shown}", "name"), command.does)
    chat.app.out.line(Span("  Ctrl-C stops an answer, Ctrl-D leaves, Ctrl-R searches what you typed.", "faint"))


def _list(chat: Chat, _: str) -> None:
    rows = chat.app.library.list(limit=_LISTED, agent_id=chat.talker.agent_id)
    if not rows:
        chat.app.out.line("There are no sessions yet.")
        return
    now, current = now_ms(), chat.session_id
    table: list[list[Piece]] = []
    for row in rows:
        mark, when = "*" if row.session_id == current else "", Span(ago(row.updated_at, now), "faint")
        table.append([mark, Span(row.session_id, "name"), when, row.title or "", str(row.message_count)])
    chat.app.out.table(_LIST, table)


def _load(chat: Chat, rest: str) -> None:
    if not rest:
        raise UsageError("/load needs the id of a session", remedy="/list shows them.")
    chat.talker.switch(choose(chat.app.library, rest))
    chat.greet()


def _new(chat: Chat, _: str) -> None:
    chat.talker.begin()
    chat.talker.tell_session()


def _fork(chat: Chat, rest: str) -> None:
    """Go on in a fork; with a number, from that event on."""
    seq = fork_seq(rest)
    chat.talker.switch(chat.app.library.fork(_session(chat).id, seq))
    chat.greet()


def _info(chat: Chat, _: str) -> None:
    print_header(chat.app, chat.app.library.info(_session(chat).id), None)
    chat.app.out.line(Span(f"  {chat.talker.choice.explain()}", "faint"))


def _history(chat: Chat, _: str) -> None:
    print_conversation(chat.app, chat.app.library.events(_session(chat).id), full=True)
    chat.app.out.line()


def _export(chat: Chat, rest: str) -> None:
    """``/export [FILE]``: the format by the file's name; without one, a file named after the id."""
    from holdfast.apps.cli.export import format_by_name

    session = _session(chat)
    path = rest or f"{session.id}.md"
    chat.app.library.export(session.id, format_by_name(path), to=path)
    chat.app.out.line("wrote ", Span(path, "name"))


def _delete(chat: Chat, rest: str) -> None:
    wanted = choose(chat.app.library, rest) if rest else _session(chat).id
    if not chat.confirm(f"Put session {wanted} into the trash?"):
        chat.app.out.line("Nothing was deleted.")
        return
    # A session that is open cannot be deleted.
    if wanted == chat.session_id:
        chat.talker.begin()
    chat.app.library.delete(wanted)
    chat.app.out.line("deleted ", Span(wanted, "name"))
    chat.app.out.line(Span(f"  Bring it back with: holdfast undelete {wanted}", "faint"))


def _exit(chat: Chat, _: str) -> None:
    chat.is_over = True


def _session(chat: Chat) -> Session:
    session = chat.talker.session
    if session is None:
        raise UsageError("there is no session yet", remedy="It begins with the first thing you say.")
    return session


OWN: dict[str, Callable[[Chat, str], None]] = {
    "list": _list,
    "load": _load,
    "new": _new,
    "fork": _fork,
    "info": _info,
    "history": _history,
    "export": _export,
    "continue": lambda chat, _: chat.say(None),
    "delete": _delete,
    "help": _help,
    "exit": _exit,
}
COMMANDS = offered_commands(OWN)
