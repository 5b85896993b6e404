"""Configuration: what counts, where it came from, and what is refused."""

from __future__ import annotations

import json
import os

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast._config import KEYS, configuration, places, strange_variables, variable
from holdfast.errors import Forbidden, NotFound, UsageError


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project that ends at its own root, as the working directory."""
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HOLDFAST_MODEL_SERVERS", "HOLDFAST_GUIDE_WORD_MS"):
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def user_file(tmp_path, project):
    """The user's own configuration file."""
    path = tmp_path / "config" / "holdfast" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_code_wins_over_environment_over_project_over_user(project, user_file, monkeypatch):
    """Each place counts only for what no stronger one says, and every value tells its origin."""
    user_file.write_text('durability = "os"\nautosave_ms = 1\nsnapshot_ms = 1\nmodel = "user:m"\n')
    (project / "holdfast.toml").write_text('durability = "always"\nautosave_ms = 2\nsnapshot_ms=2')
    monkeypatch.setenv("HOLDFAST_AUTOSAVE_MS", "3")
    monkeypatch.setenv("HOLDFAST_SNAPSHOT_MS", "3")
    found = configuration({"snapshot_ms": 4})
    assert {name: one.value for name, one in found.items() if name != "store"} == {
        "durability": "always",
        "autosave_ms": 3,
        "snapshot_ms": 4,
        "model": "user:m",
    }
    assert found.origin("snapshot_ms") == "code"
    assert found.origin("autosave_ms") == "environment variable HOLDFAST_AUTOSAVE_MS"
    assert found.origin("durability") == str(project / "holdfast.toml")
    assert found.origin("model") == str(user_file)
    assert found.origin("base_url") is None


@pytest.mark.req("S2-53")
def test_the_settings_of_files_reach_sessions(project, store_root):
    """What the project's file says holds for sessions that are opened without saying more."""
    (project / "holdfast.toml").write_text(
        f'store = "{store_root}"\nautosave_ms = 0\n[limits]\nmessage_bytes_max = 300000\n'
    )
    with holdfast.open() as hf:
        assert hf.url == store_root.as_uri()
        assert hf.limits.message_bytes_max == 300_000
        with hf.session("a") as session:
            assert session._journal.options.autosave_ms == 0


@pytest.mark.req("B-19")
def test_where_the_store_is(project, user_file, monkeypatch, tmp_path):
    """Argument, environment, project file, project folder, user file, data directory: in order."""
    user_file.write_text('store = "/user/place"\n')
    assert configuration().get("store") == "/user/place"
    (project / ".holdfast").mkdir()
    assert configuration().get("store") == str(project / ".holdfast")
    (project / "holdfast.toml").write_text('store = "data"\n')
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    assert configuration().get("store") == str(project / "data")
    monkeypatch.setenv("HOLDFAST_STORE", "memory:env")
    assert configuration().get("store") == "memory:env"
    assert configuration({"store": "none:"}).get("store") == "none:"
    assert holdfast.open("memory:given", config={"store": "none:"}).url == "memory:"


@pytest.mark.req("S2-21")
def test_without_anything_the_data_directory_is_the_store(project, monkeypatch, tmp_path):
    """The default is the user's data directory, made with its parents; another can be named."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "far" / "data"))
    found = configuration()
    assert found.get("store") == str(tmp_path / "far" / "data" / "holdfast")
    assert found.origin("store") == "default"
    for place in ((), (tmp_path / "far" / "another",)):
        with holdfast.open(*place) as hf, hf.session("a") as s:
            s.user("hi")
    for folder in ("data/holdfast", "another"):
        assert (tmp_path / "far" / folder / "sessions" / "a" / "events.jsonl").is_file()


def test_a_url_in_a_file_is_left_as_it_is(project):
    """Only paths count from the file's folder."""
    (project / "holdfast.toml").write_text('store = "memory:x"\n')
    assert configuration().get("store") == "memory:x"


@pytest.mark.req("S3-20")
@pytest.mark.req("S3-21")
@pytest.mark.parametrize("name", ["agent-config.json", "holdfast.toml"])
def test_the_storage_form_in_a_file(project, name):
    """``storage`` with type and path, and the other program's sections left alone."""
    path = project / name
    if name.endswith("json"):
        path.write_text('{"storage": {"type": "filesystem"}, "agents": ["x"], "llm": {"a": 1}}')
    else:
        path.write_text('[storage]\ntype = "filesystem"\n')
    assert configuration(path).get("store") == str(project / ".agent-sessions")
    assert holdfast.open(config=path).url == (project / ".agent-sessions").as_uri()


