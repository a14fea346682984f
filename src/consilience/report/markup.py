"""HTML elements as strings: whatever is not `Markup` already is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

EMPTY = {"meta", "line", "img"}
WORDS = {"neighbours", "classes"}  # columns of words, not numbers


class Markup(str):
    """A string of HTML, which is not escaped again."""


def escape(content: object) -> Markup:
    """Return content as HTML: markup as it is, anything else escaped."""
    return content if isinstance(content, Markup) else Markup(html.escape(str(content)))


def join(parts: Iterable[object]) -> Markup:
    return Markup("".join(escape(part) for part in parts))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return `<name attribute="...">children</name>`: `class_` as class, `aria_label` as aria-label, None left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>" if name in EMPTY else f"<{name}{written}>{join(children)}</{name}>")


def table(
    caption: str, header: Sequence[object], rows: Iterable[Sequence[object]], class_: str | None = None
) -> Markup:
    """Make a table whose first column names the rows, in a box of its own in which it scrolls."""
    head = tag("tr", *(tag("th", name, scope="col", class_=_kind(name)) for name in header))
    body = (
        tag(
            "tr",
            tag("th", tag("div", first), scope="row"),
            *(_cell(*pair) for pair in zip(header[1:], rest, strict=True)),
        )
        for first, *rest in rows
    )
    return tag(
        "div",
        tag("table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *body), class_=class_),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_label=caption.split(":")[0],
    )


def _cell(column: object, content: object) -> Markup:
    """Make a cell of a table; content that is written as a cell already is taken as it is."""
    if isinstance(content, Markup) and content.startswith("<td"):
        return content
    return tag("td", content, class_=_kind(column))


def _kind(column: object) -> str | None:
    return "words" if column in WORDS else None


def figure(caption: str, panels: Sequence[Markup], legend: Markup | None = None) -> Markup:
    """Put panels side by side as the width allows, with one sentence that says how to read them."""
    return tag("figure", legend or Markup(), tag("div", *panels, class_="panels"), tag("figcaption", caption))


def abreast(figures: Sequence[Markup]) -> Markup:
    """Put figures of one panel each side by side, as the width allows."""
    return tag("div", *figures, class_="panels")


def panel(title: str, drawing: Markup, legend: Markup | None = None) -> Markup:
    """Put one drawing under its title; the legend is for it alone."""
    return tag("div", tag("p", title, class_="panel-title"), drawing, legend or Markup(), class_="panel")


def legend(entries: Iterable[tuple[str, str, bool]]) -> Markup:
    """Make a legend: names of lines, each with a piece of its line.

    Args:
      entries: name, CSS colour, and whether the line is dashed.
    """
    items = (
        tag(
            "li",
            tag(
                "svg",
                tag(
                    "line",
                    x1=0,
                    y1=5,
                    x2=22,
                    y2=5,
                    style=f"stroke:{colour}",
                    stroke_dasharray="6 3" if dashed else None,
                ),
                width=22,
                height=10,
                aria_hidden="true",
            ),
            name,
        )
        for name, colour, dashed in entries
    )
    return tag("ul", *items, class_="legend")


def facts(entries: Iterable[tuple[str, object]], class_: str = "facts") -> Markup:
    """Make an HTML definition list of names and values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in entries), class_=class_)


def paragraph(*content: object) -> Markup:
    return tag("p", *content)


def folded(summary: str, *content: object) -> Markup:
    """Fold content under a summary, for the reader to open."""
    return tag("details", tag("summary", summary), *content)
