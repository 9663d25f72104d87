"""The page in a real browser: it shows what there is, follows writers, and runs nothing that a table holds."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

from browsers import LAUNCH, browser_program
from console_worlds import NOTES, make_notes
from siltstone.api import create_table
from siltstone.console.root import Given
from siltstone.console.server import Console

EVIL = '<img src=x onerror="window.owned=1"><script>window.owned=1</script>'
TABS = ["History", "Columns", "Rows", "Search", "Fragments", "Shards", "Indexes", "Checkpoints & clones", "Health"]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=browser_program(), **LAUNCH)
        yield made
        made.close()


def make_indexed(place):
    """Texts with an index, and some that are hostile or long behind it."""
    notes = make_notes(place)
    notes.create_text_index("body")
    notes.append([{"id": 10, "body": f"hostile {EVIL} \x1b[31m\u202ereversed"}, {"id": 11, "body": "y" * 5000}])
    return notes


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Texts with an index and a clone of them, shards with rows that wait, and one that is damaged."""
    lake = tmp_path_factory.mktemp("page") / "lake"
    with make_indexed(lake / "notes") as notes:
        notes.clone(str(lake / "trial")).close()
    events = create_table(lake / "events", schema=NOTES, key="id", shards=2, sync=False)
    with events, events.writer(name="feeder") as writer:
        writer.put([{"id": number, "body": "e"} for number in range(7)])
    create_table(lake / "broken", schema=NOTES, sync=False).close()
    (lake / "broken" / "log" / "entries" / f"{0:020}").write_bytes(b"nonsense")
    return lake


class Opened:
    """A page over a console, and what went wrong in it."""

    def __init__(self, browser, console, **options):
        self.console = console
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        self.refused = ""  # the status of answers that the browser notes, and that are expected
        self.wrong = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in {"error", "warning"} else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto(console.url)

    def _asked(self, url):
        if urlsplit(url).netloc != f"127.0.0.1:{self.console.port}":
            self.wrong.append(f"asked {url}")

    def table(self, name):
        self.page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text(name)

    def tab(self, name):
        self.page.get_by_role("tab", name=name, exact=True).click()
        expect(self.page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")


@pytest.fixture
def opened(browser, lake):
    """A page over the lake, which nobody writes to."""
    with watched(browser, lake) as made:
        yield made


@pytest.fixture
def alone(browser, tmp_path):
    """A page over a table of the test's own, and a handle on that."""
    with make_indexed(tmp_path / "lake" / "notes") as table, watched(browser, tmp_path / "lake") as made:
        yield made, table


@contextlib.contextmanager
def watched(browser, place):
    """A page in which nothing may go wrong."""
    with Console(Given(str(place))) as console:
        console.start()
        made = Opened(browser, console)
        yield made
        made.context.close()
        assert [text for text in made.wrong if not made.refused or f"a status of {made.refused}" not in text] == []


def test_page__opened_by_its_address__lists_tables_and_forgets_the_token(opened):
    page = opened.page
    expect(page.get_by_role("heading", level=1)).to_have_text("4 tables")
    expect(page.locator("#tables a .name")).to_have_text(["broken", "events", "notes", "trial"])
    expect(page.locator("#live")).to_have_text("live")
    assert opened.console.guard.token not in page.url
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("4 tables")
    row = page.get_by_role("row", name="broken")
    expect(row).to_contain_text("corruption")


def test_page__every_tab_of_a_table__shows_what_the_table_has(opened):
    page = opened.page
    opened.table("notes")
    said = {
        "History": "append", "Columns": "int64", "Rows": "A slow, late delivery.", "Search": "Index",
        "Fragments": "2 fragments", "Shards": "This table has no shards.", "Indexes": "60 %",
        "Checkpoints & clones": "trial", "Health": "answers",
    }  # fmt: skip
    assert list(said) == TABS
    for name, text in said.items():
        opened.tab(name)
        expect(page.locator("#panel")).to_contain_text(text)
    opened.table("events")
    opened.tab("Shards")
    expect(page.locator("#panel")).to_contain_text("not in the table yet: 7 rows")
    opened.tab("Checkpoints & clones")
    expect(page.locator("#panel")).to_contain_text("it is no clone")
    opened.refused = "500"
    opened.table("broken")
    expect(page.get_by_role("alert")).to_contain_text("siltstone verify")


def test_page__another_handle_appends__shows_it_and_keeps_what_is_open_and_typed(alone):
    opened, table = alone
    page = opened.page
    expect(page.get_by_role("heading", level=1)).to_have_text("notes")  # the only table is shown at once
    opened_before = page.get_by_label("Details of 1", exact=True)
    opened_before.click()
    expect(page.locator(".diff")).to_contain_text("3 rows")
    page.locator("#match").press_sequentially("not")
    expect(page.locator("#tables a .name")).to_have_text(["notes"])
    row = page.locator("#panel tbody tr").filter(has_text="append").last.element_handle()
    with table.transaction(message="from elsewhere") as tx:
        tx.append([{"id": 99, "body": "new"}])
    newest = table.version
    expect(page.locator("#panel tbody tr").first).to_contain_text("from elsewhere")
    expect(page.locator("#tables a .sub")).to_contain_text(f"v{newest}")
    expect(page.locator(".stats strong").first).to_have_text(str(newest))
    assert page.locator("#match").evaluate("one => one === document.activeElement && one.value") == "not"
    expect(opened_before).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".diff")).to_contain_text("3 rows")
    assert row.evaluate("one => one.isConnected"), "what was there is the same element"


