"""The command `consilience network`: what it costs to agree on a network."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from rich.console import Console
from typer import Argument, Option

from ..network import Plan, network_from_spec
from .errors import exit_on_error
from .options import NETWORK_HELP, WEIGHTS, NetworkSeed, Quiet, json_option, network_kinds
from .output import new_table, print_json

WIDE = 100  # columns


def network(
    spec: Annotated[str, Argument(help=NETWORK_HELP, autocompletion=network_kinds)],
    weights: Annotated[str, WEIGHTS] = "metropolis",
    seed: NetworkSeed = 0,
    tolerance: Annotated[float, Option(help="What the row chebyshev leaves of disagreement.")] = 1e-6,
    as_json: Annotated[bool, json_option("the plan")] = False,
    quiet: Quiet = False,
) -> None:
    """Show what it costs to agree on a network: rounds, messages and bytes of every method, and which one is taken.

    Example: consilience network ring:5
    """
    with exit_on_error():
        built = network_from_spec(spec, weights, seed)
        plan = built.plan(tolerance)
    if as_json:
        facts = {
            "name": built.name,
            "agents": built.size,
            "edges": len(built.edges),
            "diameter": built.diameter,
            "weights": built.rule,
            "beta": built.beta,
        }
        print_json({**asdict(plan), "network": facts})
    else:
        _print(plan, quiet)


def _print(plan: Plan, quiet: bool) -> None:
    console = Console()
    uses = ["for"] * (console.width >= WIDE)  # the choices below say it as well
    words = ["accuracy", *uses]
    header = ["method", "rounds", "messages", "bytes", *words]
    table = new_table(header, ["method", *words], words, title=plan.network)
    for row in plan.rows:
        counts = (row.rounds, row.messages, row.bytes_per_parameter)
        table.add_row(row.method, *(f"{count:,}" for count in counts), row.accuracy, *[row.use] * len(uses))
    console.print(table)
    if quiet:
        return
    console.print("Until all agents have the result. Bytes: of one float32 parameter, all messages.", style="dim")
    for choice in plan.choices:
        console.print(f"[bold]{choice.purpose}[/]: {choice.method}. {choice.why}", highlight=False)
