"""Records as tables: the same cells for a terminal, a page in HTML, and documentation in Markdown."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..report import MISSING, Markup, facts, folded, join, paragraph, table, tag, whole_page
from .record import PAPER, Judged, MethodRow, Record
from .reproduction import FIGURE, RECORD, REPORT

CLAIM_HEADER = ("claim", "by", "what we measured", "verdict")


def method_header(record: Record) -> list[str]:
    return [*_cells(record, record.rows[0])]


def method_cells(record: Record) -> list[list[str]]:
    """Return the cells of the table of methods, one line a method."""
    return [[*_cells(record, row).values()] for row in record.rows]


def _cells(record: Record, row: MethodRow) -> dict[str, str]:
    """Return a method's cells by the names of their columns."""
    several = len({row.target for row in record.rows}) > 1
    return {
        "method": row.name,
        "settings": row.source,
        **({"target": row.target} if several else {}),
        **{name: score_cell(row, name, decimals) for name, decimals in record.columns.items()},
        "accept": MISSING if row.acceptance is None else f"{row.acceptance:.2f}",
        "iterations": f"{row.iterations:,}",
        "seeds": str(row.seeds),
        "seconds": f"{row.seconds:,.0f}",
    }


def score_cell(row: MethodRow, name: str, decimals: int) -> str:
    """Return a score's mean over seeds, with their sd, as text."""
    if name not in row.scores:
        return MISSING
    spread = row.sd(name)
    return f"{row.mean(name):.{decimals}f}" + ("" if math.isnan(spread) else f" ± {spread:.{decimals}f}")


def claim_cells(claims: Sequence[Judged]) -> list[list[str]]:
    return [[claim.claim, claim.source, claim.measured, claim.verdict] for claim in claims]


def provenance(record: Record) -> dict[str, str]:
    """Return where a record's numbers come from: command, data, hardware, versions."""
    return {
        "command": record.command,
        "data": record.data,
        "seeds": str(record.seeds),
        "took": f"{record.seconds:,.0f} s, compilation included",
        "on": f"{record.hardware['device']}, {record.precision}",
        "versions": ", ".join(f"{name} {record.versions[name]}" for name in ("jax", "numpy", "python")),
        "at": record.created,
    }


def records_in(folder: Path, names: Iterable[str]) -> list[Record]:
    """Read the records of those of the named experiments that have been run in `folder`."""
    paths = (folder / name / RECORD for name in names)
    return [Record.from_json(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def write_page(records: Sequence[Record], folder: Path, path: Path) -> None:
    """Write one page about all records; their figures are in it, and the reports on their runs beside it.

    Args:
      folder: folder in which each experiment has one of its name.
    """
    contents = tag(
        "nav",
        tag("ul", *(tag("li", tag("a", r.title, href=f"#{r.experiment}"), f": {_claims_held(r)}") for r in records)),
        aria_label="Experiments",
    )
    sections = (_section(record, folder) for record in records)
    lead = paragraph(
        "The experiments of “Decentralized Bayesian Learning with Metropolis-Adjusted Hamiltonian Monte Carlo” "
        "(Kungurtsev, Cobb, Javidi and Jalaian, 2021), run again: what it claims, what was measured, and what exact "
        "samplers give on the same problems. published is its DecentralizedMALA, D-ULA its DecentralizedULA. Verdicts "
        "are computed from the runs."
    )
    path.write_text(whole_page("The paper, reproduced", lead, join([contents, *sections])), encoding="utf-8")


def _claims_held(record: Record) -> str:
    """Say how many of the paper's claims hold."""
    of_paper = [claim for claim in record.claims if claim.source == PAPER]
    held = sum(claim.holds is True for claim in of_paper)
    return f"{held} of {len(of_paper)} claims of the paper hold here" if of_paper else "no claims at this scale"


def _section(record: Record, folder: Path) -> Markup:
    home = folder / record.experiment
    parts: list[Markup] = [
        tag("h2", record.title),
        paragraph(f"The paper's {record.reference}, at {record.scale} scale. {record.data}."),
        *([table("Claims", CLAIM_HEADER, claim_cells(record.claims), class_="claims")] if record.claims else []),
        _picture(home / FIGURE, record.title),
    ]
    if record.rows:
        parts.append(table("Methods: mean ± sd over the seeds", method_header(record), method_cells(record)))
    parts += [paragraph(note) for note in record.notes]
    if record.rows:
        settings = tag("ul", *(tag("li", f"{row.name}: {row.sampler}") for row in record.rows))
        parts.append(folded("Settings", settings))
    parts.append(folded("Where this comes from", facts(provenance(record).items(), class_="provenance")))
    if (home / REPORT).exists():
        parts.append(paragraph(tag("a", "Each run in detail", href=f"{record.experiment}/{REPORT}")))
    return tag("section", *parts, id=record.experiment)


def _picture(path: Path, title: str) -> Markup:
    inside = base64.b64encode(path.read_bytes()).decode()
    return tag("img", src=f"data:image/png;base64,{inside}", alt=f"Figure: {title}", class_="picture")
