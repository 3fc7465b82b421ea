"""Several datasets in one feed, from files to numpy: `web` with ids from 0, `books` with ids from 10,000."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

BOOKS = 10_000
WEIGHTS = {"web": 0.7, "books": 0.3}
ORDER = dict(dataset=WEIGHTS, batch_size=20, shuffle="rows", seed=5, epochs=3, exhausted="all")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """900 rows and 200: an image and a text that follow from the id."""
    directory = tmp_path_factory.mktemp("mixture")
    for name, first, rows in (("web", 0, 900), ("books", BOOKS, 200)):
        (directory / name).mkdir()
        for part in range(2):
            ids = np.arange(first + part * rows // 2, first + (part + 1) * rows // 2)
            image = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids % 251, 4).astype("uint8")), 4)
            table = pa.table({"id": ids, "image": image, "name": [f"{name}-{i}" for i in ids]})
            pq.write_table(table, directory / name / f"{part}.parquet", row_group_size=40)
    return {name: directory / name for name in WEIGHTS}


def ids(feed) -> list[list[int]]:
    return [batch["id"].tolist() for batch in feed]


def joined(ranks) -> list[list[int]]:
    return [[i for share in shares for i in share["id"].tolist()] for shares in zip(*ranks, strict=True)]


def test_every_batch_holds_both_by_their_weights_and_their_values(places):
    with penstock.feed(places, **ORDER) as feed:
        # 14 rows of 900 last 64 steps, 6 of 200 last 33.
        assert (feed.steps_per_epoch, len(feed)) == (64, 192)
        assert "mixture of 'web', 'books'" in repr(feed) and "6 of them from 'books', whose 200 rows last 33 steps" in repr(feed)
        batches = []
        for batch in feed:
            of_books = batch["id"] >= BOOKS
            assert of_books.sum() == 6 and len(of_books) == 20
            np.testing.assert_array_equal(batch["image"], np.repeat(batch["id"][:, None] % 251, 4, axis=1))
            assert batch["name"].tolist() == [f"{'books' if b else 'web'}-{i}" for i, b in zip(batch["id"], of_books)]
            batches.append(batch["id"].tolist())
    rows = [i for batch in batches for i in batch]
    for part, own, all_rows in (
        ([i for i in rows if i < BOOKS], 64 * 14, range(900)),
        ([i for i in rows if i >= BOOKS], 33 * 6, range(BOOKS, BOOKS + 200)),
    ):
        for begin in range(0, len(part), own):
            once = part[begin : begin + own]
            assert len(set(once)) == len(once) and set(once) <= set(all_rows)


def test_a_saved_cursor_goes_on_in_both_at_any_world_size(places):
    with penstock.feed(places, **ORDER) as feed:
        batches = [(batch["id"].tolist(), json.loads(json.dumps(batch.cursor))) for batch in feed]
    for stop in (0, 32, 63, 100, 191):
        rest = [rows for rows, _ in batches[stop + 1 :]]
        # What counts is the share, not the scale of the weights.
        again = {**ORDER, "dataset": {"books": 3, "web": 7}, "start": batches[stop][1]}
        with penstock.feed(places, **again) as feed:
            assert ids(feed) == rest
        for world in (2, 3):
            ranks = [penstock.feed(places, **again, rank=rank, world_size=world) for rank in range(world)]
            assert joined(ranks) == rest
            for feed in ranks:
                feed.close()
    cursor = batches[5][1]
    with pytest.raises(penstock.ArgumentError, match="of a mixture of 'books', 'web', this feed is of one dataset"):
        penstock.feed(places, **{**ORDER, "dataset": "web", "exhausted": "first"}, start=cursor)
    for changed in (dict(dataset={"web": 0.5, "books": 0.5}), dict(exhausted="first")):
        with penstock.feed(places, **{**ORDER, **changed}, start=cursor) as feed:
            with pytest.raises(penstock.ArgumentError, match="a cursor of a feed with (mixture|exhausted)"):
                ids(feed)


def test_a_fleet_of_two_serves_a_mixture_and_refuses_what_cannot_be_mixed(places, binary, tmp_path):
    key = tmp_path / "key"
    key.write_text("f" * 64)
    datasets = [argument for name, place in places.items() for argument in ("--dataset", f"{name}={place}")]
    command = [binary, "gateway", "--listen", "127.0.0.1:0", "--ticket-key-file", key, *datasets]
    fleet = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        addresses = [gateway.stdout.readline().removeprefix("listening on ").strip() for gateway in fleet]
        with penstock.feed(places, **ORDER) as feed:
            batches = ids(feed)
        source = ",".join(addresses)
        ranks = [penstock.feed(source, **ORDER, rank=rank, world_size=2) for rank in range(2)]
        iterators = [iter(feed) for feed in ranks]
        first = [[i for it in iterators for i in next(it)["id"].tolist()] for _ in range(40)]
        # The one that is left goes on where the other was.
        fleet[0].kill()
        assert first + joined(iterators) == batches
        for feed in ranks:
            feed.close()
        for arguments, text in (
            (dict(dataset={"web": 0.99, "books": 0.01}), 'none for dataset "books" by its weight: raise batch_size to 100'),
            (dict(dataset={"web": 1, "papers": 1}), 'no dataset "papers" is served here: there is "books", "web"'),
            (dict(filter="id < 10003"), 'dataset "books" of the mixture has 3 rows'),
        ):
            with penstock.feed(addresses[1], **{**ORDER, **arguments}) as feed:
                with pytest.raises(penstock.FeedError, match=text) as error:
                    feed.steps_per_epoch
                assert "\n" not in str(error.value)
    finally:
        for gateway in fleet:
            gateway.kill()
            gateway.wait()
