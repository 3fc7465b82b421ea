"""Texts as codes, and the vocabulary that says what they stand for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

ROWS = 300
WORDS = ["zebra", "ant", "Örn", "", "Bär", "ant-eater"]


def carrier(i: int) -> str:
    return WORDS[i % len(WORDS)]


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """Two files, one of which writes its texts as a dictionary; every ninth city is null."""
    directory = tmp_path_factory.mktemp("flights")
    for file, ids in enumerate(np.array_split(np.arange(ROWS), 2)):
        table = pa.table(
            {
                "id": ids,
                "carrier": pa.array([carrier(i) for i in ids]),
                "city": pa.array([None if i % 9 == 0 else f"city-{i % 40:02}" for i in ids]),
            }
        )
        pq.write_table(table, directory / f"{file}.parquet", row_group_size=40, use_dictionary=file == 0)
    return directory


ORDER = dict(batch_size=64, shuffle="rows", seed=3, remainder="keep", codes=["city", "carrier"], nulls={"city": -1})


def read(feed) -> dict[int, tuple[int, int]]:
    rows: dict[int, tuple[int, int]] = {}
    for batch in feed:
        rows.update(zip(batch["id"].tolist(), zip(batch["carrier"].tolist(), batch["city"].tolist())))
    return rows


def test_codes_are_places_in_a_sorted_vocabulary_of_the_files(flights):
    with penstock.feed(flights, **ORDER) as feed:
        assert feed.schema["carrier"] == ("carrier", "int32", ())
        carriers, cities = feed.vocabulary("carrier"), feed.vocabulary("city")
        assert carriers == sorted(WORDS, key=str.encode)
        assert cities == sorted({f"city-{i % 40:02}" for i in range(ROWS) if i % 9})
        rows = read(feed)
        with pytest.raises(penstock.ArgumentError, match=r"'id' .* has no codes: columns \['carrier', 'city'\]"):
            feed.vocabulary("id")
    assert rows.keys() == set(range(ROWS))
    for i, (of_carrier, of_city) in rows.items():
        assert carriers[of_carrier] == carrier(i)
        assert of_city == -1 if i % 9 == 0 else cities[of_city] == f"city-{i % 40:02}"


def test_ranks_epochs_restarts_and_filters_have_the_same_codes(flights):
    with penstock.feed(flights, **ORDER) as feed:
        whole, vocabulary = read(feed), feed.vocabulary("carrier")
        cursor = next(iter(feed)).cursor
    for more in ({"epochs": 2}, {"start": cursor}, {"filter": "id % 6 = 4"}, {"rank": 1, "world_size": 2}, {"lanes": 1}):
        with penstock.feed(flights, **{**ORDER, **more}) as feed:
            assert feed.vocabulary("carrier") == vocabulary
            rows = read(feed)
        assert rows and rows == {i: whole[i] for i in rows}


def test_computed_texts_have_codes_and_masks_stand_beside_them(flights):
    select = {"id": "id", "carrier": "upper(carrier)", "city": "city"}
    with penstock.feed(flights, select=select, codes=["carrier", "city"], nulls={"city": "mask"}, batch_size=60) as feed:
        known = feed.vocabulary("carrier")
        assert known == sorted({word.upper() for word in WORDS}, key=str.encode)
        for batch in feed:
            assert [known[code] for code in batch["carrier"]] == [carrier(i).upper() for i in batch["id"]]
            assert batch["city_valid"].tolist() == [i % 9 != 0 for i in batch["id"].tolist()]


COLORS = ["zebra", "Bär"]


@pytest.mark.parametrize("given, unknown", [(COLORS, -1), ([None, *COLORS], 0)])
def test_a_vocabulary_that_is_given_is_the_files_or_not(flights, given, unknown):
    arguments = dict(ORDER, codes={"carrier": given, "city": None})
    with penstock.feed(flights, **arguments) as feed:
        assert feed.schema["carrier"] == ("carrier", "int32", ())
        assert feed.vocabulary("carrier") == given and feed.vocabulary("city")[0] == "city-00"
        rows = read(feed)
    assert {i: code for i, (code, _) in rows.items()} == {
        i: given.index(carrier(i)) if carrier(i) in given else unknown for i in range(ROWS)
    }
    # A few rows have a few texts; their codes are those of all.
    with penstock.feed(flights, **{**arguments, "filter": "id % 6 = 4", "codes": {"carrier": given}}, columns=["id", "carrier"]) as some:
        with pytest.raises(penstock.FeedError, match="nulls names column \"city\""):
            some.schema
    few = {**arguments, "filter": "id % 6 = 4", "codes": {"carrier": given}, "nulls": None}
    with penstock.feed(flights, **few, columns=["id", "carrier"]) as some:
        assert {code for batch in some for code in batch["carrier"].tolist()} == {given.index("Bär")}


@pytest.mark.tensorflow
def test_given_vocabularies_and_nulls_are_the_same_in_tensorflow(flights):
    tf = pytest.importorskip("tensorflow")
    arguments = dict(batch_size=50, codes={"city": ["city-07", None, "city-03"]}, columns=["id", "city"], nulls={"city": 9})
    with penstock.feed(flights, **arguments) as feed:
        expected = [batch["city"].tolist() for batch in feed]
        assert feed.tf().element_spec["city"] == tf.TensorSpec([50], tf.int32)
        assert [batch["city"].numpy().tolist() for batch in feed.tf()] == expected
        ids = [i for batch in feed for i in batch["id"].tolist()]
    known = {7: 0, 3: 2}
    assert [code for codes in expected for code in codes] == [9 if i % 9 == 0 else known.get(i % 40, 1) for i in ids]


def test_what_is_no_vocabulary_is_refused(flights):
    for codes, told in (
        ({"carrier": "red"}, "codes says 'red' for 'carrier': give a list"),
        ({"carrier": []}, "codes says \\[\\] for 'carrier'"),
        ({"carrier": {"red"}}, "codes says {'red'} for 'carrier': give a list"),
        ({"carrier": [1]}, "give a list of its texts"),
        ({"carrier": [f"{i:099}" for i in range(1000)]}, "take 103.* bytes and a feed can carry 98304"),
    ):
        with pytest.raises(penstock.ArgumentError, match=told):
            penstock.feed(flights, codes=codes)
    for codes, told in (
        ({"id": ["a"]}, '"id", which holds Int64: codes are of texts'),
        ({"carriers": ["a"]}, 'codes names column "carriers".* did you mean "carrier"'),
        ({"carrier": ["a", "a"]}, 'lists "a" twice'),
    ):
        with penstock.feed(flights, codes=codes, batch_size=60) as feed, pytest.raises(penstock.FeedError, match=told):
            feed.schema


def test_what_has_no_codes_is_refused(flights, tmp_path):
    for codes, told in (
        (["id"], r'"id", which is Int64: codes are of texts'),
        (["airline"], r'codes names column "airline", which the feed does not have: it has "id"'),
        (["city", "city"], "asked for twice"),
    ):
        with penstock.feed(flights, batch_size=60, codes=codes) as feed, pytest.raises(penstock.FeedError, match=told):
            feed.schema
    with penstock.feed(flights, batch_size=60) as feed, pytest.raises(penstock.ArgumentError, match=r"codes=\['carrier'\]"):
        feed.vocabulary("carrier")
    many = pa.table({"user": [f"{i:0200}" for i in range(50_000)]})
    pq.write_table(many, tmp_path / "0.parquet")
    with penstock.feed(tmp_path, batch_size=60, codes=["user"]) as feed:
        with pytest.raises(penstock.FeedError, match=r"more than the 8 MiB .*hash_bucket\(user, 100000\) AS user"):
            feed.schema


@pytest.mark.tensorflow
def test_tensorflow_has_int32_and_keras_looks_texts_up_by_the_vocabulary(flights):
    tf = pytest.importorskip("tensorflow")
    with penstock.feed(flights, **ORDER) as feed:
        vocabulary = feed.vocabulary("city")
        lookup = tf.keras.layers.StringLookup(vocabulary=vocabulary, num_oov_indices=0)
        assert lookup(tf.constant(vocabulary)).numpy().tolist() == list(range(len(vocabulary)))
        dataset = feed.tf()
        assert dataset.element_spec["city"].dtype == tf.int32
        for batch in dataset:
            known = batch["city"] >= 0
            texts = tf.gather(vocabulary, tf.boolean_mask(batch["city"], known)).numpy()
            assert [text.decode() for text in texts] == [f"city-{i % 40:02}" for i in tf.boolean_mask(batch["id"], known).numpy()]
