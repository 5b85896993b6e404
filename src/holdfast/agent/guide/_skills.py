"""The skills of the guide: one for each subject, tried in order.

A skill is a generator: it yields the tools that it wants used, is sent their results, and returns its words. It knows
only the conversation, so that the same conversation always gets the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sized
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from holdfast._lazy import lazy_pattern
from holdfast.agent.commands import COMMANDS
from holdfast.agent.guide._facts import asked_fact, facts_in, is_question, task_in
from holdfast.agent.guide._phrases import LANGUAGES, SAID_AGAIN, SMALL_TALK, TOPICS, WHO
from holdfast.replay import todo_line

_READ_CHARS_MAX = 2_000  # of a message: the request is at its beginning


class Use(NamedTuple):
    """A tool that a skill wants used."""

    tool: str
    args: dict[str, Any]


class Given(NamedTuple):
    """The result of a tool, as the conversation has it."""

    content: Any
    is_error: bool = False

    @property
    def text(self) -> str:
        """The result as a text."""
        if isinstance(self.content, list):
            return "".join(str(block.get("text", "")) for block in self.content if isinstance(block, dict))
        return str(self.content)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The result as the objects of a list; none if it is something else."""
        try:
            found = msgspec.json.decode(self.text)
        except msgspec.DecodeError:
            return []
        return [row for row in (found if isinstance(found, list) else [found]) if isinstance(row, dict)]

    @property
    def row(self) -> dict[str, Any]:
        """The result as one object; empty if it is something else."""
        return next(iter(self.rows), {})

    @property
    def message(self) -> str:
        """The reason why a tool failed."""
        text = str(self.row.get("message", self.text))
        return re.sub(r"^\w*(?:Error|NotFound): ", "", text).rstrip(".")[:200]


class Response(NamedTuple):
    """An answer, and the part of it that is said slowly."""

    text: str
    slow: str = ""


Answer = Generator[Use, Given, "Response | str"]


class Talk(NamedTuple):
    """The input of a skill: the message it answers, those before, and the available tools."""

    text: str
    earlier: tuple[str, ...]
    tools: frozenset[str]

    @property
    def has_met(self) -> bool:
        """True if there were messages before this one."""
        return bool(self.earlier)


def _hello(talk: Talk) -> str:
    if talk.has_met:
        return _led("Hello again. Everything you said here is still in the log.", talk)
    words = (
        f"Hello. {WHO} Everything we say is recorded as it is said, so you can stop me, close the terminal or kill"
        " the process, and we pick up where we left off."
    )
    return _led(words, talk)


def _abilities(talk: Talk) -> str:
    lines = [
        "Here is what I can do:",
        ("- **Remember what you tell me**: `My name is Alice`, `My train is at 9:11`. Then ask `What is my name?`"),
        "- **Keep a list of tasks**: `Remind me to call Bob`, `What are my tasks?`",
        *(
            ["- **Read files**, with your permission: `list files`, `read README.md`"]
            if "read_file" in talk.tools
            else []
        ),
        "- **Search earlier sessions**: `search train`",
        "- **Count what has been recorded**: `count`",
        "- **Ask for permission**: `call this session My trip`",
        "- **Survive a crash**: `kill` shows you how",
        "- **Explain**: `fork`, `go back`, `export`, `another model`, `waiting`, `sessions`, `delete`",
    ]
    return "\n".join(lines)


def _facts(talk: Talk) -> Answer:
    told = facts_in(talk.text)
    for key, value in told:
        if "remember" in talk.tools:
            yield Use("remember", {"key": key, "value": value})
    words = [f"“{value}”" if key == "note" else _said_again(key)[0].format(value) for key, value in told]
    ask = "What do you know about me?" if told[0].key == "note" else _said_again(told[0].key)[1]
    return (
        f"Noted: {', '.join(words)}. It is in the log of this session, with your own words and the time you said"
        f" them. Ask me `{ask}`, even after a restart."
    )


