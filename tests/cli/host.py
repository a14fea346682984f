"""The command, as one of several hosts runs it, that reports what it has drawn at once and often."""

from consilience.cli import main
from consilience.engine import chains
from consilience.runs import bar

assert bar.LINE_SECONDS > 0 and chains.CHUNK_SECONDS > 0, "how often progress is reported is said elsewhere now"
bar.LINE_SECONDS, chains.CHUNK_SECONDS = 0, 0.1

if __name__ == "__main__":
    main()
