"""Google's Agent Development Kit on our log."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

import holdfast
from holdfast.integrations import adk
from holdfast.integrations._adk_events import Announced
from holdfast.integrations.adk import HoldfastSessionService

pytestmark = pytest.mark.stores("files", "sqlite", "postgres")

WHO = {"app_name": "app", "user_id": "u1"}


class _Killed(BaseException):
    pass


def _killed(_):
    raise _Killed


def _said(text, author="user", at=1.0, **actions):
    role = "user" if author == "user" else "model"
    return Event(
        author=author,
        invocation_id="i1",
        timestamp=at,
        content=types.Content(role=role, parts=[types.Part(text=text)]),
        actions=EventActions(**actions),
    )


def _call(at=2.0):
    use = types.FunctionCall(id="c1", name="look", args={"n": 1})
    parts = [types.Part(text="Let me look."), types.Part(function_call=use)]
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=3, candidates_token_count=4)
    content = types.Content(role="model", parts=parts)
    return Event(author="agent", timestamp=at, content=content, usage_metadata=usage)


def _result(at=3.0):
    answer = types.FunctionResponse(id="c1", name="look", response={"result": "a lighthouse"})
    content = types.Content(role="user", parts=[types.Part(function_response=answer)])
    return Event(author="agent", timestamp=at, content=content)


async def _talk(service, session):
    for event in (_said("What is there?"), _call(), _result(), _said("A lighthouse.", "agent", 4.0)):
        await service.append_event(session, event)


async def test_events_come_back_as_they_went_in(hf):
    """Text, calls and results, from another service object too."""
    service = HoldfastSessionService(hf)
    session = await service.create_session(**WHO, session_id="trip")
    await _talk(service, session)
    again = await HoldfastSessionService(hf).get_session(**WHO, session_id="trip")
    assert again.events == session.events
    assert again.last_update_time == 4.0


async def test_its_sessions_are_sessions_like_any_other(hf):
    """Recover pairs the call with its result, search finds the words, usage is counted."""
    service = HoldfastSessionService(hf)
    await _talk(service, await service.create_session(**WHO, session_id="trip"))
    (about,) = hf.list()
    recovery = hf.recover(about.session_id)
    assert not recovery.issues
    assert [message["role"] for message in recovery.messages] == [*("user", "assistant", "user", "assistant")]
    assert {hit.role for hit in hf.search("lighthouse")} == {"tool_result", "assistant"}
    assert about.total_tokens == 7


async def test_state_has_its_scopes(hf):
    """Session, user and app state go where they belong; what is only for now goes nowhere."""
    service = HoldfastSessionService(hf)
    given = {"mood": "fine", "user:name": "Ada", "app:version": 2, "temp:x": 1}
    one = await service.create_session(**WHO, session_id="one", state=given)
    await service.append_event(one, _said("hi", state_delta={"mood": "better", "user:town": "Kiel", "temp:y": 3}))
    assert one.state["temp:y"] == 3
    other = await service.create_session(**WHO, session_id="two")
    assert other.state == {"user:name": "Ada", "user:town": "Kiel", "app:version": 2}
    stranger = await service.create_session(app_name="app", user_id="u2", session_id="one")
    assert stranger.state == {"app:version": 2}
    again = await HoldfastSessionService(hf).get_session(**WHO, session_id="one")
    assert again.state["mood"] == "better"
    assert not any(name.startswith("temp:") for name in again.state)
    assert await service.get_user_state(**WHO) == {"name": "Ada", "town": "Kiel"}


async def test_the_state_of_a_user_may_be_changed_from_many_sides(hf):
    """Sessions that write at the same time lose nothing of each other's."""
    service = HoldfastSessionService(hf)
    sessions = [await service.create_session(**WHO, session_id=f"s{n}") for n in range(6)]
    await asyncio.gather(
        *(
            service.append_event(session, _said("x", state_delta={f"user:k{n}": n}))
            for n, session in enumerate(sessions)
        )
    )
    assert await service.get_user_state(**WHO) == {f"k{n}": n for n in range(6)}


