"""Every screen in a real browser: what it shows, how it is reached, and who can use it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

import holdfast

TRIP = "/s/trip-to-lisbon"
SCREENS = {
    "/": "Sessions",
    "/?q=lisbon": "Sessions",
    "/?tag=nowhere": "Sessions",
    "/activity?range=year": "Activity",
    "/compare": "Compare",
    "/compare?a=trip-to-lisbon&b=trip-by-train": "Compare",
    "/trash": "Trash",
    "/store": "Health and settings",
    "/new": "What is it about?",
    TRIP: "A week in Lisbon",
    f"{TRIP}/timeline": "A week in Lisbon",
    f"{TRIP}/event/7": "A week in Lisbon",
    f"{TRIP}/state": "A week in Lisbon",
    f"{TRIP}/state?at=17&since=6": "A week in Lisbon",
    f"{TRIP}/branches": "A week in Lisbon",
    f"{TRIP}/health": "A week in Lisbon",
    "/s/nothing-here": "There is no session nothing-here",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory, demo_store):
    """The sessions of the pictures."""
    place = tmp_path_factory.mktemp("demo") / "store"
    demo_store.make_demo(place, dt.datetime.now(dt.UTC), count=60)
    with holdfast.open(place) as hf:
        yield hf


@pytest.fixture(scope="module")
def window(visit, demo):
    """A page that the tests of this module share; nothing bad may have happened at the end."""
    with visit(demo) as (page, watch):
        yield page, watch


@pytest.fixture
def page(window):
    """The same, as a test finds it: wide, light, at the list."""
    page, watch = window
    page.set_viewport_size({"width": 1180, "height": 800})
    page.emulate_media(color_scheme="light")
    page.goto("/")
    page.evaluate("localStorage.clear()")
    yield page
    watch.check(page)


@pytest.fixture(scope="module")
def axe():
    """The judge."""
    return pytest.importorskip("axe_core_python.sync_playwright").Axe()


def grave(axe, page, **options):
    """What axe finds that would keep people out."""
    return [
        (rule["id"], node["html"][:200], node.get("failureSummary", "")[:300])
        for rule in axe.run(page, options={"resultTypes": ["violations"], **options})["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("url", SCREENS)
def test_everyone_can_use_it(page, axe, url):
    """Each screen has its heading, fits a phone, and axe finds nothing serious, light and dark."""
    page.goto(url)
    assert page.locator("h1").inner_text() == SCREENS[url]
    for fold in page.locator("details:not(.menu)").all()[:3]:
        fold.evaluate("(one) => { one.open = true; }")
    assert grave(axe, page) == []
    page.emulate_media(color_scheme="dark")
    assert grave(axe, page, runOnly=["color-contrast"]) == []
    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360, f"{url} is {wide} wide on a phone"


def until(page, script):
    """Wait until a script says so; the page's own policy forbids playwright's way."""
    for _ in range(2_400):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {script}")


def test_the_list(page):
    """Titles, figures and tags are there, the newest first, and more come by scrolling."""
    assert page.locator(".row").count() == 50
    first = page.locator(".row").nth(1).inner_text()
    assert "messages" in first
    page.locator(".more a").scroll_into_view_if_needed()
    until(page, "document.querySelectorAll('.row').length === 64")


def test_search_as_you_type(page):
    """Hits appear while a word is being typed, without a reload, and lead to their place."""
    page.evaluate("window.same = true")
    page.keyboard.press("/")
    page.keyboard.type("picni")
    hit = page.locator(".snippet mark", has_text="picnic")
    hit.first.wait_for()
    assert page.evaluate("window.same")
    page.wait_for_url("**/?q=picni")  # a slow typist sees what the first letters find
    until(page, "document.querySelector('#say').innerText.startsWith('1 session found')")
    page.go_back()
    page.locator(".row-facts").first.wait_for()
    page.go_forward()
    page.locator("a.snippet").first.wait_for()
    page.locator("a.snippet", has_text="picnic").first.click()
    page.wait_for_url("**/s/trip-to-lisbon?at=*")
    assert page.locator("article:target").inner_text().startswith("Assistant")
    page.goto("/?q=zzzzzz")
    assert page.get_by_text("Nothing was found").is_visible()


def test_filters_and_order(page):
    """The list is narrowed by tag, agent and age, and sorted, each with an address of its own."""
    page.get_by_label("Agent").fill("cook")
    page.keyboard.press("Enter")
    until(page, "[...document.querySelectorAll('.row-facts a')].every((one) => one.innerText === 'cook')")
    page.get_by_label("Sort").select_option("title")
    page.wait_for_url("**sort=title**")
    until(page, "document.querySelector('.row-title').innerText.startsWith('A menu')")
    page.goto("/?age=older&sort=oldest")
    assert page.locator(".row").count() > 10
    assert "min ago" not in page.locator(".rows").inner_text()


def test_the_conversation(page):
    """Messages are readable, calls and thoughts are folded, pictures shown, code as code."""
    page.goto(TRIP)
    assert page.locator("article.user").count() == 2
    assert page.locator("article.assistant table td", has_text="Belém").is_visible()
    assert page.locator("figure.code pre").inner_text().startswith("def daily_budget")
    call = page.locator("details.tool", has_text="weather")
    assert not call.locator("pre").first.is_visible()
    call.locator("summary").click()
    assert "mostly sunny" in call.locator("pre").nth(1).inner_text()
    assert page.locator("details.failed .what").inner_text() == "opening_hours"
    picture = page.locator(".shot img")
    picture.scroll_into_view_if_needed()
    until(page, "document.querySelector('.shot img').naturalWidth === 220")
    link = page.get_by_role("link", name="the tourist office")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"


@pytest.mark.req("S4-74")
def test_state_at_any_point(page):
    """The slider shows the state after each event, and what differs between two of them."""
    page.goto(f"{TRIP}/state")
    page.wait_for_selector("#state .card")
    assert "840" in page.locator("#state").inner_text()
    at = page.locator("#at-range")
    at.focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    until(page, "document.querySelector('#state').innerText.includes('900')")
    assert page.locator("#at").input_value() == str(int(at.get_attribute("max")) - 4)
    page.locator("#at").fill(at.get_attribute("max"))
    page.locator("#since").fill("12")
    row = page.locator("table.diff tr.changed", has_text="budget")
    row.wait_for()
    assert row.locator("del").inner_text() == "900"
    assert row.locator("ins").inner_text() == "840"
    page.get_by_role("link", name="State there").first.click()
    page.wait_for_url("**/state?at=*")


def test_the_timeline(page):
    """Every event is there, and unfolds to what was recorded."""
    page.goto(f"{TRIP}/timeline")
    assert page.locator(".event").count() == 19
    line = page.locator(".event", has_text="variable_set").first
    line.locator("summary").click()
    assert '"name": "budget"' in line.locator("pre").inner_text()
    page.goto(f"{TRIP}/timeline?type=tool_call")
    assert page.locator(".event .type").all_inner_texts() == ["tool_call", "tool_call"]


def test_branches_and_compare(page):
    """The family is drawn and listed; two of it stand side by side, and become one."""
    page.goto(f"{TRIP}/branches")
    assert page.locator(".members li").count() == 4
    assert page.locator(".graph circle").count() == 4
    assert page.locator(".graph path").count() == 3
    page.get_by_label("B is The same, all by train").check()
    page.get_by_role("button", name="Compare A with B").click()
    page.wait_for_url("**/compare?a=trip-to-lisbon&b=trip-by-train")
    shown = page.locator("main").inner_text()
    assert "They are the same up to event" in shown
    assert "Thursday goes to Cascais" in page.locator(".pair-row .card").nth(1).inner_text()
    assert "budget" in shown
    page.get_by_label("Where both changed the same").select_option("theirs")
    page.get_by_role("textbox", name="Title").fill("Both weeks")
    page.get_by_role("button", name="Merge").click()
    page.wait_for_url("**/s/**")
    assert page.locator("h1").inner_text() == "Both weeks"
    assert "1 conflict decided by your policy" in page.locator(".note-box").first.inner_text()
    page.locator("summary", has_text="Actions").click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/")


def test_delete_and_undo(page, demo):
    """What is deleted can be brought back by the next click."""
    page.goto("/s/demo-020")
    page.locator("summary", has_text="Actions").click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/")
    assert not demo.exists("demo-020")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url("**/s/demo-020")
    assert demo.exists("demo-020")
    assert page.get_by_role("status").first.inner_text() == "It is back."


def test_title_tags_and_download(page, demo):
    """A session is renamed, tagged and exported from its menu."""
    page.goto("/s/demo-021")
    page.locator("summary", has_text="Actions").click()
    page.get_by_label("Title", exact=True).fill("Another <name>")
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("heading", name="Another <name>").wait_for()
    page.locator("summary", has_text="Actions").click()
    page.get_by_label("Add tags").fill("one, two words")
    page.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="Remove the tag two words").wait_for()
    assert {"one", "two words"} < set(demo.info("demo-021").tags)
    page.locator("summary", has_text="Actions").click()
    page.get_by_label("Export as").select_option("markdown")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "demo-021.md"
    assert "Another" in Path(download.value.path()).read_text(encoding="utf-8")


def test_charts(page):
    """Tokens and cost are drawn as charts, with the same figures in a table."""
    page.goto("/activity?range=quarter")
    for name in ("Tokens", "Cost in US dollars"):
        chart = page.get_by_role("img", name=f"{name} over time")
        assert "The table below has the figures." in chart.locator("desc").text_content()
        boxes = [bar.bounding_box() for bar in chart.locator("rect.whole").all()]
        assert sum(box is not None and box["height"] >= 1 for box in boxes) > 5
        assert all("20" in told for told in chart.locator("g title").all_text_contents())
    page.get_by_text("The figures as a table").click()
    assert page.locator(".table-fold tbody tr").count() > 5
    assert page.locator(".calendar rect").count() > 360
    assert page.get_by_role("heading", name="Tools").is_visible()


def test_light_and_dark(page):
    """The system's colours are taken; the switch changes them, and stays."""
    page.emulate_media(color_scheme="dark")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(16, 20, 19)"
    page.get_by_label("Light or dark").click()
    assert page.evaluate(ground) == "rgb(250, 249, 247)"
    page.goto("/trash")
    assert page.evaluate(ground) == "rgb(250, 249, 247)"


def test_keyboard(page):
    """The whole way by keys: down the list, open, unfold, other tabs and pages, help."""
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    titles = page.locator(".row-title")
    assert page.evaluate("document.activeElement.innerText") == titles.first.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_url("**/s/**")
    page.goto(TRIP)
    page.keyboard.press("u")
    assert page.locator("details.fold[open]").count() == 3
    page.keyboard.press("g")
    page.keyboard.press("3")
    page.wait_for_url("**/state")
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/activity")
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keyboard").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the content"
    page.keyboard.press("/")
    page.wait_for_url("**/")
