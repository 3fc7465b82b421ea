"""TFRecord files of a set, and how they are read; not a tool by itself."""

import os

import pyarrow.dataset as ds
import sets
import tensorflow as tf

from arrow import dense


def convert(job, directory):
    """Writes the set as ``tf.train.Example``s, once; images as bytes, numbers with nulls as 0."""
    if directory.exists():
        return
    unready = directory.with_suffix(".unready")
    unready.mkdir(parents=True, exist_ok=True)
    for index, file in enumerate(job.files):
        with tf.io.TFRecordWriter(str(unready / f"part-{index}.tfrecord")) as writer:
            left = job.made.converted // sets.FILES
            for batch in ds.dataset(file).to_batches(batch_size=1024):
                columns = dense(batch.slice(0, left))
                for row in range(len(columns["id"])):
                    features = {name: _feature(values[row]) for name, values in columns.items()}
                    writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
                left -= len(columns["id"])
                if left == 0:
                    break
    unready.rename(directory)


def dataset(job, directory):
    """Batches of what :func:`convert` wrote, parsed on all cores."""
    made = job.made
    features = {"id": tf.io.FixedLenFeature([], tf.int64)}
    if made.images:
        features["image"] = tf.io.FixedLenFeature([], tf.string)
    else:
        code = {"codes": tf.int64, "strings": tf.string}[made.kind]
        features |= dict.fromkeys(sets.NUMBERS, tf.io.FixedLenFeature([], tf.float32))
        features |= dict.fromkeys(sets.CODES, tf.io.FixedLenFeature([], code))

    def parse(serialized):
        batch = tf.io.parse_example(serialized, features)
        if made.images:
            batch["image"] = tf.io.decode_raw(batch["image"], tf.uint8, fixed_length=made.length)
        return batch

    files = sorted(map(str, directory.glob("*.tfrecord")))
    read = tf.data.TFRecordDataset(files, num_parallel_reads=sets.FILES)
    return read.batch(made.batch).map(parse, num_parallel_calls=os.cpu_count()).prefetch(2)


def _feature(value):
    if isinstance(value, str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    if value.ndim:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.tobytes()]))
    if value.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
