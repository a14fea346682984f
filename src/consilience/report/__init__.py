"""Reports on runs, as HTML pages, and the colours of all figures."""

from .markup import Markup, facts, folded, join, paragraph, table, tag
from .numbers import MISSING
from .page import report, whole_page
from .reading import worst_places
from .style import BLUE, GREEN, GREY, INK, ORANGE, PALETTE, PURPLE, VERMILION, line_look, new_figure
