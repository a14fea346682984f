"""Messages and exit codes with which commands end when they refuse or fail."""

from __future__ import annotations

import sys
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import typer

FAILED, REFUSED, INTERRUPTED = 1, 2, 130
EXIT_CODES = (
    "Exit codes: 0 done; 1 failed while running; 2 refused before the first draw, the message has the fix; 130 "
    "interrupted."
)
MOST_LINES = 12  # of another library's error message: all must fit on a screen

Refusal = (ImportError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
Check = (ValueError, TypeError)  # refusals where this package raises them, bugs where others do
Failure = (RuntimeError, OSError, MemoryError)  # can happen to a correct run
_PACKAGE = str(Path(__file__).parents[1])
_NOT_THE_USERS = (_PACKAGE, "<", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))


@contextmanager
def errors_are_said(code: int = REFUSED, hint: Callable[[], str] = str) -> Iterator[None]:
    """End the command on an error, with a message and no traceback: what is refused with `code`, what fails with 1.

    An error in the user's own code ends it with `code`, too, and the message says in which line. Any other error is a
    bug of this package, and keeps its traceback.

    Args:
      hint: returns what to do now, which is said after the message.
    """
    with plain_warnings():
        try:
            yield
        except typer.Exit:
            raise
        except Exception as error:
            place = _line_of_the_user(error)
            refused = isinstance(error, Refusal) or (isinstance(error, Check) and _is_raised_here(error))
            text = str(error) if refused else shortly(error)
            if place is not None:
                end(code, text, f"  in {place.filename}:{place.lineno}, {place.name}:\n    {place.line}", hint())
            if refused:
                end(code, text, hint())
            if isinstance(error, Failure):
                end(FAILED, text, hint())
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


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that was probably meant, None if there is none like it."""
    alike = {name.lower().replace("-", "_"): name for name in known}
    return next((alike[name] for name in get_close_matches(word.lower().replace("-", "_"), alike, n=1)), None)


def choose_from(word: str, known: Sequence[str]) -> str:
    """Return the fix for an unknown word: the nearest known one, or all of them where none is near."""
    near = nearest(word, known)
    return f"Write {near}." if near else f"There are {', '.join(known)}."


def no_file(path: Path, suffix: str = "") -> FileNotFoundError:
    """Return the error that there is no such file, with the one that was probably meant."""
    if path.is_dir():
        inside = [str(file) for file in sorted(path.glob(f"*{suffix}")) if file.is_file()]
        fix = choose_from(inside[0] if len(inside) == 1 else "", inside[:8]) if inside else ""
        return FileNotFoundError(f"{path} is a folder, and a{suffix and ' ' + suffix} file is needed. {fix}".rstrip())
    if not path.parent.is_dir():
        return FileNotFoundError(f"there is no file {path}, nor a folder {path.parent}. You are in {Path.cwd()}.")
    near = nearest(path.name, sorted(file.name for file in path.parent.iterdir()))
    fix = f"Did you mean {path.parent / near}?" if near else f"You are in {Path.cwd()}."
    return FileNotFoundError(f"there is no file {path}. {fix}")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as one line each on stderr, without the file that gave them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: print(f"warning: {message}", file=sys.stderr)
        yield


def _is_raised_here(error: Exception) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(_PACKAGE) and (last.line or "raise").startswith("raise")


def _line_of_the_user(error: Exception) -> traceback.FrameSummary | None:
    """Find the last line outside of this package and of what is installed, if the error came through one."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)), None)