@pytest.mark.req("S3-20")
def test_an_agent_config_without_storage_stores_nothing(project):
    """The default of that form is ``none``."""
    (project / "agent-config.json").write_text('{"agents": []}')
    assert holdfast.open(config=str(project / "agent-config.json")).url == "none:"


@pytest.mark.req("S3-22")
@pytest.mark.req("B-43")
@pytest.mark.req("S3-23", "S3-39", "S3-41")
def test_the_builder_of_old_is_open_with_a_configuration(tmp_path):
    """From a configuration come storage and sessions; an agent and a logger stand on them.

    A storage and the id of a session are given; what the session knew, its todos too, is there for
    the agent that is built next.
    """
    config = {"storage": {"type": "filesystem", "options": {"path": str(tmp_path / "kept")}}}
    seen = []

    def answer(messages, _info):
        seen.append(str(messages))
        return ModelResponse(parts=[TextPart("ok")])

    for prompt in ("Hello", "Again"):
        with (
            holdfast.open(config=config) as hf,
            holdfast.Agent(FunctionModel(answer), session_id="by-id", hf=hf) as executor,
        ):
            executor.run_sync(prompt)
            if prompt == "Hello":
                executor.session.todos.write([{"content": "book", "status": "pending"}])
                holdfast.EventLogger(hf, "logged").log_user_message("noted")
            assert [todo["content"] for todo in executor.session.todos] == ["book"]
            assert hf.store.exists("sessions/by-id")
    assert "Hello" in seen[-1]
    with holdfast.open(config=config) as hf:
        assert [message["content"] for message in hf.recover("logged").messages] == ["noted"]


