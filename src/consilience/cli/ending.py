"""How a command ends: what it says when it refuses or fails, and its exit code."""

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
MOST_LINES = 12  # of somebody else's error message: all must fit on a screen

Refusal = (ImportError, FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
Check = (ValueError, TypeError)  # refusals where this package raises them; where they happen to it, bugs
Failure = (RuntimeError, OSError, MemoryError)  # what can happen to a run that is right
_PACKAGE = str(Path(__file__).parents[1])
_NOT_THE_USERS = (_PACKAGE, "<", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))


@contextmanager
def errors_are_said(code: int = REFUSED, hint: Callable[[], str] = str) -> Iterator[None]:
    """What is refused ends the command with `code` and a message, without a traceback; what fails, with 1.

    So does an error in the user's own code, and the message says in which line. Any other error is a bug of this
    package, and keeps its traceback.

    Args:
      hint: says what to do now, after the message.
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
    """Say why on stderr, and exit."""
    print(*filter(None, lines), sep="\n", file=sys.stderr)
    raise typer.Exit(code) from None


def shortly(error: BaseException) -> str:
    """An error of somebody else's in a few lines, with its class."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    cut = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."]
    return f"{type(error).__name__}: " + "\n".join(cut)


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The one that was probably meant."""
    alike = {name.lower().replace("-", "_"): name for name in known}
    return next((alike[name] for name in get_close_matches(word.lower().replace("-", "_"), alike, n=1)), None)


def choose_from(word: str, known: Sequence[str]) -> str:
    """The fix for an unknown word: the nearest known one, or all of them where none is near."""
    near = nearest(word, known)
    return f"Write {near}." if near else f"There are {', '.join(known)}."


def no_file(path: Path, suffix: str = "") -> FileNotFoundError:
    """That there is none, with the one that was probably meant."""
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
    """Warnings as one line each on stderr, without the file that gave them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: print(f"warning: {message}", file=sys.stderr)
        yield


def _is_raised_here(error: Exception) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return last.filename.startswith(_PACKAGE) and (last.line or "raise").startswith("raise")


def _line_of_the_user(error: Exception) -> traceback.FrameSummary | None:
    """The last line outside of this package and of what is installed, if the error came through one."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if not frame.filename.startswith(_NOT_THE_USERS)), None)
