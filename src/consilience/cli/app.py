"""The Typer application that all commands belong to."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer import Option

from .. import __version__
from .compare import compare
from .demo import demo
from .errors import EXIT_CODES
from .init import init
from .launch import launch
from .network import network
from .peer import peer
from .plan import plan
from .report import report
from .reproduce import reproduce
from .run import run
from .status import status

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)


def _version(asked: bool) -> None:
    if asked:
        print(f"consilience {__version__}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def consilience(
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Sample one Bayesian posterior over a network, without pooling the data.

    Example: consilience run examples/logistic.toml

    Compiled code is kept in the user's cache folder (~/.cache/consilience/compiled, or below $XDG_CACHE_HOME), so that
    a model starts quickly when it is run again. The environment variable CONSILIENCE_COMPILED names another folder, or
    switches this off: CONSILIENCE_COMPILED=off.
    """


def _help(command: Callable[..., Any]) -> str:
    """Return a command's docstring for Typer to show: paragraphs that fit the window, brackets that are no markup."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    as_they_are = "\b"  # Click's mark in front of a paragraph whose lines stay apart
    return escape("\n\n".join(p if p.startswith(as_they_are) else " ".join(p.split()) for p in paragraphs))


for command in (demo, run, report, compare, network, plan, init, peer, launch, status, reproduce):
    app.command(help=_help(command), epilog=EXIT_CODES)(command)
