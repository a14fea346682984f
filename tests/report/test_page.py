"""What the page says, and how it is built."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

import consilience as cs
from consilience.report.forest import Interval, _short, chosen, forest, intervals
from consilience.report.notes import NETWORK_HEIGHT, annotate
from consilience.report.numbers import count, fixed, listed, minus, number, percent
from consilience.report.page import report
from consilience.report.predictions import _wide_enough
from consilience.report.sections import _breakable
from consilience.report.style import SERIES, THEME
from consilience.report.svg import WIDTH
from consilience.results import Run
from consilience.samplers.surrogate import SurrogateInfo

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
        "Parameters",
        "Network",
        "Predictions",
        "Predictive checks",
        "Chains",
        "Marginals",
        "Agreement, acceptance and cost",
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


def test_a_surrogate_s_certificate_stands_on_the_page_item_by_item(tmp_path):
    draws = np.random.default_rng(0).standard_normal((600, 2, 1, 9))
    said = dict.fromkeys(SurrogateInfo._fields, np.zeros((600, 2, 1)))
    said |= {"surrogate_has_mode": np.ones((600, 2, 1)), "surrogate_starts": np.full((600, 2, 1), 8)}
    stats = said | {"log_weight": draws[..., 0] / 100}
    sure = replace(classified()["exact"], kept=draws, raw_stats=stats, sampler=cs.surrogate())
    page = page_of([sure], tmp_path)
    assert Outline(page).text["h2"][0] == "Certificate"
    rows = re.findall(
        r"<th[^>]*>(?:<div>)?([^<]+)(?:</div>)?</th><td[^>]*>([^<]*)</td><td[^>]*>([^<]*)</td><td[^>]*>(|holds|fails)</td>",
        page,
    )
    certificate = sure.summary().certificate
    assert rows == [(check.name, check.found, check.limit, check.verdict) for check in certificate.checks]
    assert "holds" in certificate.lines()[1]
    assert certificate.blindness in page
    unsure = replace(sure, raw_stats=stats | {"surrogate_second_mode": np.ones((600, 2, 1))})
    assert ">fails</td>" in page_of([unsure], tmp_path)


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
    assert '<th scope="col">score</th><th scope="col">value</th><th scope="col">at base rates</th></tr>' in one
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


def named(run: Run) -> Run:
    """The classifier's run with names of columns and of agents."""
    dims = {"w": ("feature", "class"), "b": ("class",)}
    coords = {"feature": ("age", "dose"), "class": ("well", "ill", "worse")}
    return replace(run, dims=dims, coords=coords, names=("Mayo", "Charité <1>", "Karolinska"))


def test_agents_and_columns_have_their_names_everywhere(tmp_path):
    runs = {name: named(run) for name, run in classified().items()}
    for run in runs.values():
        run.__dict__["evaluation"] = next(iter(classified().values())).evaluation
    page = page_of(runs, tmp_path)
    assert "agent 0" not in page
    assert "agent 2" not in page
    assert "w[0" not in page
    assert page.count("w[dose, ill]") > 4
    assert "<div>Charité &lt;1&gt;</div></th>" in page
    assert '<td class="words">Charité &lt;1&gt;, Karolinska</td>' in page, "neighbours"
    assert page.count(">Karolinska</text>") >= 2, "beside its disc"
    assert "draws of Mayo." in page, "whose draws the checks are of"


def test_of_agents_without_names_the_numbers_are_shown(one):
    assert "agent 2</div></th>" in one
    assert '<th scope="col">disc</th>' not in one


def test_the_page_is_called_after_the_folder_of_the_run(tmp_path):
    page = page_of([replace(regression(), folder=tmp_path / "my-study")], tmp_path)
    assert Outline(page).text["h1"] == ["my-study"]
    assert Outline(page_of([regression()], tmp_path, "Trial")).text["h1"] == ["Trial"]


def test_a_forest_plot_has_the_central_intervals_of_all_draws(one):
    run = classified()["exact"]
    draws = run.draws["w"][0, :, :, 0, 2].ravel()
    low, high = np.quantile(draws, [0.03, 0.97])
    alt = next(label for label in re.findall(r'aria-label="([^"]*)"', one) if label.startswith("Forest plot"))
    assert f"w[0, 2] {minus(f'{draws.mean():.2f}')}, {minus(f'{low:.2f} to {high:.2f}')}" in alt
    assert f"<td>{minus(f'{low:.2f} to {high:.2f}')}</td>" in one
    assert one.index("Forest plot") < one.index("<h2>Network")
    header = re.findall(r'<th scope="col">([^<]*)</th>', one)
    assert header[header.index("parameter") + 1] == "R-hat"


def test_names_in_a_forest_plot_keep_the_label_of_their_element():
    assert _short("baseline[Switzerland]") == "baseline[Switzerland]"
    assert _short("hospital_effect[Switzerland]") == "hospital…[Switzerland]"
    assert _short("a" * 30) == "aaaaaaaaaaa…aaaaaaaaaa"
    assert _breakable("hospital_effect[Switzerland]") == "hospital_effect<wbr>[Switzerland]"
    assert _breakable("w[age]") == "w[age]"