def _said_again(key: str) -> tuple[str, str, str]:
    clean = key.replace("{", "").replace("}", "")
    return SAID_AGAIN.get(key, (f"your {clean} is {{}}", f"What is my {clean}?", f"My {clean} is …"))


def _recall(talk: Talk) -> Answer:
    key = asked_fact(talk.text) or "name"
    told = (yield Use("look_up", {"about": key})).row
    again, _, example = _said_again(key)
    if not told.get("value"):
        # It may have been said in other words; and what stands behind “the” is no fact about anybody.
        said = (yield Use("find_said", {"question": talk.text[:_READ_CHARS_MAX]})).row
        if said.get("words") or _OF_NOBODY.search(talk.text):
            return _found(talk, said)
        what = f"your {key}" if "your" in again else f"where {again.removesuffix(' {}').removesuffix(' in')}"
        return f"You have not told me {what} yet, in this session or an earlier one. Say `{example}`, then ask again."
    where = f"in the session {told['session']}" if told.get("session") else f"event {told.get('event')} of this session"
    value = again.format(told["value"])
    words = f"{value[0].upper()}{value[1:]}. You said “{told.get('words')}” at {told.get('said_at')} ({where})."
    is_first = all(skill_for(text).name != "recall" for text in talk.earlier)
    return _led(words, talk) if is_first else words


_OF_NOBODY = lazy_pattern(r"wh?[ah]*t\S*(?: is| are| was)? the (?!name of)", re.IGNORECASE)


def _statement(talk: Talk) -> str:
    number = len(talk.earlier) + 1
    kept = f"I have kept that, word for word, as your message {number}."
    return _led(f"{kept} Ask about it in similar words, and I will find it.", talk)


def _task(talk: Talk) -> Answer:
    task = task_in(talk.text) or talk.text
    todos = (yield Use("look_up", {"about": "tasks"})).rows
    if any(one.get("content") == task for one in todos):
        return f"“{task}” is already on your list. `What are my tasks?` shows it."
    todos.append({"content": task, "status": "pending", "activeForm": task})
    done = yield Use("TodoWrite", {"todos": todos})
    if done.is_error:
        return f"I could not put that on the list: {done.message}. Your words are in the log all the same."
    words = (
        f"“{task}” is on your list now, as number {len(todos)}. `What are my tasks?` shows the whole list, and so"
        " does `/todos`."
    )
    return _led(words, talk)


def _tasks(_: Talk) -> Answer:
    todos = (yield Use("look_up", {"about": "tasks"})).rows
    if not todos:
        return "There are no tasks yet. Say `Remind me to call Bob`."
    lines = [f"- {todo_line(one)}" for one in todos]
    return "Your tasks, from the log:\n\n" + "\n".join(lines) + "\n\nSay `done with …` when you have finished one."


def _done(talk: Talk) -> Answer:
    match = re.search(r"(?:done with|finished|i did)\s+(.{2,200}?)[.!]?\s*$", talk.text, re.IGNORECASE)
    wanted = match[1].lower() if match else ""
    todos = (yield Use("look_up", {"about": "tasks"})).rows
    hits = [one for one in todos if wanted and wanted in str(one.get("content", "")).lower()]
    if not hits:
        return "There is no such task. `What are my tasks?` shows the list."
    hits[0]["status"] = "completed"
    done = yield Use("TodoWrite", {"todos": todos})
    if done.is_error:
        return f"I could not change the list: {done.message}."
    return f"“{hits[0]['content']}” is done. The log has the list as it is now, and as it was before."


def _told(_: Talk) -> Answer:
    rows = (yield Use("look_up", {"about": "everything"})).rows
    if not rows:
        return "You have not told me anything about yourself yet. Try `My name is Alice`."
    lines = [f"- {row.get('about')}: {row.get('value')} (“{row.get('words')}”, {row.get('said_at')})" for row in rows]
    return "Here is what you told me, read from the log:\n\n" + "\n".join(lines)


# A name with a dot or a slash is a file, and so is the only word after the verb: `read Makefile`.
_FILE = lazy_pattern(
    r"[\w~+-]*[./][\w./~+-]*\w|(?<=read )[\w+-]+\s*$|(?<=open )[\w+-]+\s*$|(?<=cat )[\w+-]+\s*$", re.IGNORECASE
)


