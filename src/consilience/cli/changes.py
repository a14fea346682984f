"""The option --set KEY=VALUE of commands, which changes a key of a configuration file."""

from __future__ import annotations

from typing import Any

import typer

from ..network import EXAMPLES, RULES
from .build import SAMPLERS, settings_of
from .config import TABLES, keys_of


def set_option(help_text: str) -> Any:
    return typer.Option("--set", metavar="KEY=VALUE", help=help_text, autocompletion=_complete)


def _complete(incomplete: str) -> list[str]:
    """Return the completions of what has been typed after --set."""
    values = {"sampler.name": list(SAMPLERS), "network.kind": list(EXAMPLES.values()), "network.weights": list(RULES)}
    keys = [f"{table}.{key}" for table, form in TABLES.items() for key in keys_of(form)]
    keys += [
        "sampler.name",
        *{f"sampler.{setting}": None for kind in SAMPLERS.values() for setting in settings_of(kind)},
    ]
    key = incomplete.partition("=")[0]
    known = [f"{key}={value}" for value in values[key]] if key in values else [f"{name}=" for name in keys]
    return [word for word in known if word.startswith(incomplete)]
