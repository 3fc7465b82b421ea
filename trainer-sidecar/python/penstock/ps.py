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

import functools
import os
import re
import threading
import time
import uuid
import weakref
from typing import Any, Callable, Mapping, NamedTuple, NoReturn, Optional

import numpy as np
import tensorflow as tf

from . import _native, _source, _tf
from ._feed import Feed
from .errors import ArgumentError, PenstockError

__all__ = ["Counts", "EpochError", "acknowledge", "epoch", "serve", "serve_unless_chief"]

#: Closures in flight a worker: one runs, one waits for its turn.
_IN_FLIGHT = 2
#: Beyond the sidecars' patience, which has the better words for whoever is missing.
_MARGIN_SECONDS = 15.0
#: For calls that are under way when another has failed.
_JOIN_SECONDS = 5.0
#: A worker's kernels wait for batches in these threads, and others must be left to acknowledge.
_THREADS = 8

#: Of the parameter servers, the one that counts.
_COUNTING_SERVER = "/job:ps/replica:0/task:0/device:CPU:0"

Step = Callable[[Mapping[str, tf.Tensor]], Any]
acknowledge = _tf.acknowledge


class EpochError(PenstockError):
    """An epoch that did not reach its end; the text says who is missing or what failed."""


class Counts(NamedTuple):
    """What the parameter servers counted in an epoch.

    rows
        Rows whose update was applied, each counted once (padding of ``remainder="pad"`` left out).
    steps
        Batches whose update was applied, over all ranks.
    repeated_rows
        Rows that were trained again, or may have been: their worker died between an update and its
        acknowledgement.
    skipped_steps
        Batches that came again and, under ``guarded``, were not applied again.
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
    kind = _source.task_type(os.environ)
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
        Takes a batch, a dict of tensors ``[rows, …]``, and applies its update to variables of the strategy,
        or returns a function without arguments that does: that one runs on the first parameter server,
        which marks the batch as applied in the same breath. It is traced like the body of a
        ``tf.function``. A batch may have no rows under ``remainder="keep"``.
    guarded
        The server skips a batch that comes again after it was applied; the step must return a function. A
        model of one variable on the first server is then trained once on every row whatever dies; with
        several, a worker's death may still fall between two of them.
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

    @tf.autograph.experimental.do_not_convert
    def dataset() -> tf.data.Dataset:
        return _tf.acknowledged_dataset(delivery, prefetch)

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    arguments = (iterator, tf.constant(first, tf.int64))
    started = time.monotonic()
    empty = _Drive(coordinator, loop.call, arguments, workers * _IN_FLIGHT).to_end(
        deadline + _MARGIN_SECONDS, lambda: loop.missing(len(feed))
    )
    return loop.counts(empty, time.monotonic() - started)


class _Loop:
    """A step with its counters on a parameter server. Traced once, and used for many epochs."""

    def __init__(self, step: Step, workers: int, steps: int, steps_per_epoch: int, guarded: bool) -> None:
        # Not the strategy's to shard: one server counts. A worker's death may fall between any two operations,
        # so what is known of a step is written by one.
        with tf.device(_COUNTING_SERVER):
            # For each step one more than its rows once its update is done, and how often that was tried:
            # begun, or under guard skipped.
            self._done, self._tries = (tf.Variable(tf.zeros([workers, steps], tf.int64), trainable=False) for _ in range(2))
        self._step = _converted(step)
        self._steps_per_epoch, self._guarded = steps_per_epoch, guarded
        self.call = tf.function(self._call, autograph=False, reduce_retracing=True)

    def _call(self, iterator: Any, first: tf.Tensor) -> tf.Tensor:
        optional = iterator.get_next_as_optional()
        return tf.cond(
            optional.has_value(), lambda: self._train(optional.get_value(), first), lambda: tf.constant(0, tf.int64)
        )

    def _train(self, element: Mapping[str, tf.Tensor], first: tf.Tensor) -> tf.Tensor:
        batch = dict(element)
        token = batch.pop(_tf.TOKEN)
        place = tf.stack([token[3], token[1] * self._steps_per_epoch + token[2] - first])[tf.newaxis]
        rows = _rows(batch)
        begun = [] if self._guarded else [self._tried(place)]
        with tf.control_dependencies(begun), _Operations() as made:
            apply = self._step(batch)
        if callable(apply):
            last = [self._finish(apply, place, rows)]
        elif self._guarded:
            raise ArgumentError("under guarded=True the step returns a function that applies its update: return lambda: …")
        else:
            with tf.control_dependencies([*begun, *made.operations]):
                last = [self._mark(place, rows)]
        with tf.control_dependencies(last):
            acknowledged = acknowledge(token)
        with tf.control_dependencies([acknowledged]):
            return tf.constant(1, tf.int64)

    def _finish(self, apply: Callable[[], Any], place: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Applies an update and marks it as done, both on the server: no death of a worker comes between."""
        with tf.device(_COUNTING_SERVER):
            place, rows = tf.identity(place), tf.identity(rows)

            def update() -> tf.Tensor:
                with tf.device(_COUNTING_SERVER), tf.control_dependencies([place, rows]):
                    with _Operations() as made:
                        apply()
                    with tf.control_dependencies(made.operations):
                        return _after([self._mark(place, rows)])

            if not self._guarded:
                return update()
            with tf.control_dependencies([place, rows]):
                again = tf.gather_nd(self._done, place)[0] > 0

            def skip() -> tf.Tensor:
                with tf.device(_COUNTING_SERVER):
                    return _after([self._tried(place)])

            return tf.cond(again, skip, update)

    def _tried(self, place: tf.Tensor) -> Any:
        return self._tries.scatter_nd_add(place, tf.ones([1], tf.int64))

    def _mark(self, place: tf.Tensor, rows: tf.Tensor) -> Any:
        return self._done.scatter_nd_update(place, tf.reshape(rows + 1, [1]))

    def reset(self) -> None:
        for variable in (self._done, self._tries):
            variable.assign(tf.zeros_like(variable))

    def counts(self, empty: int, seconds: float) -> Counts:
        done, tries = self._done.numpy(), self._tries.numpy()
        rows = (done - 1).clip(0)
        repeated = 0 if self._guarded else rows * (tries - 1).clip(0)
        return Counts(
            rows=int(rows.sum()),
            steps=int((done > 0).sum()),
            repeated_rows=int(np.sum(repeated)),
            skipped_steps=int(tries.sum()) if self._guarded else 0,
            empty=empty,
            rows_by_rank=tuple(rows.sum(axis=1).tolist()),
            seconds=seconds,
        )

    def missing(self, steps: int) -> str:
        """Which ranks' steps are not all done."""
        done = (self._done.numpy() > 0).sum(axis=1)
        return ", ".join(f"rank {rank} ({count} of {steps} steps)" for rank, count in enumerate(done) if count < steps)