def _read(talk: Talk) -> Answer:
    match = _FILE.search(re.sub(r"\b(?:the )?readme\b(?!\.)", "README.md", talk.text, flags=re.IGNORECASE))
    if match is None:
        return "Tell me which file: `read README.md`, for example. `list files` shows what is here."
    path = match[0].strip()
    if "read_file" not in talk.tools:
        return "I may not read files here. In `holdfast chat` I can, in the folder where it was started and below."
    given = yield Use("read_file", {"path": path})
    if given.is_error:
        return (
            f"I could not read `{path}`: {given.message}. My request and what came of it are both in the log. `list"
            " files` shows what is here."
        )
    text, note, _ = given.text.partition("\n[cut: ")
    head = "\n".join(text.splitlines()[:8])[:600].replace("```", "` ` `")
    what = f"The part of `{path}` that I was given" if note else f"`{path}`"
    words = (
        f"{what} has {_many(text.splitlines(), 'line')}, {_many(text.split(), 'word')} and"
        f" {_many(text, 'character')}. It begins:\n\n```text\n{head}\n```\n\nMy request, your permission and what I"
        " read are in the log now."
    )
    return _led(words, talk)


def _many(things: Sized, name: str) -> str:
    return f"{len(things):,} {name}{'s' * (len(things) != 1)}"


def _list(talk: Talk) -> Answer:
    if "list_directory" not in talk.tools:
        return "I may not list files here. In `holdfast chat` I can, in the folder where it was started."
    given = yield Use("list_directory", {"path": "."})
    if given.is_error:
        return f"I could not list the folder: {given.message}. You can ask again at any time."
    try:
        names = [name for name in msgspec.json.decode(given.text, type=list[str]) if not name.startswith(".")]
    except msgspec.DecodeError:
        names = given.text.split("\n")
    shown = ", ".join(f"`{name}`" for name in names[:30]) or "nothing"
    more = f" and {len(names) - 30} more" if len(names) > 30 else ""
    return f"Here I see {shown}{more}. Say `read` and one of the names."


def _search(talk: Talk) -> Answer:
    match = re.search(
        r"(?:search|find|look)(?:\s+(?:my |in |through |the )*(?:past|earlier|old|other)? ?sessions)?(?:\s+for)?"
        r"\s+(.{2,100}?)[.?!]?\s*$",
        talk.text,
        re.IGNORECASE,
    )
    words = match[1].strip("`'\"“” ") if match else "name"
    if "recall_sessions" not in talk.tools:
        return f"I cannot search here. On the command line: `holdfast search '{words}'`."
    rows = (yield Use("recall_sessions", {"query": words})).rows
    if not rows:
        here = (yield Use("find_said", {"question": words})).row
        if here.get("words"):
            return f"In this session you said “{here['words']}” at {here.get('said_at')} (event {here.get('event')})."
        return (
            f"Nothing about “{words}” in earlier sessions. On the command line, `holdfast search '{words}'` looks"
            " through this one and all the others."
        )
    lines = [f"- `{row.get('session')}`: {row.get('text') or row.get('title')}" for row in rows]
    return f"This is what earlier sessions have about “{words}”:\n\n" + "\n".join(lines)


def _count(talk: Talk) -> Answer:
    found = (yield Use("count_log", {})).row
    if not found:
        return "I could not count that."
    words = (
        f"This session has {found.get('events')} events. Messages: {found.get('messages')}. Tool calls:"
        f" {found.get('calls')}. Pieces of streamed answers: {found.get('pieces')}. The rest is bookkeeping. The first"
        f" event was recorded at {found.get('since')}, and none of them ever changes."
    )
    return _led(words, talk)


def _title(talk: Talk) -> Answer:
    match = _TITLE.search(talk.text)
    title = match[1].strip("`'\"“” ") if match else ""
    if not title:
        return "Tell me the title: `call this session My trip`."
    given = yield Use("set_title", {"title": title})
    if given.is_error:
        return f"The title stays as it was: {given.message}. My question and your answer are in the log."
    words = f"This session is now called “{title}”, because you allowed it. `holdfast list` shows it by that name."
    return _led(words, talk)


