"""What a batch of a set is to TensorFlow; not a tool by itself."""

import sets
import tensorflow as tf


def signature(made):
    """Of every column of a set a ``TensorSpec([None, …])``."""
    spec = {"id": tf.TensorSpec([None], tf.int64)}
    if made.images:
        return spec | {"image": tf.TensorSpec([None, made.length], tf.uint8)}
    code = {"codes": tf.int32, "strings": tf.string}[made.kind]
    return spec | dict.fromkeys(sets.NUMBERS, tf.TensorSpec([None], tf.float32)) | dict.fromkeys(sets.CODES, tf.TensorSpec([None], code))
