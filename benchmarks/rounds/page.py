"""The page, computed from the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.accuracy.text import bullets, figure, filled, short, table

from .cells import METHODS, REFERENCE
from .models import MODELS

Row = Mapping[str, Any]
ENOUGH = 1000  # effective draws
FEW_SUMS, MANY_MODELS = 60, 12
BAND, ERRORS = 0.03, 3  # of a variance ratio: how far from one, or how many standard errors
MOST_R_HAT = 1.01
MOST_WARM_SUMS = 600
AIMS = {"digits, precision 1": 6.0, "digits, precision 100": 2.0, "logistic, nearly separable": 9.0}  # sums an ESS
MILLION = 1e6


def is_mixed(row: Row) -> bool:
    """Tell whether the row's figures can be trusted: whether its chains agree."""
    return row["status"] == "ok" and row["r_hat"] is not None and row["r_hat"] <= MOST_R_HAT


def to_enough(row: Row, kind: str) -> float | None:
    """Return the sums, rounds or bytes from a cold start to ENOUGH effective draws; None where none were measured.

    What sampling took is scaled by the least ESS; of scored proposals whole blocks are counted.
    """
    if row["status"] != "ok" or not row["ess"]:
        return None
    share = ENOUGH / row["ess"]
    if row["splits"] is False:
        blocks = row["draws"] / row["num_proposals"]
        share = math.ceil(blocks * share) / blocks
    return float(row["warm"][kind] + share * row["sampling"][kind])


def chain_sums_per_draw(row: Row) -> float | None:
    """Return a single chain's sums for an effective draw; None of scored proposals."""
    return None if row.get("chain_sums") is None or not row["ess"] else float(row["chain_sums"] / row["ess"])


def is_right(row: Row) -> bool:
    apart = abs(row["variance_ratio"] - 1)
    return bool(apart <= BAND or apart <= ERRORS * row["variance_ratio_se"])


def told(row: Row) -> str:
    """Return a line about a row that has just been run."""
    if row["status"] != "ok":
        return f"{row['status']}, {row['error']}"
    if row["method"] == REFERENCE:
        return f"{row['source']}, R-hat {row['r_hat']}, {row['seconds']} s"
    how = "" if row["splits"] is None else ("split, " if row["splits"] else "scored, ")
    return (
        f"{how}{short(to_enough(row, 'sums'))} sums, fit {row['fit_sums']}, ESS {row['ess']:.0f}, "
        f"accepts {row['acceptance']:.2f}, ratio {ratio_text(row)}, bias {bias_text(row)}, "
        f"R-hat {row['r_hat'] or 0:.3f}, {row['seconds']} s"
    )


def ratio_text(row: Row) -> str:
    return f"{figure(row['variance_ratio'])} ± {row['variance_ratio_se']:.3f}"


def bias_text(row: Row) -> str:
    return f"{figure(row['worst_bias'])} ± {row['worst_bias_se']:.3f}"


