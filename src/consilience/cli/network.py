"""The command `consilience network`: what it costs to agree on a network."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..network import EXAMPLES, RULES, Network, Plan, network_from_spec
from .ending import errors_are_said
from .output import QUIET

WIDE = 100  # columns


def network(
    spec: Annotated[
        str,
        typer.Argument(help=f"The network: {', '.join(EXAMPLES.values())}.", autocompletion=lambda: EXAMPLES.values()),
    ],
    weights: Annotated[
        str,
        typer.Option(help="Mixing weights: metropolis, uniform or max-degree.", autocompletion=lambda: RULES),
    ] = "metropolis",
    seed: Annotated[int, typer.Option(help="Of a random network.", min=0, max=2**32 - 1)] = 0,
    tolerance: Annotated[float, typer.Option(help="What the row chebyshev leaves of disagreement.")] = 1e-6,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help=QUIET)] = False,
) -> None:
    """Show what it costs to agree on a network: rounds, messages and bytes of every method, and which one is taken.

    Example: consilience network ring:5
    """
    with errors_are_said():
        built = network_from_spec(spec, weights, seed)
        plan = built.plan(tolerance)
    if as_json:
        print(json.dumps(_data(built, plan), indent=2))
    else:
        _print(plan, quiet)


def _data(built: Network, plan: Plan) -> dict[str, object]:
    facts = {
        "name": built.name,
        "agents": built.size,
        "edges": len(built.edges),
        "diameter": built.diameter,
        "weights": built.rule,
        "beta": built.beta,
    }
    return {**asdict(plan), "network": facts}


def _print(plan: Plan, quiet: bool) -> None:
    console = Console()
    table = Table(title=plan.network, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("method", no_wrap=True)
    for heading in ("rounds", "messages", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("accuracy")
    uses = console.width >= WIDE  # the choices below say it as well
    if uses:
        table.add_column("for")
    for row in plan.rows:
        counts = (row.rounds, row.messages, row.bytes_per_parameter)
        table.add_row(row.method, *(f"{count:,}" for count in counts), row.accuracy, *[row.use] * uses)
    console.print(table)
    if quiet:
        return
    console.print("Until all agents have the result. Bytes: of one float32 parameter, all messages.", style="dim")
    for choice in plan.choices:
        console.print(f"[bold]{choice.purpose}[/]: {choice.method}. {choice.why}", highlight=False)
