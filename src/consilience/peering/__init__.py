"""Taking part in a run as one agent, in a process of its own: meet the others, run, and meet again after failures."""

from .member import Excluded, Member
from .segment import Stopped, Task

__all__ = ["Excluded", "Member", "Stopped", "Task"]
