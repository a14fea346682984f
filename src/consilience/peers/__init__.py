"""Agents in processes of their own: links over TLS, certificates, cards, and what follows from them."""

from .agent_file import (
    AGENT,
    AUTHORITY,
    FEWEST_MASKED,
    OBSERVER_FILE,
    ON_LOSS,
    AgentFile,
    AgentTable,
    agent_of,
    check_consensus,
    check_mask,
    check_names,
    read_agent_file,
    read_observer,
)
from .board import Board
from .card import Card
from .certificates import Authority, Identity, Untrusted, Verifier
from .endpoints import LOCAL, MOST_PORT, Address, check_endpoint, dialed, host_and_port, same_host
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
