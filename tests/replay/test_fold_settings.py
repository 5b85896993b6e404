"""What a session was told to keep: variables, memory, todos, plugins, permissions, origin."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.model import Event, encode_value
from holdfast.replay import Fold, fold

START = 1_700_000_000_000


def log(*events):
    """A log of (type, data) pairs, a second apart."""
    return [Event.make(type, data, seq=at, timestamp=START + 1000 * at) for at, (type, data) in enumerate(events)]


def state_of(*events):
    """The state after such a log."""
    return fold(log(*events))


def variable(name, value):
    """A variable_set as the session records it."""
    return ("variable_set", {"name": name, "value": encode_value(value)[0]})


class TestVariables:
    """Workflow variables with their Python types."""

    @pytest.mark.req("S1-8")
    @pytest.mark.req("S1-43")
    @pytest.mark.req("B-29")
    def test_the_last_value_of_each_name_counts(self):
        """Set, set again, delete: what is left, with its types."""
        when = datetime(2025, 11, 15, tzinfo=UTC)
        state = state_of(
            variable("x", 1),
            variable("gone", [1]),
            variable("x", {"at": when, "tags": {"a"}}),
            ("variable_delete", {"name": "gone"}),
            ("variable_delete", {"name": "never was"}),
            ("variable_set", {"name": "none"}),
        )
        assert state.variables == {"x": {"at": when, "tags": {"a"}}, "none": None}
        assert state.ignored == 0

    def test_reads_are_copies(self):
        """Changing what was read changes nothing."""
        state = state_of(variable("x", [1]))
        state.variables["x"].append(2)
        assert state.variables == {"x": [1]}

    def test_blobs_are_loaded_when_asked(self):
        """References read as they are, or as what the loader gives, also inside a loaded blob."""
        inner = {"$blob": "b" * 64, "bytes": 3, "media": "text/plain"}
        outer = {"$blob": "a" * 64, "bytes": 9, "media": "application/json"}
        raw = b'{"name":"x","value":[1,%b,{"k":2}]}' % (
            b'{"$blob":"%b","bytes":9,"media":"application/json"}' % (b"a" * 64)
        )
        state = fold([Event("variable_set", 0, START, raw)])
        found = {"a" * 64: {"text": inner, "$$blob": "mine"}, "b" * 64: "abc"}
        loaded = state.read_variables(lambda reference: found[reference["$blob"]])
        assert state.variables == {"x": [1, outer, {"k": 2}]}
        assert loaded == {"x": [1, {"text": "abc", "$blob": "mine"}, {"k": 2}]}

    def test_a_value_that_the_codec_never_wrote_reads_as_recorded(self):
        """Data too deep for the codec is given plain, not refused."""
        raw = b'{"name":"x","value":' + b"[" * 900 + b"]" * 900 + b"}"
        value = fold([Event("variable_set", 0, START, raw)]).variables["x"]
        depth = 0
        while value:
            value, depth = value[0], depth + 1
        assert depth == 899


class TestMemory:
    """Described entries of the session's memory."""

    @pytest.mark.req("S0-25")
    @pytest.mark.req("B-5")
    @pytest.mark.req("B-44")
    def test_an_entry_keeps_all_it_was_given_and_its_times(self):
        """Key, description, value, scope, size, priority, pin, times and source event."""
        first = {"key": "prefs", "value": 1, "description": "what she likes"}
        second = {**first, "value": {"theme": "dark"}, "priority": "high", "pinned": True}
        entry = state_of(("memory_set", first), ("memory_set", second)).memory["prefs"]
        assert (entry.key, entry.description, entry.value) == ("prefs", "what she likes", {"theme": "dark"})
        assert (entry.scope, entry.priority, entry.pinned, entry.seq) == ("session", "high", True, 1)
        assert entry.size_bytes == len('{"theme":"dark"}')
        assert (entry.created_at, entry.updated_at) == (START, START + 1000)
        assert entry.last_accessed_at == START + 1000

    def test_times_of_an_import_are_kept(self):
        """An entry may bring its own times and size."""
        data = {"key": "k", "created_at": 5, "last_accessed_at": 7, "sizeBytes": 11}
        entry = state_of(("memory_set", data)).memory["k"]
        assert (entry.created_at, entry.last_accessed_at, entry.size_bytes) == (5, 7, 11)

    @pytest.mark.parametrize(
        ("member", "size"),
        [
            (b'"value":{"$blob":"%b","bytes":300000}' % (b"a" * 64), 300_000),
            (b'"value":{"$blob":"%b","bytes":"many"}' % (b"a" * 64), 91),
            (b'"value":{"$blob":"short","bytes":3}', 27),
            (b'"value":"abc","sizeBytes":-1', 5),
        ],
    )
    def test_the_size_is_that_of_the_value_wherever_it_is(self, member, size):
        """A value kept as a blob counts with the size of the blob."""
        raw = b'{"key":"k",%b}' % member
        assert fold([Event("memory_set", 0, START, raw)]).memory["k"].size_bytes == size

    def test_entries_and_plugins_load_their_blobs_when_asked(self):
        """A memory value and a plugin state kept apart read as what the loader gives."""
        reference = b'{"$blob":"%b","bytes":3}' % (b"a" * 64)
        memory = Event("memory_set", 0, START, b'{"key":"k","value":%b}' % reference)
        plugin = Event("plugin_state", 1, START, b'{"name":"p","state":%b}' % reference)
        state = fold([memory, plugin])
        assert state.memory["k"].read(lambda _: "abc") == "abc"
        assert state.plugins["p"].read(lambda _: "abc") == "abc"

    @pytest.mark.req("S0-24")
    @pytest.mark.req("S0-26")
    def test_stats_agree_with_the_entries(self):
        """Counts and sizes are those of the entries, through sets, replacements and deletes."""
        fold_ = Fold()
        steps = [("a", "xx"), ("b", [1, 2]), ("a", "xxxx"), ("b", None)]
        for seq, (key, value) in enumerate(steps):
            type = "memory_delete" if value is None else "memory_set"
            fold_.fold([Event.make(type, {"key": key, "value": value}, seq=seq)])
            stats = fold_.state.memory_stats()
            assert stats.total_entries == len(fold_.state.memory)
            sizes = [entry.size_bytes for entry in fold_.state.memory.values()]
            assert stats.total_size_bytes == sum(sizes)
        assert (stats.total_entries, stats.total_size_bytes) == (1, 6)


