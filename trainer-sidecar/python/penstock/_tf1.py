"""A feed as an input queue of TensorFlow 1: a QueueRunner that fills it, and the batches that come out.

The runner opens the feed in its own process, which with between-graph replication is the one whose kernels
run the enqueue, and names it to them by a number. The stock QueueRunner would run the waiting kernel in
the session's few threads, and could only stop it when the next batch comes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from . import _native, _tf
from ._feed import OPEN_SECONDS

if TYPE_CHECKING:
    from ._feed import Feed

tf1 = tf.compat.v1
#: In the thread that calls, and so in nobody else's way.
_IN_CALLER = -1


def queue(feed: "Feed", capacity: int) -> dict[str, tf.Tensor]:
    """See :meth:`penstock.Feed.tf1_queue`."""
    _native.register_ops()
    spec = _tf.element_spec(feed)
    names, types = list(spec), [each.dtype for each in spec.values()]
    shapes = [each.shape for each in spec.values()]
    with tf1.name_scope("penstock"):
        handle = tf1.placeholder(tf.int64, [], "handle")
        components = _tf.following(handle, range(len(names)), types, shapes)
        # A queue checks shapes only where all of them are known.
        known = shapes if all(shape.is_fully_defined() for shape in shapes) else None
        waiting = tf1.FIFOQueue(capacity, types, known, names=names)
        enqueue = waiting.enqueue(dict(zip(names, components)))
        tf1.train.add_queue_runner(_Runner(feed, waiting, enqueue, handle))
        batch = waiting.dequeue()
    for name, shape in zip(names, shapes):
        batch[name].set_shape(shape)
    return batch


class _Runner(tf1.train.QueueRunner):
    """Enqueues until the feed's end, then closes the queue: whoever dequeues gets the rest, then OutOfRange."""

    def __init__(self, feed: "Feed", waiting: Any, enqueue: Any, handle: tf.Tensor) -> None:
        super().__init__(waiting, [enqueue])
        self._feed, self._handle = feed, handle

    def create_threads(self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False) -> list[Any]:
        """One that fills the queue, and one that ends it when the coordinator is told to stop."""
        place = self._feed._place.alive()
        opened = _native.open_feed(place.socket, self._feed._request_at(place), self._feed._group, OPEN_SECONDS)
        threads = [threading.Thread(target=self._fill, args=(sess, coord, opened), name="penstock-queue", daemon=daemon)]
        if coord is not None:
            stop = threading.Thread(target=self._stop, args=(sess, coord, opened), name="penstock-queue-end", daemon=daemon)
            threads.append(stop)
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _fill(self, session: Any, coordinator: Any, opened: int) -> None:
        options = tf1.RunOptions(inter_op_thread_pool=_IN_CALLER)
        try:
            while coordinator is None or not coordinator.should_stop():
                session.run(self.enqueue_ops[0], feed_dict={self._handle: opened}, options=options)
        except tf.errors.OutOfRangeError:
            session.run(self.close_op)
        except Exception as error:
            if coordinator is None:
                raise
            # Once all are to stop, a closed feed is no news.
            if not coordinator.should_stop():
                coordinator.request_stop(error)
        finally:
            _native.library().penstock_close(opened)

    def _stop(self, session: Any, coordinator: Any, opened: int) -> None:
        coordinator.wait_for_stop()
        # Wakes the kernel that waits for a batch.
        _native.library().penstock_close(opened)
        try:
            session.run(self.cancel_op)
        except (tf.errors.OpError, RuntimeError):
            # The session is closed, and its queues with it.
            pass
