"""One peer whose command does not tell jax to wait for compiled code: the runtime has to."""

import jax

from consilience.cli import main, peer

assert peer.dispatch_as_peers_must, "the command tells jax to wait elsewhere now: leave it out there"
peer.dispatch_as_peers_must = lambda: None
peer.result_text = lambda *_: f"waits: {not jax.config.values['jax_cpu_enable_async_dispatch']}"  # no summary

if __name__ == "__main__":
    main()
