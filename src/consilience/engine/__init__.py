"""The compiled loop: traced, compiled and cached, run chunk by chunk, with running moments and fingerprints."""

from .engine import CHUNK_SECONDS, Chunk, Compiled, Engine, Traced, draws_at_once, noise_at_once, trace
from .fingerprint import fingerprint
from .hosts import Hosts, LostHostError, is_known_to_all, join
from .loop import Inputs, Kept, Model, Replayed, all_but_clock, move_all, noise_of, start_all, start_values_all
from .moments import MOMENTS, Accumulated, read_moments

__all__ = [
    "CHUNK_SECONDS",
    "MOMENTS",
    "Accumulated",
    "Chunk",
    "Compiled",
    "Engine",
    "Hosts",
    "Inputs",
    "Kept",
    "LostHostError",
    "Model",
    "Replayed",
    "Traced",
    "all_but_clock",
    "draws_at_once",
    "fingerprint",
    "is_known_to_all",
    "join",
    "move_all",
    "noise_at_once",
    "noise_of",
    "read_moments",
    "start_all",
    "start_values_all",
    "trace",
]
