"""One peer, as `consilience peer` runs it, in chunks whose number does not follow the machine's pace.

Agents say a few words to each other before every chunk, and those are part of the traffic.
"""

from consilience.engine import chains

from .agent import main  # no summary

assert chains.CHUNK_SECONDS > 0, "how long a chunk lasts is said elsewhere now: set it there"
chains.CHUNK_SECONDS = 1e6

if __name__ == "__main__":
    main()
