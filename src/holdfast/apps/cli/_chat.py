"""The loop of a chat: read a line, answer it or obey it, again."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from holdfast.agent import EXIT_WORDS, can_go_on, plain_text, read_command
from holdfast.apps.cli._answer import AnswerView, Theme, shortened
from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE, explain, tell
from holdfast.apps.cli._screen import wants_colour
from holdfast.apps.cli._slash import COMMANDS, Choice, is_asked, obey
from holdfast.apps.cli._summary import print_conversation
from holdfast.apps.cli._talk import Talker, Typing
from holdfast.apps.cli.chat import Wishes, echo, somebody_types, standard_input
from holdfast.apps.history import InputHistory
from holdfast.apps.render.page import Span
from holdfast.apps.render.questions import as_sentence, person
from holdfast.apps.render.words import ago, price, short
from holdfast.errors import HoldfastError, ModelFailed, UsageError
from holdfast.replay import Entry, read_transcript
from holdfast.security import neutralise
from holdfast.session import Result, Session, Waiting, is_due, now_ms
from holdfast.storage import Folder

_PASTE_S = 0.03
_LOOK_S = 1.0
_FILE_BYTES_MAX = 1024 * 1024
_PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
_PICTURES |= {".webp": "image/webp"}
_FILE = re.compile(r'(?<![^\s(])@(?:"([^"\n]+)"|(\S+))')
_MARKS = ",.;:!?)'\""  # what may follow the name of a file in a sentence
_CONTEXT = ("input_tokens", "output_tokens")
_ANSWERS = {"y": "once", "yes": "once", "s": "session", "a": "always"}
_DECISIONS = (*_ANSWERS, "n", "no")
_ASKED = "[y]es once, for [s]ession, [a]lways, [n]o"


class Chat:
    """A conversation at a terminal, or through a pipe: then each line is one message."""

    def __init__(self, app: App, wishes: Wishes) -> None:
        self.app = app
        self.is_over = False
        self.has_failed = False
        self.is_terminal = somebody_types(app)
        self.draws = self.is_terminal and app.out.is_terminal and _may_draw(app, wishes)
        self.theme = Theme(wants_colour(app.out.colour, is_terminal=True), not (wishes.light or _is_light()))
        self.talker = Talker(app, wishes, "suspend" if self.is_terminal else None, late=self.is_terminal)
        self.gone_back: list[str] = []
        """The sessions that /back left, for /undo."""
        self._view: AnswerView | None = None
        self._is_apart = False  # whether what was told last has an empty line below it
        self._context, self._cost = 0, ""  # of the last answer, and of the session
        self._history = InputHistory()
        self._read = self._reader()
        self._typing = Typing(keys=self.draws, keep=self._history.add) if self.is_terminal else None
        self.talker.typing = self._typing

    @property
    def session_id(self) -> str | None:
        """The id of the current session, if it has begun."""
        return None if self.talker.session is None else self.talker.session.id

    def run(self) -> int:
        """Chat until the end; the exit code."""
        try:
            choice = self.talker.choice
            self.app.err.line(Span(choice.explain_briefly() if self.draws else choice.explain(), "faint"))
            self.greet()
            if self.is_terminal:
                self.talker.prepare()
            for line in self._lines():
                self._take(line)
                if self.is_over:
                    break
        finally:
            # Read before: a closed chat has no session any more.
            session_id = self.session_id
            name = "" if session_id is None else self.app.name(session_id)
            self.talker.close()
        if self.is_terminal and session_id is not None:
            kept = Span(" is saved; `holdfast chat` continues it.", "faint")
            self.app.err.line(Span("Session ", "faint"), name, kept)
        return EXIT_FAILED if self.has_failed and not self.is_terminal else EXIT_FINE

    def greet(self) -> None:
        """Say which session this is, and show the last of it."""
        self.talker.tell_session()
        self._part()
        self._is_apart = True
        session = self.talker.session
        if session is None or not session.restored:
            return
        if self.is_terminal:
            start = _last_turn(self.app, session)
            if start > 1:
                self.app.out.line(Span("… earlier: /history", "faint"))
                self._part()
            events = self.app.library.events(session.id, start)
            if self.draws:
                self.show(read_transcript(events, start), {ask.call for ask in session.live_state.asks.values()})
            else:
                print_conversation(self.app, events, full=False, first=start)
                self.app.out.line()
        state = session.live_state
        if self.is_terminal and state.asks:
            ready = is_due(session)
            told = "⟲ answered: Enter goes on" if ready else "⏸ a call waits for an answer: Enter shows it"
            self.app.err.line(Span(told, "warning"))
            self._part()
        # A crash leaves a question without an answer, or a call without a result.
        elif can_go_on(session):
            what = "failed" if state.status == "failed" else "was interrupted"
            told = f"The last answer {what}. /continue finishes it."
            if self.is_terminal:
                when = ago(state.updated_at, now_ms())
                told = f"⟲ {what.removeprefix('was ')} {when}: Enter goes on"
            self.app.err.line(Span(told, "warning"))
            self._part()

    def show(self, entries: Iterable[Entry], waiting: Container[str | None] = ()) -> None:
        """Draw what was said, as it looked when it was said; ``waiting`` are calls that an answer is awaited for."""
        view = AnswerView(self.app.out.beside, self.theme)
        for entry in entries:
            if entry.kind == "user":
                view.asked(entry.text)
            elif entry.kind == "assistant":
                view.said(entry.text)
            elif entry.kind == "call":
                view.called(entry.id or "", entry.name, entry.value, entry.timestamp)
            elif entry.kind in ("result", "failure"):
                is_failed = entry.kind == "failure"
                view.ends(entry.id or "", entry.text, failed=is_failed, at=entry.timestamp, since=entry.since)
            elif entry.kind == "note":
                told = f"{entry.name}: {entry.text}" if entry.text else entry.name
                view.lines([f"· {line}" for line in neutralise(told).split("\n")])
        view.cut(waiting)
        view.end()

    def say(self, text: str | list[dict[str, Any]] | None) -> None:
        """Give the agent a message, or let it go on, and show what it says."""
        self._is_apart = self.draws
        try:
            if text is None and not self._ask_waiting():
                return
            result = self.talker.answer(text, self._view)
            while self.is_terminal and result.waiting and self._ask_waiting():
                result = self.talker.answer(None, self._view)
            self.talker.tell_pause(result)
        except KeyboardInterrupt:
            self.app.err.line(Span("(stopped; what was said is kept)", "warning"))
            self._part()
            return
        if result.pause:
            self._part()
        if self.is_terminal and not self.draws:
            self.app.out.line()

    def confirm(self, question: str) -> bool:
        """Return whether the user says yes; without a terminal the answer is no."""
        return self.is_terminal and self._ask(f"{question} [y/N] ").lower() in ("y", "yes")

    def choose(self, question: str, rows: list[Choice]) -> int | None:
        """Return the place of what the user chooses, counted from 0; None for nothing, or where nobody is there."""
        if self.draws:
            from holdfast.apps.cli._prompt import pick

            return pick(question, rows, colour=self.theme.colour)
        for number, row in enumerate(rows, 1):
            self.app.out.line(Span(f"{number:>2} ", "name"), row.words, Span(f"  {row.about}", "faint"), hang=3)
            if row.preview:
                self.app.out.line(Span(f"   {shortened(row.preview()[0], self.app.out.columns - 3)}", "faint"))
        answer = self._ask(f"{question} (its number) ") if self.is_terminal else ""
        return int(answer) - 1 if answer.isdecimal() and 1 <= int(answer) <= len(rows) else None

    def cost(self) -> float | None:
        """The cost of the session, by the list of prices where the provider does not report one; None if unknown."""
        session = self.talker.session
        if session is None or not session.live_state.usage.by_model:
            return None
        return self.app.library.info(session.id).cost

    # -- inside ------------------------------------------------------------------------------
    def _lines(self) -> Iterator[str]:
        piped = standard_input()
        while True:
            try:
                if self._typing is not None:
                    yield self._next_typed(self._typing)
                elif line := piped.readline():
                    yield line.rstrip("\n")
                else:
                    return
            except EOFError:
                self.app.out.line()
                return
            except KeyboardInterrupt:
                self.app.out.line()
                self.app.err.line(Span("(Ctrl-D or /exit to leave)", "faint"))

    def _next_typed(self, typing: Typing) -> str:
        """Return the next line of a terminal: first what was typed during the last answer."""
        if typing.held:
            if not self.draws:
                self.app.out.line(Span(f"› {typing.held[0]}", "faint"))
            return typing.held.pop(0)
        begun, typing.begun = typing.begun, ""
        self._context, self._cost = self._read_context(), price(self.cost())
        return self._read(begun)

    def _take(self, line: str) -> None:
        text = plain_text(line).strip()
        if not text:
            session = self.talker.session
            if not self.is_terminal or session is None or not (session.live_state.asks or can_go_on(session)):
                return
            text = "/continue"
        if text in EXIT_WORDS:
            self.is_over = True
            return
        if self.draws:
            self._view = AnswerView(self.app.out.beside, self.theme)
            self._view.asked(text)
        try:
            command = read_command(text)
            if command is not None:
                self._is_apart = False
                obey(self, *command)
                if not self._is_apart:
                    self._part()
            else:
                # Two slashes say one: the way out for a message that begins with a slash.
                self.say(with_files(text.removeprefix("/") if text.startswith("//") else text))
        except HoldfastError as error:
            self.has_failed = True
            failure = explain(error, waits=self.app.takes_wait)
            is_own = isinstance(error, UsageError) and error.remedy == UsageError.remedy
            remedy = "/help lists the commands." if is_own else failure.remedy
            again = "\nPress Enter to try again." if isinstance(error, ModelFailed) and self.is_terminal else ""
            tell(self.app.err, Span("error: ", "bad"), failure.message, remedy + again)
            self._part()

    def _part(self) -> None:
        """Set what comes next apart from what was told."""
        if self.draws and not self.is_over:
            self.app.err.line()

    def _reader(self) -> Callable[[str], str]:
        """Return the function that reads a message at a terminal."""
        if not self.draws:
            return ReadlinePrompt(self._history, [f"/{name}" for name in COMMANDS]).read
        from holdfast.apps.cli._prompt import PromptReader

        words = {name: command.does for name, command in COMMANDS.items()}
        return PromptReader(self._history, words, self._status, colour=self.theme.colour).read

    def _status(self) -> str:
        """Return the line below the prompt: model, tokens, cost, context, title."""
        session = self.talker.session
        parts = [self.talker.choice.name or "the server's model"]
        if session is not None:
            usage = session.live_state.usage
            spent = usage.input_tokens + usage.output_tokens
            # The guide counts no tokens, and costs nothing.
            if spent:
                parts += [f"{short(spent)} tokens", self._cost, f"context {short(self._context)}"]
            parts.append(session.title or "")
        line, columns = "  ·  ".join(filter(None, parts)), self.app.out.columns
        if len(line) > columns:
            # The provider says least.
            line = line.removeprefix(f"{parts[0].partition(':')[0]}:").replace("  ·  ", " · ")
        return shortened(line, columns)

    def _read_context(self) -> int:
        """Return the number of tokens of the last answer and its whole context."""
        if self.session_id is None:
            return 0
        last = self.app.library.events(self.session_id, types=["assistant"], reverse=True, limit=1)
        usage = next((event.data.get("usage") for event in last), None)
        found = usage if isinstance(usage, dict) else {}
        return sum(int(found.get(name) or 0) for name in _CONTEXT)

    def _ask_waiting(self) -> bool:
        """Ask about the calls that wait; whether the session can go on."""
        session, library = self.talker.session, self.app.library
        if session is None or not session.live_state.asks or not self.is_terminal:
            return True
        for one in library.waiting(session=session.id):
            if one.kind not in ("permission", "input"):
                self.app.err.line(Span(as_sentence(one), "warning"))
                continue
            is_asked = one.kind == "input"
            offered = f"{'Your answer' if is_asked else _ASKED} (Enter: later): "
            said = self._ask_about(one, offered)
            if not said or not (is_asked or said.lower() in _DECISIONS):
                continue
            given = Result(said) if is_asked else said.lower() in _ANSWERS
            scope = _ANSWERS.get(said.lower(), "once")
            with contextlib.suppress(UsageError):  # somebody else was quicker: then that counts
                library.answer(one.id, given, by=person(), via="cli", scope=scope, session_id=session.id)
            if scope != "once":
                break  # it may hold for the others too
        return is_due(session)

    def _ask_about(self, one: Waiting, answers: str) -> str:
        """Ask somebody at the terminal about a call, and return what was typed, if anything."""
        args = one.args if isinstance(one.args, dict) else {}
        if one.reason:
            self.app.err.line(Span(f"{one.tool}: {one.reason}", "warning"))
        if self._view is not None:
            self._view.asks(one.tool, args, answers)
        else:
            self.app.out.end_stream()
            shown = ", ".join(f"{name}={value!r}" for name, value in args.items())
            self.app.err.line(Span("May the agent use ", "warning"), f"{one.tool}({shown})?")
        # While a question waits Ctrl-C answers it, rather than stopping the run behind it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with contextlib.nullcontext() if self._typing is None else self._typing.paused():
                return self._ask(answers, one)
        finally:
            signal.signal(signal.SIGINT, before)
            if self._view is not None:
                self._view.answered()

    def _ask(self, question: str, about: Waiting | None = None) -> str:
        echo(on=True)
        try:
            return (input(question) if about is None else self._typed(question, about)).strip()
        except (EOFError, KeyboardInterrupt):
            self.app.out.line()
            return ""
        finally:
            if self.draws:
                echo(on=False)

    def _typed(self, question: str, about: Waiting) -> str:
        """Return the next line of the terminal; nothing if the question is answered elsewhere before one comes."""
        sys.stdout.write(question)
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], _LOOK_S)[0]:
            # Others answer in the store, which tells nobody.
            if not any(one.id == about.id for one in self.app.library.waiting(session=about.session_id)):
                self.app.err.line("\n", Span("answered elsewhere", "warning"))
                return ""
        return sys.stdin.readline()


def _may_draw(app: App, wishes: Wishes) -> bool:
    """Return whether to draw on the terminal: not for a screen reader, nor with NO_COLOR unless --color says so."""
    return not wishes.plain and (not os.environ.get("NO_COLOR") or app.out.colour in ("always", "never"))


def _is_light() -> bool:
    """Return whether the terminal reports a light background, as some do: ``COLORFGBG=0;15``."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def _last_turn(app: App, session: Session) -> int:
    """Return where the last message of a person is in the log."""
    for event in app.library.events(session.id, types=["user"], reverse=True):
        if is_asked(event):
            return event.seq
    return 0


