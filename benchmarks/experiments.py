"""The paper's experiments at full size, as documentation: figures, docs/experiments.md and the table on the front page.

Made from the records in docs/experiments, which `consilience reproduce NAME --scale paper` wrote. Nothing is run here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from consilience.experiments import EXPERIMENTS
from consilience.experiments.record import PAPER, Judged, Record
from consilience.experiments.summary import CLAIM_HEADER, claim_cells, method_cells, method_header, provenance

DOCS = Path(__file__).parent.parent / "docs"
RECORDS = DOCS / "experiments"
PAGE, FRONT = DOCS / "experiments.md", DOCS / "index.md"
BEGIN, END = "<!-- claims: made by make docs-experiments -->", "<!-- end of claims -->"
WIDTH = 120
INTRODUCTION = """
    The experiments of *Decentralized Bayesian Learning with Metropolis-Adjusted Hamiltonian Monte Carlo* (Kungurtsev,
    Cobb, Javidi and Jalaian, 2021), run again at full size: its methods at its settings, and beside them samplers that
    are exact. `published` is the paper's DecentralizedMALA, `D-ULA` its DecentralizedULA. Every verdict is computed
    from the runs.
    *Better* is by more than two standard errors over the seeds, *similar* within the tolerance that is named, two
    standard errors included; what the seeds cannot tell is *undecided*.
    """
SHARED_GPU = "The two MNIST records on this page were made at the same time on one GPU: alone, each takes less."
REMARKS = {  # on how a record was made
    "mnist-ring": SHARED_GPU,
    "mnist-partial": f"{SHARED_GPU} What agents predict from their own quarters was not recorded at this scale.",
    "bnn": "Made in several calls that went on from checkpoints, and put together from the stored runs.",
}
COMMANDS = """```sh
consilience reproduce all                        # small: two minutes each on two cores
consilience reproduce boston --scale paper       # in full
consilience reproduce mnist-ring mnist-partial bnn --scale paper --precision tf32
```"""


def records() -> list[Record]:
    """Those that are there, in the catalogue's order."""
    paths = (RECORDS / f"{name}.json" for name in EXPERIMENTS)
    return [Record.from_json(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def page(found: list[Record]) -> str:
    parts = ["# The paper, reproduced", filled(INTRODUCTION), COMMANDS]
    for record in found:
        parts += [f"## {record.title}", filled(f"The paper's {record.reference}. {record.data}."), claims(record)]
        parts.append(f"![{record.title}: what was measured](experiments/{record.experiment}.png)")
        if record.rows:
            parts.append(markdown_table(method_header(record), method_cells(record)))
        parts += [filled(note) for note in record.notes]
        if record.experiment in REMARKS:
            parts.append(filled(REMARKS[record.experiment]))
        if record.rows:
            settings = "\n".join(f"    - {row.name}: `{row.sampler}`" for row in record.rows)
            parts.append(f'??? note "Settings"\n\n{settings}')
        facts = "\n".join(f"    - {name}: {value}" for name, value in provenance(record).items())
        parts.append(f'??? note "Where this comes from"\n\n{facts}')
    return "\n\n".join(parts) + "\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def claims(record: Record) -> str:
    return markdown_table(CLAIM_HEADER, claim_cells(record.claims))


def front_table(found: list[Record]) -> str:
    """The paper's claims, each with what was measured; those of a theorem together."""
    rows = []
    for record in found:
        own = [claim for claim in record.claims if claim.source == PAPER]
        shown = theorems(own) if record.experiment == "theory" else own
        rows += [[name_of(record), claim.claim, claim.measured, f"**{claim.verdict}**"] for claim in shown]
    return markdown_table(["experiment", "the paper's claim", "what we measured", "verdict"], rows)


def name_of(record: Record) -> str:
    anchor = "".join(c for c in record.title.lower().replace(" ", "-") if c.isalnum() or c == "-")
    return f"[{record.experiment}](experiments.md#{anchor})"


def theorems(own: list[Judged]) -> list[Judged]:
    """One line for the claims of each theorem: all have to hold."""
    merged = []
    for theorem in sorted({claim.claim.partition(":")[0] for claim in own}):
        members = [claim for claim in own if claim.claim.startswith(f"{theorem}:")]
        failing = [claim for claim in members if claim.holds is False]
        said = [
            f"{claim.claim.removeprefix(f'{theorem}: ').removesuffix('.')} ({claim.measured.partition(',')[0]})"
            for claim in failing
        ]
        measured = f"{sum(claim.holds is True for claim in members)} of {len(members)} do"
        measured += f"; not: {'; '.join(said)}" if said else ""
        undecided = any(claim.holds is None for claim in members)
        text = f"{theorem}: {len(members)} quantities vanish with ε, or stay bounded, as fast as it states."
        merged.append(Judged(text, PAPER, measured, False if failing else None if undecided else True))
    return merged


def front(text: str, found: list[Record]) -> str:
    """The front page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{front_table(found)}\n\n{END}{after}"


def filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    found = records()
    for record in found:
        EXPERIMENTS[record.experiment].draw(record, RECORDS / f"{record.experiment}.png")
    PAGE.write_text(page(found), encoding="utf-8")
    FRONT.write_text(front(FRONT.read_text(encoding="utf-8"), found), encoding="utf-8")
    print(f"{PAGE.name}, {FRONT.name} and {len(found)} figures written.")


if __name__ == "__main__":
    main()
