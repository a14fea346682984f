"""Compiled code that outlives a process: a model that was seen before starts without compiling.

jax looks programs up by what is compiled, its own version and its flags. Code for one processor may not run on another,
so every kind of processor has a folder of its own. What is found there is run, so nobody else may write to it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import jax

from ._cache import cache_folder, processor, processor_features
from ._compat import write_compiled_code_whole

VARIABLE = "CONSILIENCE_COMPILED"
OFF = "off"
FOLDER = "jax_compilation_cache_dir"  # of jax
MOST_BYTES = 1 << 30
WRITABLE_BY_OTHERS = 0o022


def compiled_folder() -> Path | None:
    """Return where compiled code is kept, or None where it is not.

    That is the folder that the environment variable CONSILIENCE_COMPILED names ("off": nowhere), else `compiled` in the
    user's cache.
    """
    named = os.environ.get(VARIABLE, "")
    if named.lower() == OFF:
        return None
    kind = hashlib.sha256(f"{processor()} {processor_features()}".encode()).hexdigest()[:12]
    return (Path(named).expanduser() if named else cache_folder() / "compiled") / kind


def keep_compiled_code() -> None:
    """Let jax keep what it compiles from here on, and find what it compiled before.

    Somebody who has given jax a folder of their own keeps that one. Where there is no folder that we, and only we, can
    write to, nothing is kept.
    """
    if getattr(jax.config, FOLDER) is not None:
        return
    try:
        folder = compiled_folder()
        if folder is None or not _is_ours(folder):
            return
        _remove_oldest(folder, MOST_BYTES)
    except (OSError, RuntimeError):  # a full disk; a user without a home
        return
    write_compiled_code_whole()
    jax.config.update(FOLDER, str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # a run compiles a dozen small programs, too


def _is_ours(folder: Path) -> bool:
    """Make a folder, and tell whether we can write to it and others cannot: neither to it nor to the one it is in."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    if not os.access(folder, os.W_OK):
        return False
    if not hasattr(os, "getuid"):
        return True
    return all(
        found.st_uid == os.getuid() and not found.st_mode & WRITABLE_BY_OTHERS
        for found in (folder.stat(), folder.parent.stat())
    )


def _remove_oldest(folder: Path, most: int) -> None:
    """Remove the entries that were written first, until the others take at most so many bytes."""
    entries = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process was faster
            found = path.stat()
            entries.append((found.st_mtime, found.st_size, path))
    kept = 0
    for _, size, path in sorted(entries, reverse=True):
        kept += size
        if kept > most and path.is_file():
            path.unlink(missing_ok=True)
