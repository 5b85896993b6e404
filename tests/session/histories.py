"""Histories as the providers' libraries allow them, generated so that the providers' rules hold."""

from __future__ import annotations

import json

from hypothesis import strategies as st

__all__ = ["block_history", "chat_history", "item_history", "mistral_history", "part_history", "pydantic_history"]

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60).filter(
    lambda text: not text.isspace()
)
NAMES = st.sampled_from(["look", "book", "read_file", "a-b"])
LEAVES = st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS
ARGUMENTS = st.dictionaries(
    TEXTS, st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=4), max_size=3
)
BASE64 = st.sampled_from(["AAAA", "aGVsbG8=", "/+8="])
MARK = st.sampled_from([{}, {}, {}, {"cache_control": {"type": "ephemeral", "ttl": "5m"}}])


def maybe(strategy):
    """The strategy's value or nothing, as members of a dict."""
    return st.one_of(st.just({}), strategy)


class Ids:
    """Ids that are each their own."""

    def __init__(self, form="call_{}"):
        self.form = form
        self.count = 0

    def __call__(self):
        self.count += 1
        return self.form.format(self.count)


# --- OpenAI, chat completions


@st.composite
def chat_words(draw):
    """A user's message."""
    parts = st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
        st.builds(
            lambda detail: {"type": "image_url", "image_url": {"url": "https://x/a.png", **detail}},
            maybe(st.just({"detail": "low"})),
        ),
        st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        st.just({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        st.just({"type": "file", "file": {"file_id": "file-1"}}),
    )
    content = draw(TEXTS | st.lists(parts, min_size=1, max_size=3))
    return {"role": "user", "content": content, **draw(maybe(st.just({"name": "ann"})))}


@st.composite
def chat_says(draw):
    """What an assistant says beside calls, if anything."""
    text = st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
    refusal = st.builds(lambda text: {"type": "refusal", "refusal": text}, TEXTS)
    return draw(
        st.one_of(
            st.builds(lambda text: {"content": text}, TEXTS),
            st.builds(lambda parts: {"content": parts}, st.lists(text | refusal, min_size=1)),
            st.builds(lambda text: {"refusal": text}, TEXTS),
            st.just({"audio": {"id": "audio_1"}}),
            st.builds(lambda text: {"content": text, "name": "bot"}, TEXTS),
        )
    )


@st.composite
def chat_calls(draw, ids):
    """An assistant's message with calls, and the messages that answer them in any order."""
    if draw(st.integers(0, 9)) == 0:
        name = draw(NAMES)
        call = {"name": name, "arguments": json.dumps(draw(ARGUMENTS))}
        answer = {"role": "function", "name": name, "content": draw(TEXTS)}
        return [{"role": "assistant", "function_call": call}, answer]
    calls, answers = [], []
    for _ in range(draw(st.integers(1, 3))):
        call = {"id": ids()}
        if draw(st.booleans()):
            call |= {"type": "custom", "custom": {"name": draw(NAMES), "input": draw(TEXTS)}}
        else:
            separators = draw(st.sampled_from([None, (",", ":")]))
            arguments = json.dumps(draw(ARGUMENTS), separators=separators)
            call |= {"type": "function"}
            call |= {"function": {"name": draw(NAMES), "arguments": arguments}}
        calls.append(call)
        text = st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
        content = draw(TEXTS | st.lists(text, min_size=1, max_size=2))
        answers.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    message = {"role": "assistant", **draw(maybe(chat_says())), "tool_calls": calls}
    return [message, *draw(st.permutations(answers))]


@st.composite
def chat_history(draw):
    """A conversation with OpenAI's chat completions."""
    ids = Ids()
    system = st.builds(
        lambda role, text: {"role": role, "content": text}, st.sampled_from(["system", "developer"]), TEXTS
    )
    told = draw(st.lists(system, max_size=1))
    told.append(draw(chat_words()))
    for _ in range(draw(st.integers(0, 5))):
        said = st.builds(lambda said: [{"role": "assistant", **said}], chat_says())
        one = st.builds(lambda one: [one], chat_words() | system)
        told += draw(st.one_of(said, one, chat_calls(ids)))
    return told


# --- OpenAI, Responses


CITED = {"type": "url_citation", "url": "https://x", "title": "t", "start_index": 0, "end_index": 1}


@st.composite
def item_words(draw):
    """What a user says."""
    parts = st.one_of(
        st.builds(lambda text: {"type": "input_text", "text": text}, TEXTS),
        st.just({"type": "input_image", "detail": "low", "image_url": "https://x/a.png"}),
        st.just({"type": "input_image", "detail": "auto", "file_id": "file-1"}),
        st.just({"type": "input_file", "file_id": "file-1"}),
    )
    content = draw(TEXTS | st.lists(parts, min_size=1, max_size=3))
    return {"role": "user", "content": content, **draw(maybe(st.just({"type": "message"})))}


@st.composite
def item_answer(draw, ids):
    """An assistant's words as an item."""
    if draw(st.booleans()):
        return {"role": "assistant", "content": draw(TEXTS)}
    parts = st.one_of(
        st.builds(
            lambda text, notes: {"type": "output_text", "text": text, "annotations": notes},
            TEXTS,
            st.sampled_from([[], [CITED]]),
        ),
        st.builds(lambda text: {"type": "refusal", "refusal": text}, TEXTS),
    )
    return {
        "id": f"msg_{ids()}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": draw(st.lists(parts, min_size=1, max_size=2)),
        **draw(maybe(st.just({"phase": "final_answer"}))),
    }


@st.composite
def item_calls(draw, ids):
    """Calls, and their outputs in any order."""
    calls, outputs = [], []
    for _ in range(draw(st.integers(1, 3))):
        identity = ids()
        kind = draw(st.sampled_from(["function_call", "custom_tool_call", "shell_call", "computer"]))
        call = {"type": kind, "call_id": identity}
        output = {"type": f"{kind}_output", "call_id": identity}
        if kind == "function_call":
            call |= {"name": draw(NAMES), "arguments": json.dumps(draw(ARGUMENTS))}
            call |= draw(maybe(st.just({"id": f"fc_{identity}", "status": "completed"})))
            parts = st.one_of(
                st.builds(lambda text: {"type": "input_text", "text": text}, TEXTS),
                st.just({"type": "input_image", "image_url": "https://x/a.png"}),
                st.just({"type": "input_file", "file_id": "file-1"}),
            )
            output["output"] = draw(TEXTS | st.lists(parts, min_size=1, max_size=2))
        elif kind == "custom_tool_call":
            call |= {"name": draw(NAMES), "input": draw(TEXTS)}
            output["output"] = draw(TEXTS)
        elif kind == "shell_call":
            call |= {"action": {"commands": [draw(TEXTS)]}, "status": "completed"}
            outcome = {"type": "exit", "exit_code": 0}
            output["output"] = [{"stdout": draw(TEXTS), "stderr": "", "outcome": outcome}]
        else:
            call |= {"type": "computer_call", "id": f"cu_{identity}", "status": "completed"}
            call |= {"pending_safety_checks": [], "action": {"type": "screenshot"}}
            shot = {"type": "computer_screenshot", "image_url": "https://x/a.png"}
            output |= {"type": "computer_call_output", "output": shot}
        calls.append(call)
        outputs.append(output)
    return [*calls, *draw(st.permutations(outputs))]


@st.composite
def item_history(draw):
    """A conversation with OpenAI's Responses."""
    ids = Ids()
    told = [draw(item_words())]
    thought = st.builds(
        lambda text: {
            "type": "reasoning",
            "id": f"rs_{ids()}",
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "abc",
        },
        TEXTS,
    )
    search = {"type": "search", "query": "news", "queries": ["news"]}
    alone = st.sampled_from(
        [
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": search},
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None},
            {"type": "compaction", "encrypted_content": "abc"},
            {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "completed"},
            {"type": "mcp_list_tools", "id": "m_1", "server_label": "s", "tools": []},
            {"type": "mcp_call", "id": "m_2", "name": "f", "server_label": "s", "arguments": "{}", "output": "x"},
            {"type": "item_reference", "id": "msg_0"},
            {"role": "developer", "content": "be brief"},
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "compaction_trigger"},
        ]
    )
    for _ in range(draw(st.integers(0, 5))):
        led = st.builds(lambda one: [one], item_answer(ids)) | item_calls(ids)
        thoughtful = st.builds(lambda one, rest: [one, *rest], thought, led)
        other = st.builds(lambda one: [one], item_words() | alone)
        told += draw(st.one_of(led, thoughtful, other))
    return told


