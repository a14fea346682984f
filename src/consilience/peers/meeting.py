"""Decisions that follow from the agents' cards, the same for all who have seen the same cards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from .card import Card

STARTABLE = ("ready", "running", "done", "complete")
BEGUN = STARTABLE[1:]
ENDED = ("stopped", "failed", "complete")


def next_epoch(own: Card, others: Sequence[Card], floor: int, has_met: bool) -> int:
    """Return the epoch to be ready for: the highest that is asked for, and not one that began without this agent.

    Args:
      floor: the lowest epoch that this agent may still take part in.
      has_met: whether it has taken part in an epoch. One that has not may find others running: they began with an
        earlier process of its name, unless they began because it was ready.
    """
    if not has_met:
        ready = own.epoch if own.phase == "ready" else -1
        begun = [card.epoch + 1 for card in others if card.phase in BEGUN and card.epoch != ready]
        floor = max([floor, *begun])
    return max([floor, *(card.epoch for card in others)])


def phase_before(linked: bool, cards: Mapping[str, Card], names: Iterable[str]) -> str:
    """Return an agent's phase before an epoch: ready when its links are up and every card has come, else joining.

    Links come up before cards do. An agent that is started again, and ready for epoch 1 before it knows that the others
    are running epoch 1, would take them for agents that had begun because of it (`next_epoch`).
    """
    return "ready" if linked and all(name in cards for name in names) else "joining"


def is_here(card: Card, without: str, mask: bool) -> bool:
    """Tell whether an agent is there, has said who it is, and leaves out the same others, as not all do at once."""
    return (
        card.identity.get("agent.without") == without
        and card.phase not in ("stopped", "complete")
        and (not mask or bool(card.key))
    )


def is_ready(crew: Iterable[Card], epoch: int) -> bool:
    """Tell whether all agents of the crew are at this epoch and can start, or have."""
    return all(card.epoch == epoch and card.phase in STARTABLE for card in crew)


def common_base(crew: Iterable[Card]) -> int | None:
    """Return the last iteration that all can go back to; None, if one of them has lost its folder.

    All save at the same iterations, so it is the least of their newest.
    """
    return max(set.intersection(*(set(card.bases) for card in crew)), default=None)


def digest_of(run_id: str, crew: Sequence[Card]) -> bytes:
    """Return a digest of who meets, and with what: agents that have not met as one have different digests."""
    facts = [(card.name, card.incarnation, card.epoch, card.attempt, card.bases, card.key) for card in crew]
    return sha256(json.dumps([run_id, facts]).encode()).digest()


def given_up_by_most(cards: Mapping[str, Card], agents: int, known: Sequence[str] = ()) -> set[str]:
    """Return the agents that more than half of all have given up, with those that are left out already.

    More than half, so that two parts of a network that is cut in two cannot both go on, and no agent alone decides over
    another.

    Args:
      agents: the number of agents that there were at first.
      known: the agents that are left out already, and have no vote.
    """
    votes = Counter(name for card in cards.values() if card.name not in known for name in set(card.without))
    return {*known, *(name for name, count in votes.items() if 2 * count > agents)}
