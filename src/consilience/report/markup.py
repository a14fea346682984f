"""HTML elements: whatever is not markup already is escaped, by markupsafe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from .._lazy import LazyModule

if TYPE_CHECKING:
    from markupsafe import Markup as Markup
else:
    markupsafe = LazyModule("markupsafe", "report")  # imported when a page is written

    def Markup(text: str = "") -> Any:  # noqa: N802
        """Mark text as HTML, which is not escaped again."""
        return markupsafe.Markup(text)


Content: TypeAlias = "Markup | str | list[Any]"  # a piece of a page, or a list of pieces
EMPTY = {"meta", "line", "img", "wbr"}
WORDS = {"neighbours", "classes", "found", "limit", "verdict"}  # columns of words, not numbers


def join(parts: Iterable[Any]) -> Markup:
    """Return all parts one after the other; a part may be a list of such."""
    return Markup("").join(join(part) if isinstance(part, list) else part for part in parts)


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """Return `<name attribute="...">children</name>`: `class_` as class, `aria_label` as aria-label, None left out."""
    given = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opening = Markup("<{}{}>").format(name, join(Markup(' {}="{}"').format(*pair) for pair in given))
    return opening if name in EMPTY else Markup("{}{}</{}>").format(opening, join(children), name)


def cell(column: object, content: object) -> Markup:
    return tag("td", content, class_=_kind(column))


def table(
    caption: str,
    header: Sequence[object],
    rows: Iterable[Sequence[object]],
    class_: str | None = None,
    cell: Callable[[object, Any], Markup] = cell,
) -> Markup:
    """Make a table whose first column names the rows, in a box of its own in which it scrolls.

    Args:
      cell: makes a cell of its column's name and its content.
    """
    head = tag("tr", *(tag("th", name, scope="col", class_=_kind(name)) for name in header))
    body = (tag("tr", tag("th", tag("div", first), scope="row"), *map(cell, header[1:], rest)) for first, *rest in rows)
    content = tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *body)
    label = caption.split(":")[0]
    return tag(
        "div", tag("table", *content, class_=class_), class_="scroll", role="region", tabindex=0, aria_label=label
    )


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

    def piece(colour: str, dashed: bool) -> Markup:
        look = {"style": f"stroke:{colour}", "stroke_dasharray": "6 3" if dashed else None}
        return tag("svg", tag("line", x1=0, y1=5, x2=22, y2=5, **look), width=22, height=10, aria_hidden="true")

    items = (tag("li", piece(colour, dashed), name) for name, colour, dashed in entries)
    return tag("ul", *items, class_="legend")


def facts(entries: Iterable[tuple[str, object]], class_: str = "facts") -> Markup:
    """Make an HTML definition list of names and values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in entries), class_=class_)


def paragraph(*content: object) -> Markup:
    return tag("p", *content)


def folded(summary: str, *content: object) -> Markup:
    """Fold content under a summary, for the reader to open."""
    return tag("details", tag("summary", summary), *content)
