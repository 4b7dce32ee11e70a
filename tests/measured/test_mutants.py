"""Mutations are what they say, one at a time, and those that change something are seen."""

import shutil
from collections import Counter

import pytest

from mase_hw.errors import ConfigError
from tests.bench.groups.mutants import SHARES, choose, sums
from tests.bench.mutant_designs import SOURCES
from tests.bench.mutant_runs import End, Subject
from tests.bench.mutations import Finder, Mutation, combined, invert, memory_bits, package, replaced

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


def test_the_choice_is_a_number_or_made_in_the_run():
    assert "localparam int chosen = 3;" in package(3)
    assert "$fopen" in package(None)


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


def test_the_same_seed_gives_the_same_sample_and_nothing_twice(subject, found):
    first, second = choose([subject], 60), choose([subject], 60)
    assert first == second
    assert len(set(first)) == len(first) >= 60
    assert Counter(item.kind for _, item in first).keys() == SHARES.keys()


def test_a_bit_of_a_memory_is_inverted_and_back(subject, tmp_path):
    copy = shutil.copytree(subject.whole, tmp_path / "copy")
    (item,) = memory_bits(subject.whole, subject.summary, 3, 1)
    before = (copy / item.file).read_bytes()
    invert(copy, item)
    assert (copy / item.file).read_bytes() != before
    invert(copy, item)
    assert (copy / item.file).read_bytes() == before


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


def test_what_is_equivalent_or_does_not_build_is_no_survivor():
    ends = [End("mismatch")] * 97 + [End("left")] * 3 + [End("equivalent"), End("refused")]
    rows = list(sums("all", ends))
    assert rows[0].measured == "101 (1 more do not)"
    assert rows[-1].measured == "97.0 %; 3"
    assert rows[-1].met
    assert not list(sums("all", [*ends, End("left")]))[-1].met


def test_a_design_that_is_not_there(subject):
    from tests.bench.groups.mutants import Mutants

    with pytest.raises(ConfigError, match="no design is called 'resnet'"):
        Mutants().only(["resnet"])
