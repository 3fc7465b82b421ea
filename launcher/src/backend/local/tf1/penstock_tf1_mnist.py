"""Put here by `penstock run --tf1-compat`: MNIST's reader, as TensorFlow 1's tutorials had it.

It reads the four files, gzipped or not, from the directory that a program names. It downloads nothing.
"""

import collections
import gzip
import os
import struct

import numpy

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


def _read(directory, name):
    """The array that an IDX file of bytes holds."""
    path = os.path.join(directory, name)
    opened = gzip.open if os.path.exists(path + ".gz") else open
    suffix = ".gz" if opened is gzip.open else ""
    try:
        with opened(path + suffix, "rb") as file:
            data = file.read()
    except IOError as error:
        raise IOError("MNIST's {0} is not in {1}, and --tf1-compat downloads nothing: put {0}.gz there ({2})".format(name, directory, error))
    zeros, kind, rank = struct.unpack(">HBB", data[:4])
    if zeros != 0 or kind != 8:
        raise IOError("{0} in {1} is no IDX file of bytes".format(name, directory))
    shape = struct.unpack(">" + "I" * rank, data[4 : 4 + 4 * rank])
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * rank).reshape(shape)


class DataSet(object):
    """Images and labels, handed out in batches that begin anew, shuffled, after the last."""

    def __init__(self, images, labels, one_hot=False, dtype="float32", reshape=True, seed=None):
        if len(images) != len(labels):
            raise ValueError("{0} images and {1} labels".format(len(images), len(labels)))
        images = images.reshape(len(images), -1) if reshape else images[..., numpy.newaxis]
        # TensorFlow's types and numpy's have this name both.
        if getattr(dtype, "name", dtype) != "uint8":
            images = images.astype(numpy.float32) / 255
        self.images = images
        self.labels = numpy.eye(10)[labels] if one_hot else labels
        self.epochs_completed = 0
        self._random = numpy.random.RandomState(seed)
        self._place = 0

    @property
    def num_examples(self):
        return len(self.images)

    def next_batch(self, batch_size, fake_data=False, shuffle=True):
        """The next images and labels; a batch at the end of an epoch is filled up from the next."""
        if self._place == 0 and self.epochs_completed == 0:
            self._begin(shuffle)
        parts, missing = [], batch_size
        while missing > 0:
            if self._place == self.num_examples:
                self.epochs_completed += 1
                self._begin(shuffle)
            part = self._order[self._place : self._place + missing]
            self._place += len(part)
            missing -= len(part)
            parts.append(part)
        order = numpy.concatenate(parts) if parts else numpy.zeros(0, int)
        return self.images[order], self.labels[order]

    def _begin(self, shuffle):
        self._place = 0
        order = numpy.arange(self.num_examples)
        self._order = self._random.permutation(order) if shuffle else order


def read_data_sets(
    train_dir, fake_data=False, one_hot=False, dtype="float32", reshape=True, validation_size=5000, seed=None, source_url=None
):
    """Training, validation and test data; the validation data are the first of those for training."""
    if fake_data:
        images, labels = numpy.zeros((1000, 28, 28), numpy.uint8), numpy.zeros(1000, numpy.uint8)
        return Datasets(*[DataSet(images, labels, one_hot, dtype, reshape, seed) for _ in range(3)])
    images, labels = [_read(train_dir, name) for name in TRAIN]
    if not 0 <= validation_size <= len(images):
        raise ValueError("{0} of {1} images cannot be for validation".format(validation_size, len(images)))
    split = [(images[validation_size:], labels[validation_size:]), (images[:validation_size], labels[:validation_size])]
    split.append(tuple(_read(train_dir, name) for name in TEST))
    return Datasets(*[DataSet(part, of_part, one_hot, dtype, reshape, seed) for part, of_part in split])
