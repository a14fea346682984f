"""Where agents live. `simulate`: as lanes of one array on one device."""

from .engine import Chunk, Engine
from .simulate import Simulation

__all__ = ["Chunk", "Engine", "Simulation"]
