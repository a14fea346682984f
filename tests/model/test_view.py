"""What is kept of a draw."""

import pytest

from consilience.model import kept_function


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("slop", r"there is no parameter 'slop'; there are level, slope\. Write keep=\['slope'\]\.$"),
        ("q", r"there is no parameter 'q'; there are level, slope$"),
    ],
)
def test_a_name_that_is_not_there_is_refused_with_those_that_are(name, message):
    with pytest.raises(ValueError, match=message):
        kept_function(lambda params: {"slope": params, "level": params}, [name])(0.0)
