"""The command `consilience plan`: a prediction of what a run by peers will take."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

from rich.console import Console
from typer import Argument, Option

from .._checks import check_one_of
from .._refused import Refused
from .._tables import apply_change, no_file
from ..network import CONSENSUS, Network, network_from_spec
from ..planning import (
    EFFECTIVE_DRAWS,
    MANY_CHAINS,
    MOST_PARAMETERS,
    NUTS,
    SPLIT,
    STARTED,
    SURROGATE,
    Facts,
    LinkSpeeds,
    Prediction,
    Recommendation,
    Size,
    Trial,
    assumed_of,
    bits_per_second,
    demand_of,
    in_words,
    plan_figure,
    predict,
    predict_families,
    read_links,
    recommend,
    seconds,
    trial_of,
)
from ..samplers import Sampler
from .build import SAMPLERS, sampler_from
from .errors import check_page, exit_on_error
from .options import NETWORK_HELP, WEIGHTS, NetworkSeed, Quiet, json_option, network_kinds, set_option
from .output import new_table, print_json
from .report import load_run

ASSUMED_EVALUATIONS = 15  # a NUTS trajectory of four doublings
PAGE = "docs/plan.md"
LEAST_GAIN = 2.0  # times the draws for the time, from which on more chains are worth a line
PICTURES = (".png", ".svg", ".pdf")
WAYS_HELP = (
    "The way of sums: tree, gather where they are masked, or auto: whole runs by the quicker, draws by the tree."
)
SAMPLER_WIDTH = 14  # of a table that has room in 80 columns
IF_UNLIKELY = {SURROGATE: "if its proposals are accepted", SPLIT: "if its proposals are not"}


def plan(
    spec: Annotated[
        str | None,
        Argument(help=f"{NETWORK_HELP} May be left out with --run.", autocompletion=network_kinds, metavar="SPEC"),
    ] = None,
    latency: Annotated[str | None, Option(help="Of all links, one way: 20ms.", metavar="TIME")] = None,
    bandwidth: Annotated[str | None, Option(help="Of all links, each way: 50Mbit/s.", metavar="RATE")] = None,
    links: Annotated[
        Path | None,
        Option(help="A table with columns from, to, latency, bandwidth: a line for each link.", metavar="FILE.csv"),
    ] = None,
    dimension: Annotated[int | None, Option(help="How many parameters the model has.", min=1)] = None,
    gradient_time: Annotated[
        str, Option(help="An agent's own log density and gradient, of all chains: 2ms.", metavar="TIME")
    ] = "0ms",
    sampler: Annotated[
        str | None, Option(help="nuts if not given.", autocompletion=lambda: list(SAMPLERS), metavar="NAME")
    ] = None,
    changes: Annotated[
        list[str] | None, set_option("A setting of the sampler: --set sampler.num_integration_steps=20.")
    ] = None,
    chains: Annotated[int | None, Option(help="Side by side, in the same messages; 1 if not given.", min=1)] = None,
    evaluations: Annotated[
        float | None, Option(help=f"Gradients in a draw of nuts; {ASSUMED_EVALUATIONS} if nobody knows better.", min=1)
    ] = None,
    ess_per_draw: Annotated[
        float | None, Option(help="Effective draws in a draw of one chain: 0.5.", metavar="NUMBER")
    ] = None,
    run: Annotated[
        Path | None,
        Option(
            help="A run's folder: it knows dimension, sampler, chains, gradients and effective draws.", metavar="DIR"
        ),
    ] = None,
    consensus: Annotated[str, Option(help=WAYS_HELP, autocompletion=lambda: [*CONSENSUS])] = CONSENSUS[0],
    weights: Annotated[str, WEIGHTS] = "metropolis",
    seed: NetworkSeed = 0,
    figure: Annotated[
        Path | None, Option(help="Draw time per draw over the number of agents, up to a million.", metavar="FILE.png")
    ] = None,
    as_json: Annotated[bool, json_option("the prediction")] = False,
    quiet: Quiet = False,
) -> None:
    """Predict what a run by peers will take: time per draw, what it goes into, what is sent, how best to agree.

    Example: consilience plan ring:5 --latency 20ms --bandwidth 50Mbit/s --dimension 650 --sampler mala

    What a sampler sends is read off the sampler, how long that takes follows from the links, and what software adds was
    measured. docs/plan.md says how far predictions were from peers on links that are as slow as these.
    """
    with exit_on_error():
        if figure is not None:
            _check_figure(figure)
        made = None if run is None else load_run(run)
        trial = None if made is None else trial_of(made)
        built = _sampler(sampler, changes or [], trial)
        network = made.network if spec is None and made else network_from_spec(_needed(spec), weights, seed)
        size, origins = _size_of_run(built, trial, dimension, chains, evaluations, ess_per_draw)
        check_one_of("--consensus", consensus, CONSENSUS)
        speeds = _links(network, latency, bandwidth, links)
        gradient = seconds("--gradient-time", gradient_time)
        found = None
        if built.has_steady_cost or figure is not None:  # or is refused
            found = predict(network, speeds, built, **size, gradient_seconds=gradient, consensus=consensus)
        advice, left_out = _advice(network, speeds, built, trial, size, gradient, consensus)
        assumptions = [*origins, *left_out, *_assumptions(size["chains"], gradient, found, advice)]
        if figure is not None and found is not None:
            _draw_families(figure, built, size, speeds, gradient, network, found)
    facts: dict[str, Any] = {"network": network.name, "links": str(speeds), "sampler": built.name}
    facts |= {"consensus": consensus} if consensus != CONSENSUS[0] else {}
    facts |= {name: size[name] for name in ("dimension", "chains")} | {"gradient_seconds": gradient}
    if as_json:
        _print_json(facts, found, advice, assumptions, figure)
    else:
        _print({**facts, "has_free_lengths": built.has_free_lengths}, found, advice, [] if quiet else assumptions)
        if figure is not None:
            print(f"{figure} written." if not quiet else figure)


# --- what is asked ----------------------------------------------------------------------------------------------


def _needed(spec: str | None) -> str:
    if spec is None:
        fix = "Write consilience plan ring:5 --latency 20ms --bandwidth 50Mbit/s ..."
        raise Refused("", "a network is needed", fix)
    return spec


def _sampler(name: str | None, changes: list[str], trial: Trial | None) -> Sampler:
    recorded = {} if trial is None else trial.sampler
    if name is not None and recorded.get("name", name) != name:
        reason = f"the run is one of {recorded['name']}"
        raise Refused(f"--sampler {name}", reason, "Leave out --sampler, or --run.")
    tables: dict[str, Any] = {"sampler": {**recorded, **({} if name is None else {"name": name})}}
    for change in changes:
        apply_change(tables, change)
        if [*tables] != ["sampler"]:
            reason = "only a sampler's settings are planned with"
            raise Refused(f"--set {change}", reason, "Write --set sampler.NAME=...")
    return sampler_from(tables["sampler"])


def _size_of_run(
    sampler: Sampler,
    trial: Trial | None,
    dimension: int | None,
    chains: int | None,
    evaluations: float | None,
    ess_per_draw: float | None,
) -> tuple[dict[str, Any], list[str]]:
    """Return what `predict` asks for: from the options, else from the trial; and where assumed numbers come from."""
    origins = []
    if dimension is None and trial is None:
        fix = "Write --dimension 650, or --run DIR of one of its runs."
        raise Refused("", "how many parameters has the model?", fix)
    if evaluations is not None and not math.isfinite(evaluations):
        raise Refused(f"--evaluations {evaluations}", "a number is needed", "Write --evaluations 15.")
    if not sampler.has_free_lengths and evaluations is not None:
        raise Refused("--evaluations", f"{sampler.name} takes as many gradients as it is set to", "Leave it out.")
    if sampler.has_free_lengths and evaluations is None:
        if trial is not None and trial.evaluations is not None:
            evaluations = trial.evaluations
            found = f"{evaluations:.1f} gradients a draw, those of the longest chain"
            thinned = f"At least {found}: of the run's draws, which are thinned, averages are known."
            origins.append(thinned if trial.are_averages else f"{found}: as in the run.")
        else:
            evaluations = ASSUMED_EVALUATIONS
            origins.append(
                f"{evaluations} gradients a draw are assumed: nuts takes as many as the posterior makes it. A short "
                f"run knows: --run DIR, or --evaluations."
            )
    if ess_per_draw is not None:
        if not 0 < ess_per_draw < math.inf:
            fix = "Write --ess-per-draw 0.5."
            raise Refused(f"--ess-per-draw {ess_per_draw:g}", "a positive number is needed", fix)
        origins.append(f"{ess_per_draw:g} effective draws in a draw of a chain: as given.")
    elif trial is not None and trial.ess_per_draw is not None:
        ess_per_draw = trial.ess_per_draw
        origins.append(f"{ess_per_draw:.2g} effective draws in a draw of a chain, by the slowest parameter of the run.")
    size = {
        "dimension": dimension or (trial and trial.dimension),
        "chains": chains or (trial.chains if trial else 1),
        "evaluations": evaluations,
        "ess_per_draw": ess_per_draw,
    }
    return size, origins


def _links(network: Network, latency: str | None, bandwidth: str | None, file: Path | None) -> LinkSpeeds:
    delay = None if latency is None else seconds("--latency", latency)
    rate = None if bandwidth is None else bits_per_second("--bandwidth", bandwidth)
    if file is not None:
        if not file.is_file():
            raise no_file(file, ".csv")
        return read_links(file, network, delay, rate)
    if delay is None or rate is None:
        missing = "--latency 20ms" if delay is None else "--bandwidth 50Mbit/s"
        raise Refused("", "how slow are the links?", f"Write {missing}, or --links FILE.csv with a line for each.")
    return LinkSpeeds.alike(network, delay, rate)


def _check_figure(path: Path) -> None:
    check_page(path, "--figure FILE.png")
    if path.suffix not in PICTURES:
        right = path.with_suffix(PICTURES[0])
        raise Refused(f"--figure {path}", f"what is drawn is {', '.join(PICTURES)}", f"Write --figure {right}.")


def _draw_families(
    path: Path,
    sampler: Sampler,
    size: dict[str, Any],
    links: LinkSpeeds,
    gradient: float,
    network: Network,
    found: Prediction,
) -> None:
    title = f"{sampler.name}, {size['dimension']:,} parameters; links of {links}"
    here = (network.size, found.seconds) if network.size > 1 else None
    plan_figure(_costs_by_family(sampler, size, links, gradient), title, path, here)


def _costs_by_family(sampler: Sampler, size: dict[str, Any], links: LinkSpeeds, gradient: float) -> Any:
    """Predict the time per draw on networks of every family, of up to a million agents."""

    def rounds(family: Size) -> int:
        given = getattr(sampler, "rounds", "auto")
        return family.averaging_rounds if given == "auto" else int(given)

    # On a complete graph an average takes one round.
    demand = demand_of(sampler, Network.complete(3), size["dimension"], size["chains"], size["evaluations"])
    return predict_families(demand, rounds if sampler.gossips_averages else None, *links.slowest, gradient)


def _advice(
    network: Network,
    links: LinkSpeeds,
    sampler: Sampler,
    trial: Trial | None,
    size: dict[str, Any],
    gradient: float,
    consensus: str,
) -> tuple[Recommendation | None, list[str]]:
    """Return what is recommended, if there is a choice, and why some samplers are left out of it."""
    if network.size == 1:
        return None, []
    failed = trial is not None and trial.has_failed
    found = recommend(
        network,
        links,
        size["dimension"],
        known=_known(sampler, trial, size),
        has_failed=failed,
        gradient_seconds=gradient / size["chains"],
        consensus=consensus,
    )
    told = []
    if failed:
        told.append("The certificate of the run's draws did not hold, so that a surrogate's are not considered.")
    if size["dimension"] > MOST_PARAMETERS:
        told.append(
            f"A surrogate, and nuts from one, are not planned above {MOST_PARAMETERS:,} parameters: it holds matrices "
            f"that large."
        )
    if sampler.name not in (NUTS, SURROGATE):
        told.append(f"{sampler.name} is not among the whole runs.")
    return found, told


def _known(sampler: Sampler, trial: Trial | None, size: dict[str, Any]) -> dict[str, Facts]:
    """Return what a trial, or the options, tell of the posterior: facts of the sampler that is planned with."""
    if size["ess_per_draw"] is None:
        return {}
    given = {"ess_per_draw": size["ess_per_draw"]}
    name = sampler.name
    if trial is not None and trial.fit_sums is not None:
        given["fit_sums"] = trial.fit_sums
        name = STARTED if sampler.has_free_lengths else SPLIT if not trial.is_scored else SURROGATE
    if sampler.has_free_lengths:
        given["sums"] = size["evaluations"]
    elif name == SPLIT and trial is not None and trial.evaluations:
        given["sums"] = trial.evaluations
    assumed = assumed_of(size["dimension"])
    return {name: assumed[name]._replace(**given)} if name in assumed else {}


# --- what is said -----------------------------------------------------------------------------------------------


def _assumptions(chains: int, gradient: float, found: Prediction | None, advice: Recommendation | None) -> list[str]:
    told = [advice.unknown] if advice is not None and advice.unknown else []
    if advice is not None and any(run.sampler != NUTS for run in advice.runs):
        told.append("What a surrogate computes for itself, some seconds to a minute, is not in these times.")
    if not gradient:
        told.append("Gradients take no time: say how long one takes, --gradient-time 2ms.")
    links = "Each link has its bandwidth to itself, and no agent is slower than the others."
    software = f"What software adds to a message was measured; how far off predictions were is in {PAGE}."
    if found is None:
        return [*told, links, software]
    if found.seconds_per_effective_draw is None:
        told.append("How many draws are worth an effective one is not known: --run DIR, or --ess-per-draw.")
    return [
        *told,
        f"A draw is an iteration after the warm-up, of {chains} chain{'s' * (chains > 1)}; agents agree on "
        f"how to go on after every {found.draws_at_once} of them.",
        links,
        software,
    ]


def _print(
    facts: dict[str, Any], found: Prediction | None, advice: Recommendation | None, assumptions: list[str]
) -> None:
    console = Console()
    if found is not None:
        _print_draw(console, facts, found)
    if advice is not None:
        _print_advice(console, facts, advice)
    for line in assumptions:
        console.print(f"- {line}", style="dim", highlight=False)


def _print_json(
    facts: dict[str, Any],
    found: Prediction | None,
    advice: Recommendation | None,
    assumptions: list[str],
    figure: Path | None,
) -> None:
    told = facts | ({} if found is None else {**asdict(found), "bottleneck": found.bottleneck})
    told |= {"recommendation": advice and asdict(advice), "assumptions": assumptions}
    print_json(told | ({"figure": str(figure)} if figure else {}))


def _print_advice(console: Console, facts: dict[str, Any], advice: Recommendation) -> None:
    """Print what whole runs would take, and which is recommended."""
    title = (
        f"{EFFECTIVE_DRAWS:,} effective draws from a cold start, {facts['dimension']:,} parameters; {facts['links']}"
    )
    header = ("sampler", "sums by", "chains", "time", "sums", "rounds", "an agent sends")
    table = new_table(header, header[:2], ("sums by", "time", header[-1]), title=title, pad_edge=False)
    for run in advice.runs:
        name = run.sampler if run.is_likely else f"{run.sampler} ({IF_UNLIKELY[run.sampler]})"
        name = fill(name, SAMPLER_WIDTH)
        name = f"[bold]{name}[/]" if run is advice.runs[0] else name
        figures = (in_words(run.seconds), f"{run.sums:,}", f"{run.rounds:,}", _size(run.megabytes_per_agent))
        table.add_row(name, run.consensus, str(run.chains), *figures)
    console.print(table)
    console.print(f"{advice.sentence}\n", highlight=False)


def _print_draw(console: Console, facts: dict[str, Any], found: Prediction) -> None:
    """Print what a draw of the sampler takes, and the ways to agree."""
    many = f"{facts['chains']} chains" if facts["chains"] > 1 else "one chain"
    title = f"{facts['sampler']} on {facts['network']}, {facts['dimension']:,} parameters, {many}; {facts['links']}"
    parts = sorted(found.shares.items(), key=lambda item: -item[1])
    most = f", at most {_size(found.most_megabytes)}" if found.most_megabytes > 1.01 * found.megabytes_per_agent else ""
    effective = found.seconds_per_effective_draw
    rows = {
        "time per draw": _time(found.seconds),
        "time per effective draw": None if effective is None else _time(effective),
        "bottleneck": found.bottleneck,
        "time goes into": ", ".join(f"{part} {share:.0%}" for part, share in parts),
        "an agent sends": f"{_size(found.megabytes_per_agent)} a draw on average{most}",
        "rounds, messages": f"{found.rounds:.1f}, {found.messages:.1f} a draw",
        "gradients": f"{found.evaluations:g} a draw",
        "more chains": _more_chains(facts, found),
    }
    table = new_table(["", " "], ["", " "], [" "], title=title, show_header=False)
    for row in rows.items():
        if row[1] is not None:
            table.add_row(*row)
    console.print(table)
    if found.methods:
        header = ("to agree on", "method", "rounds", "time", "sent", "")
        ways = new_table(header, ("to agree on", "method", ""), [name for name in header if name != "method"])
        for way in found.methods:
            name = f"[bold]{way.method}[/]" if way.is_best else way.method
            note = f"best: {way.note}" if way.is_best else way.note
            sent = _size(way.megabytes_per_agent)
            ways.add_row(way.purpose * way.is_best, name, f"{way.rounds:,}", _time(way.seconds), sent, note)
        console.print(ways)


def _more_chains(facts: dict[str, Any], found: Prediction) -> str | None:
    """Return what 64 chains would take and give, where that is worth a line."""
    chains, ratio = facts["chains"], found.seconds_of_many / found.seconds if found.seconds else 0.0
    if 2 * chains > MANY_CHAINS or not 0 < ratio <= MANY_CHAINS / chains / LEAST_GAIN:
        return None
    longest = ", if their longest trajectory is no longer" if facts["has_free_lengths"] else ""
    who = f"{chains}" if chains > 1 else "one"
    draws = f"{MANY_CHAINS / chains:.3g} × the draws"
    return f"{MANY_CHAINS} would take {ratio:.1f} × the time of {who}, and give {draws}{longest}"


def _time(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _size(megabytes: float) -> str:
    if megabytes < 1e-3:
        return f"{1e6 * megabytes:.0f} B"
    if megabytes >= 1e3:
        return f"{megabytes / 1e3:,.3g} GB"
    return f"{megabytes:,.3g} MB" if megabytes >= 1 else f"{1e3 * megabytes:.3g} kB"
