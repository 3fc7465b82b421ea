"""CPU of the trainer's process for one batch, taken by the op as TensorFlow runs it eagerly, and by a loop in a tf.function.

    dequeue.py DIRECTORY BATCHES

Prints {"eager_us", "loop_us", "generator_us", "copied"}: microseconds a batch, the last from ``from_generator`` over one
array of the same size; how many tensors did not lie in the sidecar's memory. Those of loops are of all threads.
"""

import json
import statistics
import sys
import time

import numpy as np
import penstock
import tensorflow as tf
from penstock import _native

directory, batches = sys.argv[1], int(sys.argv[2])
#: Before counting: threads start, functions are traced, the ring fills.
WARM = 20
#: Batches that the op finds there, and how long the ring is left alone before: two of 64 MiB come meanwhile.
READY = 50
FILLED_SECONDS = 0.2


def endless():
    return penstock.feed(directory, batch_size=64, epochs=None, memory="512MiB")


def micros(take):
    """Of a call that finds its batch there; it runs in the thread that calls. The one before it is not counted: whoever
    has waited finds the processor's caches cold, which costs some 300 microseconds, whatever is called."""
    took = []
    for _ in range(READY):
        time.sleep(FILLED_SECONDS)
        take()
        before = time.thread_time()
        take()
        took.append(time.thread_time() - before)
    return statistics.median(took) * 1e6


def eager():
    ops = tf.load_op_library(str(_native.path("libpenstock_tf.so")))
    with endless() as feed:
        place = feed._place.alive()
        handle = ops.penstock_open(request=feed._request_at(place), socket=place.socket, group=feed._group)
        shape = [64, feed.schema["x"].shape[0]]
        took = micros(lambda: ops.penstock_next(handle=handle, columns=[0], output_types=[tf.uint8], output_shapes=[shape]))
        ops.penstock_close(handle=handle)
    return took


def loop(dataset):
    """A tf.function that takes so many batches; the whole of it, by batch."""

    @tf.function
    def taken(batches):
        rows = tf.constant(0)
        for batch in batches:
            rows += tf.shape(batch["x"])[0]
        return rows

    taken(dataset.take(WARM))
    before = time.process_time()
    taken(dataset.take(batches))
    return (time.process_time() - before) / batches * 1e6


def generator(shape):
    array = np.zeros(shape, np.uint8)

    def same():
        while True:
            yield {"x": array}

    return tf.data.Dataset.from_generator(same, output_signature={"x": tf.TensorSpec(shape, tf.uint8)}).prefetch(2)


eager_us = eager()
with endless() as feed:
    loop_us = loop(feed.tf())
    generator_us = loop(generator([64, feed.schema["x"].shape[0]]))
print(json.dumps({"eager_us": eager_us, "loop_us": loop_us, "generator_us": generator_us, "copied": penstock.stats().copied}))