@pytest.mark.parametrize("recorded", [True, False])
async def test_shared_state_changes_with_its_event_or_not_at_all(store_root, monkeypatch, recorded):
    """A kill between the event and the state of the user tears nothing, whoever reads it next."""
    with holdfast.open(store_root) as hf:
        service = HoldfastSessionService(hf)
        one = await service.create_session(**WHO, session_id="one", state={"app:n": 1})
        with monkeypatch.context() as killed:
            killed.setattr(Announced, "end", lambda _, happened: None)
            if not recorded:
                killed.setattr(adk, "FORM", adk.FORM._replace(tell=_killed))
            with contextlib.suppress(_Killed):
                await service.append_event(one, _said("hi", state_delta={"user:x": 1, "app:n": 2}))
        again = HoldfastSessionService(hf)
        other = await again.create_session(**WHO, session_id="two", state={"user:y": 3})
        expected = {"user:x": 1, "app:n": 2} if recorded else {"app:n": 1}
        assert other.state == expected | {"user:y": 3}
        assert len((await again.get_session(**WHO, session_id="one")).events) == recorded


async def test_an_announced_change_is_forgotten_when_it_can_no_longer_happen(store_root):
    """When others opened the session since, or it is gone, what its log lacks is nobody's."""
    key, document = adk._key("app", "u1"), "shared.json"
    with holdfast.open(store_root) as hf:
        service = HoldfastSessionService(hf)
        ids = []
        for name in ("opened", "gone", "left"):
            await service.create_session(**WHO, session_id=name)
            place = service._of(**WHO, session_id=name).place
            place.close()
            ids.append(place.id)
            newest = max(event.seq for event in hf.events(place.id))
            service._shared.announce({key: {name: 1}}, place.id, newest)
        for _ in range(2):
            with hf.session(ids[0]) as session:
                session.user("hi")
        hf.erase(ids[1])
        assert await service.get_user_state(**WHO) == {}
        service._shared.set(key, {"x": 1})
        left = hf.store.documents(key).get(document)[0]
        assert [name in left for name in (b"opened", b"gone", b"left")] == [False, False, True]


async def test_a_session_is_made_once(hf):
    """Of two that make the same one at the same time, one is told that it is there."""
    service = HoldfastSessionService(hf)
    made = await asyncio.gather(
        *(service.create_session(**WHO, session_id="trip", state={"user:n": n}) for n in (1, 2)), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in made) == ["AlreadyExistsError", "Session"]
    first = next(one for one in made if not isinstance(one, Exception))
    assert await service.get_user_state(**WHO) == {"n": first.state["user:n"]}


async def test_a_config_chooses_events(hf):
    """The newest few, or those from a time on."""
    service = HoldfastSessionService(hf)
    await _talk(service, await service.create_session(**WHO, session_id="trip"))

    async def times(**config):
        found = await service.get_session(**WHO, session_id="trip", config=GetSessionConfig(**config))
        return [event.timestamp for event in found.events]

    assert await times(num_recent_events=2) == [3.0, 4.0]
    assert await times(num_recent_events=0) == []
    assert await times(after_timestamp=3.0) == [3.0, 4.0]


def _give_back(service, id):
    """Close it now: after a rest it would be, and what is closed later is written later."""
    service._of(WHO["app_name"], WHO["user_id"], id).place.close()


async def test_sessions_are_listed_by_use(hf):
    """The one used last comes last, without events; pages and the newest first by our extension."""
    service = HoldfastSessionService(hf)
    for number, id in enumerate(("a", "b", "c")):
        session = await service.create_session(**WHO, session_id=id)
        await service.append_event(session, _said("hi", at=10.0 - number))
        _give_back(service, id)
    listed = await service.list_sessions(**WHO)
    assert [one.id for one in listed.sessions] == ["c", "b", "a"]
    assert not any(one.events for one in listed.sessions)
    page = await service.list_sessions(**WHO, newest_first=True, limit=1, offset=1)
    assert [one.id for one in page.sessions] == ["b"]
    assert (await service.list_sessions(app_name="app")).sessions
    assert not (await service.list_sessions(app_name="other")).sessions


async def test_only_the_sessions_of_a_page_are_read(hf, monkeypatch):
    """Of all others no more than the beginning, however long they are."""
    service = HoldfastSessionService(hf)
    for id in ("a", "b", "c"):
        session = await service.create_session(**WHO, session_id=id, state={"of": id})
        for text in "123":
            await service.append_event(session, _said(text))
        _give_back(service, id)
        await asyncio.sleep(0.02)  # the clock of files is a coarse one
    read, events = [], hf.events

    def noted(id, *given, limit=None, **named):
        read.extend([id] if limit is None else [])
        return events(id, *given, limit=limit, **named)

    monkeypatch.setattr(hf, "events", noted)
    page = await HoldfastSessionService(hf).list_sessions(**WHO, newest_first=True, limit=1)
    assert [(one.id, one.state) for one in page.sessions] == [("c", {"of": "c"})]
    assert len(set(read)) == 1