ONE = [{"content": "book", "status": "pending", "id": "1"}]
TWO = [{"content": "pay", "status": "in_progress", "id": "2"}]


@pytest.mark.req("B-42")
class TestTodos:
    """One list: the last that was written, by event or by tool call."""

    @pytest.mark.req("S3-71")
    @pytest.mark.req("S3-16")
    def test_the_last_list_wins(self):
        """An update after a call, or a call after an update, replaces the whole list."""
        update = ("todo_update", {"todos": ONE})
        call = ("tool_call", {"id": "c", "tool": "TodoWrite", "params": {"todos": TWO}})
        assert state_of(update, call).todos == TWO
        assert state_of(call, update).todos == ONE

    @pytest.mark.req("B-17")
    @pytest.mark.parametrize("tool", ["TodoWrite", "todowrite", "TODOWRITE", "todo_write"])
    def test_the_tool_is_known_in_any_case(self, tool):
        """The name of the todo tool is compared without case."""
        call = ("tool_call", {"id": "c", "tool": tool, "params": {"todos": ONE}})
        assert state_of(call).todos == ONE

    @pytest.mark.req("B-17")
    def test_the_names_can_be_set(self):
        """A fold can be told which tools write todos; the usual one is then as any other."""
        call = ("tool_call", {"id": "c", "tool": "Plan", "params": {"todos": ONE}})
        usual = ("tool_call", {"id": "d", "tool": "TodoWrite", "params": {"todos": TWO}})
        assert Fold(todo_tools=["PLAN"]).fold(log(call, usual)).todos == ONE

    def test_arguments_given_as_text_are_read(self):
        """Some providers give a call's arguments as JSON text."""
        call = ("tool_call", {"id": "c", "tool": "TodoWrite", "params": '{"todos":[{"content":"x"}]}'})
        assert state_of(call).todos == [{"content": "x"}]

    @pytest.mark.req("S3-37")
    @pytest.mark.parametrize("params", [None, 5, "no json", {}, {"todos": 5}, {"todos": ["x", 1]}])
    def test_a_malformed_list_is_empty(self, params):
        """A call without a usable list leaves none; items that are no maps are left out."""
        call = ("tool_call", {"id": "c", "tool": "TodoWrite", "params": params})
        assert state_of(("todo_update", {"todos": ONE}), call).todos == []


