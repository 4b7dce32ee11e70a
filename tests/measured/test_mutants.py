"""Mutations are what they say, one at a time, and those that change something are seen."""

from collections import Counter

import pytest

from tests.bench.groups.mutants import SHARES
from tests.bench.mutant_designs import SOURCES
from tests.bench.mutant_runs import End, Subject
from tests.bench.mutations import Finder, Mutation, combined, replaced

pytestmark = pytest.mark.full

TEXT = b"module m;\n  assign y = a && (b || c);\n  always_ff @(posedge clk) q <= d;\nendmodule\n"


def mutation(was, text, kind="operator"):
    start = TEXT.index(was.encode())
    return Mutation("m.sv", 1, start, start + len(was), text, kind, was)


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    return Subject(SOURCES["perceptron"], tmp_path_factory.mktemp("mutants"))


@pytest.fixture(scope="module")
def found(subject):
    return Finder(subject.whole).mutations()


def test_nested_mutations_are_chosen_one_by_one():
    outer, inner = mutation("a && (b || c)", "a"), mutation("b || c", "b && c")
    text = combined(TEXT, {1: outer, 2: inner}).decode()
    assert (
        "y = ((mutants::chosen == 1) ? (a) : "
        "(a && (((mutants::chosen == 2) ? (b && c) : (b || c)))));"
    ) in text
    assert combined(TEXT, {}) == TEXT


def test_a_statement_is_left_out_and_keeps_its_branch():
    text = combined(TEXT, {4: mutation("q <= d;", "", "statement")}).decode()
    assert "begin if (mutants::chosen != 4) q <= d; end" in text
    assert replaced(TEXT, mutation("q <= d;", "", "statement")).count(b"<=") == 0


def test_mutations_of_every_kind_are_found_where_the_design_is(subject, found):
    kinds = Counter(item.kind for item in found)
    assert kinds.keys() == SHARES.keys() - {"memory"}
    for item in found:
        text = subject.texts[item.file]
        assert text[item.start : item.end].decode() == item.was
        assert item.text.strip() != item.was.strip()
        assert "unused" not in item.was
    # A wire is no buffer, and the design has no external memory.
    assert not any("axi" in item.file for item in found)
    assert any("mase_level" in str(item) and item.kind == "operator" for item in found)


def test_mutants_end_as_they_should(subject, found):
    """Two wrong products, and one that is the same circuit."""
    wanted = {
        "`data_lane * weight_lane` is `data_lane + weight_lane`": "mismatch",
        "`data_lane * weight_lane` is `data_lane`": "mismatch",
    }
    ends = {str(item).partition(": ")[2]: item for item in found}
    items = {ends[name]: how for name, how in wanted.items()}
    subject.prepare([(subject, item) for item in items])
    for number, (item, how) in enumerate(items.items(), 1):
        end = subject.simulated(number, item)
        assert end is not None
        assert (end.how, end.is_killed) == (how, True)
    same = next(item for item in found if item.kind == "parameter" and "gen_" not in item.was
                and subject.is_same_circuit(item))  # fmt: skip
    assert subject.simulated(0, same) == End("equivalent", "the same circuit")
