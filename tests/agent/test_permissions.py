"""Permissions: who is asked, what is remembered, and what is durable before it counts."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.agent import Agent, Decision, Features, Tool, ToolContext
from holdfast.agent._permissions import StandingApprovals
from holdfast.errors import Conflict, UsageError
from holdfast.replay import Approval


class Asked:
    """A prompt callback that notes what it was asked and gives prepared answers."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        return self.answers.pop(0)


def danger(ran):
    """A tool that needs permission and notes each run."""

    def act(what: str = "x") -> str:
        """Act."""
        ran.append(what)
        return "acted"

    return Tool(act, needs_permission=True)


def calls(count, **args):
    """A script that calls the tool in each of so many answers."""
    return [*([[("act", args)]] * count), "done"]


async def results(session):
    """The results of a session's calls."""
    return [event.data["result"] for event in session.events() if event.type == "tool_result"]


async def test_without_a_callback_the_tool_is_denied_with_a_reason(hf, script):
    """Nobody to ask means no, and the model is told why."""
    ran = []
    agent = Agent(script(*calls(1)).model, tools=[danger(ran)])
    with hf.session("s") as session:
        await agent.run("go", session=session)
        [result] = await results(session)
    assert result["message"].startswith("Permission denied: the tool act needs permission")
    assert ran == []


