"""The page, computed from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cells import KINDS, NETWORKS, SAMPLERS
from .measures import BIAS_LEVEL, SERIES
from .rows import Row
from .statements import in_short, target_table
from .steps import LEAST_ACCEPTANCE, RUN_AWAY, STABLE_MARGIN
from .targets import TARGETS
from .text import bullets, figure, filled, table


def page(data: dict[str, Any]) -> str:
    rows = data["rows"]
    machines = "; ".join(
        f"{here['seconds'] / 60:.0f} minutes on {here['cores']} cores (Python {here['python']}, jax {here['jax']})"
        for here in data["machines"]
    )
    cells, chains = len(TARGETS) * len(NETWORKS) * len(SAMPLERS), sorted({row["settings"]["chains"] for row in rows})
    parts = [
        "# How right the samplers are",
        filled(
            f"""{len(SAMPLERS)} samplers on {len(TARGETS)} posteriors over {len(NETWORKS)} networks: how far variances
            and means are from the true ones, and how many effective draws a gradient, a round, a message and a megabyte
            buy. {f"So far {len(rows)} of" if len(rows) < cells else "All"} {cells} cells are here, and all below is
            computed from them. The rows as data: [accuracy.json](accuracy.json)."""
        ),
        "```sh\nmake bench-accuracy\n```",
        filled(f"""{machines}. {" or ".join(map(str, chains))} chains, float32."""),
        "## In short",
        *in_short(rows),
        "## The columns",
        bullets(COLUMNS),
    ]
    for target, text in TARGETS.items():
        if any(row["target"] == target for row in rows):
            parts += [f"## {target.capitalize()}", filled(text), target_table(rows, target)]
    parts += ["## Settings", lengths_table(rows), bullets(settings(rows, data["reference"]))]
    return "\n\n".join(part for part in parts if part) + "\n"


COLUMNS = (
    """*variance ratio*: the draws' variance over the true one, averaged over parameters and agents, ± its standard
    error, from the spread between chains (on digits, with the reference's own). † not mixed.""",
    f"""*worst bias*: the largest distance of a mean from the true one, over parameters and agents, in posterior sds,
    ± that mean's standard error. Being the largest of many it is a few standard errors even where nothing is wrong;
    \\* where more than noise explains (level {BIAS_LEVEL:g} for the whole cell, Bonferroni). The chains of
    `consensus_monte_carlo` share their estimated weights, whose error is not in it.""",
    f"""*R-hat*: the largest, and *ESS*, *least*: the median and the least effective number of draws of all chains
    together, of at most {SERIES[0]} agents times {SERIES[1]} parameters, evenly spaced.""",
    """*per gradient, round, message, MB*: the median ESS over what the kept iterations cost, warm-up left out.
    Gradients are one agent's (`published` counts 2 an iteration, one for its Hessian-vector product), the rest is the
    whole network's. A round is what happens between two waits; a message carries all chains.""",
    """Rounds, messages and bytes were counted before digests and states rode on sums: `mala` took 8 rounds a draw on
    the ring then and takes 4 now; `hmc` and `nuts` take 4 and 2 fewer an iteration there. `surrogate` is not in these
    tables: see [Rounds](rounds.md).""",
    "*accepted*: the fraction of proposals taken; for `nuts` its mean acceptance probability.",
    "*step*: the step size; its mean where chains or iterations differ. (÷8): 8 times slower than by the rule below.",
)


def lengths_table(rows: Sequence[Row]) -> str:
    lines = []
    for kind in KINDS:
        names = [name for name, recipe in SAMPLERS.items() if recipe.kind == kind]
        line = [", ".join(names)]
        for hard in (False, True):
            used = [r["settings"] for r in rows if r["sampler"] in names and (r["target"] == "digits") == hard]
            texts = [f"{one['warmup']:,} + {one['draws']:,} × {one['thin']}".removesuffix(" × 1") for one in used]
            line.append(" or ".join(dict.fromkeys(texts)) or "-")
        lines.append(line)
    return table(["iterations per chain: warm-up + draws × thinning", "small targets", "digits"], lines)


def settings(rows: Sequence[Row], reference: dict[str, Any] | None) -> list[str]:
    used = {r["target"] == "digits": r["settings"]["turnovers"] for r in rows if "turnovers" in r["settings"]}
    turnovers = " and ".join(f"{number} on {'digits' if hard else 'small targets'}" for hard, number in used.items())
    found = [
        "Every chain starts at a place of its own, drawn from a normal with the true mean and sd of every parameter.",
        """`nuts`, `hmc`, `mala`, `dmala` and `consensus_monte_carlo` find step size and mass matrix in their warm-up.
        `consensus_monte_carlo` has dense weights, on digits diagonal ones: its few draws do not give the covariances of
        650 parameters.""",
        f"""The others do not tune themselves, and one rule sets their steps: in its kept iterations a chain's slowest
        direction, the one of largest posterior variance, is to turn over T times ({turnovers or "no cell yet"}). With
        h = T × largest variance / iterations and m agents: ε² = mh for `published`, η = mh for `desgld`, `diging` and
        `extra`, a mean step of h for `dula`; for `desghmc` η = Tτ / iterations and γ = 2/τ, τ² = m × largest variance,
        critically damped. That is about the smallest step that still explores: a smaller one has less bias and less
        ESS, and takes a longer run.""",
        f"""Where that is too fast the speed is halved until a pilot run {STABLE_MARGIN} times as fast stays within
        {RUN_AWAY:g} sd, and, with a Metropolis step, one at that speed accepts at least {LEAST_ACCEPTANCE:.0%}.""",
    ]
    if reference:
        found.append(
            f"""The reference of digits: {reference["chains"]} chains of {reference["draws"]:,} draws, R-hat at most
            {figure(reference["r_hat"])}, standard error of its mean variance {reference["ratio_error"]:.2%}, of its
            means at most {figure(reference["largest_mean_error"])} sd."""
        )
    return found
