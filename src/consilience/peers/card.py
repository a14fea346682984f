"""Card of an agent: what it says of itself to all others, and the checks of what others say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from .._lazy import LazyModule
from .._refused import Refused

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = LazyModule("msgspec", "peers")  # it is the annotations below that need it, when a card is read

FORMAT = 1  # of cards; it grows when a field does, and agents of one run need the same
LONGEST_WISH = 500  # characters of a wish to stop
MOST = 2**63 - 1  # of anything that is counted

Phase = Literal["joining", "ready", "running", "done", "complete", "stopped", "failed"]
REPORT: dict[str, Any] = {
    **dict.fromkeys(("iteration", "total", "messages", "refused"), int),
    **dict.fromkeys(("acceptance", "iterations_per_second", "rounds_per_second", "megabytes"), int | float | None),
    **dict.fromkeys(("waiting_for", "without"), list[str]),
    "neighbors": dict[str, str],
}


@dataclass(frozen=True)
class Card:
    """An agent's description of itself: where it is in the run, what it runs, and what it wants.

    Attributes:
      epoch: number of the meeting it is at, or was at last; the header of messages has room for 32 bits.
      phase: done: with all draws on disk; complete: so are all others; ready: to start in this epoch.
      bases: the iterations it could go back to when this epoch began, besides the start.
      attempt: how often agents that had taken different turns have started anew with other random numbers.
      without: the agents that this one gives up; they are left out when more than half of all agents do.
      stop: why all agents should end, to be resumed later; empty: they should not.
      key: a public key of this epoch, for masks; hexadecimal.
      identity: facts in which all agents must agree, as text by name.
      report: its progress and its links, for people.
      format: the version of cards that it reads and writes.
    """

    name: str
    incarnation: Annotated[int, msgspec.Meta(ge=0, le=MOST)]
    revision: Annotated[int, msgspec.Meta(ge=0, le=MOST)] = 0
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] = 0
    phase: Phase = "joining"
    bases: tuple[Annotated[int, msgspec.Meta(ge=0, le=MOST)], ...] = ()
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0  # random keys are made from it
    without: tuple[str, ...] = ()
    stop: str = ""
    key: Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")] = ""
    identity: dict[str, str] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def age(self) -> tuple[int, int]:
        return self.incarnation, self.revision

    def changed(self, **changes: Any) -> Card:
        """Return this card with some fields changed."""
        return replace(self, **changes)

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self, order="deterministic")

    @classmethod
    def from_bytes(cls, raw: bytes, writer: str = "its writer", reader: str = "this agent") -> Card:
        """Read a card that one agent has written and another reads; raise ValueError for what is not one."""
        try:
            found = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            written = msgspec.json.decode(found.get("format", b"0"), type=int)
            if written != FORMAT:
                older = writer if written < FORMAT else reader
                raise Refused(
                    f"the card of {writer}",
                    f"it has format {written}, and {reader} reads format {FORMAT}",
                    f"Upgrade consilience at {older}, which has the older version, and start it again.",
                )
            names = [known.name for known in fields(cls)]
            if missing := [name for name in names if name not in found]:
                raise ValueError(f"it has no {missing[0]}")
            if unknown := [name for name in found if name not in names]:
                raise ValueError(f"it has an unknown field `{unknown[0]}`")
            card = msgspec.json.decode(raw, type=cls)
        except Refused:
            raise
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a card that is none: {str(error)[:200]}") from None
        wish = "".join(filter(str.isprintable, card.stop))[:LONGEST_WISH]
        return card.changed(stop=wish, report=_shown(card.report))


def _shown(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a report that may be shown to people; unknown ones, and of a wrong type, are left out."""
    return {name: value for name, value in report.items() if name in REPORT and _is_fit(value, REPORT[name])}


def _is_fit(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    if kind is int:
        return 0 <= value <= MOST
    words = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return "".join(words).isprintable()