@pytest.mark.parametrize(("answer", "asked"), [("once", 2), ("session", 1), (True, 2)])
async def test_scopes_of_an_approval(hf, script, answer, asked):
    """Once is asked each time; for the session, once is enough."""
    ran, prompt = [], Asked(answer, answer)
    agent = Agent(script(*calls(2)).model, tools=[danger(ran)], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
    assert len(ran) == 2
    assert len(prompt.requests) == asked
    request = prompt.requests[0]
    assert (request.tool, request.session_id, request.agent) == ("act", "s", "agent")


@pytest.mark.req("S0-46")
def test_lists_that_nobody_heeds_are_refused(hf, script):
    """With permissions off, blocking a tool is an error and not an empty promise."""
    agent = Agent(script("x").model, features=Features(permissions=False))
    with hf.session("s") as session:
        for change in (agent.allow_tool, agent.block_tool, agent.unlist_tool):
            with pytest.raises(UsageError, match="permissions are off"):
                change("act", session=session)
        assert session.seq == -1


async def test_an_approval_for_the_session_survives_a_restart(hf, script):
    """Opened again, the session knows what was approved in it; another session does not."""
    ran, prompt = [], Asked("session", "deny")
    tools = [danger(ran)]
    with hf.session("s") as session:
        model = script(*calls(1)).model
        await Agent(model, tools=tools, permission=prompt).run("go", session=session)
    with hf.session("s") as session:
        model = script(*calls(1)).model
        await Agent(model, tools=tools, permission=prompt).run("go", session=session)
    assert len(prompt.requests) == 1
    with hf.session("other") as session:
        model = script(*calls(1)).model
        await Agent(model, tools=tools, permission=prompt).run("go", session=session)
    assert (len(prompt.requests), len(ran)) == (2, 2)


async def test_always_is_for_all_sessions_of_the_agent(hf, script):
    """An approval for always is kept with the agent and holds in its next session."""
    ran, prompt = [], Asked("always")
    options = {"agent_id": "bot", "persistent_session": True, "hf": hf, "permission": prompt}
    with Agent(script(*calls(1)).model, tools=[danger(ran)], **options) as agent:
        await agent.run("go")
        agent.new_session()
    with Agent(script(*calls(1)).model, tools=[danger(ran)], **options) as agent:
        agent.new_session()
        await agent.run("go")
    assert (len(ran), len(prompt.requests)) == (2, 1)


async def test_what_is_kept_with_an_agent_has_no_secret(tmp_path, script):
    """Its instructions, and who approved a tool for always, are in its documents as a session would record them."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    prompt = Asked(Decision(True, scope="always", approved_by=f"bob {secret}"))
    with holdfast.open(tmp_path, config={"redaction": {"mode": "mark"}}) as hf:
        options = {"agent_id": "bot", "persistent_session": True, "hf": hf, "permission": prompt}
        with Agent(script(*calls(1)).model, tools=[danger([])], **options) as agent:
            agent.custom_instructions = f"use {secret} for it"
            await agent.run("go")
        assert agent.custom_instructions.startswith("use [secret:")
        assert [name for name in hf.store.documents("agents/bot").names() if "permissions" in name]
    assert not [str(path) for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


async def test_an_expired_approval_asks_again(hf, script):
    """After its time an approval no longer holds, and the callback is told that it expired."""
    ran = []
    prompt = Asked(Decision(True, scope="session", expires_in_ms=0), True)
    agent = Agent(script(*calls(2)).model, tools=[danger(ran)], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
    assert [request.expired for request in prompt.requests] == [False, True]
    assert len(ran) == 2


async def test_an_approval_can_be_for_the_same_arguments_only(hf, script):
    """With same_args, other arguments are asked for again."""
    ran = []
    prompt = Asked(Decision(True, scope="session", same_args=True), False)
    steps = [[("act", {"what": "a"})], [("act", {"what": "a"})], [("act", {"what": "b"})], "done"]
    agent = Agent(script(*steps).model, tools=[danger(ran)], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
    assert ran == ["a", "a"]
    assert [request.expired for request in prompt.requests] == [False, False]


async def test_a_standing_approval_holds_beside_one_that_expired(hf, script):
    """What is approved for always is not asked for because a shorter approval has run out."""
    ran, prompt = [], Asked()
    options = {"agent_id": "bot", "persistent_session": True, "hf": hf, "permission": prompt}
    with Agent(script(*calls(1)).model, tools=[danger(ran)], **options) as agent:
        agent.configure_tools(enabled={"act": True})  # begins the session
        short = {"tool": "act", "decision": "allow", "scope": "session", "expires_at": 1}
        agent.session.append("permission", short)
        StandingApprovals(hf.store.documents("agents/bot"), print).add("act", Approval(scope="always"))
        await agent.run("go")
    assert (len(ran), prompt.requests) == (1, [])


async def test_a_denial_is_recorded_with_its_reason(hf, script):
    """No is an answer: it is on record, and the model is told the reason."""
    ran = []

    async def prompt(request):
        return Decision(False, reason="not on a Sunday")

    agent = Agent(script(*calls(1)).model, tools=[danger(ran)], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
        [result] = await results(session)
        [decision] = [e.data for e in session.events() if e.type == "permission"]
    assert result["message"] == "Permission denied: not on a Sunday"
    assert (decision["tool"], decision["decision"], decision["scope"]) == ("act", "deny", "once")
    assert ran == []


async def test_a_decision_is_on_the_medium_before_the_tool_runs(hf, script, monkeypatch):
    """The call is on the medium before anyone is asked, and the permission before it runs."""
    from holdfast.session import Session

    order = []
    barrier = Session.abarrier

    async def noted(self):
        await barrier(self)
        order.append([event.type for event in self.events()][-1])

    monkeypatch.setattr(Session, "abarrier", noted)
    agent = Agent(script(*calls(1)).model, tools=[danger(order)], permission=Asked("session"))
    with hf.session("s") as session:
        await agent.run("go", session=session)
    assert order[:3] == ["tool_call", "permission", "x"]


async def test_block_and_allow_lists(hf, script):
    """A blocked tool never runs, an allowed one is not asked for; unlisted is as before."""
    ran, prompt = [], Asked(False)
    agent = Agent(script("x").model, tools=[danger(ran)], permission=prompt)

    async def go(session):
        agent.spec.model.function = script(*calls(1)).model.function
        await agent.run("go", session=session)

    with hf.session("s") as session:
        agent.allow_tool("act", session=session)
        await go(session)
        assert (len(ran), len(prompt.requests)) == (1, 0)
        agent.block_tool("act", session=session)
        await go(session)
        assert (len(ran), len(prompt.requests)) == (1, 0)
        assert session.state.permissions.blocklist == ["act"]
        agent.unlist_tool("act", session=session)
        await go(session)
        assert (len(ran), len(prompt.requests)) == (1, 1)


async def test_a_tool_without_need_can_be_blocked_too(hf, script):
    """The block list holds for every tool."""
    ran = []

    def act() -> str:
        """Act."""
        ran.append(1)
        return ""

    agent = Agent(script(*calls(1)).model, tools=[act])
    with hf.session("s") as session:
        agent.block_tool("act", session=session)
        await agent.run("go", session=session)
    assert ran == []


@pytest.mark.req("S0-44", "S0-46")
async def test_without_the_feature_nothing_is_asked_or_recorded(hf, script):
    """With permissions off every tool runs, and no decision is stored or heeded."""
    ran, prompt = [], Asked()
    off = Features(permissions=False)
    agent = Agent(script(*calls(1)).model, tools=[danger(ran)], permission=prompt, features=off)
    with hf.session("s") as session:
        session.append("permission", {"tool": "act", "decision": "blocklist"})
        await agent.run("go", session=session)
        assert [e.type for e in session.events()].count("permission") == 1
    assert len(ran) == 1


async def test_an_answer_that_means_nothing_is_an_error_of_the_caller(hf, script):
    """A callback that answers nonsense ends the run with a remedy; the session stays valid."""
    agent = Agent(script(*calls(1)).model, tools=[danger([])], permission=Asked("maybe"))
    with hf.session("s") as session:
        with pytest.raises(UsageError) as caught:
            await agent.run("go", session=session)
        assert "Decision" in caught.value.remedy
        assert not session.live_state.pending_calls
    with pytest.raises(UsageError):
        Decision(True, scope="forever")


async def test_each_call_asks_in_turn(hf, script):
    """Parallel calls that need permission are asked for one after the other."""
    ran, prompt = [], Asked(True, False)
    steps = [[("act", {"what": "a"}), ("act", {"what": "b"})], "done"]
    agent = Agent(script(*steps).model, tools=[danger(ran)], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
    assert [request.args["what"] for request in prompt.requests] == ["a", "b"]
    assert ran == ["a"]


async def test_an_answer_for_the_session_holds_for_the_calls_beside_it(hf, script):
    """Of calls that are made at once the rest is not asked about any more, and each is on record as begun."""
    ran, prompt = [], Asked("session")
    two = [("act", {"what": "a"}), ("act", {"what": "b"})]
    agent = Agent(script(two, "done").model, tools=[danger(ran)], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
        kinds = [event.type for event in session.events()]
    assert (sorted(ran), len(prompt.requests)) == (["a", "b"], 1)
    assert kinds.index("step") < len(kinds) - kinds[::-1].index("tool_result")


def test_standing_approvals_survive_each_other_and_damage(hf):
    """Two writers keep each other's approvals; an unreadable document approves nothing."""
    documents = hf.store.documents("agents/bot")
    one, two = StandingApprovals(documents, print), StandingApprovals(documents, print)
    one.add("a", Approval(scope="always"))
    two.add("b", Approval(scope="always"))
    assert set(one.read()) == {"a", "b"}
    documents.put("permissions.json", b"{")
    assert one.read() == {}
    one.add("c", Approval(scope="always"))
    assert set(two.read()) == {"c"}


def test_standing_approvals_give_up_when_they_never_win():
    """A document that always changes is a Conflict in the end."""

    class Restless:
        def get(self, name):
            return b"{}", "etag"

        def put(self, name, data, if_match=None):
            raise Conflict

    with pytest.raises(Conflict):
        StandingApprovals(Restless(), print).add("a", Approval())


async def test_memory_tools_need_the_feature(hf, script):
    """A tool that asks for a memory that is off gets a clear error."""

    def peek(ctx: ToolContext) -> str:
        """Look."""
        return str(ctx.memory.entries())

    agent = Agent(script([("peek", {})], "done").model, tools=[peek], features=Features(memory=False))
    with hf.session("s") as session:
        await agent.run("go", session=session)
        [result] = await results(session)
    assert "this agent has no memory" in result["message"]


async def test_the_callback_knows_which_call_it_is_asked_about(hf, script):
    """The id in the question is the id under which the call is recorded then."""
    prompt = Asked("once")
    agent = Agent(script([("act", {}, "call-7")], "done").model, tools=[danger([])], permission=prompt)
    with hf.session("s") as session:
        await agent.run("go", session=session)
        recorded = [event.data["id"] for event in session.events() if event.type == "tool_call"]
    assert [request.call_id for request in prompt.requests] == recorded == ["call-7"]
