"""One peer whose command does not tell jax to wait for compiled code: the runtime has to."""

import jax

from consilience.cli import main, peer

assert peer.dispatch_synchronously, "the command tells jax to wait elsewhere now: leave it out there"
peer.dispatch_synchronously = lambda: None
peer.run_text = lambda run: f"waits: {not jax.config.values['jax_cpu_enable_async_dispatch']}"  # no summary

if __name__ == "__main__":
    main()
