"""From `cs.sample` to draws: preparation, agreement, and the runtimes, which are simulate, devices and peers."""

from .bar import Report
from .devices import Devices
from .member import Excluded, Member
from .preparing import MOST_SEED, Length
from .sampling import sample
from .segment import Stopped, Task
from .simulate import chain_keys, lane_inputs, lane_link

__all__ = [
    "MOST_SEED",
    "Devices",
    "Excluded",
    "Length",
    "Member",
    "Report",
    "Stopped",
    "Task",
    "chain_keys",
    "lane_inputs",
    "lane_link",
    "sample",
]