_TITLE = lazy_pattern(
    r"^\s*(?:please )?(?:call (?:this(?: session)?|it)|title(?: it)?:?|name this session)\s+(.{1,80}?)[.!]?\s*$",
    re.IGNORECASE,
)
_COUNTED = (
    "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen,"
    " seventeen, eighteen, nineteen, twenty"
)


def _kill(_: Talk) -> Answer:
    pid = (yield Use("about_process", {})).row.get("pid")
    return Response(
        f"Kill me while I count. In another terminal, run `kill -9 {pid}`. Then start me again the same way and say"
        f" `go on`. Every word is on record before you see it. I count slowly: {_COUNTED}. Done: nobody killed me"
        " this time. Say `kill` to try again.",
        slow=_COUNTED,
    )


def _small_talk(words: str) -> Callable[[Talk], Answer]:
    return _words_of(lambda talk: _led(words, talk))


def _words_of(words: Callable[[Talk], str]) -> Callable[[Talk], Answer]:
    """Answer with words alone, without a tool."""

    def answer(talk: Talk) -> Answer:
        return words(talk)
        yield

    return answer


def _topic(name: str) -> Callable[[Talk], Answer]:
    command, shell, about = TOPICS[name]
    here = f"In a chat: `/{command} {COMMANDS[command].takes}".strip() + "`. " if command in COMMANDS else ""
    return _words_of(lambda _: f"{about} {here}On the command line: {shell}.")


def _bye(_: Talk) -> str:
    return "Goodbye. `/exit` or Ctrl-D leaves; the session is kept, and `holdfast chat` picks it up again."


def _language(talk: Talk) -> str:
    own = next(words for pattern, words in LANGUAGES if re.search(pattern, talk.text, re.IGNORECASE))
    return _led(f"{own}\n\n`What can you do?` shows what I understand.", talk)


def _said(talk: Talk) -> Answer:
    rows = (yield Use("look_up", {"about": "said"})).rows
    if re.search(r"\bfirst\b", talk.text, re.IGNORECASE):
        rows = rows[:1]
        begin = "The first thing you said here:"
    else:
        begin = f"The last {len(rows[-10:])} things you said here, word for word:"
    lines = [f"- “{row.get('words')}” ({row.get('said_at')}, event {row.get('event')})" for row in rows[-10:]]
    return (
        f"{begin}\n\n"
        + "\n".join(lines)
        + "\n\nI can repeat your words but not sum them up: that takes a language model."
    )


def _question(talk: Talk) -> Answer:
    return _found(talk, (yield Use("find_said", {"question": talk.text[:_READ_CHARS_MAX]})).row)


def _found(talk: Talk, said: dict[str, Any]) -> str:
    """Return the earlier message that has the words of the question, or an answer that none was found."""
    if said.get("words"):
        return (
            f"You said “{said['words']}” at {said.get('said_at')} (event {said.get('event')} of this session). I can"
            " find words, but not reason about them: that takes a language model."
        )
    words = next((words for _, pattern, words in SMALL_TALK if re.search(pattern, talk.text, re.IGNORECASE)), None)
    return _puzzled(talk) if words is None else _led(words, talk)


def _puzzled(talk: Talk) -> str:
    number = len(talk.earlier) + 1
    puzzled = sum(skill_for(text).name in ("unknown", "question") for text in talk.earlier)
    if puzzled:
        # A user who knows the guide by now need not be told again.
        others = "".join(f", `{one}`" for one in _TRY[puzzled % len(_TRY)])
        kept = f"I do not understand that either; it is kept as your message {number}."
        return f"{_led(kept, talk)} Or try{others[1:]}."
    kept = (
        "I do not understand that: I am a guide, not a language model. Your words are kept all the same, as your"
        f" message {number} in this session, for any model that takes it over."
    )
    return f"{_led(kept, talk)} `What can you do?` shows the rest."


