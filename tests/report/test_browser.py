"""The page as a browser shows it."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from consilience.report.page import report

from .runs import classified, regression

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = {"desk": 1200, "phone": 390}


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    if CHROMIUM is None:
        if os.environ.get("CONSILIENCE_REQUIRE_BROWSER") == "1":
            pytest.fail("CONSILIENCE_REQUIRE_BROWSER=1, and there is no chromium.")
        pytest.skip("there is no chromium; CONSILIENCE_REQUIRE_BROWSER=1 makes this a failure")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        "classified": report(classified(), folder / "classified.html").as_uri(),
        "regression": report([regression()], folder / "regression.html").as_uri(),
    }


@pytest.fixture(params=["classified", "regression"])
def address(request, pages) -> str:
    return pages[request.param]


def opened(browser, address: str, width: int, scheme: str):
    """The page, after checking that nothing was said on the console and nothing asked of the network."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    assert said == []
    assert asked == [address]
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_the_page_fits_and_everything_has_size(browser, address, width, scheme):
    page = opened(browser, address, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    figures = page.eval_on_selector_all(
        "svg[role=img]", "all => all.map(e => { const r = e.getBoundingClientRect(); return [r.width, r.height] })"
    )
    assert figures
    assert all(200 < w <= width and h > 80 for w, h in figures)
    rows = page.eval_on_selector_all("table", "all => all.map(e => e.tBodies[0].rows.length)")
    assert rows
    assert all(rows)
    assert page.eval_on_selector_all("td", "all => all.filter(e => !e.textContent.trim()).length") == 0
    page.close()


TEXT_OUTSIDE = """all => all.flatMap(svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(text => {
        const r = text.getBoundingClientRect();
        return r.left < box.left - 3 || r.right > box.right + 3 || r.top < box.top - 3 || r.bottom > box.bottom + 3;
    }).map(text => svg.getAttribute('aria-label') + ': ' + text.textContent);
})"""


def test_text_in_figures_is_the_pages_font_and_stays_inside(browser, address):
    page = opened(browser, address, WIDTHS["phone"], "light")
    assert page.eval_on_selector_all("svg[role=img]", TEXT_OUTSIDE) == []
    fonts = page.eval_on_selector_all("svg text", "all => [...new Set(all.map(e => getComputedStyle(e).fontFamily))]")
    assert fonts == [page.evaluate("getComputedStyle(document.body).fontFamily")]
    sizes = page.eval_on_selector_all(
        "svg[role=img] text",
        "all => all.map(e => parseFloat(getComputedStyle(e).fontSize) * Math.hypot(e.getCTM().c, e.getCTM().d))",
    )
    assert min(sizes) > 8
    page.close()


def test_figures_follow_light_and_dark(browser, pages):
    inks = {}
    for scheme in ("light", "dark"):
        page = opened(browser, pages["regression"], WIDTHS["desk"], scheme)
        inks[scheme] = (
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            page.evaluate("getComputedStyle(document.querySelector('svg[role=img] text')).fill"),
        )
        page.close()
    assert inks["light"][0] == "rgb(255, 255, 255)"
    assert inks["light"][0] != inks["dark"][0]
    assert inks["light"][1] != inks["dark"][1]


def test_a_long_name_leaves_the_numbers_on_the_page(browser, tmp_path):
    run = regression()
    long = replace(run, layout=replace(run.layout, names=("a" * 120,)))
    page = opened(browser, report([long], tmp_path / "long.html").as_uri(), WIDTHS["desk"], "light")
    hidden = page.eval_on_selector_all(".scroll", "all => all.filter(e => e.scrollWidth > e.clientWidth).length")
    assert hidden == 0
    page.close()


def test_r_hat_is_seen_on_a_phone_without_scrolling(browser, address):
    page = opened(browser, address, WIDTHS["phone"], "light")
    cells = page.eval_on_selector_all(
        "table",
        """all => { const table = all.find(e => e.caption.textContent.startsWith('Parameters'));
        const place = [...table.tHead.rows[0].cells].findIndex(e => e.textContent === 'R-hat');
        return [...table.rows].map(row => row.cells[place].getBoundingClientRect().right) }""",
    )
    assert len(cells) > 1
    assert max(cells) <= WIDTHS["phone"]
    page.close()


def test_on_a_desk_sections_are_filled(browser, address):
    page = opened(browser, address, WIDTHS["desk"], "light")
    # How far to the right the figures and tables of every section reach: what is narrow has something beside it.
    reach = page.eval_on_selector_all(
        "section:not(.run)",
        """all => all.map(section => Math.max(...[...section.querySelectorAll('svg[role=img], table, dl')]
        .map(e => e.getBoundingClientRect().right)))""",
    )
    assert len(reach) >= 6
    assert min(reach) > 0.6 * WIDTHS["desk"]
    page.close()


def test_on_paper_the_page_is_light_and_fits(browser, pages):
    page = opened(browser, pages["classified"], 680, "dark")  # the width of A4 within its margins
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()