def test_page__hostile_cells_names_and_messages__are_text(alone):
    opened, table = alone
    page = opened.page
    with table.transaction(message=EVIL) as tx:
        tx.append([{"id": 60, "body": EVIL}])
    table.rename_column("id", EVIL)
    expect(page.locator("#panel")).to_contain_text(EVIL)
    opened.tab("Columns")
    expect(page.locator("#panel")).to_contain_text(EVIL)
    opened.tab("Rows")
    cells = page.locator("#panel td")
    expect(cells.filter(has_text="hostile")).to_have_text(f"hostile {EVIL} \\x1b[31m\\u202ereversed")
    expect(cells.filter(has_text="yyy")).to_contain_text("cut: 5,000 characters")
    opened.tab("Search")
    page.get_by_label("Words").fill("hostile")
    page.get_by_label("Words").press("Enter")
    expect(page.locator("mark")).to_have_text("hostile")
    expect(page.locator(".snippet")).to_contain_text("<script>window.owned=1</script>")
    assert page.evaluate("window.owned") is None
    assert page.locator("main img, main script").count() == 0


def test_page__search_and_rows__show_matches_and_errors(opened):
    page = opened.page
    opened.table("notes")
    opened.tab("Search")
    page.get_by_label("Words").fill("late OR refund")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("mark").first).to_be_visible()
    expect(page.locator(".hits li")).to_have_count(2)
    page.get_by_label("Where").fill("id = 2")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".hits li")).to_have_count(1)
    opened.tab("Rows")
    page.get_by_label("Where").fill("id >= 2 and id <= 3")
    page.get_by_role("button", name="Show rows").click()
    expect(page.locator("#panel tbody tr")).to_have_count(2)
    opened.refused = "400"
    page.get_by_label("Where").fill("nope = 1")
    page.get_by_role("button", name="Show rows").click()
    expect(page.get_by_role("alert")).to_contain_text("which is not there")


def test_page__by_keyboard_alone__everything_can_be_reached(opened):
    page = opened.page
    expect(page.locator("#tables a .name")).to_have_count(4)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the table"
    page.keyboard.press("/")
    page.keyboard.type("n")
    expect(page.locator("#tables a .name")).to_have_text(["broken", "events", "notes", "trial"][:3])
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("notes")
    page.get_by_role("tab", name="History").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Columns")).to_be_focused()
    page.keyboard.press("Home")
    expect(page.get_by_role("tab", name="History")).to_be_focused()
    expect(page.get_by_label("Details of 0", exact=True)).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".diff")).to_be_visible()
    expect(page.locator(":focus")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    expect(page.locator(".diff")).to_have_count(0)


def test_page__console_ends__says_so(browser, lake):
    console = Console(Given(str(lake)))
    console.start()
    made = Opened(browser, console)
    expect(made.page.locator("#live")).to_have_text("live")
    console.close()
    expect(made.page.locator("#live")).to_have_text("not connected")
    made.context.close()
