"""Compiled code that outlives a process: a model that was seen before starts without compiling.

jax looks programs up by what is compiled, its own version and its flags. Code for one processor may not run on another,
so every kind of processor has a folder of its own.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import jax

from ._cache import cache_folder, processor
from ._compat import write_compiled_code_whole

VARIABLE = "CONSILIENCE_COMPILED"
OFF = "off"
FOLDER = "jax_compilation_cache_dir"  # of jax
MOST_BYTES = 1 << 30


def compiled_folder() -> Path | None:
    """Return where compiled code is kept, or None where it is not.

    That is the folder that the environment variable CONSILIENCE_COMPILED names ("off": nowhere), else `compiled` in the
    user's cache.
    """
    named = os.environ.get(VARIABLE, "")
    if named.lower() == OFF:
        return None
    kind = hashlib.sha256(processor().encode()).hexdigest()[:12]
    return (Path(named).expanduser() if named else cache_folder() / "compiled") / kind


def keep_compiled_code() -> None:
    """Let jax keep what it compiles from here on, and find what it compiled before.

    Somebody who has given jax a folder of their own keeps that one. A folder that cannot be written to costs a
    compilation, and nothing else.
    """
    folder = compiled_folder()
    if folder is None or getattr(jax.config, FOLDER) is not None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_oldest(folder, MOST_BYTES)
    except OSError:
        return
    write_compiled_code_whole()
    jax.config.update(FOLDER, str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # a run compiles a dozen small programs, too


def _remove_oldest(folder: Path, most: int) -> None:
    """Remove the entries that were written first, until the others take at most so many bytes."""
    entries = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir()), reverse=True)
    kept = 0
    for _, size, path in entries:
        kept += size
        if kept > most:
            with suppress(FileNotFoundError):  # another process was faster
                path.unlink()