@pytest.mark.req("S0-17")
@pytest.mark.req("S0-22")
def test_plugin_states_are_kept_verbatim():
    """State of any plugin, known here or not, comes back as it was given, by name."""
    raw = b'{"name":"odd","version":"2","state":{"b":1.0,"a":[ 1 ,2],"entries":[]}}'
    state = fold([Event("plugin_state", 0, START, raw), *log(("plugin_state", {"name": "x"}))])
    plugin = state.plugins["odd"]
    assert bytes(plugin.raw) == b'{"b":1.0,"a":[ 1 ,2],"entries":[]}'
    assert (plugin.name, plugin.version, plugin.seq, plugin.updated_at) == ("odd", "2", 0, START)
    assert plugin.state == {"b": 1.0, "a": [1, 2], "entries": []}
    assert state.plugins["x"].state is None


@pytest.mark.req("S0-21")
class TestPermissions:
    """Standing approvals, allow list and block list."""

    def approvals(self, *decisions):
        """The approvals after decisions about the tool Write."""
        events = [("permission", {"tool": "Write", **decision}) for decision in decisions]
        return state_of(*events).permissions.approvals

    def test_an_approval_keeps_its_terms(self):
        """Scope, who, when, until when and for which arguments."""
        terms = {"scope": "always", "approved_by": "ann", "expires_at": 9, "args_hash": "h"}
        approval = self.approvals({"decision": "allow", **terms})["Write"]
        assert (approval.scope, approval.approved_by, approval.approved_at) == ("always", "ann", START)
        assert (approval.expires_at, approval.args_hash) == (9, "h")

    @pytest.mark.parametrize(
        ("decisions", "standing"),
        [
            ([{"decision": "approved"}], True),
            ([{"decision": "allow", "scope": "once"}], False),
            ([{"decision": "allow"}, {"decision": "deny"}], False),
            ([{"decision": "allow"}, {"decision": "deny", "scope": "once"}], True),
            ([{"decision": "allow"}, {"decision": "revoke", "scope": "once"}], False),
            ([{"decision": "revoke"}], False),
            ([{"decision": "ponder"}], False),
            ([{}], False),
        ],
    )
    def test_only_a_standing_approval_is_kept(self, decisions, standing):
        """What was allowed once, denied or revoked later does not stand."""
        assert ("Write" in self.approvals(*decisions)) is standing

    def test_a_tool_is_on_one_list_at_most(self):
        """Listing a tool takes it off the other list; unlisting off both."""
        listed = [("permission", {"tool": "Bash", "decision": "allowlist"})]
        listed.append(("permission", {"tool": "Read", "decision": "allowlist"}))
        blocked = [*listed, ("permission", {"tool": "Bash", "decision": "blocklist"})]
        permissions = state_of(*blocked).permissions
        assert (permissions.allowlist, permissions.blocklist) == (["Read"], ["Bash"])
        free = state_of(*blocked, ("permission", {"tool": "Bash", "decision": "unlist"})).permissions
        assert (free.allowlist, free.blocklist) == (["Read"], [])

    def test_a_whole_state_can_be_recorded_at_once(self):
        """An import sets approvals, lists and version as they were."""
        whole = {
            "approvals": {"Read": {"scope": "session", "approved_at": 5}},
            "allowlist": ["Read"],
            "blocklist": ["Bash"],
            "version": 3,
        }
        permissions = state_of(("permission", whole)).permissions
        assert permissions.approvals["Read"].approved_at == 5
        assert (permissions.allowlist, permissions.blocklist) == (["Read"], ["Bash"])
        assert permissions.version == 3


@pytest.mark.req("S0-20")
def test_tool_state_is_merged_by_tool():
    """What is given is set, null removes, the rest stays."""
    tools = state_of(
        ("tools", {"enabled": {"Read": True, "Bash": False}, "priorities": {"Read": 1}}),
        ("tools", {"enabled": {"Bash": None, "never": None}, "namespaces": {"Read": "files"}}),
    ).tools
    assert tools.enabled == {"Read": True}
    assert (tools.namespaces, tools.priorities) == ({"Read": "files"}, {"Read": 1})