def test_intervals_are_averages_over_agents_and_missing_where_draws_are_not_finite():
    draws = np.random.default_rng(0).standard_normal((400, 2, 4, 3)) + np.arange(4)[:, None]
    draws[7, 0, 2, 1] = np.inf
    found = intervals(with_draws(draws), [0, 1])
    tails = np.quantile(draws[..., 0], [0.03, 0.25, 0.75, 0.97], axis=(0, 1)).mean(axis=1)
    np.testing.assert_allclose(found[0], [draws[..., 0].mean(), *tails])
    assert not found[1].is_finite
    assert found[1].text == "n/a"
    assert len(forest(["a", "b"], found)) == 1


def test_of_many_parameters_those_with_names_are_drawn():
    numbered = [f"w[{k}]" for k in range(40)]
    assert chosen(numbered[:24]) == list(range(24))
    assert chosen(numbered) == []
    assert chosen([*numbered, "b", "w[age]", "w[age, 3]"]) == [40, 41, 42]
    assert len(chosen([f"w[{name}]" for name in map(chr, range(97, 123))])) == 24


def test_parameters_of_unlike_scales_have_an_axis_each():
    wide, narrow, other = Interval(0, -100, -50, 50, 100), Interval(1, 0.9, 0.95, 1.05, 1.1), Interval(2, 1, 1.5, 2, 3)
    assert len(forest(["a", "b", "c"], [wide, narrow, other])) == 2
    assert len(forest(["b", "c"], [narrow, other])) == 1
    assert (wide.text, narrow.text) == ("−100 to 100", "0.900 to 1.100")


@pytest.fixture(scope="module")
def two_classes() -> Run:
    """Three agents with a classifier of two classes; evaluated."""
    random = np.random.default_rng(0)
    x = random.standard_normal((90, 1)).astype(np.float32)
    y = (random.random(90) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int32)

    def logits(params, x):
        z = params["b"][0] + x @ params["w"][:1, 0]
        return jnp.stack([0 * z, z], axis=1)

    shards = cs.shard({"x": x[:60], "y": y[:60]}, agents=3)
    run = replace(classified()["exact"], posterior=cs.Posterior.classifier(logits), shards=shards)
    run.evaluate({"x": x[60:], "y": y[60:]})
    return run


def test_scores_of_two_classes_have_a_c_statistic_a_scale_and_an_interval(two_classes, tmp_path):
    page = page_of([two_classes], tmp_path)
    scores = two_classes.evaluation
    assert f"<div>AUC</div></th><td>{scores.auc[0]:.3f}</td><td>0.500</td>" in page
    assert "AUC, the c-statistic, is" in page
    assert "from 0, which is perfect, to 2" in page
    assert "Of two classes, some halve the Brier score" in page
    assert f"<div>Brier</div></th><td>{scores.brier[0]:.3f}</td><td>{scores.at_base_rates['brier']:.3f}</td>" in page
    low, high = scores.ece_interval[0]
    assert f"The ECE lies between {low:.3f} and {high:.3f} (90 % interval, by a bootstrap over these rows that " in page
    assert "that takes off its upward bias)." in page
    assert "<div>all 3 agents</div>" in page, "they predict alike, and have examples of the same classes"
    assert "framed and bold" not in page
    assert "intervals and effective sample sizes (ESS) are of all chains together" in page
    older = replace(scores, auc=None, ece_interval=None, base_rates=None)
    run = replace(two_classes)
    run.__dict__["evaluation"] = older
    page = page_of([run], tmp_path)
    assert "AUC" not in page
    assert "at base rates" not in page


def test_predictive_checks_of_two_classes_and_of_numbers(two_classes, one, tmp_path):
    page = page_of([two_classes], tmp_path)
    assert "Outcomes y of 60 rows as observed and as drawn again" in page
    assert "Calibration of y by leave-one-out" in page
    assert "LOO-PIT" not in page
    assert "The agents&#39; own rows beside what the model draws in their place, for 240 draws." in page
    page = page_of([regression()], tmp_path)
    assert "LOO-PIT of y, " in page
    assert "for 200 draws of agent 0." in page
    assert "Calibration of y by leave-one-out" not in one, "labels of three classes"
    silent = replace(regression(), shards=None)
    assert "Predictive checks" not in page_of([silent], tmp_path)


def test_rows_that_leave_one_out_cannot_tell_of_are_counted(tmp_path):
    run = replace(regression())
    check = run.predictive_checks["y"]
    run.__dict__["predictive_checks"] = {"y": replace(check, unreliable=3, rows=5, all_rows=50)}
    page = page_of([run], tmp_path)
    assert "Of 3 rows, leave-one-out figures are not reliable" in page
    assert "own 5 of 50 rows, evenly spaced, beside" in page
