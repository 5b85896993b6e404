"""What values look like at a prompt and in a notebook."""

from __future__ import annotations


def test_a_list_is_a_line_for_each_session(hf):
    """Whoever asks for the sessions at a prompt reads ids, titles and states."""
    with hf.session("trip", title="To <Sintra>") as s:
        s.user("Go")
    first, row = repr(hf.list()).split("\n")
    assert first == "<1 session>"
    assert row.split("  ")[1:3] == ["trip", "To <Sintra>"]


def test_a_list_in_a_notebook_is_a_table_with_nothing_in_it_that_runs(hf):
    """Titles are somebody's words, and are escaped."""
    with hf.session("trip", title="<script>alert(1)</script>") as s:
        s.user("Go")
    shown = hf.list()._repr_html_()
    assert "<td>trip</td><td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in shown
    assert "<script" not in shown


def test_a_report_tells_what_is_not_as_always(hf):
    """Fields that say nothing are left out, also as a table."""
    with hf.session("trip") as s:
        s.user("Go")
    report = hf.verify("trip")
    assert repr(report).startswith("Report(session_id='trip', events=")
    assert "gaps" not in repr(report)
    assert "<td>session id</td><td>trip</td>" in report._repr_html_()
    assert repr(hf.stats()).startswith("Stats(")
    assert "<table>" in hf.stats()._repr_html_()


def test_an_event_shows_its_data_and_memory_its_values(hf):
    """As they are asked for, not as bytes; what is long is cut."""
    with hf.session("trip") as s:
        event = s.user("Go" * 300)
        s.memory.set("city", {"name": "Lisbon"})
        assert repr(event).startswith(f"Event(seq={event.seq}, type='user', data={{'role': 'user', 'content': 'GoGo")
        assert len(repr(event)) < 300
        assert repr(s.memory) == "Memory({'city': {'name': 'Lisbon'}})"
        assert repr(s.memory.entry("city")) == "MemoryEntry(key='city', value={'name': 'Lisbon'}, scope='session')"


def test_hits_are_told_in_lines_and_as_a_table(hf):
    """Each hit of a search with its session and its words."""
    with hf.session("trip") as session:
        session.user("Lisbon <b>by train")
    hits = hf.search("train")
    assert repr(hits) == f"<1 hit>\n  trip  Lisbon <b>by train  #{hits[0].seq}  user  Lisbon <b>by train"
    assert "<td>Lisbon &lt;b&gt;by train</td>" in hits._repr_html_()
    assert "1 message " in repr(hf.list())
