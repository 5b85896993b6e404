"""Questions that sessions wait for, in words: what a call would do, as a diff where it changes a text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.apps.render.words import day_time
from holdfast.errors import UsageError
from holdfast.replay import changed_lines
from holdfast.session import Edited, Result

if TYPE_CHECKING:
    from holdfast.session import Waiting

ANSWERED = {"allow": "Allowed", "edit": "Allowed with your arguments", "result": "Answered", "deny": "Denied"}
"""The word for an answer, by its decision."""
_LINES_MAX = 2_000
_PATCHES = ("patch", "diff")
_CONTENTS = ("content", "contents", "file_text", "text")
_PATHS = ("path", "file_path", "filename", "file", "uri")


class QuestionView(NamedTuple):
    """A question as people look at it before they answer."""

    one: Waiting
    beside: dict[str, Any]
    """The arguments that are no part of the change, or all of them."""
    lines: list[str]
    """The lines of a diff: each begins with ``-``, ``+`` or a blank; ``…`` stands for omitted lines."""
    is_cut: bool = False

    @property
    def has_args(self) -> bool:
        """Return whether the arguments can be read here, and so be edited."""
        return isinstance(self.one.args, dict)

    @property
    def is_asked(self) -> bool:
        """Return whether a person is asked, and not the clock or a webhook."""
        return self.one.kind not in ("time", "event")


def view_of(one: Waiting) -> QuestionView:
    """Return a question with the change that its call would make to a text, if it would."""
    args = one.args if isinstance(one.args, dict) else {}
    beside, lines = change_of(args)
    return QuestionView(one, beside, lines[:_LINES_MAX], len(lines) > _LINES_MAX)


def change_of(args: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments of a call beside the change that it would make to a text, and the lines of the change."""
    if found := changed_lines(args):
        return found
    edits = args.get("edits")
    if isinstance(edits, list) and edits and all(changed_lines(edit) for edit in edits):
        parts = [change for edit in edits if (change := changed_lines(edit))]
        lines = [line for number, (_, some) in enumerate(parts) for line in ([] if number == 0 else ["…"]) + some]
        return {name: value for name, value in args.items() if name != "edits"}, lines
    for name in _PATCHES:
        if isinstance(text := args.get(name), str):
            return {key: value for key, value in args.items() if key != name}, text.splitlines()
    # A file as a whole: what it holds now is known where the tool runs, which may be another machine.
    if any(isinstance(args.get(name), str) for name in _PATHS):
        for name in _CONTENTS:
            if isinstance(text := args.get(name), str):
                rest = {key: value for key, value in args.items() if key != name}
                return rest, [f"+{line}" for line in text.splitlines()]
    return args, []


def as_sentence(one: Waiting) -> str:
    """Return what is waited for, in a line."""
    if one.until is not None:
        return f"{one.tool or 'the session'}: until {day_time(one.until)}"
    if one.event is not None:
        return f"{one.tool}: the event {one.event}"
    args = "" if one.args is None else json.dumps(one.args, ensure_ascii=False)
    return f"{one.tool}({args})" + (f": {one.reason}" if one.reason else "")


def as_editable(args: Any) -> str:
    """Return arguments as a text that a person changes, and ``read_edited`` reads."""
    return json.dumps(args, indent=2, ensure_ascii=False)


def read_edited(text: str) -> Edited:
    """Return the arguments that a person wrote. Raises UsageError."""
    try:
        changed = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = {"line": error.lineno, "column": error.colno} if isinstance(error, json.JSONDecodeError) else {}
        told = f"the arguments are not valid JSON: {error}"
        raise UsageError(told, remedy="Correct them and answer again.", **place) from None
    if not isinstance(changed, dict):
        raise UsageError("the arguments are no JSON object", remedy='Write them as {"name": value}.')
    return Edited(changed)


def read_said(one: Waiting, word: str, text: str = "") -> Any:
    """Return the answer that a button and a text stand for: ``allow``, ``deny``, ``edit`` or ``result``."""
    if word == "edit":
        return read_edited(text)
    # If a tool asks for something, the input is its result.
    if word == "result" and one.kind == "input":
        return Result(text)
    if word in ("allow", "deny"):
        return word == "allow"
    raise UsageError(f"{word[:40]!a} is no answer to this question")


def decided(decision: str, args: Any = None, result: Any = None) -> Any:
    """Return the answer that a program gives by names: allow, deny, edit with ``args``, result. Raises UsageError."""
    if decision == "edit":
        if not isinstance(args, dict):
            raise UsageError("edit needs the arguments of the call", remedy="Give all of them, by name.")
        return Edited(args)
    return Result(result) if decision == "result" else decision == "allow"


def person() -> str:
    """Return by whom an answer at this machine is."""
    try:
        from getpass import getuser

        return getuser()
    except (KeyError, OSError, ImportError):  # an account without a name, as containers have
        return "user"
