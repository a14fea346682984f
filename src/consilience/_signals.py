"""Ctrl-C and SIGTERM, for whoever has others to tell of them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from signal import SIGINT, SIGTERM


@contextmanager
def on_signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call `handle` on Ctrl-C and on SIGTERM, with how many of them there were so far."""
    if threading.current_thread() is not threading.main_thread():  # Python handles signals there only
        yield
        return
    asked = count(1)
    before = {number: signal.signal(number, lambda *_: handle(next(asked))) for number in (SIGINT, SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