@pytest.mark.req("S0-23")
@pytest.mark.req("S4-6")
@pytest.mark.req("S4-9")
@pytest.mark.req("S4-11")
@pytest.mark.req("S0-19")
def test_config_metadata_instructions_and_task():
    """Free maps are merged by member, instructions and the task replaced."""
    state = state_of(
        ("config", {"model": "m1", "strategy": "proactive"}),
        ("config", {"model": "m2", "strategy": None}),
        ("metadata", {"files": ["a"], "raw": 1}),
        ("instructions", {"content": "first"}),
        ("instructions", {"content": "Be kind."}),
        ("task", {"task": {"goal": "ship"}}),
    )
    assert state.config == {"model": "m2"}
    assert state.metadata == {"files": ["a"], "raw": 1}
    assert (state.instructions, state.task) == ("Be kind.", {"goal": "ship"})
    assert state_of(("task", {"task": "a"}), ("task", {})).task is None


class TestUsage:
    """Tokens, requests and cost, in all and by model."""

    @pytest.mark.req("S4-10")
    @pytest.mark.req("S2-18")
    def test_usage_of_messages_and_events_is_added_up(self):
        """Answers, calls and usage events each count once."""
        call = {"id": "c", "tool": "Read", "usage": {"input_tokens": 1}, "model": "a"}
        state = state_of(
            ("assistant", {"content": "x", "usage": {"input_tokens": 10, "output_tokens": 5}}),
            ("assistant", {"content": "y", "usage": {"output_tokens": 2}, "model": "a"}),
            ("tool_call", call),
            ("usage", {"input_tokens": 100, "model": "a", "requests": 3, "cost": 0.5}),
        )
        usage = state.usage
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (111, 7, 118)
        assert (usage.requests, usage.cost) == (6, 0.5)
        assert {name: part.total_tokens for name, part in usage.by_model.items()} == {"": 15, "a": 103}
        assert state.metrics == {"tokens_in": 111, "tokens_out": 7, "request_count": 6, "last_activity": START + 3000}

    def test_usage_counts_the_same_while_it_is_written(self):
        """The writer's own data gives the same figures as the recorded bytes."""
        usage = {"usage": {"input_tokens": 3}, "model": "m"}
        foreign = {"metadata": {"usage": {"output_tokens": 2}, "model": "n"}}
        events = [
            ("assistant", {"content": "x", **usage}),
            ("tool_call", {"id": "c", "tool": "Read", **usage}),
            ("assistant", {"content": "x", **foreign}),
            ("tool_call", {"id": "d", "tool": "Read", **foreign}),
            ("assistant", {"content": "x", "usage": "unknown"}),
            ("assistant", {"content": "x"}),
        ]
        live = Fold()
        for event, (_, data) in zip(log(*events), events, strict=True):
            live.apply(event, data)
        assert live.state == state_of(*events)
        assert live.state.usage.by_model["m"].input_tokens == 6
        assert live.state.usage.by_model["n"].output_tokens == 4

    @pytest.mark.parametrize(
        ("figures", "expected"),
        [
            ({"prompt_tokens": 3, "completion_tokens": 4}, (3, 4, 7)),
            ({"promptTokens": 3, "completionTokens": 4, "totalTokens": 8}, (3, 4, 8)),
            ({"total_tokens": 9}, (0, 0, 9)),
            ({"input_tokens": 3, "output_tokens": None, "details": {"x": 1}}, (3, 0, 3)),
            ({"input_tokens": -3, "output_tokens": True}, (0, 0, 0)),
        ],
    )
    def test_each_provider_has_its_own_names(self, figures, expected):
        """Figures are read under the names that providers use; what is no figure is passed over."""
        usage = state_of(("assistant", {"content": "x", "usage": figures})).usage
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == expected
        assert usage.requests == 1

    def test_cached_tokens_and_cost_are_kept_apart(self):
        """Cache figures have their own counts; an unknown cost stays None, not zero."""
        figures = {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 6, "cost": "free"}
        usage = state_of(("usage", figures)).usage
        assert (usage.cache_read_tokens, usage.cache_write_tokens, usage.cost) == (5, 6, None)
        paid = state_of(("usage", {"cost": 1}), ("usage", {"cost_usd": 0.25}), ("usage", {})).usage
        assert paid.cost == 1.25

    def test_foreign_logs_have_usage_among_the_metadata(self):
        """Usage under an answer's metadata counts, with the model named there."""
        metadata = {"model": "m", "usage": {"promptTokens": 2, "completionTokens": 1}}
        usage = state_of(("assistant", {"content": "x", "metadata": metadata})).usage
        assert usage.by_model["m"].total_tokens == 3

    def test_what_was_read_is_a_copy(self):
        """Changing the sum or a model's part changes nothing."""
        state = state_of(("usage", {"input_tokens": 1, "model": "m"}))
        state.usage.by_model["m"].input_tokens = 99
        assert state.usage.input_tokens == 1


