"""Where agents live. `simulate`: as lanes of one array on one device."""

from .simulate import Chunk, Simulation

__all__ = ["Chunk", "Simulation"]
