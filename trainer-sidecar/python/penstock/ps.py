"""Training with parameter servers: one call an epoch.

    role = penstock.ps.serve_unless_chief()              # workers and parameter servers stay in here
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    feed = penstock.feed(dataset="train", batch_size=256, shuffle="rows", epochs=3)
    for epoch in range(3):
        print(penstock.ps.epoch(coordinator, feed.epoch(epoch), step))

Each worker reads its share through the sidecar beside it. A batch is acknowledged after its update; what a
worker that died had not acknowledged is offered to the one that takes its place. So no row is lost. A row
may be trained twice after a death: between its update and its acknowledgement a worker can only die.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
import weakref
from typing import Any, Callable, Mapping, NamedTuple, NoReturn, Optional

import tensorflow as tf

from . import _native, _tf
from ._feed import Feed
from .errors import ArgumentError, PenstockError

__all__ = ["Counts", "EpochError", "acknowledge", "epoch", "serve", "serve_unless_chief"]

#: Closures in flight a worker: one runs, one waits for its turn.
_IN_FLIGHT = 2
#: Beyond the sidecars' patience, which has the better words for whoever is missing.
_MARGIN_SECONDS = 15.0
#: A worker's kernels wait for batches in these threads, and others must be left to acknowledge.
_THREADS = 8

Step = Callable[[Mapping[str, tf.Tensor]], Any]
acknowledge = _tf.acknowledge


class EpochError(PenstockError):
    """An epoch that did not reach its end; the text says who is missing or what failed."""


class Counts(NamedTuple):
    """What the parameter servers counted in an epoch.

    rows
        Rows whose update was applied, each as often as it was (padding of ``remainder="pad"`` left out).
    steps
        Batches whose update was applied at least once, over all ranks.
    repeated_rows, repeated_steps
        Of these, applied more than once: a worker died between an update and its acknowledgement.
    skipped_steps
        Offered again and, under ``guarded``, not applied again.
    empty
        Calls of the workers that found nothing left to do.
    rows_by_rank
        ``rows`` of each worker's share.
    seconds
        From the first call to the last.
    """

    rows: int
    steps: int
    repeated_rows: int
    repeated_steps: int
    skipped_steps: int
    empty: int
    rows_by_rank: tuple[int, ...]
    seconds: float


def serve() -> NoReturn:
    """What a worker or a parameter server does: serves the cluster until it is ended."""
    _native.register_ops()
    if tf.config.threading.get_inter_op_parallelism_threads() == 0:
        tf.config.threading.set_inter_op_parallelism_threads(max(_THREADS, 2 * (os.cpu_count() or 1)))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
    )
    server.join()
    raise SystemExit(0)


def serve_unless_chief() -> str:
    """Serves for ever in a worker or a parameter server; gives the task's type in any other task."""
    kind: str = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("type", "")
    if kind in ("worker", "ps"):
        serve()
    return kind


def epoch(
    coordinator: "tf.distribute.coordinator.ClusterCoordinator",
    feed: Feed,
    step: Step,
    *,
    guarded: bool = False,
    deadline: float = 600.0,
    prefetch: int = 2,
) -> Counts:
    """Trains on every row of ``feed`` once, over all workers of the coordinator, and counts on the servers.

    step
        Takes a batch, a dict of tensors ``[rows, …]``, and applies its update to variables of the strategy.
        It is traced like the body of a ``tf.function``; what it returns is ignored. A batch may have no rows
        under ``remainder="keep"``.
    guarded
        The server keeps which batches of which rank it has applied, and skips one that comes again.
    deadline
        Seconds without any batch being finished after which the epoch ends with an error that names the
        ranks that are missing.
    prefetch
        Batches that each worker takes ahead.

    Raises EpochError, or what TensorFlow raises where a parameter server dies or a step fails.
    """
    workers = coordinator.strategy._extended._num_workers
    if feed._request["feed"].get("world_size") is not None:
        raise ArgumentError("the feed of an epoch is shared by its workers: leave rank and world_size out")
    delivery = feed._delivery(f"{feed.name}-{uuid.uuid4().hex}", deadline)
    start = feed.description["start"]
    first = int(start["epoch"]) * feed.steps_per_epoch + int(start["step"])
    loop = _loop(coordinator, step, workers, len(feed), feed.steps_per_epoch, guarded)
    loop.reset()
    iterator = iter(coordinator.create_per_worker_dataset(lambda: _tf.acknowledged_dataset(delivery, prefetch)))
    arguments = (iterator, tf.constant(first, tf.int64))
    started = time.monotonic()
    empty = _Drive(coordinator, loop.call, arguments, workers * _IN_FLIGHT).to_end(
        deadline + _MARGIN_SECONDS, lambda: loop.missing(len(feed))
    )
    return loop.counts(empty, time.monotonic() - started)