# --- Anthropic


SERVED = {
    "web_search": ("web_search_tool_result", []),
    "web_fetch": ("web_fetch_tool_result", {"type": "web_fetch_tool_result_error", "error_code": "unavailable"}),
    "bash_code_execution": (
        "bash_code_execution_tool_result",
        {"type": "bash_code_execution_result", "stdout": "1", "stderr": "", "return_code": 0, "content": []},
    ),
    "text_editor_code_execution": (
        "text_editor_code_execution_tool_result",
        {"type": "text_editor_code_execution_create_result", "is_file_update": False},
    ),
    "tool_search_tool_bm25": (
        "tool_search_tool_result",
        {"type": "tool_search_tool_search_result", "tool_references": []},
    ),
}
FINDS = st.builds(
    lambda text: {
        "type": "search_result",
        "source": "https://x",
        "title": "t",
        "content": [{"type": "text", "text": text}],
        "citations": {"enabled": True},
    },
    TEXTS,
)
RESULTS = st.one_of(
    FINDS,
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.just({"type": "tool_reference", "tool_name": "look"}),
    st.just({"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}),
)


@st.composite
def blocks_said(draw):
    """A user's blocks."""
    block = st.one_of(
        st.builds(lambda text, mark: {"type": "text", "text": text, **mark}, TEXTS, st.just({})),
        st.builds(
            lambda data: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
            BASE64,
        ),
        st.just({"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}),
        st.builds(
            lambda text: {
                "type": "document",
                "title": text,
                "citations": {"enabled": True},
                "source": {"type": "text", "media_type": "text/plain", "data": text},
            },
            TEXTS,
        ),
        st.just({"type": "container_upload", "file_id": "file_1"}),
        FINDS,
    )
    return draw(st.lists(block, min_size=1, max_size=3))


@st.composite
def block_history(draw):
    """A conversation with Anthropic."""
    ids = Ids("toolu_{}")
    mark = draw(MARK)
    first = draw(TEXTS | blocks_said())
    told = [{"role": "user", "content": first}]
    thought = st.one_of(
        st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}, TEXTS),
        st.just({"type": "redacted_thinking", "data": "abc"}),
    )
    for _ in range(draw(st.integers(0, 4))):
        blocks = draw(st.lists(thought, max_size=2))
        if draw(st.integers(0, 3)) == 0:
            told += draw(blocks_deferred(ids, thought))
            told.append({"role": "user", "content": draw(blocks_said())})
            continue
        if draw(st.booleans()):
            identity = ids()
            name = draw(st.sampled_from(sorted(SERVED)))
            kind, content = SERVED[name]
            use = {"type": "server_tool_use", "id": identity, "name": name}
            blocks.append(use | {"input": {"query": draw(TEXTS)}})
            blocks.append({"type": kind, "tool_use_id": identity, "content": content})
        cited = {"type": "char_location", "cited_text": "a", "document_index": 0}
        cited |= {"document_title": "t", "start_char_index": 0, "end_char_index": 1}
        told_text = st.builds(
            lambda text, more: {"type": "text", "text": text, **more},
            TEXTS,
            st.sampled_from([{}, {"citations": [cited]}]),
        )
        uses = [
            {"type": "tool_use", "id": ids(), "name": draw(NAMES), "input": draw(ARGUMENTS)}
            for _ in range(draw(st.integers(0, 3)))
        ]
        blocks += draw(st.lists(told_text, min_size=0 if uses else 1, max_size=2)) + uses
        plain = not uses and len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        content = blocks[0]["text"] if plain and draw(st.booleans()) else blocks
        told.append({"role": "assistant", "content": content})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": use["id"],
                "content": draw(TEXTS | st.lists(RESULTS, min_size=1, max_size=2)),
                **draw(maybe(st.builds(lambda failed: {"is_error": failed}, st.booleans()))),
            }
            for use in uses
        ]
        words = draw(blocks_said()) if not results or draw(st.booleans()) else []
        answer = [*draw(st.permutations(results)), *words]
        answer[-1] = answer[-1] | mark
        mark = {}
        told.append({"role": "user", "content": answer})
    if draw(st.booleans()):
        return [*told, {"role": "assistant", "content": draw(blocks_paused(ids, thought))}]
    return told[: draw(st.integers(1, len(told)))] if "tool_use" not in str(told) else told