_TRY = (("What can you do?", "count"), ("list files", "what did I say?"), ("fork", "another model"), ("help", "export"))


class Skill(NamedTuple):
    """A skill of the guide: when it matches, its answer, and the hint that leads to it."""

    name: str
    fits: Callable[[str], Any]
    answer: Callable[[Talk], Answer]
    step: str = ""


def _words(pattern: str) -> Callable[[str], Any]:
    words = lazy_pattern(pattern, re.IGNORECASE)
    return lambda text: words.search(text)  # noqa: PLW0108 - without it the search itself would be asked for now


SKILLS = (
    Skill(
        "title",
        _words(r"^\s*(?:please )?(?:call (?:this|it)\b|title\b|name this session\b)"),
        _title,
        "Say `call this session My trip`, and I ask for your permission first.",
    ),
    Skill(
        "tasks",
        _words(
            r"\b(?:my|the) (?:tasks|todos|to-?dos|todo list)\b|^\s*(?:tasks|todos)\b|"
            r"\bwhat (?:do i (?:need|have) to do|must i do|is (?:left )?to do)\b"
        ),
        _tasks,
    ),
    Skill("facts", facts_in, _facts, "Tell me your name: `My name is Alice`."),
    Skill("recall", asked_fact, _recall, "Ask me `What is my name?`, even after a restart."),
    Skill("done", _words(r"^\s*(?:i(?:'m| am) )?(?:done with|finished|i did)\b"), _done),
    Skill("task", task_in, _task, "Give me a task to keep: `Remind me to call Bob`."),
    Skill(
        "said",
        _words(
            r"\bfirst (?:thing|message|words?)\b|\bdid i (?:say|write) first|^\s*recap\b|"
            r"^\s*what did i (?:just )?(?:say|write)\s*\??\s*$|\bwhat (?:did|have) we (?:talk|discuss)|"
            r"\b(?:summar|recap)\w*\b.*\b(?:conversation|chat|session|this|we)\b"
        ),
        _said,
    ),
    Skill(
        "told",
        _words(r"\bwhat (?:do|did) (?:you (?:know|remember)|i (?:say|tell))|\byou (?:know|remember) me\b"),
        _told,
    ),
    Skill(
        "list",
        _words(
            r"^\s*(?:please )?(?:list|ls|show)\b.*\b(?:files?|folder|directory)\b|^\s*ls\s*$|\bwhat files\b|"
            r"\bsee my files\b|\bwhat(?:'?s| is) in (?:this|the|my) (?:folder|directory)\b"
        ),
        _list,
    ),
    Skill("topic-waiting", _words(r"\bwaiting\b|\bwait for (?:me|someone|somebody)"), _topic("waiting")),
    Skill("topic-fork", _words(r"\bfork"), _topic("fork"), "Ask about `fork` or `export`."),
    Skill("topic-back", _words(r"\b(?:go|going|get) back\b|\bundo\b|\brewind\b"), _topic("back")),
    Skill(
        "topic-export",
        _words(r"\bexport|\b(?:save|share|send|print) (?:this|the|it)\b(?: session| conversation| chat)?"),
        _topic("export"),
    ),
    Skill(
        "topic-model",
        _words(
            r"\b(?:another|other|change|switch|which|real|better|different)\b.*\bmodel|^\s*/?model\b|"
            r"\b(?:use|connect|talk to|try|want|with)\b.*"
            r"\b(?:claude|gpt\S*|chatgpt|gemini|ollama|llama\S*|openai|anthropic)\b"
        ),
        _topic("model"),
    ),
    Skill("topic-delete", _words(r"\bdelete|\btrash"), _topic("delete")),
    Skill("topic-memory", _words(r"^\s*(?:your )?memory\b"), _topic("memory")),
    Skill("topic-sessions", _words(r"^\s*(?:my |the |list )?sessions\b"), _topic("sessions")),
    Skill(
        "kill",
        _words(
            r"^\s*(?:kill|crash)\b|\bkill(?:ed|ing)? (?:you|it|me|-9)|\byou (?:are |get )?(?:kill|crash|die)|"
            r"power (?:cut|loss|fail)|pull the plug|\bcrash(?:es)?\b|\breboot|"
            r"\bclose the (?:terminal|window|laptop|lid)"
        ),
        _kill,
        "Say `kill` to see what survives a crash.",
    ),
    Skill(
        "search",
        _words(r"^\s*(?:please )?(?:search|find|look for)\b"),
        _search,
        "Search what you said in earlier sessions: `search train`.",
    ),
    Skill(
        "read",
        _words(
            r"^\s*(?:please )?(?:(?:read|open|cat)\b|show (?:me )?\S+\.\w+|count (?:the )?words|"
            r"what(?:'?s| is) in \S+\.\w+|how (?:many|long)\b.*\s\S+\.\w+)"
        ),
        _read,
        "Let me read a file: `read README.md`.",
    ),
    Skill(
        "count",
        _words(
            r"^\s*(?:please )?count\b|"
            r"\bhow (?:many|much|long)\b.*\b(?:events?|messages?|records?|recorded|kept|said|session|log)\b"
        ),
        _count,
        "Say `count` to see how much has been recorded.",
    ),
    Skill(
        "abilities",
        _words(
            r"what can (?:you|i)|what do you do|\b(?:don'?t|do not) (?:get it|understand)|confus|^\s*now what|"
            r"what (?:do|should) i do\b|how do i (?:start|begin|use (?:this|it))|"
            r"^\s*(?:help|/help|\?)\s*$|\btour\b|how (?:do|does) (?:this|it|you) work"
        ),
        _words_of(_abilities),
    ),
    *(Skill(name, _words(pattern), _small_talk(words)) for name, pattern, words in SMALL_TALK),
    Skill(
        "bye",
        _words(r"^\s*(?:bye|goodbye|good night|see you|quit)\b|\bhow (?:do|can) i (?:quit|exit|leave|stop|get out)"),
        _words_of(_bye),
    ),
    Skill(
        "hello",
        _words(r"^\s*(?:hi|hello|hey|hiya|good (?:morning|evening|afternoon)|start|begin)\b"),
        _words_of(_hello),
    ),
    Skill(
        "language",
        lambda text: any(re.search(pattern, text, re.IGNORECASE) for pattern, _ in LANGUAGES),
        _words_of(_language),
    ),
    Skill("question", is_question, _question),
    Skill("statement", _words(r"^\s*(?:i|i'm|i've|i'd|i'll|we|we're|we've|my|our)\s+\S+\s+\S"), _words_of(_statement)),
    Skill("unknown", lambda _: True, _words_of(_puzzled)),
)


