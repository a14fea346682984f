"""TCP windows: how much may be sent before the other end has acknowledged it, and how long a message waits for that.

As in Linux, a window starts at ten packets. While it holds a message up, every round trip doubles it, until it has
room for twice the longest message. Then nothing waits, as long as such messages keep coming; for every time-out (200 ms
and a round trip, RFC 6298) without one, the window is cut in half (RFC 2861). So a window W that is shorter than a
message of B bytes takes

    Σ_k max(0, 2·latency - 2^k W / bandwidth)     over the windows W, 2W, 4W, ... that are full before B is through

longer: what is in flight ends before its acknowledgement comes.
"""

from __future__ import annotations

import numpy as np

PACKET, PACKET_HEADERS = 1500, 52  # bytes of an Ethernet packet, and what IP and TCP take of it
FIRST_WINDOW = 10 * (PACKET - PACKET_HEADERS)
SHORTEST_TIME_OUT = 0.2  # seconds
ROOM_FOR = 2  # times the longest message: an open window
MOST_TIME_OUTS = 60  # that halve a window: after half as many any is as small as it gets


class Windows:
    """TCP windows of all links, each way by itself; open at first, as they are some messages after a run has begun."""

    def __init__(self, links: int) -> None:
        self._used = np.full(links, np.inf)  # when a long message last went
        self._longest = np.zeros(links)

    def wait(
        self, link: np.ndarray, now: np.ndarray, size: float, latency: np.ndarray, bandwidth: np.ndarray
    ) -> np.ndarray:
        """Return the seconds that messages of `size` bytes on the wire, leaving at `now`, wait for acknowledgements."""
        if size <= FIRST_WINDOW:
            return np.zeros(len(link))
        self._longest[link] = np.maximum(self._longest[link], size)
        time_outs = np.floor(np.maximum(0.0, now - self._used[link]) / (SHORTEST_TIME_OUT + 2 * latency))
        window = np.maximum(FIRST_WINDOW, ROOM_FOR * self._longest[link] / 2 ** np.minimum(time_outs, MOST_TIME_OUTS))
        waited, through = np.zeros(len(link)), window
        while (is_held_up := through < size).any():
            waited += np.where(is_held_up, np.maximum(0.0, 2 * latency - 8 * window / bandwidth), 0.0)
            window = 2 * window
            through = through + window
        self._used[link] = now + waited
        return waited

    def idle(self, seconds: float) -> None:
        """Let time pass in which nothing long is sent."""
        self._used -= seconds

    def advance(self, seconds: float) -> None:
        """Let time pass in which all that was sent is sent again and again."""
        self._used += seconds
