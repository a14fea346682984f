"""The documentation: its code runs, prints what is shown, and its numbers are the measured ones.

Blocks of a page run in order, in one namespace and an empty folder. A block with a title is a file, and written first;
if the title is a folder, or the block a command's, it runs in that folder, as on a machine of its own.
A text block right after code is a part of what that printed, or, where it starts with an error's name, of the error:
`...` stands for anything, and numbers, being random, may be off by a third.

`consilience peer`, and a run with a coordinator, goes on beside what follows, until a text block right after code shows
what the last one has printed.
"""

import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import chdir
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest
import yaml
from typer.testing import CliRunner

import consilience as cs
from consilience.cli.app import app
from consilience.cli.build import SAMPLERS, settings_of

from .patience import PATIENCE
from .real_data import FOLDER

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
ROWS = json.loads((DOCS / "accuracy.json").read_text())["rows"]
PROGRAM = [sys.executable, "-c", "from consilience.cli import main; main()"]
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")


class Block(NamedTuple):
    language: str
    title: str | None
    text: str
    line: int
    follows: bool  # another block, with nothing between


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found, end = [], -1
    for match in re.finditer(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', text, flags=re.S | re.M):
        line = text.count("\n", 0, match.start()) + 2
        found.append(Block(match[1], match[2], match[3], line, end >= 0 and not text[end : match.start()].strip()))
        end = match.end()
    assert 2 * len(found) == text.count("```"), f"{page.name} has a block that is not seen here"
    return found


# --- code runs ---------------------------------------------------------------------------------------


DATA = {"study": "heart"}  # the folder of the data that a page's output is of; without it a page runs on other data
LONG = ("peers", "devices")  # agents and hosts in processes of their own, one after the other: minutes


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.soak] * (p.stem in LONG)) for p in PAGES], ids=lambda page: page.stem
)
def test_code_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if page.stem in DATA:
        monkeypatch.setenv("CONSILIENCE_DATA", str(FOLDER))
    run_page(page, tmp_path, capsys, compared=page.stem not in DATA or (FOLDER / DATA[page.stem]).is_dir())


