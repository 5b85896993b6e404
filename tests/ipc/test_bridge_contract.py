"""The schema that clients in other languages rely on, and the bridge: each holds for the other."""

from __future__ import annotations

import json

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.apps.ipc.messages import ASKS, NOTICES, schema
from holdfast.library.answers.events import SessionBrief

SCHEMA = json.loads(schema())
DEFS = SCHEMA["$defs"]
REQUESTS = {tag: each for tag, each in DEFS.items() if each.get("x-kind") == "request"}
ANSWER = jsonschema.Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": "#/$defs/from_bridge"}]})
REQUEST = jsonschema.Draft202012Validator({**SCHEMA, "oneOf": [{"$ref": "#/$defs/from_client"}]})
SOME_SESSION = "some-session"
QUICKLY = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
WRONG = {"string": 17, "object": 17, "boolean": "yes", "integer": "3", "null": [], "number": []}


def fields_of(tag):
    """The fields of a request but for its type and its id."""
    return {name: each for name, each in REQUESTS[tag]["properties"].items() if name not in ("type", "id")}


def required(tag):
    """Those that it must have."""
    return [name for name in REQUESTS[tag]["required"] if name != "type"]


def values(each):
    """Values that a part of the schema allows."""
    if "$ref" in each:
        name = each["$ref"].rpartition("/")[2]
        if name == "session_id":
            return st.sampled_from([SOME_SESSION, "another-one"])
        each = DEFS[name]
    for choices in ("oneOf", "anyOf"):
        if choices in each:
            return st.one_of([values(part) for part in each[choices]])
    if "enum" in each:
        return st.sampled_from(each["enum"])
    if "type" not in each:  # anything
        return st.none() | st.booleans() | st.text(max_size=20)
    kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
    return st.one_of([_of_kind(kind, each) for kind in kinds])


def _of_kind(kind, each):
    match kind:
        case "string" if "pattern" in each:
            return st.from_regex(each["pattern"])
        case "string":
            return st.text(max_size=20) | st.sampled_from(["markdown", "json"])
        case "integer":
            return st.integers(each["minimum"], each["maximum"])
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "object":
            return st.dictionaries(st.text(max_size=5), st.none() | st.integers(0, 9), max_size=2)
        case "boolean":
            return st.booleans()
    return st.none()


def messages(tag):
    """Messages of one type that the schema allows, with fields that it does not know too."""
    parts = fields_of(tag)
    return st.fixed_dictionaries(
        {"type": st.just(tag), **{name: values(parts[name]) for name in required(tag)}},
        optional={
            "id": values(DEFS["id"]),
            "later": st.integers() | st.text(),
            **{name: values(parts[name]) for name in parts if name not in required(tag)},
        },
    )


def test_the_schema_is_one():
    """It is valid itself, and every message is a request, an answer or a notice."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert {each["x-kind"] for each in DEFS.values() if "x-kind" in each} == {"request", "answer", "notice"}


@pytest.mark.req("S2-42", "S2-84")
def test_the_schema_names_what_the_bridge_knows():
    """Types, methods and answers are the same on both sides."""
    named = {tag: (each["x-method"], each["x-answer"]) for tag, each in REQUESTS.items()}
    assert named == {ask.tag: (ask.method, ask.answer) for ask in ASKS.values()}
    notices = {tag: each["x-method"] for tag, each in DEFS.items() if each.get("x-kind") == "notice"}
    assert notices == {tag: one.method for tag, one in NOTICES.items()}


@pytest.mark.parametrize("tag", REQUESTS)
def test_the_fields_are_the_same_on_both_sides(tag):
    """The bridge reads the fields of the schema, and needs those that it calls required."""
    known = {field.name: field.required for field in msgspec.structs.fields(ASKS[tag].takes)}
    assert known == {name: name in required(tag) for name in fields_of(tag)}


@pytest.mark.req("S2-84")
@pytest.mark.parametrize("tag", REQUESTS)
@QUICKLY
@given(data=st.data())
def test_every_request_of_the_schema_gets_an_answer_of_it(tag, data, hf, talk):
    """Its own answer, or an error, with the id that it came with; the same by JSON-RPC."""
    if not hf.exists(SOME_SESSION):
        with hf.session(SOME_SESSION) as session:
            session.user("hello")
    message = data.draw(messages(tag))
    REQUEST.validate(message)
    told = talk({"type": "initialize", "demo_mode": True}, message)[1:]
    for each in told:
        ANSWER.validate(each)
    answers = [each for each in told if each["type"] not in NOTICES]
    assert [each["type"] in (REQUESTS[tag]["x-answer"], "error") for each in answers] == [True]
    if "id" in message:
        assert all(each["id"] == message["id"] for each in told)
    params = {name: value for name, value in message.items() if name not in ("type", "id")}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": REQUESTS[tag]["x-method"], "params": params}
    *notices, last = talk({"type": "initialize", "demo_mode": True}, rpc)[1:]
    assert {each["method"] for each in notices} <= {one.method for one in NOTICES.values()}
    assert last["id"] == 1
    if "result" in last:
        ANSWER.validate({"type": REQUESTS[tag]["x-answer"], **last["result"]})
    else:
        ANSWER.validate({"type": "error", "message": last["error"]["message"], **last["error"]["data"]})


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        (tag, name)
        for tag in REQUESTS
        for name, each in fields_of(tag).items()
        if {"type", "anyOf", "oneOf", "$ref", "enum"} & each.keys()
    ],
)
def test_a_field_of_a_wrong_kind_is_refused(ask, tag, name):
    """The error names the field; nothing is guessed."""
    each = fields_of(tag)[name]
    kind = each.get("anyOf", [each])[0].get("type", "string")
    wrong = WRONG[kind]
    good = {"query": "x", "tool_id": "x", "approved": True, "session_id": "x", "question": "x", "decision": "deny"}
    good["text"] = "x"
    message = {"type": tag, **{each: good[each] for each in required(tag)}, name: wrong}
    with pytest.raises(jsonschema.ValidationError):
        REQUEST.validate(message)
    answer = ask(message)
    ANSWER.validate(answer)
    assert (answer["code"], answer["request"]) == ("invalid_params", tag)
    assert name in answer["message"]


@pytest.mark.parametrize(("tag", "name"), [(tag, name) for tag in REQUESTS for name in required(tag)])
def test_a_field_that_is_missing_is_named(ask, tag, name):
    """By the tag and by the method."""
    answer = ask({"type": tag})
    assert answer["code"] == "invalid_params"
    method = ask({"jsonrpc": "2.0", "id": 1, "method": REQUESTS[tag]["x-method"], "params": {}})
    assert method["error"]["code"] == -32602
    assert name in required(tag)


def test_the_schema_is_made_of_the_structs():
    """What is told of a session has no member that clients do not know of, and says what it is."""
    told = DEFS["session_info"]
    assert set(told["properties"]) == set(SessionBrief.__struct_fields__)
    assert told["required"] == ["session_id", "created_at", "updated_at", "message_count", "total_tokens"]
    assert told["properties"]["title"] == {"type": "string", "description": "Absent if there is none; never null."}
    assert DEFS["session_list_result"]["properties"]["sessions"]["items"] == {"$ref": "#/$defs/session_info"}
