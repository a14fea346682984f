"""One peer, as `consilience peer` runs it, that ends without a summary: what that needs takes seconds to import."""

from consilience.cli import main, peer

whole = peer.result_text
peer.result_text = lambda run, as_json, paths: whole(run, as_json, paths) if as_json else f"{run.num_draws} draws"

if __name__ == "__main__":
    main()
