"""Persistent cache of compiled code: a model that was seen before starts without compiling.

jax looks programs up by what is compiled, its own version and its flags. Code for one processor may not run on another,
so every kind of processor has a folder of its own. What is found there is run, so nobody else may write there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import jax

from ._cache import cache_folder, processor, processor_features
from ._compat import keep_compiled_callers_of_python, write_compiled_code_whole
from ._refused import Refused

VARIABLE = "CONSILIENCE_COMPILED"
OFF = ("off", "0", "no", "false")
FOLDER = "jax_compilation_cache_dir"  # an option of jax
MOST_BYTES = 1 << 30


def compiled_folder() -> Path | None:
    """Return the folder where compiled code is kept, or None where it is not.

    That is the folder that the environment variable CONSILIENCE_COMPILED names ("off": nowhere), else `compiled` in the
    user's cache.
    """
    named = os.environ.get(VARIABLE, "")
    if named.lower() in OFF:
        return None
    kind = hashlib.sha256(f"{processor()} {processor_features()}".encode()).hexdigest()[:12]
    return (Path(named).expanduser() if named else cache_folder() / "compiled") / kind


def keep_compiled_code() -> None:
    """Let jax keep what it compiles from here on, and find what it compiled before.

    Somebody who has given jax a folder of their own keeps that one. Where no folder can be written to by us, and by
    nobody else, nothing is kept; a user who has named one is told why.
    """
    if getattr(jax.config, FOLDER) is not None:
        with suppress(ImportError, AttributeError):  # another jax
            keep_compiled_callers_of_python()
        return
    try:
        folder = compiled_folder()
        if folder is None:
            return
        folder = _make_private(folder)
        _remove_oldest(folder, MOST_BYTES)
        write_compiled_code_whole()
        keep_compiled_callers_of_python()
    except (Refused, OSError, RuntimeError, ImportError, AttributeError) as error:  # no room, no home, another jax
        if os.environ.get(VARIABLE):
            print(f"{VARIABLE}={os.environ[VARIABLE]}: no compiled code is kept. {error}", file=sys.stderr)
        return
    jax.config.update(FOLDER, str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # a run compiles a dozen small programs, too


def _make_private(folder: Path) -> Path:
    """Make a folder and return its real path; refuse one that others could write to, or replace."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True, mode=0o700)
    folder = folder.resolve()
    if not os.access(folder, os.W_OK):
        raise Refused(str(folder), "it cannot be written to", f"Name another folder in {VARIABLE}.")
    if hasattr(os, "getuid"):
        for one in (folder, *folder.parents):
            found = one.stat()
            is_safe = one != folder and bool(found.st_mode & stat.S_ISVTX)  # as /tmp: entries are their owners'
            if found.st_uid not in (0, os.getuid()) or not (is_safe or _is_ours_to_write(found)):
                raise Refused(str(one), "others can write to it", f"Run chmod go-w {one}, or name another folder.")
    return folder


def _is_ours_to_write(found: os.stat_result) -> bool:
    """Tell whether nobody but its owner may add, remove or rename entries of a folder."""
    by_group = bool(found.st_mode & stat.S_IWGRP) and not _is_of_one_user(found.st_gid)
    return not (by_group or found.st_mode & stat.S_IWOTH)


def _is_of_one_user(group: int) -> bool:
    """Tell whether a group is the one that many systems make for every user, with the user's name."""
    import grp
    import pwd

    try:
        return grp.getgrgid(group).gr_name == pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False


def _remove_oldest(folder: Path, most: int) -> None:
    """Remove the oldest files of a folder, until the others take at most `most` bytes."""
    entries = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process was faster
            found = path.stat()
            if stat.S_ISREG(found.st_mode):
                entries.append((found.st_mtime, found.st_size, path))
    kept = 0
    for _, size, path in sorted(entries, reverse=True):
        kept += size
        if kept > most:
            path.unlink(missing_ok=True)