class TestOrigin:
    """Where a session comes from and what it is called elsewhere."""

    @pytest.mark.req("S0-11")
    @pytest.mark.req("S0-12")
    @pytest.mark.req("S4-5")
    def test_session_start_says_what_the_session_is(self):
        """Format, log id, generation, agent, provider and parent."""
        start = {
            "format": 1,
            "log": "L1",
            "generation": 2,
            "agent_id": "ann",
            "agent_type": "task-agent",
            "provider_type": "acp",
            "parent": "p",
            "parent_seq": 7,
        }
        state = state_of(("session_start", start))
        assert (state.format, state.log, state.generation) == (1, "L1", 2)
        assert (state.agent_id, state.agent_type) == ("ann", "task-agent")
        assert state.provider_type == "acp"
        assert (state.parent.session, state.parent.seq) == ("p", 7)

    def test_a_copied_session_start_does_not_rename_the_session(self):
        """The first one counts; that of another log, copied in, does not."""
        state = state_of(
            ("session_start", {"format": 1, "log": "L1", "agent_id": "ann"}),
            ("session_start", {"format": 1, "log": "L2", "agent_id": "bob"}),
        )
        assert (state.log, state.agent_id) == ("L1", "ann")

    @pytest.mark.req("S0-18")
    def test_tags_are_a_list_without_doubles(self):
        """Tags keep their order; one that is there is not added, one that is not not removed."""
        events = [("tag", {"tag": tag}) for tag in ("b", "a", "b", "c")]
        events += [("untag", {"tag": "a"}), ("untag", {"tag": "a"})]
        assert state_of(*events).tags == ["b", "c"]

    @pytest.mark.req("S4-7")
    def test_links_keep_the_newest_id_last(self):
        """Foreign ids are kept by kind, each once, the newest last."""
        events = [("link", {"kind": "acp", "id": id}) for id in ("1", "2", "1")]
        state = state_of(*events, ("link", {"kind": "ws", "id": "9"}))
        assert state.links == {"acp": ["2", "1"], "ws": ["9"]}

    def test_a_fork_begins_at_rest_with_its_own_name(self):
        """A fork of a running session is not running; it knows its parent and its own log."""
        before = [
            ("session_start", {"format": 1, "log": "L1"}),
            ("opened", {"epoch": 1, "pid": 5}),
            ("turn_start", {}),
            ("tool_call", {"id": "c", "tool": "Read"}),
        ]
        state = state_of(*before, ("forked", {"session": "p", "seq": 3, "log": "L2"}))
        assert (state.parent.session, state.parent.seq, state.log) == ("p", 3, "L2")
        assert (state.mid_turn, state.last_open) == (False, None)
        kept = state_of(*before, ("forked", {"session": "p"}))
        assert (kept.log, kept.parent.seq) == ("L1", None)
        assert state_of(*before, ("merged", {})).mid_turn is False

    @pytest.mark.req("S2-67")
    def test_a_fork_is_named_after_what_it_came_from(self):
        """Its title says so and counts; a rewind keeps the title; foreign ids stay behind."""
        fork = ("forked", {"session": "p", "reason": "fork"})
        titled = ("title", {"title": "Trip"})
        assert state_of(titled, fork).shown_title == "Trip (fork)"
        assert state_of(titled, fork, fork, fork).shown_title == "Trip (fork 3)"
        merge = ("forked", {"session": "p", "reason": "merge"})
        assert state_of(titled, fork, merge).shown_title == "Trip (fork) (merge)"
        assert state_of(fork).shown_title is None
        assert state_of(titled, ("forked", {"session": "p"})).title == "Trip"
        assert state_of(("link", {"kind": "acp", "id": "1"}), fork).links == {}

    @pytest.mark.req("S2-67")
    def test_the_root_is_the_first_of_the_line(self):
        """Forks of forks have one root; what an event says of it wins."""
        fork, again = ("forked", {"session": "p"}), ("forked", {"session": "q"})
        assert state_of(fork, again).root == "p"
        assert state_of(fork, again).parent.session == "q"
        assert state_of(("forked", {"session": "p", "root": "r"})).root == "r"

    def test_a_rewritten_log_says_its_generation(self):
        """Repair and redaction raise the generation and never lower it."""
        events = [("repaired", {"generation": 2, "gaps": []}), ("redacted", {"seqs": [1]})]
        assert state_of(*events).generation == 2