@pytest.mark.soak
@pytest.mark.parametrize("page", DATA)
def test_a_page_runs_where_its_data_are_not_there(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONSILIENCE_DATA", str(tmp_path))
    run_page(DOCS / f"{page}.md", tmp_path, capsys, compared=False)


def run_page(page, tmp_path, capsys, compared):
    """Run all blocks of a page; what they print is compared with what is shown, where they ran on the same data."""
    names, printed = {"__name__": "__main__"}, None
    every = blocks(page)
    with Agents() as agents:
        for block, after in zip(every, [*every, None][1:], strict=True):
            with chdir(place_of(block)):
                if block.language == "text":
                    if block.follows and compared:
                        assert printed is not None, f"{page.name}:{block.line}: output of nothing"
                        assert_shown(block.text, agents.ended() or printed, f"{page.name}:{block.line}")
                    printed = None
                elif block.language == "python":
                    error = after is not None and after.follows and re.match(r"(\w+Error|Refused): ", after.text)
                    printed = run_python(page, block, names, error=bool(error), capsys=capsys)
                elif block.language == "sh":
                    printed = "".join(run_command(line, tmp_path, agents) for line in commands(block.text))
                else:
                    assert block.language == "toml", f"{page.name}:{block.line}: {block.language or 'no language'}"
                    tables = tomllib.loads(block.text)
                    if {"model", "data", "network"} <= tables.keys():
                        assert f"consilience run {block.title}" in page.read_text(), f"{page.name}:{block.line}"


def place_of(block: Block) -> Path:
    """Where a block runs; a file is written."""
    if block.title is None:
        return Path()
    place = Path(block.title)
    if block.language == "sh":
        place.mkdir(exist_ok=True)
    if place.is_dir():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(block.text)
    return Path()


class Agents:
    """Those that a page starts, each in a process of its own."""

    def __init__(self) -> None:
        self._running: list[tuple[subprocess.Popen, Path]] = []

    def start(self, words: list[str]) -> None:
        said = Path(f"said-{len(self._running)}.txt").absolute()
        with said.open("w") as file:
            self._running.append((subprocess.Popen([*PROGRAM, *words], stdout=file, stderr=file), said))

    def ended(self) -> str:
        """When all have: what the last of them has said."""
        said = ""
        for process, path in self._running:
            process.wait(PATIENCE)
            said = path.read_text()
            assert process.returncode == 0, said
        self._running = []
        return said

    def __enter__(self) -> "Agents":
        return self

    def __exit__(self, *_) -> None:
        for process, _ in self._running:
            process.kill()
            process.wait()


def run_python(page, block, names, error, capsys):
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    capsys.readouterr()
    if not error:
        exec(code, names)
        return capsys.readouterr().out
    with pytest.raises(Exception) as raised:
        exec(code, names)
    return f"{raised.type.__name__}: {raised.value}"


def commands(text: str) -> list[list[str]]:
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def run_command(words: list[str], root: Path, agents: Agents) -> str:
    if words[:2] == ["consilience", "peer"] or "--coordinator" in words:  # with others
        agents.start(words[1:])
    elif words[0] == "srun":
        options = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
        assert all(word in options for word in words[words.index("consilience") :] if word.startswith("--")), words
    elif words[:2] == ["consilience", "launch"] or "--devices" in words:  # goes on with what processes have begun
        done = subprocess.run([*PROGRAM, *words[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout
    elif words[:2] == ["scp", "-rp"]:  # a host is a folder
        host, _, folder = words[3].partition(":")
        shutil.copytree(words[2], root / host / folder / Path(words[2]).name)
    elif words[0] == "rm":
        for path in map(Path, words[2:] if words[1] == "-r" else words[1:]):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif words[0] == "consilience":
        with pytest.MonkeyPatch.context() as patch:
            if words[1] == "reproduce" and "--quick" not in words:  # minutes, or a GPU: that it would be run must do
                for function in ("run_experiment", "show", "write_page", "data.fetch"):
                    patch.setattr(f"consilience.cli.reproduce.{function}", Mock())
            result = CliRunner().invoke(app, words[1:])
            end = time.monotonic() + PATIENCE
            while words[1] == "status" and result.exit_code == 1 and time.monotonic() < end:  # nobody is there yet
                result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{words}: {result.output}"
        return result.stdout
    elif words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text(), f"make {words[1]}"
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = re.fullmatch(r"(?:consilience|\.)\[([\w,]+)\]", words[2])
        assert named and set(named[1].split(",")) <= set(extras), words[2]
    else:
        file = f"{words[2].replace('.', '/')}.py" if words[1] == "-m" else words[1]
        assert words[0].endswith("python") and (ROOT / file).exists(), words
    return ""


def assert_shown(shown: str, printed: str, where: str) -> None:
    """That `printed` has what is `shown`: white space counts for nothing, numbers may differ a little."""
    pieces = [evenly_spaced(piece).strip() for piece in shown.split("...")]
    text = evenly_spaced(printed)
    place = 0
    for piece in filter(None, pieces):
        pattern, numbers, last = "", [], 0
        for number in NUMBER.finditer(piece):
            pattern += re.escape(piece[last : number.start()]) + f"({NUMBER.pattern})"
            numbers.append(number[0])
            last = number.end()
        match = re.compile(pattern + re.escape(piece[last:])).search(text, place)
        assert match, f"{where}: {piece!r} is not in what was printed:\n{printed}"
        for expected, found in zip(numbers, match.groups(), strict=True):
            assert alike(expected, found), f"{where}: {found} was printed for {expected}:\n{printed}"
        place = match.end()


def evenly_spaced(text: str) -> str:
    """Leave out what numpy pads numbers with."""
    return re.sub(r"(?<=\[) | (?=\])", "", re.sub(r"\s+", " ", text))


def alike(one: str, other: str) -> bool:
    a, b = (float(number.replace(",", "")) for number in (one, other))
    is_exact = "." not in one and abs(a) < 100
    return a == b if is_exact else math.isclose(a, b, rel_tol=1 / 3, abs_tol=0.05)


# --- nothing is named that is not there -----------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_and_file_exists(page):
    text = page.read_text()
    for name in re.findall(r"\bcs\.([A-Za-z_]+)", text):
        assert hasattr(cs, name), name
    for name in re.findall(r"\bcs\.Network\.([a-z_]+)", text):
        assert hasattr(cs.Network, name), name
    for path in re.findall(r"`((?:examples|src|tests|docs|benchmarks)/[\w./]+)`", text):
        assert (ROOT / path).exists(), path
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(), target


def test_the_api_has_every_public_name_and_the_settings_as_they_are():
    page = (DOCS / "api.md").read_text()
    headings = set(re.findall(r"^(?:### | +heading: )cs\.(\w+)$", page, flags=re.M))
    assert headings >= set(cs.__all__)
    for name, kind in SAMPLERS.items():
        assert f"::: consilience.samplers.{kind.__name__}\n" in page, name
        (call,) = re.findall(rf"^cs\.{name}\(.*?\)$", page, flags=re.M | re.S)
        written = call_arguments(call)
        assert list(written) == settings_of(kind), name
        defaults = {setting.name: setting.default for setting in fields(kind) if setting.default is not None}
        for key, value in written.items():
            is_needed = repr(defaults.get(key)).startswith("<dataclasses._MISSING")
            assert is_needed or value == defaults.get(key), f"{name}: {key}"


def call_arguments(call: str) -> dict:
    return eval(f"dict({call.partition('(')[2]}")


# --- the numbers ----------------------------------------------------------------------------------------

TARGETS = ("linear regression", "skewed", "mixture", "digits")
NETWORK = "ring of 5"
MIXED = 1.01  # R-hat


def cell(sampler: str, target: str) -> dict:
    (row,) = [row for row in ROWS if (row["sampler"], row["target"], row["network"]) == (sampler, target, NETWORK)]
    return row


def table(number) -> list[str]:
    """Lines of a table of what `number(row)` says of every sampler and target on the ring."""
    samplers = list(dict.fromkeys(row["sampler"] for row in ROWS))
    head = "| sampler | " + " | ".join(TARGETS) + " |"
    lines = [head, "|---" + "|---:" * len(TARGETS) + "|"]
    return lines + [f"| `{s}` | " + " | ".join(number(cell(s, target)) for target in TARGETS) + " |" for s in samplers]


def variance(row: dict) -> str:
    return f"{row['variance_ratio']:.2f}" + " †" * (row["r_hat"] > MIXED)


def bias(row: dict) -> str:
    return f"{row['worst_bias']:.2f}" + " *" * row["bias_beyond_noise"]


def rounds(row: dict) -> str:
    return short(row["rounds"] / row["ess_typical"])


def kilobytes(row: dict) -> str:
    return short(1000 * row["megabytes"] / row["ess_typical"])


def short(value: float) -> str:
    """Two digits."""
    if value < 0.1:
        return "< 0.1"
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


@pytest.mark.parametrize("number", [variance, bias, rounds, kilobytes], ids=lambda number: number.__name__)
def test_the_tables_to_choose_by_are_those_of_the_measurements(number):
    lines = table(number)
    assert "\n".join(lines) in (DOCS / "choose.md").read_text(), "docs/choose.md should have\n\n" + "\n".join(lines)


# --- the site -------------------------------------------------------------------------------------------


class Resources(HTMLParser):
    """What a browser would load by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag != "a":
            self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]


def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    for page in PAGES:
        reader = Resources()
        reader.feed((tmp_path / "site" / f"{page.stem}.html").read_text())
        assert reader.found
        for resource in reader.found:
            assert not resource.startswith(("http:", "https:", "//")), f"{page.name} loads {resource}"
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text()), sheet


def test_every_page_is_in_the_navigation():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(_pages(settings["nav"])) == sorted(page.name for page in PAGES)


def _pages(entry) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in _pages(part)]
