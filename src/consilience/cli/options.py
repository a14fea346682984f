"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from .._tables import keys_of
from ..network import EXAMPLES, RULES
from .build import SAMPLERS, settings_of
from .config import TABLES

QUIET = "No progress, and nothing but the result on stdout."
Quiet = Annotated[bool, Option("--quiet", help=QUIET)]
Quick = Annotated[bool, Option("--quick", help="A hundredth of the iterations: a look, not a result.")]
NetworkSeed = Annotated[int, Option(help="Of a random network.", min=0, max=2**32 - 1)]
NETWORK_HELP = f"The network: {', '.join(EXAMPLES.values())}."
WEIGHTS: Any = Option(help="Mixing weights: metropolis, uniform or max-degree.", autocompletion=lambda: list(RULES))


def network_kinds() -> list[str]:
    """Complete the name of a network."""
    return list(EXAMPLES.values())


def json_option(what: str) -> Any:
    return Option("--json", help=f"Print {what} as JSON.")


def set_option(help_text: str) -> Any:
    return Option("--set", metavar="KEY=VALUE", help=help_text, autocompletion=_complete_keys)


def _complete_keys(incomplete: str) -> list[str]:
    """Return the completions of what has been typed after --set."""
    values = {"sampler.name": list(SAMPLERS), "network.kind": network_kinds(), "network.weights": list(RULES)}
    keys = [f"{table}.{key}" for table, form in TABLES.items() for key in keys_of(form)]
    settings = {f"sampler.{setting}": None for kind in SAMPLERS.values() for setting in settings_of(kind)}
    key = incomplete.partition("=")[0]
    known = [f"{key}={value}" for value in values.get(key, [])]
    known = known or [f"{name}=" for name in [*keys, "sampler.name", *settings]]
    return [word for word in known if word.startswith(incomplete)]


Changes = Annotated[list[str] | None, set_option("Change a key of the file: --set run.seed=3. As often as you like.")]
