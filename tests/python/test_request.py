"""Arguments, cursors and sources: pure, nothing is started."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from penstock import ArgumentError, _checks, _cursor, _feed, _request, _source

DEFAULTS = dict(
    dataset="d",
    name=None,
    batch_size=8,
    columns=None,
    shuffle="none",
    seed=0,
    epochs=1,
    remainder="drop",
    nulls=None,
    rank=None,
    world_size=None,
    start=None,
    lanes=None,
    shuffle_bytes=None,
)
DESCRIPTION = {"steps_per_epoch": 10, "snapshot": "abc", "batch_size": 8, "lanes": 4, "order": {"shuffle": "none"}}


@pytest.mark.parametrize(
    "said, amount", [(1, 1), ("7", 7), ("64MiB", 64 << 20), ("1.5 GiB", 3 << 29), ("2g", 2 << 30), ("10MB", 10_000_000), ("3 b", 3)]
)
def test_memory_is_said_as_daemons_take_it(said, amount):
    assert _checks.amount("memory", said) == amount


@pytest.mark.parametrize("said", ["", "MiB", "0", "1 parsec", "-1", 0, 1.5, 2**70, "9" * 400, "20000000000g", "٣"])
def test_what_is_no_amount_of_memory_is_one_line(said):
    with pytest.raises(ArgumentError, match="memory is "):
        _checks.amount("memory", said)


WHOLE = {
    "batch_size": (1, 2**64 - 1),
    "seed": (0, 2**64 - 1),
    "epochs": (1, 2**64 - 1),
    "lanes": (1, 2**32 - 1),
    "shuffle_bytes": (1, 2**64 - 1),
    "memory": (1, 2**64 - 1),
    "world_size": (1, 2**32 - 1),
    "rank": (0, 2**32 - 1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_every_whole_number_is_of_its_range_and_of_any_library(name):
    def said(value):
        more = {"rank": {"world_size": 2**32 - 1}, "world_size": {"rank": 0}}.get(name, {})
        batch = {} if name == "batch_size" else {"batch_size": 2**64 - 1}
        request = build(**{**batch, **more, name: value})
        return {**request["feed"], **request}[name]

    least, most = WHOLE[name]
    for good in (least, np.int64(1), np.uint8(2), np.array(3), most - (name == "rank")):
        assert said(good) == good and type(said(good)) is int
    words = {2**64 - 1: "2**64 - 1", 2**32 - 1: "2**32 - 1"}.get(most, most)
    for bad in (least - 1, -(2**70), most + 1, 2**70, np.int64(-1), 1.0, np.float32(2), True, np.array([1, 2]), b"1", [1]):
        with pytest.raises(ArgumentError) as error:
            said(bad)
        text = str(error.value)
        assert text == f"{name} is {bad!r}: it must be a whole number from {least} to {words}" and "\n" not in text


LONE = "gr\ud800n"


@pytest.mark.parametrize(
    "name, value",
    [
        ("dataset", LONE),
        ("dataset", {LONE: 1, "web": 2}),
        ("name", LONE),
        ("columns", ["a", LONE]),
        ("select", [f"a AS {LONE}"]),
        ("select", {LONE: "a"}),
        ("filter", f"a = '{LONE}'"),
        ("nulls", {"a": LONE}),
        ("nulls", {LONE: 0}),
        ("units", {LONE: "ms"}),
        ("units", {"a": LONE}),
        ("codes", [LONE]),
        ("codes", {LONE: None, "color": ["red"]}),
        ("codes", {"color": ["red", LONE]}),
        ("start", {**_cursor.at(DESCRIPTION, 0, 0, 3), "snapshot": LONE}),
    ],
)
def test_half_a_letter_is_refused_by_the_argument_it_is_in(name, value):
    with pytest.raises(ArgumentError, match=rf"^{name} says .*gr\\ud800n.* lone surrogate") as error:
        build(**{name: value})
    assert isinstance(error.value, ValueError)
    str(error.value).encode()


@pytest.mark.parametrize("source", [LONE, [LONE, "b"], {"web": LONE}, {"web": ["a", LONE]}, Path(LONE)])
def test_a_path_that_is_no_text_is_refused(source):
    with pytest.raises(ArgumentError, match="^source says .* lone surrogate"):
        _source.plan(source, None, {})
    with pytest.raises(ArgumentError, match="^dataset says .* lone surrogate"):
        _source.plan("grpc://h:1", LONE, {})
    with pytest.raises(ArgumentError, match="no path holds a zero character"):
        _source.plan("a\0b", None, {})


def test_fills_are_numbers_of_any_library_and_any_float():
    fills = {"a": np.int64(-1), "b": np.float32(0.5), "c": float("nan"), "d": -np.inf, "e": True, "f": 1e300, "g": 10**30}
    expected = {"a": -1, "b": 0.5, "c": {"float": "nan"}, "d": {"float": "-inf"}, "e": True, "f": 1e300, "g": 1e30}
    sent = json.loads(json.dumps(build(nulls=fills)["nulls"], allow_nan=False))
    assert sent == expected
    with pytest.raises(ArgumentError, match="nulls says 1000"):
        build(nulls={"a": 10**400})


def test_a_copy_is_told_by_what_is_kept():
    assert _feed._copied(1).startswith("its ring has room for one batch, so every batch is copied")
    assert _feed._copied(2).startswith("this process keeps 1 batch and its ring has 2 slots, so this one is copied")
    assert _feed._copied(8).startswith("this process keeps 7 batches and its ring has 8 slots")


def build(**arguments):
    return _request.build(**{**DEFAULTS, **arguments})


def test_defaults_leave_rank_and_world_to_the_process_that_runs():
    assert build() == {
        "version": 1,
        "name": "d",
        "feed": {"dataset": "d", "batch_size": 8, "shuffle": "none", "seed": 0, "remainder": "drop"},
        "epochs": 1,
    }


def test_everything_said_arrives():
    request = build(
        name="train", columns=("a", "b"), shuffle="rows", seed=7, epochs=None, remainder="pad", rank=1, world_size=2,
        nulls={"a": 0, "*": "mask"}, lanes=2, shuffle_bytes=1 << 20, batch_size=np.int64(16),
    )  # fmt: skip
    assert json.loads(json.dumps(request)) == {
        "version": 1,
        "name": "train",
        "feed": {
            "dataset": "d", "columns": ["a", "b"], "batch_size": 16, "shuffle": "rows", "seed": 7, "remainder": "pad",
            "rank": 1, "world_size": 2, "lanes": 2, "shuffle_bytes": 1 << 20,
        },
        "epochs": None,
        "nulls": {"a": 0, "*": "mask"},
    }  # fmt: skip
    assert build(nulls="mask")["nulls"] == {"*": "mask"}
    assert build(units={"price": "0.01"})["units"] == {"price": "0.01"}
    assert build(select={"price": "log1p(price)", 'a "b"': "x"})["feed"]["select"] == [
        'log1p(price) AS "price"',
        'x AS "a ""b"""',
    ]
    feed = build(filter=" x > 3 ", select=["label", "x + 1 AS y"])["feed"]
    assert (feed["filter"], feed["select"]) == ("x > 3", ["label", "x + 1 AS y"])


