"""Where agents live. `simulate`: as lanes of one array on one device; `peers`: each in a process of its own."""

from .engine import Chunk, Engine
from .simulate import Simulation

__all__ = ["Chunk", "Engine", "Simulation"]
