"""Our rules beside an independent judge: mistral-common, in the mode of its servers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.replay import Conversation, sanitize, validate

validator = pytest.importorskip("mistral_common.protocol.instruct.validator")
request = pytest.importorskip("mistral_common.protocol.instruct.request")

SERVING = validator.ValidationMode.serving
VERSIONS = [validator.MistralRequestValidatorV3, validator.MistralRequestValidatorV13]
PROMPT = {"role": "user", "content": "go on"}


def accepts(messages):
    """Whether versions 3 and 13 would serve this history.

    A history that ends with the assistant waits for the next prompt, which is what is added; the
    empty one is a fresh start. Those are the two places where we ask less than the judge.
    """
    last = messages[-1] if messages else {"role": "assistant"}
    waits = last["role"] in {"assistant", "system"} and not last.get("prefix")
    ready = [*messages, PROMPT] if waits else messages
    try:
        made = request.ChatCompletionRequest(model="m", messages=ready)
        for version in VERSIONS:
            version(mode=SERVING).validate_request(made)
        roles = [message["role"] for message in ready if message is not PROMPT]
        if ("tool", "user") in set(pairwise(roles)):
            # As the servers said that still ran the library before it took this.
            return "Unexpected role 'user' after role 'tool'"
    except Exception as error:  # noqa: BLE001 - a refusal in whatever form
        return str(error)[:300]
    return None


def test_the_judge_takes_every_recovered_history(maker, rounds):
    """Every broken log, recovered for Mistral, is one that its own validators would serve."""
    for seed in range(rounds // 4):
        conversation = Conversation()
        for event in maker.make_log(seed):
            conversation.feed(event)
        assert accepts(conversation.messages("mistral")) is None, seed


ids = st.sampled_from(["abcdef123", "ABCDEF456", "short", "null", "", None])
names = st.sampled_from(["read", "a.b", "", "n" * 70])
texts = st.sampled_from(["hello", "", " ", None, [{"type": "text", "text": "x"}], []])
functions = st.builds(lambda name, args: {"name": name, "arguments": args}, names, st.just("{}"))
calls = st.builds(lambda i, f: {"id": i, "type": "function", "function": f}, ids, functions)
messages_ = st.one_of(
    st.builds(lambda c: {"role": "system", "content": c}, texts),
    st.builds(lambda c: {"role": "user", "content": c}, texts),
    st.builds(lambda c: {"role": "assistant", "content": c}, texts),
    st.builds(lambda c, t: {"role": "assistant", "content": c, "tool_calls": t}, texts, st.lists(calls, max_size=2)),
    st.builds(
        lambda i, c, n: {"role": "tool", "tool_call_id": i, "content": c, **n},
        ids,
        texts,
        st.sampled_from([{}, {"name": "read"}, {"name": "a.b"}]),
    ),
    st.builds(lambda p: {"role": "assistant", "content": "x", "prefix": p}, st.booleans()),
)


@settings(max_examples=1000)
@given(st.lists(messages_, max_size=6))
def test_ours_is_never_weaker(messages):
    """Whatever our rules for Mistral accept, the judge accepts too."""
    if validate(messages, "mistral").valid:
        assert accepts(messages) is None


@settings(max_examples=300)
@given(st.lists(messages_, max_size=6))
def test_what_we_repair_the_judge_accepts(messages):
    """Any list of Mistral's shape, repaired, is one that the judge accepts."""
    assert accepts(sanitize(messages, "mistral").messages) is None


def test_the_judge_refuses_what_it_should(judge):
    """The judge is awake: it refuses a dangling call, an orphan and a system turn in the middle."""
    call = {"id": "abcdef123", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    dangling = [PROMPT, {"role": "assistant", "content": None, "tool_calls": [call]}, PROMPT]
    orphan = [PROMPT, {"role": "tool", "tool_call_id": "abcdef123", "content": "x"}]
    middle = [PROMPT, {"role": "assistant", "content": "x"}, {"role": "system", "content": "y"}, PROMPT]
    for messages in (dangling, orphan, middle):
        assert accepts(messages) is not None
        assert not validate(messages, "mistral").valid
