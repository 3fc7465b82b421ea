"""Arrays as a ``tf.data.Dataset``, and TensorFlow as it is in the middle of training; not a tool by itself."""

import sets
import tensorflow as tf


def warm():
    """Starts its threads, and loads what it loads when it is first used."""
    for _ in tf.data.Dataset.range(2).map(tf.function(lambda number: number + 1)).prefetch(1):
        pass


def generated(arrays, made):
    """What is called for an epoch of tensors: the batches that ``arrays`` gives, two of them ahead of the loop."""
    dataset = untuned(tf.data.Dataset.from_generator(arrays, output_signature=signature(made)).prefetch(2))
    return lambda: dataset


def untuned(dataset):
    """The dataset without TensorFlow's tuner: it sleeps ever longer, and at every end whoever iterates waits until it wakes, which says
    nothing of the tool. What it would have chosen must be said."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def signature(made):
    """Of every column of a set a ``TensorSpec([None, …])``."""
    spec = {"id": tf.TensorSpec([None], tf.int64)}
    if made.images:
        return spec | {"image": tf.TensorSpec([None, made.length], tf.uint8)}
    code = {"codes": tf.int32, "strings": tf.string}[made.kind]
    return spec | dict.fromkeys(sets.NUMBERS, tf.TensorSpec([None], tf.float32)) | dict.fromkeys(sets.CODES, tf.TensorSpec([None], code))