@st.composite
def blocks_deferred(draw, ids, thought):
    """An answer whose server tools wait for calls of the user's tools.

    A search that was asked for beside them begins when they are answered; code that makes the
    calls itself goes on, and may make more. What they came to stands in a later message.
    """
    coded = draw(st.booleans())
    waiting = [ids() for _ in range(1 if coded else draw(st.integers(1, 2)))]
    name, entry = ("code_execution", "code") if coded else ("web_search", "query")
    blocks = draw(st.lists(thought, max_size=1))
    blocks += [{"type": "text", "text": text} for text in draw(st.lists(TEXTS, max_size=1))]
    blocks += [{"type": "server_tool_use", "id": one, "name": name, "input": {entry: draw(TEXTS)}} for one in waiting]
    caller = {"type": "code_execution_20260120", "tool_id": waiting[0]} if coded else None
    told = []
    for _ in range(draw(st.integers(1, 3)) if coded else 1):
        uses, results = [], []
        for _ in range(draw(st.integers(1, 2))):
            use = {"type": "tool_use", "id": ids(), "name": draw(NAMES), "input": draw(ARGUMENTS)}
            kind = draw(st.sampled_from([{}, {"caller": {"type": "direct"}}]))
            uses.append(use | ({"caller": caller} if coded else kind))
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": draw(TEXTS)}
            results.append(result)
        told.append({"role": "assistant", "content": [*blocks, *uses]})
        told.append({"role": "user", "content": draw(st.permutations(results))})
        blocks = []
    ran = {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0}
    came = [
        {"type": f"{name}_tool_result", "tool_use_id": one, "content": {**ran, "content": []} if coded else []}
        for one in waiting
    ]
    words = [{"type": "text", "text": text} for text in draw(st.lists(TEXTS, max_size=2))]
    more = []
    if draw(st.booleans()):
        identity = ids()
        use = {"type": "server_tool_use", "id": identity, "name": "web_search"}
        more.append(use | {"input": {"query": draw(TEXTS)}})
        more.append({"type": "web_search_tool_result", "tool_use_id": identity, "content": []})
    told.append({"role": "assistant", "content": [*came, *words, *more]})
    return told


