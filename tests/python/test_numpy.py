"""Plain iteration: numpy arrays over shared memory. The batches are made up by the ring's example."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import penstock
from conftest import DTYPES, in_ring, made_up


def test_every_type_arrives_with_its_values(produce):
    produce(steps=5, rows=8)
    seen = 0
    for batch in penstock.feed():
        ids = np.arange(batch.step * 8, batch.step * 8 + 8)
        assert list(batch) == [f"c_{dtype}" for dtype in DTYPES]
        for dtype in DTYPES:
            array = batch[f"c_{dtype}"]
            if dtype in ("string", "bytes"):
                assert array.dtype == object and array.tolist() == made_up(dtype, ids)
            else:
                assert array.dtype.name == dtype
                np.testing.assert_array_equal(array.astype("float32") if dtype == "bfloat16" else array, made_up(dtype, ids))
        seen += 1
    assert seen == 5


def test_numbers_are_not_copied_and_cannot_be_written(produce):
    produce(steps=1)
    (batch,) = penstock.feed()
    for dtype in DTYPES[:-2]:
        array = batch[f"c_{dtype}"]
        assert in_ring(array.__array_interface__["data"][0]), dtype
        with pytest.raises(ValueError):
            array.setflags(write=True)
        with pytest.raises(ValueError):
            array[:1] = 0
    with pytest.raises(ValueError):
        batch["c_string"][0] = "x"


def test_dlpack_hands_numbers_on_in_place_and_says_that_they_are_read_only(produce):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip(f"numpy {np.__version__} has no word for it, and refuses")
    produce(steps=1)
    iterator = iter(penstock.feed())
    batch = next(iterator)
    for dtype in set(DTYPES) - {"bfloat16", "string", "bytes"}:
        taken = np.from_dlpack(batch[f"c_{dtype}"])
        address, read_only = taken.__array_interface__["data"]
        assert in_ring(address) and read_only, dtype
    del batch
    gc.collect()
    assert penstock.stats().held == 1
    del taken
    assert penstock.stats().held == 0
    iterator.close()


def test_a_view_keeps_its_slot_and_nothing_else_does(produce):
    produce(steps=6, slots=3)
    iterator = iter(penstock.feed())
    view = next(iterator)["c_int64"][2:4]
    gc.collect()
    assert penstock.stats().held == 1
    for _ in range(4):
        next(iterator)
    assert view.tolist() == [2, 3]
    del view
    assert penstock.stats().held == 0
    iterator.close()


def test_who_keeps_every_batch_gets_copies_and_is_told_once(produce):
    produce(steps=9, slots=4)
    with pytest.warns(penstock.CopyWarning) as told:
        batches = list(penstock.feed(name="mine"))
    assert [str(warning.message).split(":")[0] for warning in told] == ["feed 'mine'"]
    assert "keeps 3 batches and its ring has 4 slots" in str(told[0].message) and told[0].filename == __file__
    for step, batch in enumerate(batches):
        ids = np.arange(step * 8, step * 8 + 8)
        for dtype in set(DTYPES) - {"string", "bytes"}:
            array = batch[f"c_{dtype}"]
            address, read_only = array.__array_interface__["data"]
            assert (in_ring(address), read_only, address % 128) == (step < 3, True, 0), dtype
            np.testing.assert_array_equal(array.astype("float32") if dtype == "bfloat16" else array, made_up(dtype, ids))
        assert batch["c_string"].tolist() == made_up("string", ids)


@pytest.mark.filterwarnings("error::penstock.CopyWarning")
def test_a_loop_of_three_slots_copies_nothing(produce):
    produce(steps=20, slots=3)
    for batch in penstock.feed():
        assert in_ring(batch["c_int64"].__array_interface__["data"][0])


@pytest.mark.filterwarnings("ignore::penstock.CopyWarning")
def test_a_batch_held_for_ever_is_as_it_was_and_stops_nobody(produce):
    produce(steps=50, slots=2)
    iterator = iter(penstock.feed())
    forever = next(iterator)
    windows = [next(iterator), next(iterator)]
    for batch in iterator:
        windows = [windows[1], batch]
        assert [window["c_int32"][0] for window in windows] == [(batch.step - 1) * 8, batch.step * 8]
    assert windows[1].step == 49
    assert forever["c_int32"].tolist() == list(range(8)) and in_ring(forever["c_int32"].__array_interface__["data"][0])


def test_what_must_be_acknowledged_is_not_copied_but_refused(produce, monkeypatch):
    """A step whose slot came back without a word would be offered to another."""
    monkeypatch.setattr("penstock._feed.HELD_SECONDS", 1)
    produce(steps=6, slots=2)
    with pytest.raises(penstock.AllSlotsHeldError, match="feed 'mine': all 2 slots of the feed are held by this process"):
        list(penstock.feed(name="mine")._delivery("once", 60.0))


def test_arrays_outlive_iterator_feed_and_sidecar(produce):
    producer = produce(steps=3)
    with penstock.feed() as feed:
        batch = next(iter(feed))
    producer.kill()
    gc.collect()
    assert batch["c_int32"].tolist() == list(range(8))


def test_schema_steps_and_order_are_known_before_the_first_batch(produce):
    produce(steps=5, rows=8)
    feed = penstock.feed(epochs=1)
    assert feed.steps_per_epoch == 5 and len(feed) == 5 and feed.rows_per_step == 8
    assert feed.schema["c_float32"] == ("c_float32", "float32", (2, 3))
    assert [line.strip() for line in repr(feed).splitlines()][:3] == [
        "penstock.feed('made-up'): dataset 'made-up'",
        "40 rows, 5 steps an epoch of 8 rows, 1 epoch; remainder drop (0 rows dropped an epoch)",
        "rank 0 of 1: 8 rows a step",
    ]


def test_a_cursor_is_json_and_names_the_next_step(produce):
    produce(steps=3)
    feed = penstock.feed(seed=4)
    cursors = [json.loads(json.dumps(batch.cursor)) for batch in feed]
    assert [(c["epoch"], c["step"], c["seed"]) for c in cursors] == [(0, 1, 4), (0, 2, 4), (1, 0, 4)]
    assert [feed.cursor(steps) for steps in (1, 2, 3)] == cursors


def test_iterations_are_independent(produce):
    produce(steps=4)
    feed = penstock.feed()
    pairs = [(a.step, b.step) for a, b in zip(feed, feed)]
    assert pairs == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_failure_comes_in_the_sidecars_words(produce):
    produce(steps=4, fail_at=2)
    iterator = iter(penstock.feed())
    assert [next(iterator).step, next(iterator).step] == [0, 1]
    with pytest.raises(penstock.FeedError, match="column c_float32 is null at step 2") as error:
        next(iterator)
    assert error.value.code == "InvalidFeed"


def test_a_killed_sidecar_is_an_error_that_says_so(produce):
    producer = produce(steps=1000, pace_ms=10)
    iterator = iter(penstock.feed(name="train"))
    next(iterator)
    producer.kill()
    with pytest.raises(penstock.SidecarError, match="feed 'train': the sidecar at .* died"):
        for _ in iterator:
            pass
    with pytest.raises(penstock.SidecarError, match="no sidecar answers"):
        iter(penstock.feed())


def test_close_wakes_a_thread_that_waits(produce):
    produce(steps=2, pace_ms=600_000)
    feed = penstock.feed()
    iterator, outcome = iter(feed), []
    thread = threading.Thread(target=lambda: outcome.append(pytest.raises(penstock.ClosedError, next, iterator)))
    thread.start()
    feed.close()
    thread.join()
    assert len(outcome) == 1
    with pytest.raises(penstock.ClosedError):
        iter(feed)


def test_a_forked_child_is_refused_and_disturbs_nothing(produce):
    produce(steps=3)
    feed = penstock.feed()
    iterator = iter(feed)
    first = next(iterator)
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except penstock.ForkedError as error:
            del first
            feed.close()
            iterator.close()
            os._exit(0 if "open it in the child" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert first["c_int8"].tolist() == list(range(8))
    assert [batch.step for batch in iterator] == [1, 2]


def test_a_child_forked_amid_calls_of_other_threads_can_open_feeds(produce):
    """What another thread held at the moment of the fork, nobody in the child would ever release."""
    produce(steps=2)
    feed, busy = penstock.feed(), threading.Event()
    threads = [threading.Thread(target=lambda: [penstock.stats() for _ in iter(busy.is_set, True)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                os._exit(0 if [batch.step for batch in feed] == [0, 1] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        busy.set()
        for thread in threads:
            thread.join()


def test_ctrl_c_interrupts_a_wait(produce):
    produce(steps=2, pace_ms=600_000)
    script = "import penstock\nfeed = iter(penstock.feed())\nprint('waiting', flush=True)\nnext(feed)\n"
    # Whoever runs the tests in the background has SIGINT ignored, and so would the child.
    command = ["env", "--default-signal=INT", sys.executable, "-c", script]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "waiting\n"
    waiting.send_signal(signal.SIGINT)
    _, errors = waiting.communicate(timeout=30)
    assert errors.strip().endswith("KeyboardInterrupt")
