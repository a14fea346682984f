"""What the page says, and how it is built."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

import consilience as cs
from consilience.report.notes import NETWORK_HEIGHT, annotate
from consilience.report.numbers import count, fixed, listed, number, percent
from consilience.report.page import report
from consilience.report.predictions import _wide_enough
from consilience.report.style import SERIES, THEME
from consilience.report.svg import WIDTH
from consilience.results import Run

from .runs import classified, regression, with_draws

EMPTY = {"meta", "line", "path", "use", "br"}


class Outline(HTMLParser):
    """Headings, figures and tables of a page; fails where elements are not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert tag in EMPTY or self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def page_of(runs: object, folder: Path, title: str | None = None) -> str:
    return report(runs, folder / "report.html", title).read_text()


@pytest.fixture(scope="module")
def one(tmp_path_factory) -> str:
    return page_of([classified()["exact"]], tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> str:
    return page_of(classified(), tmp_path_factory.mktemp("two"), title="Two & more")


def test_a_page_has_all_sections_in_order(one):
    outline = Outline(one)
    assert outline.text["h1"] == ["mala on ring of 3"]
    assert outline.text["h2"] == [
        "Network",
        "Parameters",
        "Chains",
        "Marginals",
        "Agreement and acceptance over time",
        "Cost",
        "Predictions",
        "Provenance",
    ]
    for word in (
        "20 rows",
        "least ESS per unit",
        "megabyte",
        "unseen accuracy",
        "OOD AUROC",
        "All 3 agents hold the same",
    ):
        assert word in one
    assert "Of 9 parameters, these 6 have the largest R-hat." in one
    assert classified()["exact"].summary().verdict.split(".")[0] in one


def test_figures_have_alt_texts_and_captions_and_follow_the_theme(two):
    outline = Outline(two)
    drawings = [attributes for tag, attributes in outline.elements if tag == "svg" and "role" in attributes]
    assert len(drawings) > 40
    for attributes in drawings:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"]) > 20
    assert outline.count("figcaption") == outline.count("figure")
    assert not re.search(r"(?:fill|stroke): #", two), "a colour of matplotlib's own is left"
    assert "font-family: 'DejaVu" not in two
    assert len(outline.ids) == len(set(outline.ids))
    for name in re.findall(r'(?:url\(|href=")#([\w.-]+)', two):
        assert name in outline.ids


def test_tables_have_captions_and_scopes(two):
    outline = Outline(two)
    assert outline.count("caption") == outline.count("table") > 5
    assert all("scope" in attributes for tag, attributes in outline.elements if tag == "th")
    assert "<td></td>" not in two


def test_several_runs_come_side_by_side_first_and_names_are_escaped(two):
    outline = Outline(two)
    assert outline.text["h1"] == ["Two & more"]
    assert outline.text["h2"] == ["Side by side", "exact", "<b>biased & odd</b>"]
    assert "<b>" not in two
    assert "Biased by design. " in outline.text["strong"]
    assert two.index("Biased by design") < two.rindex("Network</h3>"), "the bias is beside the verdict"


def test_the_page_fetches_nothing(two):
    addresses = {address for address in re.findall(r"https?://[^\s\"'<)]+", two) if "w3.org" not in address}
    assert addresses == set()
    assert "<script" not in two
    assert "@import" not in two


def test_the_same_run_gives_the_same_page(one, tmp_path):
    assert page_of([classified()["exact"]], tmp_path) == one


def test_runs_in_a_row_are_named_after_sampler_and_network(tmp_path):
    run = with_draws(np.zeros((0, 2, 4, 3)))
    text = Outline(page_of([run, run], tmp_path / "new")).text
    assert text["h1"] == ["dula on star of 4 (1) / dula on star of 4 (2)"]
    with pytest.raises(ValueError, match="no runs were given"):
        report([], tmp_path / "report.html")


def test_a_regression_shows_its_coverage(tmp_path):
    page = page_of([regression()], tmp_path)
    for word in ("Coverage", "RMSE with more draws", "agent 3", "predictive intervals"):
        assert word in page


def odd_runs() -> dict[str, tuple[Run, str]]:
    """What can go wrong, and what the page must say then."""
    random = np.random.default_rng(0)
    draws = random.standard_normal((50, 2, 4, 3))
    diverged, still = draws.copy(), draws.copy()
    diverged[20:, 0, 1] = np.nan
    still[:, 1] = 0.5
    run = with_draws(draws)
    return {
        "one chain": (with_draws(draws[:, :1]), "There is one chain: ranks compare chains."),
        "one agent": (with_draws(draws[:, :, :1], cs.Network.complete(1)), "There is one agent: nobody to agree with."),
        "three draws": (with_draws(draws[:3]), "3 draws a chain are too few to rank."),
        "no draws": (replace(with_draws(draws[:0]), planned=50), "There are no draws to show."),
        "diverged": (with_draws(diverged), "Draws that are not finite numbers cannot be ranked."),
        "nothing finite": (with_draws(np.full_like(draws, np.nan)), "No draw of this parameter is a finite number."),
        "never moved": (with_draws(still), "1 of which never moved"),
        "unfinished": (replace(run, planned=80), "50 of 80"),
        "nothing recorded": (replace(run, raw_stats={}), "was not recorded draw by draw"),
        "nothing kept": (replace(run, kept=draws[..., :0], layout=no_parameters(run)), "No parameters were kept."),
    }


def no_parameters(run: Run) -> object:
    return replace(run.layout, treedef=None, shapes=(), dtypes=(), names=())


@pytest.mark.parametrize("kind", odd_runs().keys())
def test_odd_runs_still_give_a_page_that_says_what_is_missing(kind, tmp_path):
    run, said = odd_runs()[kind]
    page = page_of([run], tmp_path)
    Outline(page)
    assert said in page


def test_many_agents_are_folded_and_some_of_them_drawn(tmp_path):
    draws = np.random.default_rng(0).standard_normal((50, 2, 64, 3))
    run = with_draws(draws, cs.Network.torus(8, 8))
    page = page_of([run], tmp_path)
    assert "<summary>The 64 agents, one by one</summary>" in page
    assert "Of 64 agents, 8, evenly spaced, are drawn." in page
    assert "<li><svg" in page
    assert "agent 63</div></th>" in page


def test_predictions_that_are_not_numbers_are_said_to_be_none(tmp_path):
    run, like = with_draws(np.ones((3, 2, 3, 3)), cs.Network.ring(3)), classified()["exact"].evaluation
    nothing = {name: np.full(3, np.nan) for name in ("accuracy", "nll", "brier", "ece", "unseen_accuracy", "ood_auroc")}
    curves = replace(like.cumulative, accuracy=like.cumulative.accuracy * np.nan, nll=like.cumulative.nll * np.inf)
    bins = replace(like.reliability, accuracy=like.reliability.accuracy * np.nan)
    scores = replace(like, **nothing, class_accuracy=like.class_accuracy * np.nan, cumulative=curves, reliability=bins)
    run.__dict__["evaluation"] = scores
    page = page_of([run], tmp_path)
    assert "No prediction is a number." in page
    assert page.count("None of the scores is finite.") == 2


def test_runs_of_other_models_are_not_overlaid(tmp_path):
    page = page_of(
        [with_draws(np.ones((3, 2, 4, 3))), replace(classified()["exact"], kept=np.ones((3, 2, 1, 9)))], tmp_path
    )
    assert "No two of the runs have a parameter of the same name" in page


def test_a_run_of_another_model_leaves_the_others_compared(tmp_path):
    draws = np.random.default_rng(0).standard_normal((50, 2, 4, 3))
    run = with_draws(draws)
    other = replace(run, layout=replace(run.layout, names=("q",)))
    page = page_of({"one": run, "two": with_draws(2 * draws), "other": other, "short": with_draws(draws[:2])}, tmp_path)
    assert "These 3 parameters are all that are in at least two of the 4 runs." in page
    assert "params[0] (in 3 of 4 runs)" in page
    assert "Marginals of params[0], 2 curves" in page
    assert "Runs of fewer than 20 draws have no curve." in page
    assert "or has not mixed: see R-hat" in page


def test_the_table_of_runs_lists_what_is_grave(tmp_path):
    draws = np.random.default_rng(0).standard_normal((50, 2, 4, 3))
    run = with_draws(draws + 9 * np.arange(2)[:, None, None])
    page = page_of([run, run], tmp_path)
    grave = [finding for finding in run.summary().findings if finding.is_grave]
    assert len(grave) > 1
    assert f"<td>{', '.join(finding.short for finding in grave)}</td>" in page
    assert page.count(grave[0].sentence) == 2, "once a run"
    assert 'class="verdict careful"' in page


def test_agents_that_hold_the_same_draws_have_one_column_of_scores(one, two):
    assert '<th scope="col">score</th><th scope="col">value</th></tr>' in one
    assert "Marginals per agent" not in one
    assert '<th scope="col">Brier</th>' not in one, "it is the same for all agents"
    assert '<th scope="col">unseen NLL</th>' in one, "it is not"
    assert '<th scope="col">lowest</th>' in two
    assert "OOD AUROC is the probability" in one


def test_iterations_are_counted_once(tmp_path):
    run = classified()["exact"]
    stats = run.raw_stats | {"is_divergent": np.zeros((120, 2, 1), bool)}
    page = page_of([replace(run, raw_stats=stats)], tmp_path)
    assert "Of 240 iterations behind the kept draws, 0 diverged" in page


def test_an_axis_on_which_accuracy_settles_is_not_too_narrow():
    for rows, span in ((1000, 0.05), (20, 0.5)):
        low, high = _wide_enough("Accuracy", np.array([[0.99], [1.0]]), rows)
        assert high - low == pytest.approx(span)
        assert low < 0.99 < 1 < high
    low, high = _wide_enough("RMSE", np.array([[100.0], [100.1]]), 10)
    assert high - low > 5


@pytest.mark.parametrize(
    "network", [cs.Network.complete(2), cs.Network.path(5), cs.Network.star(8), cs.Network.path(8)], ids=repr
)
def test_notes_cover_neither_agents_nor_each_other(network):
    notes = ["1,000 rows\n0, 1, 2, … (5)"] * network.size
    ax = network.plot(Figure(figsize=(WIDTH, NETWORK_HEIGHT), layout="constrained").add_subplot())
    ax.set_title("")
    is_written = annotate(ax, network.edges, notes)
    assert is_written == (network.name != "path of 8"), "its agents would stand too close"
    ax.figure.draw_without_rendering()
    written = [text.get_window_extent() for text in ax.texts if isinstance(text, Annotation)]
    discs = ax.transData.transform(ax.collections[-1].get_offsets()) if is_written else []
    radius = 10 * ax.figure.dpi / 72
    for k, note in enumerate(written):
        assert not any(note.overlaps(other) for other in written[:k])
        for x, y in discs:
            assert np.hypot(max(note.x0 - x, 0, x - note.x1), max(note.y0 - y, 0, y - note.y1)) > radius
        assert note.x0 >= 0
        assert note.x1 <= ax.figure.bbox.x1
        assert note.y0 >= 0
        assert note.y1 <= ax.figure.bbox.y1


def test_names_with_markup_or_mathematics_are_shown_as_they_are(tmp_path):
    run = regression()
    page = page_of([replace(run, layout=replace(run.layout, names=("$x_1$ <i>",)))], tmp_path)
    assert "$x_1$ &lt;i&gt;[0]" in page
    assert "<i>" not in page


def test_numbers_are_written_for_people():
    assert [number(x) for x in (0.0, 1234.5, -0.01234, 1.2e-5, 3.456e7, np.nan, np.inf, None)] == [
        "0", "1,234", "−0.0123", "1.20·10⁻⁵", "3.46·10⁷", "n/a", "∞", "n/a",
    ]  # fmt: skip
    assert [fixed(x, 2) for x in (1.005, -2.0, np.nan)] == ["1.00", "−2.00", "n/a"]
    assert (percent(0.123), count(1, "agent"), count(2000, "row")) == ("12.3 %", "1 agent", "2,000 rows")
    assert listed(["a", "b", "c"], 2) == "a, b, … (3)"


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        values = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_can_be_seen(mode):
    paper, band = THEME["paper"][mode], THEME["band"][mode]
    assert contrast(THEME["ink"][mode], band) > 7
    assert contrast(THEME["quiet"][mode], paper) > 4.5
    for k in range(len(SERIES)):
        assert contrast(THEME[f"series-{k}"][mode], paper) > 3
    assert len({pair[mode] for pair in THEME.values()}) == len(THEME)
