"""The compiled loop: traced, compiled and cached, run chunk by chunk, with running moments and fingerprints."""

from .chains import CHUNK_SECONDS, Chains, Chunk
from .compiling import Compiled, draws_at_once, noise_at_once
from .hosts import FailedOnHosts, Hosts, LostHostError, is_known_to_all, join
from .loop import Inputs, Kept, Model, all_but_common, move_all, noise_of, start_all, start_values_all
from .moments import MOMENTS, Accumulated, read_moments
from .place import ComputePlace, OneDevice
from .posterior_code import ROWS_TRACED, code_of_posterior, row_of
from .tracing import Traced, trace
