"""What mkdocs does with every page after it is rendered."""

import re
from typing import Any

STATIC = re.compile(r'<span title="consilience\.samplers\.settings\.static">static</span>\((.*?)\)</code>')


def on_post_page(output: str, **_: Any) -> str:
    """Show a setting's default, and not that it is marked as one which selects code."""
    return STATIC.sub(r"\1</code>", output)