def page(rows: Sequence[Row]) -> str:
    by_key = {(row["model"], row["method"]): row for row in rows}
    methods = [row for row in rows if row["method"] != REFERENCE]
    models = [model for model in MODELS if any(row["model"] == model for row in methods)]
    references = [by_key[model, REFERENCE] for model in models if (model, REFERENCE) in by_key]
    parts = [
        "# Rounds to a thousand draws",
        filled(
            f"""On real links time is rounds times latency. {len(models)} posteriors over four to six agents on a ring,
            each sampled from a cold start to {ENOUGH:,} effective draws: how many exact sums over the network that
            took, how many rounds and bytes, and how right the draws were. All below is computed from
            [rounds.json](rounds.json)."""
        ),
        "```sh\nmake bench-rounds\n```",
        "## In short",
        in_short(by_key, models),
        "## Sums",
        filled(SUMS),
        cost_table(by_key, models, "sums", short),
        "## Rounds and bytes",
        filled(ROUNDS),
        cost_table(by_key, models, "rounds", short, with_warm=False),
        cost_table(by_key, models, "bytes", lambda value: short(value / MILLION), with_warm=False),
        "## How right",
        filled(RIGHT),
        right_table(by_key, models),
        "## By the surrogate",
        filled(SURROGATE),
        surrogate_table(by_key, models),
        "## The models",
        bullets([f"*{row['model']}*: {row['text']}." for row in references]),
        "## Settings",
        bullets(settings(by_key, models)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


SUMS = f"""Sums from a cold start to {ENOUGH:,} effective draws of the least mixed parameter, by the least of bulk, tail
and squares ESS; in brackets those before the first draw. *d*: parameters. † chains do not agree (R-hat above
{MOST_R_HAT}), so that these are guesses."""
ROUNDS = """The same in rounds, and in megabytes of all agents together. A sum goes up the tree and down again, which
are four rounds on these rings; with the surrogate its points travel down before it. These rows
were counted when an iteration of `nuts` ended with the root's state and the agents' digests in four rounds of their
own; it takes two now."""
RIGHT = """*variance ratio*: the draws' variance over that of a long run on the pooled data, averaged over parameters.
*worst bias*: the largest distance of a mean from that run's, over parameters, in posterior sds. ± one standard error,
the long run's own included. The worst of many parameters is a few standard errors off even where nothing is wrong."""
SURROGATE = """*way*: scored proposals, or split trajectories where their weights were too unequal. *fit*: sums that
found the surrogate. *accepts*: the fraction of proposals or trajectories taken. *ESS*: effective draws of one proposal
or trajectory. *sums an ESS*: of split trajectories, those of one chain alone for an effective draw; chains share
them. Rows do not record whether [certificates](report.md#certificate) hold: a run's summary says so, and
[Choose a sampler](choose.md#slow-links-exact-draws-in-tens-of-sums) names models for which they failed."""


def in_short(by_key: Mapping[tuple[str, str], Row], models: Sequence[str]) -> str:
    ours = {model: by_key[model, "surrogate"] for model in models if (model, "surrogate") in by_key}
    sums = {model: to_enough(row, "sums") for model, row in ours.items() if is_mixed(row)}
    few = [model for model, number in sums.items() if number is not None and number <= FEW_SUMS]
    judged = [row for row in by_key.values() if row["method"] != REFERENCE and is_mixed(row)]
    wrong = [row for row in judged if not is_right(row)]
    found = [
        f"""{len(few)} of {len(models)} models took at most {FEW_SUMS} sums by the surrogate from a cold start to
        {ENOUGH:,} effective draws{spans(sums, few)}; {"" if len(few) >= MANY_MODELS else "**only** "}{MANY_MODELS} were
        aimed at.""",
        f"""{len(judged) - len(wrong)} of {len(judged)} variance ratios of runs whose chains agree are within {BAND:.0%}
        or {ERRORS} standard errors of one{named(wrong)}.""",
    ]
    off = [
        row for row in judged if abs(row["variance_ratio"] - 1) > ERRORS * row["variance_ratio_se"] and is_right(row)
    ]
    if off:
        found.append(f"Within {BAND:.0%}, and yet more than {ERRORS} standard errors off{named(off, ': ')}.")
    for model, aim in AIMS.items():
        row = ours.get(model)
        if row is not None and row["status"] == "ok":
            found.append(aimed(model, row, aim))
    missing = [f"{model} ({row['error'] or 'chains do not agree'})" for model, row in ours.items() if not is_mixed(row)]
    if missing:
        found.append(f"By the surrogate it does not work on {'; '.join(missing)}.")
    return bullets(found)


def spans(sums: Mapping[str, float | None], few: Sequence[str]) -> str:
    """Say how many sums these models took, and the others."""
    numbers = sorted(sums[model] or 0.0 for model in few)
    rest = [f"{model} {short(number)}" for model, number in sums.items() if model not in few]
    found = f", {short(numbers[0])} to {short(numbers[-1])}" if numbers else ""
    return found + (f" (the others: {', '.join(rest)})" if rest else "")


def named(rows: Sequence[Row], lead: str = "; not: ") -> str:
    if not rows:
        return ""
    return lead + "; ".join(f"{row['method']} on {row['model']} ({ratio_text(row)})" for row in rows)


def aimed(model: str, row: Row, aim: float) -> str:
    """Say how an aim for split trajectories was met."""
    warm = row["warm"]["sums"]
    if row["splits"] is False:
        total = to_enough(row, "sums")
        return f"*{model}* was sampled by scored proposals: {short(total)} sums in all."
    found = chain_sums_per_draw(row)
    is_met = found is not None and found <= aim
    is_short = warm <= MOST_WARM_SUMS
    return (
        f"*{model}*, split trajectories: {short(found)} sums of one chain for an effective draw, "
        f"{'at most' if is_met else '**more than**'} {aim:g}; {warm} sums before the first draw, "
        f"{'at most' if is_short else '**more than**'} {MOST_WARM_SUMS}."
    )


def cost_table(
    by_key: Mapping[tuple[str, str], Row],
    models: Sequence[str],
    kind: str,
    write: Callable[[float], str],
    with_warm: bool = True,
) -> str:
    unit = {"sums": "sums", "rounds": "rounds", "bytes": "MB"}[kind]
    lines = []
    for model in models:
        of_model = [by_key.get((model, method)) for method in METHODS]
        dimension = next(str(row["dimension"]) for row in of_model if row is not None and row["status"] == "ok")
        line = [model, dimension]
        for row in of_model:
            value = None if row is None else to_enough(row, kind)
            text = "-" if row is None or value is None else write(value)
            if row is not None and value is not None:
                text += f" ({write(row['warm'][kind])})" * with_warm + " †" * (not is_mixed(row))
            line.append(text)
        lines.append(line)
    return table([unit, "d", *METHODS], lines)


def right_table(by_key: Mapping[tuple[str, str], Row], models: Sequence[str]) -> str:
    lines = []
    for model in models:
        for method in METHODS:
            row = by_key.get((model, method))
            if row is None:
                continue
            if row["status"] != "ok":
                lines.append([model, method, "-", "-", row["error"]])
                continue
            mark = " †" * (not is_mixed(row))
            ratio = ratio_text(row) if is_right(row) else f"**{ratio_text(row)}**"
            lines.append([model, method, ratio + mark, bias_text(row), figure(row["r_hat"])])
    return table(["model", "method", "variance ratio", "worst bias", "R-hat"], lines)


def surrogate_table(by_key: Mapping[tuple[str, str], Row], models: Sequence[str]) -> str:
    lines = []
    for model in models:
        row = by_key.get((model, "surrogate"))
        if row is None or row["status"] != "ok":
            continue
        way = "split" if row["splits"] else "scored"
        each = row["ess"] / (row["draws"] * row["chains"])
        numbers = [figure(row["acceptance"]), figure(each), short(chain_sums_per_draw(row))]
        lines.append([model, way, str(row["chains"]), str(row["fit_sums"]), *numbers])
    return table(["model", "way", "chains", "fit", "accepts", "ESS", "sums an ESS"], lines)


def settings(by_key: Mapping[tuple[str, str], Row], models: Sequence[str]) -> list[str]:
    lengths = {
        method: list(
            dict.fromkeys(
                f"{row['chains']} chains, {row['warmup']:,} + {row['draws']:,} iterations"
                for model in models
                if (row := by_key.get((model, method))) is not None and row["status"] == "ok"
            )
        )
        for method in METHODS
    }
    sources = [row["source"] for row in by_key.values() if row["method"] == REFERENCE and row["status"] == "ok"]
    hats = [row["r_hat"] for row in by_key.values() if row["method"] == REFERENCE and row.get("r_hat")]
    return [
        "All chains start at one place, which says nothing of the posterior. Single precision.",
        *(f"`{method}`: {' or '.join(texts)}." for method, texts in lengths.items() if texts),
        """Chains side by side share sums: a doubling of `nuts` waits for its longest chain. Models whose trajectories
        the surrogate splits are given 64 chains, since their sums cost the latency of one; `nuts` has 4, and what it
        spends before the first draw would not be less with more.""",
        f"""Sampling is scaled to {ENOUGH:,} effective draws; of scored proposals whole sums are counted, each of a
        thousand proposals a chain.""",
        f"""The long runs: {", ".join(dict.fromkeys(sources))}, in double precision, R-hat at most
        {figure(max(hats, default=None))}.""",
    ]
