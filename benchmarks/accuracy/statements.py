"""What the rows say: which are right, in tables and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .cells import NETWORKS, SAMPLERS
from .rows import Row
from .targets import TARGETS
from .text import bullets, figure, filled, short, span, table

R_HAT_LIMIT = 1.01
STANDARD_ERRORS = 3
BANDS = {"nuts": 0.03, "hmc": 0.03, "mala": 0.03, "dmala": 0.07, "dmala trapezoid": 0.07}  # what each is to keep to
LARGE_BIAS = 0.1  # posterior sds
COSTS = {"gradients": "per gradient", "rounds": "per round", "messages": "per message", "megabytes": "per MB"}
HEADER = ["sampler", "variance ratio", "worst bias, sd", "R-hat", "ESS", "least", *COSTS.values(), "accepted", "step"]


def is_mixed(row: Row) -> bool:
    return row["r_hat"] is not None and row["r_hat"] <= R_HAT_LIMIT


def is_right(row: Row, band: float) -> bool:
    """The variance ratio, as far as noise lets one tell."""
    return abs(row["variance_ratio"] - 1) <= max(band, STANDARD_ERRORS * row["variance_ratio_se"])


def is_off(row: Row) -> bool:
    """A mean is wrong by more than noise, and by so much that it matters."""
    return row["bias_beyond_noise"] and row["worst_bias"] > LARGE_BIAS


def of(rows: Iterable[Row], sampler: str) -> list[Row]:
    return [row for row in rows if row["sampler"] == sampler]


def finished(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "ok"]


def mixed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in finished(rows) if is_mixed(row)]


def per(row: Row, what: str) -> float | None:
    """Typical ESS over a cost."""
    return row["ess_typical"] / row[what] if row[what] else None


def place(row: Row) -> str:
    return f"{row['target']}, {row['network']}"


def ratio_text(row: Row) -> str:
    return f"{figure(row['variance_ratio'])} ± {figure(row['variance_ratio_se'])}"


def bias_text(row: Row) -> str:
    return f"{figure(row['worst_bias'])} ± {figure(row['worst_bias_se'])}"


def ratios(rows: Iterable[Row]) -> str:
    return span([row["variance_ratio"] for row in rows])


def listed(rows: Sequence[Row], show: Callable[[Row], str]) -> str:
    return "; ".join(f"{place(row)} ({show(row)})" for row in rows)


def in_short(rows: Sequence[Row]) -> list[str]:
    """The paragraphs, some of them empty."""
    answers = [band_statement(rows, sampler, band) for sampler, band in BANDS.items() if of(rows, sampler)]
    answers += other_statements(rows)
    gains = mala_table(rows)
    return [
        summary(rows),
        filled(
            f"""Cells count as *mixed* if R-hat is at most {R_HAT_LIMIT}, and only those are judged; the last column (†)
            has the variance ratios of the others. Variances are right *within* a band if their ratio to the true ones
            is that close to 1, or within {STANDARD_ERRORS} standard errors. Means are right unless one is off by more
            than {LARGE_BIAS} posterior sds and more than noise explains. Bold: not all."""
        ),
        "Variance ratios, of mixed cells:" if answers else "",
        bullets(answers),
        "ESS for the same cost of exact `mala`, over a tree, in multiples of that of `dmala`, which gossips:"
        if gains
        else "",
        gains,
        trouble(
            [r for r in finished(rows) if r["divergences"]], "Divergent", lambda r: f"{r['divergences']:,} iterations"
        ),
        trouble([r for r in rows if r["status"] != "ok"], "Failed", lambda r: f"{r['status']}: {r['error']}"),
    ]


def summary(rows: Sequence[Row]) -> str:
    """A table: of every sampler, how many cells are right."""
    lines = []
    for sampler in SAMPLERS:
        own = of(rows, sampler)
        good = mixed(own)
        right = [[is_right(row, band) for row in good] for band in sorted(set(BANDS.values()))]
        counts = [sum(one) for one in (*right, [not is_off(row) for row in good])]
        worst = max(good, key=lambda row: row["worst_bias"], default=None)
        line = [sampler, str(len(own)), emphasized(len(good), len(own)), *(emphasized(n, len(good)) for n in counts)]
        unmixed = [row for row in finished(own) if not is_mixed(row)]
        lines.append([*line, ratios(good), bias_text(worst) if worst else "-", ratios(unmixed)])
    bands = [f"within {band:.0%}" for band in sorted(set(BANDS.values()))]
    header = ["sampler", "cells", "mixed", *bands, "means right", "variance ratios", "worst bias, sd", "ratios †"]
    return table(header, [line for line in lines if line[1] != "0"])


def emphasized(count: int, total: int) -> str:
    return str(count) if count == total else f"**{count}**"


def band_statement(rows: Sequence[Row], sampler: str, band: float) -> str:
    """Yes or no, with the exceptions."""
    good = mixed(of(rows, sampler))
    wrong = [row for row in good if not is_right(row, band)]
    answer = f"**{'no' if wrong else 'yes'}**, {len(good) - len(wrong)} of {len(good)}" if good else "no cell mixed"
    noisy = [row for row in good if abs(row["variance_ratio"] - 1) > band and row not in wrong]
    notes = (
        ("Wrong", wrong, ratio_text),
        ("Outside, but within noise", noisy, ratio_text),
        ("Means off", [row for row in good if is_off(row)], bias_text),
    )
    told = [f" {name}: {listed(found, show)}." for name, found, show in notes if found]
    return f"`{sampler}` within {band:.0%}: {answer}.{''.join(told)}"


def other_statements(rows: Sequence[Row]) -> list[str]:
    """How the known defects show, of the samplers that have a mixed cell."""
    good = mixed(rows)
    trapezoid, by_network = [], []
    for target in TARGETS:
        own, exact = ([r for r in of(good, s) if r["target"] == target] for s in ("dmala trapezoid", "dmala"))
        if own and exact:
            trapezoid.append(f"{ratios(own)} on {target} (exact: {ratios(exact)})")
    for network, make in NETWORKS.items():
        own = [row for row in of(good, "dula published") if row["network"] == network]
        if own:
            by_network.append(f"{ratios(own)} on the {network} (1/m = {1 / make().size:.3f})")
    near = [abs(row["variance_ratio"] - 0.5) <= 0.1 for row in of(good, "published")]
    halved = [f"{sum(near)} of {len(near)} within 0.1 of the ½ that its drift implies"] if near else []
    found = {
        "`dmala trapezoid` beside `dmala`, whose energies are exact": trapezoid,
        "`published`, the paper's Algorithm 1": halved,
        "`dula published` beside one over the number of agents, m": by_network,
    }
    return [f"{title}: {', '.join(parts)}." for title, parts in found.items() if parts]


def mala_table(rows: Sequence[Row]) -> str:
    """How much more ESS exact MALA over the tree gives than gossiping MALA, for the same cost."""
    exact, gossip = ({place(row): row for row in mixed(of(rows, sampler))} for sampler in ("mala", "dmala"))
    gains = [
        [where, *(short(per(exact[where], what) / per(gossip[where], what)) for what in COSTS)]  # type: ignore[operator]
        for where in exact
        if where in gossip
    ]
    return table(["`mala` over `dmala`", *COSTS.values()], gains) if gains else ""


def trouble(rows: Sequence[Row], title: str, show: Callable[[Row], str]) -> str:
    """What diverged or failed: named, not dropped."""
    by_sampler = [f"`{name}`: {listed(of(rows, name), show)}" for name in SAMPLERS if of(rows, name)]
    return filled(f"**{title}.** {'. '.join(by_sampler)}.") if rows else ""


def target_table(rows: Sequence[Row], target: str) -> str:
    lines: list[list[str]] = []
    for network in NETWORKS:
        group = [row for row in rows if (row["target"], row["network"]) == (target, network)]
        if group:
            lines += [[f"**{network}**", *[""] * (len(HEADER) - 1)], *map(table_line, group)]
    return table(HEADER, lines)


def table_line(row: Row) -> list[str]:
    halvings = row.get("halvings")
    step = short(row.get("step_size")) + (f" (÷{2**halvings})" if halvings else "")
    if row["status"] != "ok":
        return [row["sampler"], f"**{row['status']}**", *[""] * (len(HEADER) - 3), step]
    return [
        row["sampler"],
        ratio_text(row) + ("" if is_mixed(row) else " †"),
        bias_text(row) + (" *" if row["bias_beyond_noise"] else ""),
        figure(row["r_hat"]),
        f"{row['ess_typical']:,.0f}",
        f"{row['ess_min']:,.0f}",
        *(short(per(row, what)) for what in COSTS),
        "-" if row["acceptance"] is None else f"{row['acceptance']:.2f}",
        step,
    ]
