"""Taking part in a run as one of its agents, in a process of its own: meet, run, and meet again after every mishap."""

from .member import Excluded, Member
from .segment import Stopped, Task

__all__ = ["Excluded", "Member", "Stopped", "Task"]
