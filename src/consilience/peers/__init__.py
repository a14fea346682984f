"""Agents in processes of their own: links over TLS, certificates, cards, and what follows from them."""

from typing import TYPE_CHECKING, Any

from .board import Board
from .certificates import Authority, Identity, Untrusted, Verifier
from .mailbox import Mailbox, is_said
from .meeting import (
    ENDED,
    STARTABLE,
    common_base,
    digest_of,
    given_up_by_most,
    is_here,
    is_ready,
    next_epoch,
    phase_before,
)
from .session import OBSERVER, Credentials, Links, Place, ask, check_free
from .status import Meter, described, differences, status_of

if TYPE_CHECKING:
    from .card import Card

__all__ = [
    "ENDED",
    "OBSERVER",
    "STARTABLE",
    "Authority",
    "Board",
    "Card",
    "Credentials",
    "Identity",
    "Links",
    "Mailbox",
    "Meter",
    "Place",
    "Untrusted",
    "Verifier",
    "ask",
    "check_free",
    "common_base",
    "described",
    "differences",
    "digest_of",
    "given_up_by_most",
    "is_here",
    "is_ready",
    "is_said",
    "next_epoch",
    "phase_before",
    "status_of",
]


def __getattr__(name: str) -> Any:
    """Import cards when they are used: what checks them is an extra."""
    if name != "Card":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .card import Card

    return Card
