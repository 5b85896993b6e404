"""Settings of editors are changed at one place, and nowhere else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.acp.editors import command_line, default_name, plan, read_settings, with_member, write
from holdfast.errors import InvalidData, UsageError

COMMENTED = """// my settings
{
  "theme": "One Dark", // not "light"
  /* agents
     of mine */
  "agent_servers": {
    "Old": { "command": "old", "args": [], },
  },
  "url": "http://example.org/*not a comment*/",
}
"""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def test_comments_and_stray_commas_stay():
    """Every line of the old settings is in the new ones, and one entry more."""
    changed = with_member(COMMENTED, ("agent_servers", "New"), {"command": "new"})
    for line in COMMENTED.splitlines():
        assert line in changed
    assert read_settings(changed)["agent_servers"] == {"New": {"command": "new"}, "Old": {"command": "old", "args": []}}


def test_an_entry_of_the_same_name_is_replaced():
    """Only its value changes."""
    changed = with_member(COMMENTED, ("agent_servers", "Old"), {"command": "new"})
    assert read_settings(changed)["agent_servers"] == {"Old": {"command": "new"}}
    assert "// not" in changed


@given(settings=st.dictionaries(TEXT, VALUES, max_size=4), name=TEXT, indent=st.sampled_from([None, 2]))
def test_whatever_the_settings_hold_nothing_else_changes(settings, name, indent):
    """Any object: read back, it is the old one with the entry set."""
    text = json.dumps(settings, indent=indent, ensure_ascii=False)
    if not isinstance(settings.get("agent_servers", {}), dict):
        with pytest.raises(InvalidData):
            with_member(text, ("agent_servers", name), {"command": "x"})
        return
    changed = with_member(text, ("agent_servers", name), {"command": "x"})
    group = {**settings.get("agent_servers", {}), name: {"command": "x"}}
    assert read_settings(changed) == {**settings, "agent_servers": group}


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": 1} trailing', '{"agent_servers": 7}', "nothing"])
def test_settings_that_cannot_be_read_are_left_alone(tmp_path, text):
    """A clear error, and the file is as it was."""
    file = tmp_path / "settings.json"
    file.write_text(text)
    with pytest.raises(InvalidData):
        plan("zed", ["holdfast"], name="x", path=str(file))
    assert file.read_text() == text


def test_the_old_settings_are_kept(tmp_path):
    """A backup beside the file has every byte of it."""
    file = tmp_path / "settings.json"
    file.write_text(COMMENTED)
    backup = write(plan("zed", ["holdfast", "acp", "agent"], name="Holdfast", path=str(file)))
    assert (tmp_path / backup).read_text() == COMMENTED
    entry = read_settings(file.read_text())["agent_servers"]["Holdfast"]
    assert entry == {"type": "custom", "command": "holdfast", "args": ["acp", "agent"], "env": {}}


def test_variables_of_an_entry_stay(tmp_path):
    """A key that someone put into the entry is not lost by writing it again."""
    file = tmp_path / "acp.json"
    file.write_text('{"agent_servers": {"x": {"command": "old", "env": {"KEY": "1"}}}}')
    write(plan("jetbrains", ["new"], name="x", path=str(file)))
    found = json.loads(file.read_text())["agent_servers"]["x"]
    assert found == {"command": "new", "args": [], "env": {"KEY": "1"}}


def test_a_link_to_the_settings_stays_a_link(tmp_path):
    """Whoever keeps settings elsewhere finds them there."""
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}")
    link = tmp_path / "settings.json"
    link.symlink_to(real)
    write(plan("zed", ["holdfast"], name="x", path=str(link)))
    assert link.is_symlink()
    assert "agent_servers" in real.read_text()


def test_an_editor_that_is_not_known_is_refused():
    """With those that are."""
    with pytest.raises(UsageError, match="'ed' is no editor") as refused:
        plan("ed", ["holdfast"], name="x")
    assert "zed" in refused.value.remedy


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ([], "Holdfast"),
        (["gemini", "--acp"], "gemini (Holdfast)"),
        (["/usr/bin/opencode", "acp"], "opencode (Holdfast)"),
        (["npx", "-y", "@agentclientprotocol/codex-acp"], "codex-acp (Holdfast)"),
    ],
)
def test_an_entry_is_called_by_its_agent(agent, name):
    """What the menu of the editor shows."""
    assert default_name(agent) == name


def test_a_store_is_named_as_it_can_be_found_from_anywhere(tmp_path, monkeypatch):
    """Editors start agents in other directories; addresses stay as they are."""
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "mine") in command_line(["agent"], "mine")
    assert "memory:name" in command_line(["agent"], "memory:name")