class ReadlinePrompt:
    """A prompt of one line where nothing may be drawn: history on the arrow keys and Ctrl-R, completion on Tab."""

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

    def read(self, begun: str = "") -> str:
        """Return the next message. Raises EOFError at the end and KeyboardInterrupt for Ctrl-C."""
        echo(on=True)
        line = begun + input(f"you> {begun}")
        # Pasted text comes at once: its lines are one message.
        while select.select([sys.stdin], [], [], _PASTE_S)[0] and (more := sys.stdin.readline()):
            line += "\n" + more.rstrip("\n")
        if "\n" not in line and self._history.add(line) and self._readline is not None:
            self._readline.add_history(line)
        return line

    def _complete(self, text: str, state: int) -> str | None:
        fitting = [word for word in self._words if text.startswith("/") and word.startswith(text)]
        return fitting[state] if state < len(fitting) else None


def with_files(text: str) -> str | list[dict[str, Any]]:
    """Return a message with the files that it names as ``@path``, as text or as pictures. Raises UsageError."""
    blocks: list[dict[str, Any]] = []
    for path in dict.fromkeys(quoted or _named(word) for quoted, word in _FILE.findall(text)):
        place, name = os.path.split(os.path.expanduser(path))
        if not os.path.isfile(os.path.join(place, name)):
            continue  # an address or a name of somebody: only what is a file is one
        data = Folder(place or ".").read(name, _FILE_BYTES_MAX)
        kind = _PICTURES.get(os.path.splitext(name)[1].lower())
        if kind is not None:
            source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
            blocks.append({"type": "image", "source": source})
            continue
        try:
            blocks.append({"type": "text", "text": f"{path}:\n{plain_text(data.decode())}"})
        except UnicodeDecodeError:
            raise UsageError(f"{path} is neither text nor a picture", remedy="Leave the @ out to name it.") from None
    return [{"type": "text", "text": text}, *blocks] if blocks else text


def _named(word: str) -> str:
    """Return the path in a word of a sentence: without the marks after it, unless they belong to the name."""
    return word if os.path.isfile(os.path.expanduser(word)) else word.rstrip(_MARKS)
