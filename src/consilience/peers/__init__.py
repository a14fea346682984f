"""Agents in processes of their own: links over TLS, certificates, cards, and what follows from them."""

from .board import Board, Card
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
from .status import Meter, described, status_of

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
    "digest_of",
    "given_up_by_most",
    "is_here",
    "is_ready",
    "is_said",
    "next_epoch",
    "phase_before",
    "status_of",
]
AgentFile = read_agent_file = type("AgentFile", (), {})