async def test_what_is_not_there_and_what_is_already(hf):
    """The kit's own errors, as its own services raise them."""
    service = HoldfastSessionService(hf)
    assert await service.get_session(**WHO, session_id="none") is None
    session = await service.create_session(**WHO, session_id="trip")
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**WHO, session_id="trip")
    await service.delete_session(**WHO, session_id="trip")
    assert await service.get_session(**WHO, session_id="trip") is None
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, _said("hi"))
    await service.delete_session(**WHO, session_id="trip")


async def test_a_stale_session_is_refused(hf):
    """Whoever holds an old copy is told so, and nothing of it is recorded."""
    first, second = HoldfastSessionService(hf), HoldfastSessionService(hf)
    await first.create_session(**WHO, session_id="trip")
    mine = await first.get_session(**WHO, session_id="trip")
    theirs = await second.get_session(**WHO, session_id="trip")
    await first.append_event(mine, _said("one"))
    with pytest.raises(StaleSessionError, match="modified in storage"):
        await second.append_event(theirs, _said("two"))
    await first.append_event(mine, _said("three", at=2.0))
    found = await second.get_session(**WHO, session_id="trip")
    assert [event.content.parts[0].text for event in found.events] == ["one", "three"]


async def test_an_event_that_is_delivered_twice_is_recorded_once(hf):
    """And one that is only part of an answer not at all."""
    service = HoldfastSessionService(hf)
    session = await service.create_session(**WHO, session_id="trip")
    event = _said("hi")
    for _ in range(2):
        await service.append_event(session, event)
    await service.append_event(session, Event(author="agent", partial=True))
    assert len((await service.get_session(**WHO, session_id="trip")).events) == 1


async def test_a_session_of_others_is_found_only_if_asked_for(hf):
    """With adopt, what another framework recorded goes on here."""
    with hf.session("trip") as s:
        s.user("Hello")
        call = s.tool_call("Read", {"path": "a"})
        s.tool_result(call, "text")
        s.assistant("Done")
    assert await HoldfastSessionService(hf).get_session(**WHO, session_id="trip") is None
    found = await HoldfastSessionService(hf, adopt=True).get_session(**WHO, session_id="trip")
    assert [event.content.role for event in found.events] == ["user", "model", "user", "model"]
    calls, results = found.events[1].get_function_calls(), found.events[2].get_function_responses()
    assert calls[0].id == results[0].id


async def test_of_two_results_of_a_call_others_read_the_later(hf):
    """What only said that the call waits is taken back for them; the kit has both."""
    service = HoldfastSessionService(hf)
    session = await service.create_session(**WHO, session_id="trip")
    await service.append_event(session, _said("Look"))
    await service.append_event(session, _call())
    for at, told in ((3.0, "please confirm"), (4.0, "a tree")):
        given = types.FunctionResponse(id="c1", name="look", response={"result": told})
        content = types.Content(role="user", parts=[types.Part(function_response=given)])
        answer = Event(author="agent", invocation_id="i1", timestamp=at, content=content)
        await service.append_event(session, answer)
    own = hf.list()[0].session_id
    told = str(hf.recover(own).messages)
    assert "a tree" in told
    assert "please confirm" not in told
    read = await HoldfastSessionService(hf).get_session(**WHO, session_id="trip")
    assert read.events == session.events
    assert len(read.events) == 4


async def test_an_id_that_a_later_call_has_as_well_takes_nothing_back(hf):
    """Some models count their calls anew in each turn: both calls have their results."""
    service = HoldfastSessionService(hf)
    session = await service.create_session(**WHO, session_id="trip")
    for number in range(2):
        await service.append_event(session, _said("Look", at=1.0 + number))
        await service.append_event(session, _call(at=2.0 + number))
        given = types.FunctionResponse(id="c1", name="look", response={"result": f"tree {number}"})
        content = types.Content(role="user", parts=[types.Part(function_response=given)])
        answer = Event(author="a", invocation_id="i1", timestamp=3.0 + number, content=content)
        await service.append_event(session, answer)
    own = hf.list()[0].session_id
    assert not list(hf.events(own, types={"retracted"}))