class _Operations:
    """What is added to the graph inside the block."""

    def __enter__(self) -> "_Operations":
        self._graph = tf.compat.v1.get_default_graph()
        self._known = len(self._graph.get_operations())
        return self

    def __exit__(self, *_: object) -> None:
        self.operations = self._graph.get_operations()[self._known :]


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
        if isinstance(self._error, EpochError):
            raise self._error
        error = self._first_error() or self._error
        with self._changed:
            self._changed.wait_for(lambda: not self._running, _JOIN_SECONDS)
        held = re.search(r"feed '.*the end is held until.*", str(error))
        if held:
            raise EpochError(held.group().strip()) from error
        raise error

    def _first_error(self) -> Optional[BaseException]:
        """What the coordinator says was first: calls beside it hear only that they were cancelled.

        It waits for calls that are under way, also on a worker that never returns; so do not we.
        """
        found: list[BaseException] = []

        def join() -> None:
            try:
                self._coordinator.join()
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=join, name="penstock-join", daemon=True)
        thread.start()
        thread.join(_JOIN_SECONDS)
        return found[0] if found else None


_loops: "weakref.WeakKeyDictionary[Any, dict[Any, _Loop]]" = weakref.WeakKeyDictionary()


def _loop(coordinator: Any, step: Step, *shape: Any) -> _Loop:
    """The loop of a step, made once."""
    known = _loops.setdefault(coordinator, {})
    key = (step, *shape)
    if key not in known:
        known[key] = _Loop(step, *shape)
    return known[key]


def _converted(step: Step) -> Step:
    """With Python's own `if` and `for` over tensors, as in a ``tf.function``."""
    if hasattr(step, "get_concrete_function"):
        return step
    bound = getattr(step, "__self__", None)
    converted: Step = tf.autograph.to_graph(getattr(step, "__func__", step))
    return converted if bound is None else functools.partial(converted, bound)


def _rows(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Rows that count."""
    if "_valid" in batch:
        return tf.math.count_nonzero(batch["_valid"], dtype=tf.int64)
    return tf.shape(next(iter(batch.values())), out_type=tf.int64)[0]


def _after(operations: list[Any]) -> tf.Tensor:
    with tf.control_dependencies(operations):
        return tf.constant(0)
