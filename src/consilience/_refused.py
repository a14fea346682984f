"""The one refusal: what a user asked for cannot be done, and the message says what, why, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Refused(ValueError):  # noqa: N818
    """Refusal of what was asked for, before the first draw.

    Everything that a user can mend is refused with this class, and nothing else is: any other error is a bug, or
    something that can happen to a correct run. Its text is `subject: reason. fix`.

    Args:
      subject: what is refused, as the user knows it: an argument, a file, a column, an agent's name.
      reason: why, as a clause without a full stop.
      fix: what to write or to do instead, as a sentence.
    """

    def __init__(self, subject: str, reason: str, fix: str = "") -> None:
        super().__init__(subject, reason, fix)
        self.subject, self.reason, self.fix = subject, reason, fix

    def __str__(self) -> str:
        text = ": ".join(filter(None, (self.subject, self.reason)))
        stop = "" if not self.fix or text.endswith((".", ":", "?", "\n")) else "."
        gap = "" if text.endswith("\n") else " "
        return f"{text}{stop}{gap}{self.fix}".rstrip() if self.fix else text

    def about(self, subject: str) -> Refused:
        """Return this refusal with another subject, for whoever knows a better one."""
        return type(self)(subject, self.reason, self.fix)


@contextmanager
def refusals_about(subject: str) -> Iterator[None]:
    """Give all refusals of a block the subject that is known here."""
    try:
        yield
    except Refused as refusal:
        raise refusal.about(subject) from refusal.__cause__