async def test_what_is_rewound_is_taken_back_for_others(hf):
    """They read what stands; the kit has all of it, and its variables stay as it says."""
    service = HoldfastSessionService(hf)
    session = await service.create_session(**WHO, session_id="trip")
    for number, text in enumerate(("one", "two", "three"), 1):
        event = _said(text, at=float(number), state_delta={"at": text})
        event.invocation_id = f"i{number}"
        await service.append_event(session, event)
    back = EventActions(rewind_before_invocation_id="i2", state_delta={"at": "one"})
    rewind = Event(author="user", invocation_id="i4", timestamp=4.0, actions=back)
    await service.append_event(session, rewind)
    await service.append_event(session, _said("four", at=5.0))
    own = hf.list()[0].session_id
    ((said,),) = [hf.recover(own, "neutral").messages]
    assert [block["text"] for block in said["content"]] == ["one", "four"]
    assert not hf.search("three")
    read = await HoldfastSessionService(hf).get_session(**WHO, session_id="trip")
    assert read.events == session.events
    assert len(read.events) == 5
    assert read.state == {"at": "one"}
    assert hf.state(own).variables == {"at": "one"}


async def test_sessions_are_given_back_at_the_end_of_a_block(hf):
    """As with DatabaseSessionService; whoever comes next need not wait, and the service goes on."""
    async with HoldfastSessionService(hf) as service:
        session = await service.create_session(**WHO)
        place = service._of(WHO["app_name"], WHO["user_id"], session.id).place
        assert place.held() is not None
    assert place.held() is None
    hf.session(place.id).close()
    assert await service.get_session(**WHO, session_id=session.id) is not None
    await service.close()


_PROGRAM = """
    import asyncio, sys, warnings
    warnings.simplefilter("ignore")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.genai import types
    from holdfast.integrations.adk import HoldfastSessionService

    store, hangs = sys.argv[1], sys.argv[2] == "hang"

    class Scripted(BaseLlm):
        async def generate_content_async(self, request, stream=False):
            parts = [part for content in request.contents for part in content.parts]
            if not any(part.function_response for part in parts):
                part = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={}))
            elif hangs:
                print("waiting", flush=True)
                await asyncio.sleep(600)
            else:
                part = types.Part(text=f"{len(request.contents)} contents seen")
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def look() -> str:
        "Look."
        return "a tree"

    async def main():
        service = HoldfastSessionService(store)
        who = {"app_name": "app", "user_id": "u"}
        if await service.get_session(**who, session_id="trip") is None:
            await service.create_session(**who, session_id="trip")
        agent = LlmAgent(name="agent", model=Scripted(model="x"), tools=[look])
        runner = Runner(agent=agent, app_name="app", session_service=service)
        said = types.Content(role="user", parts=[types.Part(text="Look around")])
        async for event in runner.run_async(user_id="u", session_id="trip", new_message=said):
            if event.is_final_response():
                print(event.content.parts[0].text, flush=True)

    asyncio.run(main())
"""


def test_a_run_that_was_killed_goes_on(programs, store_root):
    """A kill -9 in a real run; the next one is given what was done before."""
    programs.killed(_PROGRAM)
    assert programs.finished(_PROGRAM) == "4 contents seen\n"
    with holdfast.open(store_root) as hf:
        (about,) = hf.list()
        assert hf.verify(about.session_id).ok


async def test_shared_state_is_kept_without_secrets(tmp_path):
    """With redaction on, what a user or an app shares over sessions is on the medium as the log says it."""
    token = "ghp_" + "aB3dE6gH9j" * 3 + "K1m2N3"
    with holdfast.open(tmp_path / "store", config={"redaction": {"mode": "mark"}}) as hf:
        service = HoldfastSessionService(hf)
        session = await service.create_session(**WHO, state={"user:first": token})
        await service.append_event(session, _said("hi", state_delta={"user:token": token, "app:token": [token]}))
        state = await service.get_user_state(**WHO)
        assert {name: value[:8] for name, value in state.items()} == {"first": "[secret:", "token": "[secret:"}
        state = {"user:more": token}
        source = InMemorySessionService()
        await source.create_session(**WHO, session_id="brought", state=state)
        await adk.bring_over(source, "app", hf)
        await service.close()
    held = [path for path in tmp_path.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert held == []