class _Loop:
    """A step with its counters on a parameter server. Traced once, and used for many epochs."""

    def __init__(self, step: Step, workers: int, steps: int, steps_per_epoch: int, guarded: bool) -> None:
        # Not the strategy's to shard: one server counts, in one operation.
        with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
            self._applied = tf.Variable(tf.zeros([workers, steps], tf.int64), trainable=False)
            # Rows, rows that were applied before, steps that were skipped.
            self._totals = tf.Variable(tf.zeros([workers, 3], tf.int64), trainable=False)
        self._step, self._steps_per_epoch, self._guarded = step, steps_per_epoch, guarded
        self.call = tf.function(self._call, reduce_retracing=True)
        # A call is over when all that it does is done, whatever it returns.
        self._update = tf.function(self._update_and_say_so)

    def _call(self, iterator: Any, first: tf.Tensor) -> tf.Tensor:
        optional = iterator.get_next_as_optional()
        return tf.cond(
            optional.has_value(), lambda: self._train(optional.get_value(), first), lambda: tf.constant(0, tf.int64)
        )

    def _train(self, element: Mapping[str, tf.Tensor], first: tf.Tensor) -> tf.Tensor:
        batch = dict(element)
        token = batch.pop(_tf.TOKEN)
        place = tf.stack([token[3], token[1] * self._steps_per_epoch + token[2] - first])[tf.newaxis]
        before = tf.gather_nd(self._applied, place)[0]
        rows = _rows(batch)
        applied = lambda: self._apply(batch, place, before, rows)
        done = tf.cond(before > 0, lambda: self._skip(place), applied) if self._guarded else applied()
        with tf.control_dependencies([done]):
            acknowledged = acknowledge(token)
        with tf.control_dependencies([acknowledged]):
            return tf.constant(1, tf.int64)

    def _apply(self, batch: Mapping[str, tf.Tensor], place: tf.Tensor, before: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([self._update(batch)]):
            again = tf.where(before > 0, rows, tf.zeros_like(rows))
            marked = self._applied.scatter_nd_add(place, tf.ones([1], tf.int64))
            counted = self._totals.scatter_nd_add(_row(place), tf.stack([rows, again, tf.zeros_like(rows)])[tf.newaxis])
        return _after([marked, counted])

    def _skip(self, place: tf.Tensor) -> tf.Tensor:
        return _after([self._totals.scatter_nd_add(_row(place), tf.constant([[0, 0, 1]], tf.int64))])

    def _update_and_say_so(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        self._step(batch)
        return tf.constant(0)

    def reset(self) -> None:
        self._applied.assign(tf.zeros_like(self._applied))
        self._totals.assign(tf.zeros_like(self._totals))

    def counts(self, empty: int, seconds: float) -> Counts:
        applied, totals = self._applied.numpy(), self._totals.numpy()
        return Counts(
            rows=int(totals[:, 0].sum()),
            steps=int((applied > 0).sum()),
            repeated_rows=int(totals[:, 1].sum()),
            repeated_steps=int((applied - 1).clip(0).sum()),
            skipped_steps=int(totals[:, 2].sum()),
            empty=empty,
            rows_by_rank=tuple(totals[:, 0].tolist()),
            seconds=seconds,
        )

    def missing(self, steps: int) -> str:
        """Which ranks' steps were not all applied."""
        done = (self._applied.numpy() > 0).sum(axis=1)
        return ", ".join(f"rank {rank} ({count} of {steps} steps)" for rank, count in enumerate(done) if count < steps)


class _Drive:
    """Keeps so many calls in flight until one finds nothing left."""

    def __init__(self, coordinator: Any, call: Any, arguments: tuple[Any, ...], in_flight: int) -> None:
        self._coordinator, self._call, self._arguments = coordinator, call, arguments
        self._changed = threading.Condition()
        self._running, self._finished, self._empty = in_flight, 0, 0
        self._error: Optional[BaseException] = None
        # A thread may wait for ever for a worker that never comes back.
        threads = [threading.Thread(target=self._feed, name="penstock-epoch", daemon=True) for _ in range(in_flight)]
        for thread in threads:
            thread.start()

    def _feed(self) -> None:
        try:
            while self._error is None:
                value = self._coordinator.schedule(self._call, args=self._arguments)
                try:
                    rows = int(value.fetch())
                except tf.errors.UnavailableError:
                    # The worker died with the result; what it did or not, the servers and its sidecar know.
                    rows = 1
                with self._changed:
                    self._finished += 1
                    self._empty += rows == 0
                    self._changed.notify_all()
                if rows == 0:
                    break
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def to_end(self, deadline: float, missing: Callable[[], str]) -> int:
        """Waits for the last call; how many found nothing."""
        with self._changed:
            while self._running and self._error is None:
                finished, running = self._finished, self._running
                moved = self._changed.wait_for(
                    lambda: (self._finished, self._running) != (finished, running) or self._error is not None, deadline
                )
                if not moved:
                    self._error = EpochError(
                        f"no worker has finished a batch for {deadline:.0f} s; not trained: {missing()}; "
                        "look at the logs of these workers"
                    )
        if self._error is None:
            self._coordinator.join()
            return self._empty
        if not isinstance(self._error, EpochError):
            # Others hear only that they were cancelled; the coordinator knows who was first.
            try:
                self._coordinator.join()
            except Exception as first:
                self._error = first
        raise self._error


_loops: "weakref.WeakKeyDictionary[Any, dict[Any, _Loop]]" = weakref.WeakKeyDictionary()


def _loop(coordinator: Any, step: Step, *shape: Any) -> _Loop:
    """The loop of a step, made once."""
    known = _loops.setdefault(coordinator, {})
    key = (step, *shape)
    if key not in known:
        known[key] = _Loop(step, *shape)
    return known[key]


def _rows(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Rows that count."""
    if "_valid" in batch:
        return tf.math.count_nonzero(batch["_valid"], dtype=tf.int64)
    return tf.shape(next(iter(batch.values())), out_type=tf.int64)[0]


def _row(place: tf.Tensor) -> tf.Tensor:
    return place[:, :1]


def _after(operations: list[Any]) -> tf.Tensor:
    with tf.control_dependencies(operations):
        return tf.constant(0)