@pytest.mark.parametrize(
    "arguments, told",
    [
        (dict(columns=["a"], select=["b"]), "name all that is wanted in select"),
        (dict(select="a"), r"give a list, \['a'\]"),
        (dict(select=[]), "select must be a list of expressions"),
        (dict(select={"a": 1}), "or a dict of them by name"),
        (dict(filter=""), "give a condition like"),
        (dict(filter=3), "give a condition like"),
    ],
)
def test_what_is_no_filter_and_no_selection_is_refused(arguments, told):
    with pytest.raises(ArgumentError, match=told):
        build(**arguments)


def test_a_cursor_is_of_one_filter():
    plain, filtered = build()["feed"], build(filter="x > 3")["feed"]
    assert _cursor.order(plain) == {"shuffle": "none"}
    assert _cursor.order(filtered) == {"shuffle": "none", "filter": "x > 3"}
    assert _cursor.order(build(shuffle="rows", select=["b", "a"])["feed"])["select"] == ["a", "b"]


@pytest.mark.parametrize(
    "arguments, text",
    [
        (dict(batch_size=0), "batch_size is 0: it must be a whole number from 1 to 2**64 - 1"),
        (dict(batch_size=2.5), "batch_size is 2.5: it must be a whole number"),
        (dict(epochs=0), "epochs is 0"),
        (dict(shuffle="all"), "shuffle is 'all': use 'none', 'blocks', 'rows'"),
        (dict(shuffle=True), "shuffle is True: use"),
        (dict(remainder="fill"), "remainder is 'fill': use 'drop', 'pad', 'keep'"),
        (dict(columns="a"), "columns is the text 'a': give a list, ['a']"),
        (dict(columns=[]), "at least one column name"),
        (dict(rank=0), "rank and world_size go together"),
        (dict(rank=2, world_size=2), "rank 2 is not in a world of 2"),
        (dict(rank=0, world_size=9), "batch_size 8 is smaller than the world of 9"),
        (dict(nulls={"a": [1]}), "nulls says [1] for 'a'"),
        (dict(start={"epoch": 1}), "start is no cursor, it lacks version"),
        (dict(start=5), "start is 5, no cursor"),
        (dict(start={**_cursor.at(DESCRIPTION, 0, 0, 3), "step": -1}), "start['step'] is -1: it must be a whole number from 0"),
        (dict(start={**_cursor.at(DESCRIPTION, 0, 0, 3), "epoch": 2**64}), "start['epoch'] is 18446744073709551616"),
        (dict(start={**_cursor.at(DESCRIPTION, 0, 0, 3), "order": None}), "start is no cursor"),
        (dict(start=_cursor.at(DESCRIPTION, 5, 0, 3)), "a feed with seed 5, this feed has 0"),
        (dict(start=_cursor.at({**DESCRIPTION, "batch_size": 9}, 0, 0, 3)), "with batch_size 9, this feed has 8"),
        (dict(start={**_cursor.at(DESCRIPTION, 0, 0, 3), "version": 2}), "version 2, this release reads version 1"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(arguments, text):
    with pytest.raises(ArgumentError) as error:
        build(**arguments)
    assert text in str(error.value) and "\n" not in str(error.value)


def test_a_cursor_survives_json_and_starts_a_feed_behind_its_batch():
    cursor = json.loads(json.dumps(_cursor.after(DESCRIPTION, 0, 2, 3)))
    feed = build(start=cursor)["feed"]
    assert (feed["epoch"], feed["start_step"], feed["snapshot"]) == (2, 4, "abc")


@pytest.mark.parametrize(
    "was, now, text",
    [
        (dict(shuffle="rows"), dict(), "with shuffle 'rows', this feed has 'none'"),
        (dict(), dict(shuffle="blocks"), "with shuffle 'none', this feed has 'blocks'"),
        (dict(filter="x > 3"), dict(), "with filter 'x > 3', this feed has None"),
        (dict(shuffle="rows", columns=["a"]), dict(shuffle="rows"), "with columns ['a'], this feed has None"),
        (dict(shuffle="rows"), dict(shuffle="rows", rules=2), "a feed that takes the last rows of every epoch for its remainder ('keep', 'pad', or 'drop' in an older release), this feed drops other rows every epoch"),
        (dict(shuffle="rows", rules=2), dict(shuffle="rows", remainder="keep"), "a feed that drops other rows every epoch, this feed takes the last rows of every epoch"),
        (dict(shuffle="rows", rules=2), dict(shuffle="blocks"), "with shuffle 'rows', this feed has 'blocks'"),
    ],
)
def test_a_cursor_of_another_order_is_refused_by_what_differs(was, now, text):
    def described(arguments, lanes):
        plain = {name: value for name, value in arguments.items() if name != "rules"}
        order = _cursor.order(build(**plain)["feed"], rules=arguments.get("rules", 1))
        return {**DESCRIPTION, "lanes": lanes, "order": order}

    # Lanes differ because the order does.
    cursor = _cursor.at(described(was, 1), 0, 0, 3)
    with pytest.raises(ArgumentError) as error:
        _cursor.check(cursor, described(now, 19))
    assert text in str(error.value) and "lanes" not in str(error.value)
    with pytest.raises(ArgumentError, match="with lanes 1, this feed has 19"):
        _cursor.check(cursor, described(was, 19))


def test_behind_the_last_step_is_the_next_epoch():
    cursor = _cursor.after(DESCRIPTION, 0, 2, 9)
    assert (cursor["epoch"], cursor["step"]) == (3, 0)
    cursor = _cursor.at(DESCRIPTION, 0, 1, 25)
    assert (cursor["epoch"], cursor["step"]) == (3, 5)


@pytest.mark.parametrize("field, value", [("snapshot", "xyz"), ("batch_size", 9), ("lanes", 2)])
def test_a_cursor_of_another_feed_is_refused_when_the_dataset_is_known(field, value):
    cursor = _cursor.at(DESCRIPTION, 0, 0, 3)
    _cursor.check(cursor, DESCRIPTION)
    with pytest.raises(ArgumentError, match=f"a cursor of a feed with {field}"):
        _cursor.check(cursor, {**DESCRIPTION, field: value})


def test_one_epoch_begins_where_the_feed_does():
    request = build(epochs=3, start=_cursor.at(DESCRIPTION, 0, 1, 4))
    first, second = _request.one_epoch(request, 1), _request.one_epoch(request, 2)
    assert (first["feed"]["start_step"], first["epochs"]) == (4, 2)
    assert (second["feed"]["epoch"], second["feed"]["start_step"], second["epochs"]) == (2, 0, 3)
    with pytest.raises(ArgumentError, match="epoch 3 is not in a feed of 3 epochs"):
        _request.one_epoch(request, 3)


WEIGHTS = {"web": 0.7, "books": 0.3}
MIXED = [{"dataset": "books", "rows_per_batch": 2}, {"dataset": "web", "rows_per_batch": 6}]


def test_a_mixture_is_datasets_and_weights():
    request = build(dataset=WEIGHTS, exhausted="all")
    assert request["name"] == "books+web"
    said = {"mixture": [{"dataset": "web", "weight": 0.7}, {"dataset": "books", "weight": 0.3}], "exhausted": "all"}
    assert {name: request["feed"].get(name) for name in said} == said and "dataset" not in request["feed"]
    order = _cursor.order(request["feed"], MIXED)
    assert order == {"shuffle": "none", "mixture": {"books": 2, "web": 6}, "exhausted": "all"}
    cursor = _cursor.at({**DESCRIPTION, "order": order}, 0, 1, 2)
    assert build(dataset={"books": 3, "web": 7}, start=cursor)["feed"]["start_step"] == 2
    for other, told in (("d", "this feed is of one dataset"), ({"web": 1}, "this feed is of a mixture of 'web'")):
        with pytest.raises(ArgumentError, match=f"a cursor of a mixture of 'books', 'web', {told}"):
            build(dataset=other, start=cursor)
    with pytest.raises(ArgumentError, match="a cursor of one dataset, this feed is of a mixture"):
        build(dataset=WEIGHTS, start=_cursor.at(DESCRIPTION, 0, 1, 2))


@pytest.mark.parametrize(
    "arguments, text",
    [
        (dict(dataset={}), "dataset is {}: give a name, or datasets with their weights"),
        (dict(dataset=["a"]), "dataset is ['a']: give a name"),
        (dict(dataset={"a": 0}), "the weight of dataset 'a' is 0: give a number above 0"),
        (dict(dataset={"a": float("nan")}), "the weight of dataset 'a' is nan"),
        (dict(dataset={"a": True}), "the weight of dataset 'a' is True"),
        (dict(dataset={"": 1}), "dataset names ''"),
        (dict(compression="gzip"), "compression is 'gzip': use 'lz4', 'zstd'"),
        (dict(dataset=WEIGHTS, exhausted="last"), "exhausted is 'last': use 'first', 'all'"),
        (dict(exhausted="all"), "exhausted is 'all' but dataset is one, 'd'"),
        (dict(dataset=WEIGHTS, remainder="pad"), "the batches of a mixture are all whole"),
        (dict(dataset=WEIGHTS, lanes=2), "those of a mixture follow from its datasets"),
    ],
)
def test_what_cannot_be_mixed_is_one_line(arguments, text):
    with pytest.raises(ArgumentError) as error:
        build(**arguments)
    assert text in str(error.value) and "\n" not in str(error.value)


LAUNCHED = {"PENSTOCK_SIDECAR": "/run/w0.sock", "PENSTOCK_DATASETS": "train,test"}


def test_sources_mean_what_the_environment_says():
    plan = _source.plan
    assert plan(None, "train", LAUNCHED) == ("train", (), (), True)
    assert plan(None, None, {**LAUNCHED, "PENSTOCK_DATASETS": "one"}).dataset == "one"
    assert plan("grpc://a:1,b:2", "d", {}) == ("d", ("grpc://a:1", "grpc://b:2"), (), False)
    assert plan("grpc+tls://a:1,b:2", "d", {}).gateways == ("grpc+tls://a:1", "grpc+tls://b:2")
    assert plan("grpc+unix:///run/g.sock", "d", {}).gateways == ("grpc+unix:///run/g.sock",)
    assert plan("grpc://a:1,grpc://b:2", "d", LAUNCHED) == ("d", ("grpc://a:1", "grpc://b:2"), (), True)
    assert plan("x/*.parquet", None, LAUNCHED) == ("data", (), (("data", os.path.abspath("x/*.parquet")),), False)
    places = {"web": "~/w", "books": "s3://b/"}
    served = (("web", os.path.expanduser("~/w")), ("books", "s3://b/"))
    assert plan(places, WEIGHTS, LAUNCHED) == (WEIGHTS, (), served, False)
    assert plan(places, "web", {}).dataset == "web" and plan({"web": "w"}, None, {}).dataset == "web"
    assert plan("grpc://a:1", WEIGHTS, {}) == (WEIGHTS, ("grpc://a:1",), (), False)
    assert plan(None, WEIGHTS, LAUNCHED).dataset == WEIGHTS
    listed = f"{Path('a b/x').absolute().as_uri()} file:///y s3://b/z"
    assert plan(["a b/x", "file:///y", "s3://b/z"], None, LAUNCHED) == ("data", (), (("data", listed),), False)
    assert plan((Path("x"),), "mine", {}) == plan("x", "mine", {})
    assert plan({"web": ["/w", "/v"]}, None, {}).served == (("web", "file:///w file:///v"),)
    assert plan("file:///x", "mine", {}) == ("mine", (), (("mine", "file:///x"),), False)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((None, None, {}), "no source: give penstock.feed a path, a glob or grpc://HOST:PORT, or start the script with `penstock run --input NAME=URI`"),
        ((None, None, {"TF_CONFIG": '{"task": {"type": "ps", "index": 0}}'}), "this task is a parameter server, which is fed nothing"),
        ((None, None, {"TF_CONFIG": "no JSON"}), "no source: give penstock.feed a path"),
        (([], None, {}), "source is an empty list: give a path, a directory"),
        ((["a", 1], None, {}), "source lists 1: give a path"),
        ((["a", ""], None, {}), "source lists '': give a path"),
        ((b"a", None, {}), "source is b'a': give a path"),
        ((["grpc://a:1"], "d", {}), "which is a gateway: give those as one text"),
        ((["a", "b"], WEIGHTS, {}), "source is one dataset of several files and dataset names several"),
        ((None, None, LAUNCHED), "say which dataset with dataset=: one of train, test"),
        (("grpc://a:1", None, {}), "say which of its datasets with dataset="),
        (("grpc+unix://g.sock", "d", {}), "grpc+unix://g.sock is no gateway's address: write grpc+unix:///PATH"),
        (("grpc://a", "d", {}), "grpc://a is no gateway's address: write grpc://HOST:PORT"),
        (("", None, {}), "source is empty"),
        (("x/", WEIGHTS, {}), "x/ is one place and dataset names several: give a dict of places"),
        (({"web": "x", "books": "y"}, None, {}), "source has 'web', 'books': say how much of each"),
        (({"web": "x"}, WEIGHTS, {}), "source has no dataset 'books': it has 'web'"),
        (({}, None, {}), "source has nothing"),
    ],
)  # fmt: skip
def test_a_source_that_means_nothing_says_what_to_give(arguments, text):
    with pytest.raises(ArgumentError) as error:
        _source.plan(*arguments)
    assert text in str(error.value)


def test_all_that_moves_rows_is_in_a_cursor():
    def order(**arguments):
        return _cursor.order(build(**arguments)["feed"])

    assert order(shuffle="rows") == order(shuffle="rows", shuffle_bytes=256 << 20)
    assert order(shuffle="rows", columns=["a", "b"]) == order(shuffle="rows", columns=["b", "a"])
    others = [order(shuffle=s) for s in ("none", "blocks", "rows")]
    others += [order(shuffle="rows", shuffle_bytes=9), order(shuffle="rows", columns=["a"])]
    assert all(a != b for i, a in enumerate(others) for b in others[:i])