WRONG = {
    "autosav_ms = 1": "unknown setting 'autosav_ms'; did you mean 'autosave_ms'?",
    "[limits]\nmessage_bytes = 1": "unknown limit 'limits.message_bytes'; did you mean",
    "[local]\nthread = 1": "unknown setting 'local.thread'; did you mean 'threads'?",
    'autosave_ms = "30s"': "autosave_ms must be a whole number, not '30s'",
    "autosave_ms = true": "autosave_ms must be a whole number, not True",
    "autosave_ms = -1": "autosave_ms must be at least 0, not -1",
    'durability = "barrier"': "'barrier' is none of barriers, always, os; did you mean 'barriers'?",
    "limits = 5": "limits must be a table of settings, not 5",
    "model = 5": "model must be a text that is not empty, not 5",
    'store = ""': "store must be a text that is not empty",
    'store = "a"\n[storage]\ntype = "none"': "store and storage are two ways",
    '[storage]\ntype = "filesytem"': "did you mean 'filesystem'?",
    '[storage]\ntpe = "none"': "unknown setting storage.tpe; did you mean 'type'?",
    '[storage]\ntype = "filesystem"\n[storage.options]\npth = "x"': "did you mean 'path'?",
    '[storage]\ntype = "filesystem"\noptions = 5': "storage.options must be a table",
    "storage = 5": "storage must have a type and options, not 5",
    "x y = 1": "line 1, column",
    "\x00": "cannot be read",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_in_a_file_is_named(project, text):
    """A misspelt name or wrong value is told with the file, the key and the right one."""
    (project / "holdfast.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        holdfast.open()
    assert str(project / "holdfast.toml") in str(caught.value)
    assert WRONG[text] in str(caught.value)


def test_a_near_miss_in_the_json_form_is_no_foreign_section(project):
    """``storge`` is refused with the right name rather than taken for another program's."""
    (project / "agent-config.json").write_text('{"storge": {"type": "memory"}}')
    with pytest.raises(UsageError, match="did you mean 'storage'"):
        holdfast.open(config=project / "agent-config.json")


@pytest.mark.parametrize("text", ["[]", "{", '"x"'])
def test_a_json_file_that_holds_no_settings(project, text):
    """A file of the wrong shape is refused with its name."""
    (project / "agent-config.json").write_text(text)
    with pytest.raises(UsageError, match=r"agent-config\.json"):
        configuration(project / "agent-config.json")


def test_a_wrong_variable_is_named(project, monkeypatch):
    """A value of the environment that does not fit names its variable."""
    monkeypatch.setenv("HOLDFAST_AUTOSAVE_MS", "soon")
    with pytest.raises(UsageError, match="HOLDFAST_AUTOSAVE_MS"):
        configuration()


def test_a_misspelt_variable_is_found(project, monkeypatch):
    """What looks like a setting and is none comes with what it may have meant."""
    monkeypatch.setenv("HOLDFAST_DURABILTY", "os")
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
    assert strange_variables() == {"HOLDFAST_DURABILTY": "; did you mean 'durability'?"}


def test_a_file_that_is_named_but_missing(project, monkeypatch):
    """A configuration file that was asked for must be there."""
    with pytest.raises(NotFound, match=r"nowhere\.toml"):
        configuration("nowhere.toml")
    monkeypatch.setenv("HOLDFAST_CONFIG", "nowhere.toml")
    with pytest.raises(NotFound):
        configuration()


def test_a_file_named_in_the_environment_takes_the_project_files_place(project, monkeypatch):
    """HOLDFAST_CONFIG names the file that counts instead."""
    (project / "holdfast.toml").write_text('model = "project:m"\n')
    (project / "mine.toml").write_text('base_url = "http://127.0.0.1:1/v1"\n')
    monkeypatch.setenv("HOLDFAST_CONFIG", "mine.toml")
    found = configuration()
    assert found.get("model") is None
    assert found.get("base_url") == "http://127.0.0.1:1/v1"
    assert places()[0].path == str(project / "mine.toml")


def test_a_project_cannot_say_where_keys_are_sent(project, user_file):
    """``base_url`` counts from the user's places only: a project may be a stranger's."""
    (project / "holdfast.toml").write_text('base_url = "http://elsewhere/v1"\n')
    with pytest.raises(Forbidden, match="base_url may not come from a project"):
        configuration()
    (project / "holdfast.toml").unlink()
    user_file.write_text('base_url = "http://127.0.0.1:8080/v1"\n')
    assert configuration().get("base_url") == "http://127.0.0.1:8080/v1"


def test_a_file_that_anyone_may_write_is_refused(project):
    """Others must not be able to steer where sessions go."""
    (project / "holdfast.toml").write_text('store = "x"\n')
    (project / "holdfast.toml").chmod(0o666)
    with pytest.raises(Forbidden, match="can be written by anyone"):
        configuration()


def test_a_huge_file_is_no_configuration(project):
    """A file above 1 MiB is refused unread."""
    (project / "holdfast.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(UsageError, match="too large"):
        configuration()


def test_a_file_beyond_the_project_does_not_count(project, tmp_path):
    """The search upwards ends at the project's root."""
    (tmp_path / "holdfast.toml").write_text('model = "x:y"\n')
    assert configuration().get("model") is None


def test_a_working_directory_that_is_gone(project, monkeypatch, tmp_path):
    """A program whose directory was removed still opens its store."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert configuration().origin("store") == "default"
    os.chdir(tmp_path)


@pytest.mark.parametrize("name", KEYS)
def test_every_setting_has_its_variable(project, monkeypatch, name):
    """Each setting can be given by the environment."""
    tables = [{"id": "ours", "regex": "ours-[0-9]+"}] if "rules" in name else [{"keep": 300}]
    value, expected = {
        int: ("300", 300),
        bool: ("false", False),
        list: (json.dumps(tables), tables),
        dict: ('{"a-model": {"input": 3, "output": 9}}', {"a-model": {"input": 3, "output": 9}}),
        str: (KEYS[name].choices or ("300",))[:1] * 2,
    }[KEYS[name].kind]
    monkeypatch.setenv(variable(name), value)
    assert configuration().get(name) == expected


@pytest.mark.parametrize("line", ["[[retention.policies]]\nkeep = 0\naction = 'delete'", "[retention]\ntrash_days = 1"])
def test_a_project_cannot_make_sessions_go(project, line):
    """A stranger's project says neither what is deleted nor when the trash is emptied."""
    (project / "holdfast.toml").write_text(line)
    with pytest.raises(Forbidden, match="may not come from a project: your sessions could be lost"):
        configuration()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[retention]\npolicies = 3", "list of tables"),
        ("[[retention.policies]]\nkeepp = 3", "keepp"),
        ("[[retention.policies]]\ntag = 'x'", "names no bound"),
    ],
)
def test_a_wrong_policy_is_told_with_its_file(project, user_file, written, said):
    """A policy that is misspelt is refused when the settings are read, before anything goes."""
    user_file.write_text(written)
    with pytest.raises(UsageError, match=said) as caught:
        configuration()
    assert str(user_file) in str(caught.value)


def test_policies_in_the_environment_are_json(project, monkeypatch):
    """What is not JSON is told as such."""
    monkeypatch.setenv("HOLDFAST_RETENTION_POLICIES", "keep=3")
    with pytest.raises(UsageError, match="list of tables as JSON"):
        configuration()
