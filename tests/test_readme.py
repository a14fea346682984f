"""Every line of the README that can be run is run."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_the_example_runs_and_prints_the_warning_it_shows(capsys):
    (example,) = blocks("python")
    code = [line for line in example.splitlines() if line.strip() and not line.startswith("import")]
    assert len(code) <= 10
    names: dict = {}
    exec(example, names)
    printed = capsys.readouterr().out
    (shown,) = blocks("text")
    assert shown.strip().removesuffix("...").strip() in printed
    assert names["run"].draws.shape == (5, 4, 1000, 3)


def test_make_has_every_command_named():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)\b", "\n".join(blocks("sh"))):
        assert f"\n{target}:" in makefile


def test_every_file_linked_is_there():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert "://" in link or (ROOT / link).exists(), link


def test_every_public_name_shown_exists():
    import consilience as cs

    for name in re.findall(r"\bcs\.([A-Za-z_]+)", README):
        assert hasattr(cs, name), name
