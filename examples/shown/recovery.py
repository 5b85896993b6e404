"""Ten ways in which a conversation breaks, and what every provider then accepts.

Shows S3-66:

    python examples/shown/recovery.py
"""

from __future__ import annotations

from typing import Any

from holdfast import sanitize, validate

Message = dict[str, Any]


def user(content: Any) -> Message:
    """What a user says, or the results of tools."""
    return {"role": "user", "content": content}


def assistant(*blocks: Message) -> Message:
    """What a model says and calls."""
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Message:
    """Words."""
    return {"type": "text", "text": words}


def call(name: str) -> Message:
    """A tool that is asked for."""
    return {"type": "tool_use", "id": name, "name": "look", "input": {}}


def result(name: str) -> Message:
    """What a tool gave."""
    return {"type": "tool_result", "tool_use_id": name, "content": "seen"}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
ASKED, SAID = user("Look around."), assistant(text("Done."))
PAIR = [assistant(call("a")), user([result("a")])]
SCENARIOS: dict[str, list[Any]] = {
    "empty": [],
    "a call without a result at the end": [ASKED, assistant(text("I look."), call("a"))],
    "a call without a result in the middle": [ASKED, assistant(call("a")), user("And?"), SAID],
    "a result without a call": [ASKED, SAID, user([result("a")])],
    "a pair, then a call without a result": [ASKED, *PAIR, assistant(call("b"))],
    "half of a parallel step": [ASKED, assistant(call("a"), call("b")), user([result("b")])],
    "what is no message": [ASKED, None, {"role": "king", "content": "x"}, 5, SAID],
    "words alone": [ASKED, SAID, user("More."), assistant(text("Yes."))],
    "thinking": [ASKED, assistant(THOUGHT, call("a")), user([result("a")]), SAID],
    "complete pairs": [ASKED, *PAIR, SAID],
}


def main() -> None:
    """One line for each: how many messages came out of how many, and why some went."""
    for number, (name, messages) in enumerate(SCENARIOS.items(), 1):
        mended = sanitize(messages)
        assert validate(mended.messages).valid
        why = ", ".join(sorted({issue.type for issue in mended.issues})) or "untouched"
        print(f"{number:2} {name}: {len(messages)} -> {len(mended.messages)}, valid ({why})")


if __name__ == "__main__":
    main()
