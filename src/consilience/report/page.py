"""The report on runs: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from .._refused import Refused
from .comparison import short_verdict, side_by_side
from .markup import Content, Markup, paragraph, tag
from .reading import RunReading, readings
from .sections import run_sections
from .style import css_variables
from .svg import distinct_names

if TYPE_CHECKING:
    from ..results import Run

MOST_IN_TITLE = 3


def report(runs: Sequence[Run] | Mapping[str, Run], path: Path, title: str | None = None) -> Path:
    """Write the page about one run, or about several side by side; return its path.

    Args:
      runs: by name, or in a sequence, and then named after their folders, or else after sampler and network.
      path: of the HTML file; missing folders are made.
      title: of the page; the runs' names if not given.
    """
    named = dict(runs) if isinstance(runs, Mapping) else _named(runs)
    if not named:
        raise Refused("report", "no runs were given", "Write report([run], path).")
    found, compared = readings(named)
    page = whole_page(title or _title(found), _lead(found), _body(found, compared))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _named(runs: Sequence[Run]) -> dict[str, Run]:
    """Name runs after their folders, or else after sampler and network, numbered where names are the same."""
    names = [run.folder.name if run.folder else f"{run.sampler.name} on {run.network.name}" for run in runs]
    return {
        name if names.count(name) == 1 else f"{name} ({names[: k + 1].count(name)})": run
        for k, (name, run) in enumerate(zip(names, runs, strict=True))
    }


def _title(found: list[RunReading]) -> str:
    return " / ".join(reading.name for reading in found) if len(found) <= MOST_IN_TITLE else f"{len(found)} runs"


def _lead(found: list[RunReading]) -> Markup:
    """Make the line that says what the page is about."""
    if len(found) == 1:
        return paragraph(f"Sampler {found[0].run.sampler.name}, network {found[0].run.network.name}: {found[0].size}.")
    return paragraph(f"{len(found)} runs: first all of them in one table, then each from its verdict to its cost.")


def _body(found: list[RunReading], compared: tuple[str, ...]) -> Content:
    if len(found) == 1:
        return run_sections(found[0], level=2)
    links, sections = [], []
    for k, one in enumerate(found):
        links.append(tag("li", tag("a", one.name, href=f"#run-{k}"), f": {short_verdict(one)}"))
        content = [tag("h2", one.name), paragraph(f"{one.size}."), run_sections(one, level=3)]
        sections.append(tag("section", content, id=f"run-{k}", class_="run"))
    contents = tag("nav", tag("ul", links), aria_label="Runs")
    comparison = tag("section", tag("h2", "Side by side"), side_by_side(found, compared))
    return [contents, comparison, *sections]


def whole_page(title: str, lead: Content, body: Content) -> str:
    """Make a self-contained HTML page."""
    styles = css_variables() + resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(styles)),
    )
    header = tag("header", tag("h1", title), lead)
    footer = tag("footer", paragraph("Made by consilience. The page holds all that it shows and fetches nothing."))
    page = tag("html", head, tag("body", header, tag("main", body), footer), lang="en")
    return f"<!doctype html>\n{distinct_names(page)}"