@st.composite
def blocks_paused(draw, ids, thought):
    """An answer that the provider has paused: its own tools are last, some without a result."""
    blocks = draw(st.lists(thought, max_size=1))
    blocks += [{"type": "text", "text": text} for text in draw(st.lists(TEXTS, max_size=1))]
    done = draw(st.integers(0, 2))
    for number in range(done + draw(st.integers(0 if done else 1, 2))):
        identity = ids()
        use = {"type": "server_tool_use", "id": identity, "name": "web_search"}
        blocks.append(use | {"input": {"query": draw(TEXTS)}})
        if number < done:
            found = {"type": "web_search_tool_result", "tool_use_id": identity, "content": []}
            blocks.append(found)
    return blocks


# --- Gemini


@st.composite
def part_history(draw):
    """A conversation with Gemini."""
    ids = Ids()
    words = st.one_of(
        st.builds(lambda text: {"text": text}, TEXTS),
        st.builds(lambda data: {"inlineData": {"mimeType": "image/png", "data": data}}, BASE64),
        st.just({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}),
        st.just({"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a"}}),
    )
    signed = st.sampled_from([{}, {"thoughtSignature": "c2ln"}])
    own = st.one_of(
        st.builds(lambda text, sign: {"text": text, **sign}, TEXTS, signed),
        st.builds(lambda text: {"text": text, "thought": True}, TEXTS),
        st.just({"text": "", "thoughtSignature": "c2ln"}),
        st.just({"executableCode": {"language": "PYTHON", "code": "1+1"}}),
        st.just({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}),
        st.just({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
    )
    told = [{"role": "user", "parts": draw(st.lists(words, min_size=1, max_size=2))}]
    for _ in range(draw(st.integers(0, 4))):
        calls, answers = [], []
        for _ in range(draw(st.integers(0, 2))):
            identity = draw(st.sampled_from([{}, {"id": ids()}]))
            name = draw(NAMES)
            call = {"functionCall": {**identity, "name": name, "args": draw(ARGUMENTS)}}
            calls.append(call | draw(signed))
            response = draw(ARGUMENTS.filter(bool))
            answer = {**identity, "name": name, "response": response}
            answers.append({"functionResponse": answer})
        said = draw(st.lists(own, min_size=0 if calls else 1, max_size=3))
        told.append({"role": "model", "parts": draw(st.permutations([*said, *calls]))})
        heard = draw(st.lists(words, min_size=0 if answers else 1, max_size=2))
        # Answers of one name without an id go by their order.
        parts = draw(st.permutations([*heard, *[None] * len(answers)]))
        rest = iter(answers)
        told.append({"role": "user", "parts": [next(rest) if p is None else p for p in parts]})
    return told


# --- Mistral and Pydantic AI


@st.composite
def mistral_history(draw):
    """A conversation with Mistral."""
    ids = Ids("call{:05d}")
    told = draw(st.sampled_from([[], [{"role": "system", "content": "be brief"}]])).copy()
    for _ in range(draw(st.integers(1, 4))):
        told.append({"role": "user", "content": draw(TEXTS)})
        for _ in range(draw(st.integers(0, 2))):
            function = {"name": draw(NAMES), "arguments": json.dumps(draw(ARGUMENTS))}
            call = {"id": ids(), "type": "function", "function": function}
            told.append({"role": "assistant", "tool_calls": [call]})
            answer = {"role": "tool", "name": function["name"], "content": draw(TEXTS)}
            told.append(answer | {"tool_call_id": call["id"]})
        told.append({"role": "assistant", "content": draw(TEXTS)})
    return told


@st.composite
def pydantic_history(draw):
    """A conversation of Pydantic AI, as its adapter dumps it."""
    from pydantic_ai import messages as m

    ids = Ids()
    told = []
    parts = [m.SystemPromptPart(draw(TEXTS))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        told.append(m.ModelRequest(parts=[*parts, m.UserPromptPart(draw(TEXTS))]))
        call = m.ToolCallPart(draw(NAMES), draw(ARGUMENTS), tool_call_id=ids())
        said = [m.ThinkingPart(draw(TEXTS))] if draw(st.booleans()) else []
        told.append(m.ModelResponse(parts=[*said, m.TextPart(draw(TEXTS)), call], model_name="x"))
        back = m.ToolReturnPart(call.tool_name, draw(TEXTS), tool_call_id=call.tool_call_id)
        told.append(m.ModelRequest(parts=[back]))
        told.append(m.ModelResponse(parts=[m.TextPart(draw(TEXTS))]))
        parts = []
    return m.ModelMessagesTypeAdapter.dump_python(told, mode="json")
