"""The command line, one file a command."""

from __future__ import annotations

import sys


def main() -> None:
    """The `consilience` command; says what to install where its dependencies are missing."""
    try:
        from .app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {missing.name}: pip install 'consilience[cli]'")
    app()