# “Can you read notes.txt?” asks for the same as “read notes.txt?”.
_POLITE = lazy_pattern(r"^\s*(?:can|could|would|will) you (?:please )?(?=\w+ \S)", re.IGNORECASE)


@lru_cache(maxsize=4096)
def skill_for(text: str) -> Skill:
    """Return the first skill that matches a text; the last matches everything."""
    text = _POLITE.sub("", text[:_READ_CHARS_MAX])
    return next(skill for skill in SKILLS if skill.fits(text))


_ORDER = ("facts", "recall", "kill", "count", "task", "read", "title", "search", "topic-fork")


def _led(words: str, talk: Talk) -> str:
    """Return the words followed by a suggestion that was not tried yet, another one each time."""
    tried: set[str] = set()
    idle = -1
    for text in (*talk.earlier, talk.text):
        name = skill_for(text).name
        idle = 0 if name in _ORDER and name not in tried else idle + 1
        tried.add(name)
    if "facts" not in tried:
        tried.add("recall")  # there is nothing to recall yet
    left = [name for name in _ORDER if name not in tried and (name != "read" or "read_file" in talk.tools)]
    if left:
        steps = {skill.name: skill.step for skill in SKILLS}
        return f"{words} {steps[left[idle % len(left)]]}"
    return words if idle else f"{words} You have seen it all: set an API key, and a model takes over from here."
