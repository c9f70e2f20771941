import pyarrow as pa
import pytest

from chopper_jupyter.core.schema import LEVEL_COLUMNS, LEVELS, NAME, TABLES, conform, empty


def counters(**columns):
    plain = {
        "kernel_id": [1], "counter": ["cycles"], "value": [2.0], "pass": [0],
        "matched_by": ["name"],
    }  # fmt: skip
    return pa.table(plain | columns)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_has_a_meaning_and_times_have_a_unit(table):
    for field in TABLES[table]:
        assert field.metadata[b"meaning"]
        if field.name.endswith("_ns"):
            assert field.type == pa.int64()
            assert field.metadata[b"unit"] in (b"ns", b"")


@pytest.mark.parametrize("table", TABLES)
def test_empty_tables_have_the_schema(table):
    assert empty(table).schema.equals(TABLES[table], check_metadata=True)
    assert conform(table, empty(table)).num_rows == 0


def test_levels_are_columns_of_kernels():
    assert [LEVEL_COLUMNS[level] in TABLES["kernels"].names for level in LEVELS] == [True] * 6


def test_conform_puts_columns_in_order_with_types_and_metadata():
    mixed = counters().select(["value", "pass", "matched_by", "counter", "kernel_id"])
    found = conform("counters", mixed)
    assert found.schema.equals(TABLES["counters"], check_metadata=True)
    assert found["counter"].to_pylist() == ["cycles"]


def test_conform_fills_absent_columns_that_may_be_null():
    gpus = pa.table({"gpu": [0], "device": [0], "offset_ns": [0]})
    assert conform("gpus", gpus)["host"].to_pylist() == [None]


def test_conform_unifies_dictionaries_of_several_chunks():
    chunks = [pa.array(["a"]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()]
    table = pa.concat_tables(
        [counters(counter=c, **{n: [0] * len(c) for n in ("kernel_id", "value", "pass")},
                  matched_by=["name"] * len(c)) for c in chunks]
    )  # fmt: skip
    column = conform("counters", table)["counter"]
    assert column.type == NAME
    assert column.to_pylist() == ["a", "b", "a"]
    assert len({tuple(chunk.dictionary.to_pylist()) for chunk in column.chunks}) == 1


def test_conform_names_a_missing_column():
    with pytest.raises(ValueError, match="'counters' needs the column 'value'"):
        conform("counters", counters().drop_columns(["value"]))


def test_conform_names_a_column_that_may_hold_no_nulls():
    with pytest.raises(ValueError, match=r"counters\.value holds 1 nulls"):
        conform("counters", counters(value=pa.array([None], pa.float64())))


def test_conform_names_columns_that_are_not_in_the_schema():
    with pytest.raises(ValueError, match=r"no columns \['colour'\]"):
        conform("counters", counters(colour=["red"]))


def test_conform_refuses_values_that_do_not_fit():
    with pytest.raises(pa.ArrowInvalid):
        conform("counters", counters(kernel_id=["one"]))
