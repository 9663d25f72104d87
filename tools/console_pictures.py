"""Makes the pictures of docs/console.md: tables in an S3 server of its own, the console over them, and a browser.

    python tools/console_pictures.py [DIRECTORY]

Needs the package playwright, and Chromium or Chrome on PATH.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from playwright.sync_api import expect, sync_playwright

import siltstone
from siltstone.console.root import Given
from siltstone.console.server import Console
from siltstone.testing.s3server import FaultServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TARGET = Path(__file__).parent.parent / "docs" / "images"
ROOT = "s3://lake"
BYTES_MAX = 200_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WORDS = (
    "the parcel came late and the box was wet",
    "a slow delivery, but the colour is right",
    "refund came at once, thank you",
    "battery lasts two days, the screen is bright",
    "late again; the courier left it next door",
    "sound is thin, build is fine",
    "delivered early, well packed, would buy again",
    "the zip broke after a week and nobody answers",
)


def some_reviews(first: int, count: int, dice: random.Random) -> list[dict[str, Any]]:
    """Made-up reviews."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return [
        {
            "id": number,
            "lang": dice.choice(["en", "de", "fr", None]),
            "stars": dice.randint(1, 5),
            "at": start + timedelta(minutes=number),
            "body": f"{dice.choice(WORDS)}; {dice.choice(WORDS)}.",
        }
        for number in range(first, first + count)
    ]


def make_reviews(options: dict[str, str]) -> None:
    """A table with a past: appends, deletes, a column, an index, checkpoints and clones."""
    dice = random.Random(7)
    fields = {"id": pa.int64(), "lang": pa.string(), "stars": pa.int32(), "at": pa.timestamp("us", "UTC")}
    reviews = siltstone.create(
        f"{ROOT}/shop/reviews",
        schema=pa.schema([*fields.items(), ("body", pa.string())]),
        key="id",
        storage_options=options,
    )
    reviews.append(some_reviews(0, 4000, dice))
    reviews.append(some_reviews(4000, 2500, dice))
    reviews.tag("first-import")
    reviews.create_text_index("body", language="english")
    before = reviews.checkpoint("before-cleanup", keep_days=30)
    trial = reviews.clone(f"{ROOT}/trials/cleanup", at=before, storage_options=options)
    trial.delete("lang = 'fr'")
    trial.clone(f"{ROOT}/trials/german", storage_options=options).delete("lang <> 'de'")
    reviews.clone(f"{ROOT}/trials/today", storage_options=options)
    reviews.delete("stars = 1 and id < 2000")
    reviews.add_column("helpful", pa.int32(), default=0)
    with reviews.transaction(once="nightly/2026-11-15", message="nightly load") as tx:
        tx.append([row | {"helpful": dice.randint(0, 40)} for row in some_reviews(6500, 900, dice)])
        tx.delete("id between 100 and 180")
        tx.set({"owner": "reviews-team"})


def make_others(options: dict[str, str]) -> None:
    """The tables beside it: one with shards at work, one that is damaged."""
    schema = pa.schema([("id", pa.int64()), ("page", pa.string())])
    clicks = siltstone.create(f"{ROOT}/shop/clicks", schema=schema, key="id", shards=4, storage_options=options)
    with clicks.writer(name="web-1") as writer:
        for number in range(30):
            writer.put([{"id": 10 * number + part, "page": f"/product/{part}"} for part in range(10)])
    clicks.merge_shards()
    flushed = clicks.shard(2).writer(name="web-2")
    for number in range(1000, 1600):
        with contextlib.suppress(siltstone.errors.InvalidInputError):  # a key of another shard
            flushed.put([{"id": number, "page": "/cart"}], wait=False)
    flushed.freeze()
    flushed.flush_memtables()
    with clicks.writer(name="web-3") as writer:
        for number in range(25):
            writer.put([{"id": 5000 + 4 * number + part, "page": "/cart"} for part in range(4)])
    broken = siltstone.create(f"{ROOT}/archive/orders-2024", schema=schema, key="id", storage_options=options)
    broken.append([{"id": number, "page": "y"} for number in range(10)])
    siltstone.open_store(broken.uri, options).put(f"log/entries/{1:020}", b"not an entry")


def take(
    browser: Browser, console: Console, target: Path, *, name: str, place: str, scheme: str = "light", do: Any = None
) -> None:
    """One picture."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        reduced_motion="reduce",
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(console.url + place)
    page.wait_for_selector(".live:has-text('live')")
    page.wait_for_load_state("networkidle")
    if do is not None:
        do(page)
    path = target / f"console-{name}.png"
    page.screenshot(path=path)
    context.close()
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > BYTES_MAX:
        raise SystemExit(f"{path.name} is larger than {BYTES_MAX:,} bytes")


def open_versions(page: Any) -> None:
    """Open two versions of the history."""
    page.get_by_role("button", name="Details of").nth(0).click()
    page.get_by_role("button", name="Details of").nth(2).click()
    expect(page.locator(".diff")).to_have_count(2)


def open_shard(page: Any) -> None:
    """Open the shard that has flushed rows."""
    page.get_by_label("Details of 0000-0002").click()


def search(page: Any) -> None:
    """Search for a phrase."""
    page.get_by_label("Words").fill('"slow delivery" refund -battery')
    page.get_by_role("button", name="Search").click()
    page.wait_for_selector("mark")


def main() -> None:
    """All pictures."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.mkdir(parents=True, exist_ok=True)
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    with FaultServer(buckets=["lake"], in_thread=True) as server:
        options = server.storage_options
        make_reviews(options)
        make_others(options)
        with Console(Given(ROOT, options)) as console, sync_playwright() as playwright:
            console.start()
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            reviews, clicks = "#table=shop%2Freviews&tab=", "#table=shop%2Fclicks&tab="
            take(browser, console, target, name="tables", place="")
            take(browser, console, target, name="history", place=f"{reviews}history", do=open_versions)
            take(browser, console, target, name="shards", place=f"{clicks}shards", do=open_shard)
            take(browser, console, target, name="search", place=f"{reviews}search", do=search)
            take(browser, console, target, name="health", place=f"{reviews}health")
            take(browser, console, target, name="clones", place=f"{reviews}lineage", scheme="dark")
            browser.close()


if __name__ == "__main__":
    main()
