"""The `consilience` command line: one file for each command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `consilience` command, or say what to install where its dependencies are missing."""
    try:
        from .app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich", "msgspec"):
            raise
        sys.exit(f"the command line needs {missing.name}: pip install 'consilience[cli]'")
    app()
