"""The documentation of the experiments is what the records give."""

import pytest

from benchmarks import experiments


@pytest.fixture(scope="module")
def records():
    return experiments.records()


def test_the_page_is_that_of_the_records(records):
    assert experiments.PAGE.read_text(encoding="utf-8") == experiments.page(records), "run make docs-experiments"


def test_the_front_page_has_the_claims_as_they_were_judged(records):
    text = experiments.FRONT.read_text(encoding="utf-8")
    assert text == experiments.front(text, records), "run make docs-experiments"
    table = text.partition(experiments.BEGIN)[2].partition(experiments.END)[0]
    for record in records:
        for claim in record.claims:
            if claim.source == "paper" and record.experiment != "theory":
                assert claim.claim in table
                assert f"| {claim.measured} | **{claim.verdict}** |" in table
    assert table.count("Theorem 3.") == 3


def test_a_table_s_cells_may_have_bars_in_them():
    assert experiments.markdown_table(["a"], [["b | c"]]) == "| a |\n| --- |\n| b \\| c |"
