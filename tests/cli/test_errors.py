"""What a command says of an error, and with which code it ends."""

import pytest
import typer

from consilience.cli.errors import FAILED, REFUSED, exit_on_error
from consilience.engine import FailedOnHosts, Hosts


class First(Hosts):
    """The first of two hosts, of which the other does not fail."""

    def gather(self, value):
        return [value, None]


class Second(Hosts):
    """The second of two hosts, of which the first fails."""

    def gather(self, value):
        return [[False, "KeyError: 'age'"], value]


def ended(error, capsys):
    with pytest.raises(typer.Exit) as found, exit_on_error():
        raise error
    return found.value.exit_code, capsys.readouterr().err


def test_an_error_in_the_user_s_code_that_ends_all_hosts_is_said_as_on_one(capsys):
    def load():
        return {}["age"]

    with pytest.raises(FailedOnHosts, match="KeyError: 'age'") as found:
        First(2, 0).together(load)
    code, said = ended(found.value, capsys)
    assert code == REFUSED
    assert said.startswith("KeyError: 'age'") and 'return {}["age"]' in said


def test_a_host_that_has_not_failed_says_who_has():
    with pytest.raises(FailedOnHosts, match="host 0 failed: KeyError: 'age'"):
        Second(2, 1).together(lambda: None)


def test_notes_follow_on_lines_of_their_own_but_for_jax_s(capsys):
    error = RuntimeError("no such column")
    error.add_note("The model was run on two rows.")
    error.add_note("--------------------\nFor simplicity, JAX has removed its internal frames.")
    code, said = ended(error, capsys)
    assert code in (FAILED, REFUSED)
    assert said.startswith("RuntimeError: no such column\nThe model was run on two rows.\n") and "JAX" not in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyboardInterrupt(), "interrupted."),
        (KeyboardInterrupt("ended at once: it is lost"), "ended at once: it is lost."),
    ],
)
def test_an_interrupted_command_says_so_and_ends_with_130(error, words, capsys):
    assert ended(error, capsys) == (130, f"{words}\n")
