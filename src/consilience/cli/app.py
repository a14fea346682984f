"""The application that the commands belong to."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .demo import demo
from .network import network

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)


def _version(asked: bool) -> None:
    if asked:
        print(f"consilience {__version__}")
        raise typer.Exit


@app.callback()
def consilience(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Sample one Bayesian posterior over a network, without pooling the data."""


app.command()(demo)
app.command()(network)
