"""The command `consilience plan`: a prediction of what a run by peers will take."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .._refused import Refused
from .._tables import apply_change, no_file
from ..network import Network, network_from_spec
from ..planning import (
    Links,
    Prediction,
    Size,
    Trial,
    bits_per_second,
    demand_of,
    plan_figure,
    predict,
    predict_families,
    read_links,
    seconds,
    trial_of,
)
from ..results import Run
from ..samplers import DMALA, NUTS, Sampler
from .build import SAMPLERS, sampler_from
from .errors import check_page, exit_on_error
from .options import NETWORK_HELP, WEIGHTS, NetworkSeed, Quiet, json_option, network_kinds, set_option
from .output import new_table, print_json
from .report import load_run

ASSUMED_EVALUATIONS = 15  # a NUTS trajectory of four doublings
PAGE = "docs/plan.md"
PICTURES = (".png", ".svg", ".pdf")


def plan(
    spec: Annotated[
        str | None,
        typer.Argument(
            help=f"{NETWORK_HELP} May be left out with --run.", autocompletion=network_kinds, metavar="SPEC"
        ),
    ] = None,
    latency: Annotated[str | None, typer.Option(help="Of all links, one way: 20ms.", metavar="TIME")] = None,
    bandwidth: Annotated[str | None, typer.Option(help="Of all links, each way: 50Mbit/s.", metavar="RATE")] = None,
    links: Annotated[
        Path | None,
        typer.Option(
            help="A table with columns from, to, latency, bandwidth: a line for each link.", metavar="FILE.csv"
        ),
    ] = None,
    dimension: Annotated[int | None, typer.Option(help="How many parameters the model has.", min=1)] = None,
    gradient_time: Annotated[
        str, typer.Option(help="An agent's own log density and gradient, of all chains: 2ms.", metavar="TIME")
    ] = "0ms",
    sampler: Annotated[
        str | None, typer.Option(help="nuts if not given.", autocompletion=lambda: list(SAMPLERS), metavar="NAME")
    ] = None,
    changes: Annotated[
        list[str] | None, set_option("A setting of the sampler: --set sampler.num_integration_steps=20.")
    ] = None,
    chains: Annotated[
        int | None, typer.Option(help="Side by side, in the same messages; 1 if not given.", min=1)
    ] = None,
    evaluations: Annotated[
        float | None,
        typer.Option(help=f"Gradients in a draw of nuts; {ASSUMED_EVALUATIONS} if nobody knows better.", min=1),
    ] = None,
    ess_per_draw: Annotated[
        float | None, typer.Option(help="Effective draws in a draw of one chain: 0.5.", metavar="NUMBER")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="A run's folder: it knows dimension, sampler, chains, gradients and effective draws.", metavar="DIR"
        ),
    ] = None,
    weights: Annotated[str, WEIGHTS] = "metropolis",
    seed: NetworkSeed = 0,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw time per draw over the number of agents, up to a million.", metavar="FILE.png"),
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
        network = _network(spec, made, weights, seed)
        asked = _asked(network, built, trial, dimension, chains, evaluations, ess_per_draw)
        speeds = _links(network, latency, bandwidth, links)
        gradient = seconds("--gradient-time", gradient_time)
        found = predict(
            asked.network,
            speeds,
            asked.sampler,
            asked.dimension,
            chains=asked.chains,
            gradient_seconds=gradient,
            evaluations=asked.evaluations,
            ess_per_draw=asked.ess_per_draw,
        )
        assumptions = _assumptions(asked, gradient, found)
        if figure is not None:
            _draw(figure, asked, speeds, gradient, found)
    facts = {
        "network": asked.network.name,
        "links": str(speeds),
        "sampler": asked.sampler.name,
        "dimension": asked.dimension,
        "chains": asked.chains,
        "gradient_seconds": gradient,
    }
    if as_json:
        told = {**facts, **asdict(found), "bottleneck": found.bottleneck, "assumptions": assumptions}
        print_json(told | ({"figure": str(figure)} if figure else {}))
    else:
        _print(facts, found, assumptions, quiet)
        if figure is not None:
            print(f"{figure} written." if not quiet else figure)


# --- what is asked ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """The run that is to be predicted, and where its numbers come from."""

    network: Network
    sampler: Sampler
    dimension: int
    chains: int
    evaluations: float | None
    ess_per_draw: float | None
    origins: tuple[str, ...]


def _network(spec: str | None, made: Run | None, weights: str, seed: int) -> Network:
    if spec is not None:
        return network_from_spec(spec, weights, seed)
    if made is None:
        fix = "Write consilience plan ring:5 --latency 20ms --bandwidth 50Mbit/s ..."
        raise Refused("", "a network is needed", fix)
    return made.network


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


def _asked(
    network: Network,
    sampler: Sampler,
    trial: Trial | None,
    dimension: int | None,
    chains: int | None,
    evaluations: float | None,
    ess_per_draw: float | None,
) -> Wanted:
    """Return the run to predict: what the options say, and where they leave something out, what a trial has shown."""
    origins: list[str] = []
    if dimension is None:
        if trial is None:
            fix = "Write --dimension 650, or --run DIR of one of its runs."
            raise Refused("", "how many parameters has the model?", fix)
        dimension = trial.dimension
    if evaluations is not None and not math.isfinite(evaluations):
        raise Refused(f"--evaluations {evaluations}", "a number is needed", "Write --evaluations 15.")
    if not isinstance(sampler, NUTS) and evaluations is not None:
        raise Refused("--evaluations", f"{sampler.name} takes as many gradients as it is set to", "Leave it out.")
    if isinstance(sampler, NUTS) and evaluations is None:
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
    chains = chains or (1 if trial is None else trial.chains)
    return Wanted(network, sampler, dimension, chains, evaluations, ess_per_draw, tuple(origins))


def _links(network: Network, latency: str | None, bandwidth: str | None, file: Path | None) -> Links:
    delay = None if latency is None else seconds("--latency", latency)
    rate = None if bandwidth is None else bits_per_second("--bandwidth", bandwidth)
    if file is not None:
        if not file.is_file():
            raise no_file(file, ".csv")
        return read_links(file, network, delay, rate)
    if delay is None or rate is None:
        missing = "--latency 20ms" if delay is None else "--bandwidth 50Mbit/s"
        raise Refused("", "how slow are the links?", f"Write {missing}, or --links FILE.csv with a line for each.")
    return Links.alike(network, delay, rate)


# --- what is said -----------------------------------------------------------------------------------------------


def _assumptions(asked: Wanted, gradient: float, found: Prediction) -> list[str]:
    told = [*asked.origins]
    if not gradient:
        told.append("Gradients take no time: say how long one takes, --gradient-time 2ms.")
    if found.seconds_per_effective_draw is None:
        told.append("How many draws are worth an effective one is not known: --run DIR, or --ess-per-draw.")
    told += [
        f"A draw is an iteration after the warm-up, of {asked.chains} chain{'s' * (asked.chains > 1)}; agents agree on "
        f"how to go on after every {found.draws_at_once} of them.",
        "Each link has its bandwidth to itself, and no agent is slower than the others.",
        f"What software adds to a message was measured; how far off predictions were is in {PAGE}.",
    ]
    return told


def _print(facts: dict[str, Any], found: Prediction, assumptions: list[str], quiet: bool) -> None:
    console = Console()
    many = f"{facts['chains']} chains" if facts["chains"] > 1 else "one chain"
    title = f"{facts['sampler']} on {facts['network']}, {facts['dimension']:,} parameters, {many}; {facts['links']}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("time per draw", _time(found.seconds))
    if found.seconds_per_effective_draw is not None:
        table.add_row("time per effective draw", _time(found.seconds_per_effective_draw))
    parts = sorted(found.shares.items(), key=lambda item: -item[1])
    table.add_row("bottleneck", found.bottleneck)
    table.add_row("time goes into", ", ".join(f"{part} {share:.0%}" for part, share in parts))
    most = f", at most {_size(found.most_megabytes)}" if found.most_megabytes > 1.01 * found.megabytes_per_agent else ""
    table.add_row("an agent sends", f"{_size(found.megabytes_per_agent)} a draw on average{most}")
    table.add_row("rounds, messages", f"{found.rounds:.1f}, {found.messages:.1f} a draw")
    table.add_row("gradients", f"{found.evaluations:g} a draw")
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
    if not quiet:
        for line in assumptions:
            console.print(f"- {line}", style="dim", highlight=False)


def _time(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _size(megabytes: float) -> str:
    if megabytes < 1e-3:
        return f"{1e6 * megabytes:.0f} B"
    return f"{megabytes:,.3g} MB" if megabytes >= 1 else f"{1e3 * megabytes:.3g} kB"


def _check_figure(path: Path) -> None:
    check_page(path, "--figure FILE.png")
    if path.suffix not in PICTURES:
        right = path.with_suffix(PICTURES[0])
        raise Refused(f"--figure {path}", f"what is drawn is {', '.join(PICTURES)}", f"Write --figure {right}.")


def _draw(path: Path, asked: Wanted, links: Links, gradient: float, found: Prediction) -> None:
    sampler = asked.sampler

    def rounds(size: Size) -> int:
        given = getattr(sampler, "rounds", "auto")
        return size.averaging_rounds if given == "auto" else int(given)

    # On a complete graph an average takes one round.
    demand = demand_of(sampler, Network.complete(3), asked.dimension, asked.chains, asked.evaluations)
    costs = predict_families(demand, rounds if isinstance(sampler, DMALA) else None, *links.slowest, gradient)
    title = f"{asked.sampler.name}, {asked.dimension:,} parameters; links of {links}"
    plan_figure(costs, title, path, (asked.network.size, found.seconds) if asked.network.size > 1 else None)
