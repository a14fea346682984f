"""Carries packets between pairs of tun devices, late and one after the other: what netem does, where there is none.

    python -m benchmarks.delay_line SECONDS BITS_PER_SECOND DEVICE DEVICE [DEVICE DEVICE ...]

A packet that enters a wire waits until those before it are through, takes its own bits over the rate, and arrives the
delay later. Nothing is dropped. It may be a large one that the kernel would cut into packets of the device's size only
on a real wire; their headers are counted. Says a line when the devices are there, and ends when its stdin does.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import select
import struct
import sys
import time

TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02
HEADER = struct.Struct("<BBHHHH")  # of virtio: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
LARGEST = 1 << 17


def tun(name: str) -> int:
    """A device of this name, and the file that its packets come from and go to."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(file, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return file


def bits_on_the_wire(raw: bytes) -> int:
    """Of a packet, or of those that it would be cut into, each with headers of its own."""
    _, _, headers, size, _, _ = HEADER.unpack_from(raw)
    length = len(raw) - HEADER.size
    pieces = -(-(length - headers) // size) if size else 1
    return 8 * (length + (pieces - 1) * headers)


def carry(delay: float, rate: float, ends: dict[int, int]) -> None:
    """Until stdin ends.

    Args:
      ends: which file a packet from a file goes to.
    """
    free = dict.fromkeys(ends, 0.0)  # when a wire has let through all that entered it
    due: list[tuple[float, int, int, bytes]] = []
    count = 0
    files = [*ends, sys.stdin.fileno()]
    while True:
        now = time.monotonic()
        while due and due[0][0] <= now:
            _, _, file, raw = heapq.heappop(due)
            with contextlib.suppress(OSError):  # a device that is down: its namespace is being taken away
                os.write(file, raw)
            now = time.monotonic()
        ready, _, _ = select.select(files, [], [], max(0.0, due[0][0] - now) if due else None)
        for file in ready:
            if file not in ends:
                return
            try:
                raw = os.read(file, LARGEST)
            except OSError:
                continue
            now = time.monotonic()
            free[file] = max(now, free[file]) + bits_on_the_wire(raw) / rate
            count += 1
            heapq.heappush(due, (free[file] + delay, count, ends[file], raw))


def main() -> None:
    delay, rate, names = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    files = [tun(name) for name in names]
    with contextlib.suppress(OSError):  # late by nothing but what it is told: before all agents, where that is allowed
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    print("ready", flush=True)
    there = {files[k]: files[k ^ 1] for k in range(len(files))}
    carry(delay, rate, there)


if __name__ == "__main__":
    main()
