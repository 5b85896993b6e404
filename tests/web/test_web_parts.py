"""What pages are made of: markdown, states, graphs, calendars, the end of a conversation."""

from __future__ import annotations

import datetime as dt
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.render.words import price
from holdfast.apps.web import _session
from holdfast.apps.web._conversation import read_tail, read_window
from holdfast.apps.web._list import PageRequest
from holdfast.apps.web._page import as_html, session_url
from holdfast.apps.web._session import differences, facts, read_family
from holdfast.apps.web._stats import calendar_of, charts_of
from holdfast.catalog import Period, Stats

_ELEMENT = re.compile(r"<(?!/?(?:p|br|strong|em|s|ul|ol|li|code|pre|blockquote|hr|figure|figcaption"
                      r"|h[3-6]|table|thead|tbody|tr|th|td|div|span|a)[ >/])")  # fmt: skip


@given(st.text(alphabet=st.sampled_from(list("<>\"'&`*_[]()!#|-:\n\\ abhtp/.=@$%~0"))))
def test_markdown_of_anything(text):
    """Whatever is given, only elements of our list come out, and it never raises."""
    made = str(as_html(text))
    assert not _ELEMENT.search(made)


def test_markdown_shows_what_people_write():
    """Headings stand below the page's own, code has its language, links are marked."""
    made = as_html(
        "# Top\n\n- a\n\n| x |\n|---|\n| ~~y~~ |\n\n```py\n1 < 2\n```\n\n    indented\n\n"
        "[go](https://example.org) ![cat](https://example.org/c.png)"
    )
    assert '<h3 class="said">Top</h3>' in made
    assert "<figcaption>py</figcaption>" in made
    assert "1 &lt; 2" in made
    assert "<s>y</s>" in made
    assert 'rel="noopener noreferrer nofollow"' in made
    assert "<img" not in made
    assert "[cat: https://example.org/c.png]" in made


def test_markdown_that_is_too_long():
    """It is shown as it is."""
    made = as_html("*a* <b>" * 20_000)
    assert made.startswith('<pre class="plain">*a* &lt;b&gt;')


@pytest.mark.req("S4-74")
def test_differences_between_two_moments(hf, trip):
    """What was added, changed and removed is told with both values."""
    with hf.session(trip) as s:
        s.memory.delete("name")
        s.variables["when"] = "May"
    before = next(event.seq for event in hf.events(trip, types=("todo_update",)))
    found = {one.name: one for one in differences(hf.state(trip, at=before), hf.state(trip))}
    assert (found["budget"].before, found["budget"].after, found["budget"].kind) == ("900", "800", "changed")
    assert found["name"].kind == "removed"
    assert found["when"].kind == "added"
    assert differences(hf.state(trip), hf.state(trip)) == []


def test_facts_of_a_state(hf, trip):
    """Todos, variables, memory and the session's own figures are there, in words."""
    with hf.session(trip) as s:
        s.memory.set("place", {"city": "Lisbon"}, description="where")
        s.append("todo_update", {"todos": [{"id": 1}, {"content": "go", "status": "odd"}]})
        s.append("metadata", {"team": ["a", "b"]})
    found = {(fact.part, fact.name): fact.value for fact in facts(hf.state(trip))}
    assert found["Memory", "place"] == '{"city":"Lisbon"}  (where)'
    assert found["Todos", "1"] == "id 1"
    assert found["Todos", "2"] == "odd go"
    assert found["Metadata", "team"] == '["a","b"]'
    assert found["Session", "title"] == "Trip to Lisbon"


def test_a_family(hf, trip):
    """Parents stand before their children, joined by lines; a lost parent is left out."""
    child = hf.fork(trip, 6)
    grandchild = hf.fork(child)
    family = read_family(hf, grandchild)
    assert [one.row.session_id for one in family.members] == [trip, child, grandchild]
    assert [one.at for one in family.members][:2] == [None, 6]
    assert len(family.edges) == 2
    assert [one.is_here for one in family.members] == [False, False, True]
    hf.delete(trip)
    assert [one.row.session_id for one in read_family(hf, child).members] == [child, grandchild]


def test_a_large_family(hf, trip, monkeypatch):
    """Only so many are drawn, and that is said; the one that is looked at always is."""
    assert _session._MEMBERS_MAX == 200
    monkeypatch.setattr(_session, "_MEMBERS_MAX", 6)
    forks = [hf.fork(trip, 3) for _ in range(4)]
    assert not read_family(hf, trip).is_cut
    forks += [hf.fork(trip, 3) for _ in range(4)]
    for id in (trip, *forks):
        family = read_family(hf, id)
        assert len(family.members) == 6
        assert family.is_cut
        assert [one.row.session_id for one in family.members if one.is_here] == [id]


