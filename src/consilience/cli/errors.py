"""Ends of commands that refuse, fail or are interrupted: messages, exit codes, and checks before the first draw."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from .._extras import check_installed
from .._refused import Refused
from ..engine import FailedOnHosts
from ..store import check_folder

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 failed while running; 2 refused before the first draw, the message has the fix; 130 "
    "interrupted."
)
FOR_PAGES = ("sklearn", "arviz_stats", "matplotlib", "markupsafe")  # modules of the extra demo
MOST_LINES = 12  # of another library's error message: all must fit on a screen
CAN_HAPPEN = (RuntimeError, OSError, MemoryError)  # to a correct run
_PACKAGE = str(Path(__file__).parents[1])
_NOT_THE_USERS = (_PACKAGE, "<", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))


@contextmanager
def exit_on_error(code: int = REFUSED, hint: Callable[[], str] = str) -> Iterator[None]:
    """End the command on an error, with a message and no traceback: what is refused with `code`, what fails with 1.

    An error in the user's own code ends it with `code`, too, and the message says in which line; Ctrl-C with 130. Any
    other error is a bug of this package, and keeps its traceback.

    Args:
      hint: returns what to do now, which is said after the message.
    """
    with plain_warnings():
        try:
            yield
        except typer.Exit:
            raise
        except KeyboardInterrupt as reason:
            end(INTERRUPTED, f"{str(reason) or 'interrupted'}.", hint())
        except Exception as raised:
            # What all hosts have stopped for is told by the error of the one that had it.
            error = raised.__cause__ if isinstance(raised, FailedOnHosts) and raised.__cause__ else raised
            refused = isinstance(error, Refused | ModuleNotFoundError)  # the latter says what to install
            notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("---")]  # which is jax's
            text = "\n".join([str(error) if refused else shortly(error), *notes])
            frames = traceback.extract_tb(error.__traceback__)
            users = [frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)]
            if users:
                last = users[-1]
                end(code, text, f"  in {last.filename}:{last.lineno}, {last.name}:\n    {last.line}", hint())
            if refused or isinstance(error, CAN_HAPPEN):
                end(code if refused else FAILED, text, hint())
            raise


def end(code: int, *lines: str) -> NoReturn:
    """Print `lines`, the reason, to stderr, and exit with `code`."""
    print(*filter(None, lines), sep="\n", file=sys.stderr)
    raise typer.Exit(code) from None


def shortly(error: BaseException) -> str:
    """Return another library's error in a few lines, with its class."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    cut = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]
    return f"{type(error).__name__}: " + "\n".join(cut)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as one line each on stderr, without the file that gave them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: print(f"warning: {message}", file=sys.stderr)
        yield


@contextmanager
def stdout_to(descriptor: int) -> Iterator[None]:
    """Send stdout elsewhere, for code that is not written in Python, too."""
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def check_page(page: Path, fix: str) -> None:
    """Refuse a page that cannot be written."""
    if page.is_dir():
        raise Refused("", f"{page} is a folder, and a file is needed", f"Name another: {fix}.")
    check_folder(page.parent, fix)


def check_extras(**modules: Sequence[str]) -> None:
    """Refuse missing modules of the named extras before the first draw, and not after the last."""
    for extra, names in modules.items():
        for name in names:
            check_installed(name, extra)
