"""Small screens that ask for one thing. Escape leaves each without an answer: None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, SelectionList, Static, TextArea
from textual.widgets.selection_list import Selection

from holdfast.apps.render.markdown import paragraphs
from holdfast.apps.tui._safe import content
from holdfast.apps.tui._widgets import TextLine
from holdfast.errors import UsageError


class _Dialog(ModalScreen[str | None]):
    DEFAULT_CSS = """
    _Dialog { align: center middle; }
    _Dialog > Vertical {
        width: 72; max-width: 94%; height: auto; max-height: 90%;
        border: round $accent; background: $surface; padding: 1 2;
        border-subtitle-color: $faint;
    }
    _Dialog Input, _Dialog Input:focus { border: round $primary; background: $surface; }
    _Dialog OptionList, _Dialog SelectionList { max-height: 14; }
    _Dialog OptionList, _Dialog OptionList:focus { border: none; background: $surface; padding: 0; }
    _Dialog .question { text-style: bold; margin-bottom: 1; height: auto; }
    _Dialog .detail { height: auto; max-height: 10; margin-bottom: 1; }
    _Dialog .buttons { height: auto; align-horizontal: left; }
    _Dialog Button { margin-right: 1; min-width: 8; }
    """
    AUTO_FOCUS = "Input, Button, OptionList, SelectionList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    KEYS = ""

    def __init__(self, question: str, detail: str = "") -> None:
        super().__init__()
        self._question = question
        self._detail = detail

    def compose(self) -> ComposeResult:
        with Vertical() as frame:
            frame.border_subtitle = self.KEYS
            yield Static(content(self._question), classes="question")
            if self._detail:
                with VerticalScroll(classes="detail"):
                    yield Static(content(self._detail))
            yield from self.answers()

    def answers(self) -> ComposeResult:
        """Yield the widgets below the question."""
        raise NotImplementedError

    def action_leave(self) -> None:
        self.dismiss(None)


class Prompt(_Dialog):
    """Asks for a line of text."""

    KEYS = "Enter accepts · Esc leaves"

    def __init__(self, question: str, value: str = "", detail: str = "") -> None:
        super().__init__(question, detail)
        self._value = value

    def answers(self) -> ComposeResult:
        yield TextLine(value=self._value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class Sheet(_Dialog):
    """Asks for a text of several lines, which may be changed."""

    AUTO_FOCUS = "TextArea"
    KEYS = "Ctrl+S accepts · Esc leaves"
    DEFAULT_CSS = """
    Sheet TextArea { height: 14; border: round $primary; background: $surface; }
    Sheet #fault { height: auto; color: $error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "accept", "Accept", priority=True)]

    def __init__(self, question: str, value: str, check: Callable[[str], object]) -> None:
        """``check`` raises UsageError for a text that cannot be accepted: it stays, with the reason below it."""
        super().__init__(question)
        self._value = value
        self._check = check

    def answers(self) -> ComposeResult:
        yield TextArea(paragraphs(self._value))
        yield Static(id="fault")

    def action_accept(self) -> None:
        """Accept the text."""
        area = self.query_one(TextArea)
        try:
            self._check(area.text)
        except UsageError as error:
            self.query_one("#fault", Static).update(content(error.message))
            if error.line is not None:
                area.move_cursor((error.line - 1, error.column - 1))
        else:
            self.dismiss(area.text)


class Buttons(_Dialog):
    """Asks for one of a few answers, each with a key: ``("y", "Yes, once", "once")``."""

    KEYS = "a key, or ← → and Enter · Esc leaves"

    def __init__(self, question: str, answers: Sequence[tuple[str, str, str]], detail: str = "") -> None:
        super().__init__(question, detail)
        self._answers = {key: answer for key, _, answer in answers}
        self._labels = [(key, label) for key, label, _ in answers]

    def answers(self) -> ComposeResult:
        with Horizontal(classes="buttons"):
            for key, label in self._labels:
                yield Button(Content(f"{label} ({key})"), id=f"answer-{key}")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(self._answers[(event.button.id or "").removeprefix("answer-")])

    def key_left(self) -> None:
        self.focus_previous()

    def key_right(self) -> None:
        self.focus_next()

    def on_key(self, event: events.Key) -> None:
        """Answer if the key stands for an answer."""
        # Keys rise up to here from whatever has the focus.
        if event.key in self._answers:
            event.stop()
            event.prevent_default()
            self.dismiss(self._answers[event.key])


class Pick(_Dialog):
    """Asks for one of a list: pairs of what is returned and what is shown."""

    KEYS = "↑ ↓ and Enter · Esc leaves"

    def __init__(self, question: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__(question)
        self._choices = list(choices)

    def answers(self) -> ComposeResult:
        yield OptionList(*(content(label) for _, label in self._choices))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index][0])


class Choose(Pick):
    """Asks for some of a list, at first for all of them; gives their keys with a blank between."""

    KEYS = "Space chooses · Enter accepts · Esc leaves"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "accept", "Accept", priority=True)]

    def answers(self) -> ComposeResult:
        yield SelectionList[str](*(Selection(content(label), key, initial_state=True) for key, label in self._choices))

    def action_accept(self) -> None:
        """Close with the chosen entries, in the order of the list."""
        chosen = set(self.query_one(SelectionList).selected)
        self.dismiss(" ".join(key for key, _ in self._choices if key in chosen))