def test_a_year_of_days():
    """Every day up to today has its place; the busiest is the darkest."""
    today = dt.date(2026, 3, 12)
    calendar = calendar_of({"2026-03-12": 40, "2026-03-02": 1, "2026-02-01": 20}, today)
    steps = {cell.day: cell.step for cell in calendar.cells}
    assert steps["2026-03-12"] == 4
    assert steps["2026-03-02"] == 1
    assert steps["2026-02-01"] == 2
    assert steps["2026-03-01"] == 0
    assert calendar.cells[-1].day == "2026-03-12"
    assert len(calendar.cells) > 52 * 7
    assert calendar_of({}, today).cells[-1].step == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 10**12), st.integers(0, 10**9), st.floats(0, 10**6) | st.none()),
        min_size=1,
        max_size=40,
    )
)
def test_charts_hold_their_bars(used):
    """Every bar stands between the lowest and the highest line, in order, whatever was used."""
    periods = [
        Period(start=f"2026-01-{day:02}", input_tokens=into, output_tokens=out, cost=cost)
        for day, (into, out, cost) in enumerate(used, 1)
    ]
    for chart in charts_of(Stats(periods=periods)):
        picture = ET.fromstring(chart.picture)
        width, base = 560, max(float(line.get("y1")) for line in picture.iter("line"))
        places = []
        for column in picture.iter("g"):
            drawn = {one.get("class"): one.attrib for one in column.iter("rect")}
            whole = drawn["whole"]
            high, dark = float(whole["height"]), drawn.get("dark", {"height": "0"})
            assert 0 <= float(dark["height"]) <= high + 1.1 <= base + 2.1
            assert float(whole["y"]) + high == pytest.approx(base, abs=0.2)
            places.append(float(whole["x"]))
        assert len(places) == len(used)
        assert places == sorted(places)
        assert places[0] > 0
        assert places[-1] + float(whole["width"]) <= width
        assert 2 <= len(list(picture.iter("line"))) <= 6
        assert picture.findtext("desc").startswith("2026-01-01 to ")


def test_the_end_of_a_conversation(hf):
    """What may still change begins with the first open stream or call; the rest is settled."""
    with hf.session("live") as s:
        s.user("one")
        start = s.seq + 1
        call = s.tool_call("look", {})
        s.user("two")
        tail = read_tail(hf, "live", start)
        assert tail.next == call.seq
        assert [item.kind for item in tail.open] == ["call", "user"]
        s.tool_result(call, "seen")
        s.delta("so ")
        tail = read_tail(hf, "live", start)
        assert [item.kind for item in tail.settled] == ["call", "user"]
        assert tail.open[0].is_writing
        window = read_window(hf, "live", is_live=True)
        assert window.tail.open[0].is_writing
        assert window.tail.next == tail.next
        assert read_window(hf, "live").items[-1].who == "assistant, cut off"
        s.append("turn_end", {"reason": "cancelled"})
        tail = read_tail(hf, "live", start)
        assert not tail.open
        who = [item.who for item in tail.settled[-2:]]
        assert who == ["assistant, cut off", "the turn ended: cancelled"]
        assert read_tail(hf, "live", s.seq + 1).next == s.seq + 1


def test_a_page_that_was_left_for_long(hf, monkeypatch):
    """When more came than is told at once the page is loaded anew, so that nothing is missing."""
    with hf.session("busy") as s:
        for number in range(30):
            s.user(str(number))
    assert not read_tail(hf, "busy", 5).is_behind
    monkeypatch.setattr("holdfast.apps.web._conversation._EVENTS_MAX", 10)
    assert read_tail(hf, "busy", 5).is_behind
    assert read_window(hf, "busy").has_earlier


def test_results_without_their_call(hf):
    """A result whose call is not there is shown by itself."""
    with hf.session("odd") as s:
        s.append("tool_result", {"toolCallId": "gone", "result": "alone"})
    window = read_window(hf, "odd")
    assert [(item.kind, item.text) for item in window.items] == [("result", "alone")]
    assert window.is_end
    assert not window.has_earlier


def test_words_and_addresses():
    """Prices, addresses and filters as people and browsers read them."""
    assert [price(cost) for cost in (None, 0, 0.0042, 1234.5)] == ["", "$0.00", "$0.004", "$1,234.50"]
    assert session_url("a.b", "state", at=3, since=None) == "/s/a.b/state?at=3"
    assert PageRequest(q="a b", sort="title").url(tag="x&y") == "/?q=a+b&tag=x%26y&sort=title"
    assert PageRequest().url() == "/"
    assert not PageRequest(sort="title").is_narrowed
