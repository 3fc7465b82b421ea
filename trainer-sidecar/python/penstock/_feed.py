"""A feed: what :func:`penstock.feed` returns.

In: a source and a request. Out: iterators, each with a ring of its own. A feed opens nothing for good
by itself: asking it for its schema describes, iterating opens, closing ends both.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import json
import os
import uuid
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

from . import _batch, _cursor, _native, _ragged, _request, _show, _source
from ._batch import Batch
from .errors import ArgumentError, ClosedError, CopyWarning, PenstockError

if TYPE_CHECKING:
    import tensorflow as tf

    from ._jax import JaxBatches
    from ._keras import KerasCheckpoint
    from ._position import Position
    from ._torch import TorchDataset

T = TypeVar("T")

#: How long a sidecar may take to answer: it asks a gateway, which may read many footers.
OPEN_SECONDS = 120.0
#: How long a sidecar looks for this process's own gateway, should that be gone.
PRIVATE_PATIENCE_SECONDS = 5.0
#: How long iteration waits while this process holds every batch before it says so.
HELD_SECONDS = 10
#: A wait at once; between two, Python handles signals.
_SLICE_MS = 1000


class Column(NamedTuple):
    """One column: name, type (``"float32"``, ``"string"``, …) and the shape of a row, ``None`` for lists of many lengths."""

    name: str
    dtype: str
    shape: tuple[Optional[int], ...]


class Feed:
    """Batches of a dataset in an exact order. Made by :func:`penstock.feed`."""

    def __init__(
        self,
        plan: _source.Plan,
        request: Mapping[str, Any],
        start: Optional[Mapping[str, Any]] = None,
        whole: Optional["Feed"] = None,
        place: Optional[_source.Place] = None,
    ) -> None:
        self._plan = plan
        self._request = dict(request)
        self._start = start
        self._group = uuid.uuid4().hex
        self._closed = False
        self._whole = whole  # a feed of one epoch shares, and keeps, the place of the whole
        if place is None:
            place = whole._place if whole is not None else _source.open_place(plan)
        self._place: _source.Place = place
        self._passes = 0  # plain iterations begun
        self._copies = False  # and has said so
        self._given: Optional[tuple[int, int]] = None  # epoch and step of the newest one's last batch
        self._datasets: weakref.WeakSet[tf.data.Dataset] = weakref.WeakSet()
        # Also when the feed is dropped or the interpreter ends: a thread of TensorFlow's that waits for
        # a batch would keep it from ending.
        close_place = self._place.close if whole is None else None
        self._end = weakref.finalize(self, _end, os.getpid(), self._group, close_place)

    # What the feed is.

    def _request_at(self, place: _source.Place) -> str:
        more: dict[str, Any] = {"gateways": list(place.gateways)} if place.gateways else {}
        if self._plan.served:
            # Nobody starts a gateway of this process's own again, before another pass begins.
            more["patience_seconds"] = PRIVATE_PATIENCE_SECONDS
        return json.dumps({**self._known(), **more})

    def _known(self) -> dict[str, Any]:
        """The request; once the feed was described, for those files: what was said holds for all of its passes."""
        about = self.__dict__.get("description")
        if about is None:
            return self._request
        return {**self._request, "feed": {**self._request["feed"], "snapshot": about["snapshot"]}}

    @functools.cached_property
    def description(self) -> dict[str, Any]:
        """Everything known before the first batch: rows, steps, lanes, snapshot, columns, …

        Raises FeedError when the feed is refused, SidecarError when nobody answers.
        """
        self._check_open()
        place = self._place.alive()
        description = json.loads(_native.describe(place.socket, self._request_at(place), OPEN_SECONDS))
        return self._checked(description)

    @property
    def schema(self) -> dict[str, Column]:
        """The columns of every batch by name, masks and ``_valid`` included."""
        columns = self.description["columns"]
        plain = [Column(c["name"], c["dtype"], tuple(c["shape"])) for c in columns]
        return _ragged.joined(columns, plain, lambda values, levels: values._replace(shape=(None,) * len(levels) + values.shape))

    @property
    def steps_per_epoch(self) -> int:
        """Batches of one whole epoch; the same on every rank."""
        return int(self.description["steps_per_epoch"])

    @property
    def rows_per_step(self) -> int:
        """Rows of this rank's batch (the last of an epoch may have fewer under ``remainder="keep"``)."""
        return int(self.description["rows_per_step"])

    def vocabulary(self, column: str) -> list[Optional[str]]:
        """What the codes of a column stand for, the text of code 0 first; of a column that ``penstock.feed(codes=…)`` names. None
        among them, if the list was given so, stands for all other texts.

        It is what ``tf.keras.layers.StringLookup(vocabulary=…, num_oov_indices=0)`` takes, whose indices are the codes then, and
        ``tf.gather(vocabulary, codes)`` gives the texts back. Raises ArgumentError for a column without codes.
        """
        columns, given = self.description["columns"], self._request.get("codes", {})
        vocabularies = {**{known["name"]: known["vocabulary"] for known in columns if "vocabulary" in known}, **given}
        if column in vocabularies:
            return list(vocabularies[column])
        coded = list(vocabularies)
        raise ArgumentError(f"column {column!r} of feed '{self.name}' has no codes: {f'columns {coded} have' if coded else f'ask for them with codes=[{column!r}]'}")

    @property
    def name(self) -> str:
        """The name that errors and metrics use."""
        return str(self._request["name"])

    def __len__(self) -> int:
        """Batches that an iteration gives. TypeError for an endless feed."""
        epochs: Optional[int] = self._request["epochs"]
        if epochs is None:
            raise TypeError("an endless feed has no length")
        start = self.description["start"]
        return max((epochs - int(start["epoch"])) * self.steps_per_epoch - int(start["step"]), 0)

    def __repr__(self) -> str:
        return self._shown(_show.text)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        return self._shown(_show.page)

    def _shown(self, how: "Callable[[str, Sequence[str], Iterable[Column]], str]") -> str:
        title = _show.title(self.name, self._request["feed"])
        try:
            return how(title, _show.facts(self._request, self.description), self.schema.values())
        except PenstockError as error:
            return how(title, [f"cannot be described: {error}"], ())

    # Its batches.

    def __iter__(self) -> "FeedIterator":
        """Iterates from the feed's start; every iteration opens a ring of its own."""
        self._check_open()
        return FeedIterator(self)

    def progress(self, batches: Optional[Iterable[T]] = None, *, stream: "Optional[_show.Stream]" = None) -> "_show.Progress[T]":
        """The feed's batches, or these of it, with a bar that needs nothing installed::

            for batch in feed.progress(): ...
            for batch in feed.progress(feed.torch().loader(4)): ...

        It says how far the loop is, how fast, and how much of the time it waited for batches: a loop that waits little
        is not starved by its feed. ``stream`` is standard error unless said; where that is no terminal, and no notebook,
        there is a line every ten seconds. ``tqdm(feed)`` works as well, for a feed has a length.
        """
        self._check_open()
        # A feed without a word is one of its own batches.
        return _show.Progress(self if batches is None else batches, self.name, stream)  # type: ignore[arg-type]

    def tf(self, prefetch: int = 2) -> "tf.data.Dataset":
        """The feed as a ``tf.data.Dataset`` of a dict of tensors ``[rows, …]``.

        Tensors of numbers lie in shared memory and keep their slot until they are gone; columns of lists of many
        lengths are ``tf.RaggedTensor``. ``prefetch`` is
        the number of batches that TensorFlow takes ahead (0: none). Under a MultiWorkerMirroredStrategy:
        ``strategy.distribute_datasets_from_function(lambda context: feed.tf())``. A ``fit`` of several
        epochs takes a feed of as many and ``steps_per_epoch=feed.steps_per_epoch``.

        Whoever loops over a pipeline that goes on from here, ``feed.tf().map(…)``, waits at its end for TensorFlow's tuner, which
        sleeps up to a minute: ``options.autotune.enabled = False`` (``tf.data.Options``, ``with_options``) spares that.
        """
        from . import _tf

        self._check_open()
        return _tf.dataset(self, prefetch)

    def torch(self, writable: bool = False) -> "TorchDataset":
        """The feed as a ``torch.utils.data.IterableDataset`` of dicts of tensors ``[rows, …]``.

        Iterate it, or give it to a ``DataLoader`` with ``batch_size=None`` (its elements are batches already), which its
        own ``loader`` does::

            for batch in feed.torch().loader(num_workers=4, pin_memory=True): ...

        Tensors of numbers lie in shared memory and keep their slot until they are gone. That memory cannot be written:
        an operation in place, like ``batch["x"].div_(255)``, **ends the process** with SIGSEGV, for torch has no
        read-only tensors. Write ``batch["x"] / 255``, or ask for copies with ``writable=True``. Columns of
        strings and bytes are lists of ``str`` and ``bytes``; lists of many lengths are a :class:`Ragged` of tensors, of which
        ``torch.nested.nested_tensor_from_jagged(x.values, x.row_splits[0])`` is a nested tensor over the same memory.

        Raises ArgumentError for a column whose type torch does not have, FeedError and SidecarError as :attr:`schema` does.
        """
        from . import _torch

        self._check_open()
        return _torch.dataset(self, writable)

    def jax(self) -> "JaxBatches":
        """The feed's batches as dicts of ``jax.Array`` ``[rows, …]`` on the CPU, which share memory with the sidecar.

        They keep their slot until they are gone; ``jax.device_put`` takes them to a device. Without
        ``jax_enable_x64`` JAX makes int64 int32 and float64 float32, as everywhere; these, and bfloat16, are copied.
        Lists of many lengths are a :class:`Ragged` of arrays.

        Raises ArgumentError for columns of strings and bytes, for which JAX has no type.
        """
        from . import _jax

        self._check_open()
        return _jax.batches(self)

    def tf1_queue(self, capacity: int = 2) -> "dict[str, tf.Tensor]":
        """The feed's next batch as tensors of a TensorFlow 1 graph, out of an input queue of ``capacity`` batches.

        The queue is filled by a QueueRunner, which ``MonitoredTrainingSession`` starts, in the process that
        the session belongs to; dequeuing raises OutOfRangeError after the last batch. Put it on the worker's own
        device: ``with tf.device("/job:worker/task:0/cpu:0"): batch = feed.tf1_queue()``. Lists of many lengths come as
        their values, ``NAME``, and the bounds of each level of lists, ``NAME/row_splits_0`` and on.
        """
        from . import _tf1

        self._check_open()
        return _tf1.queue(self, capacity)

    def epoch(self, epoch: int) -> "Feed":
        """The same feed for this one epoch, counted from 0."""
        self._check_open()
        return Feed(self._plan, _request.one_epoch(self._known(), epoch), self._start, self)

    def _delivery(self, name: str, patience: float) -> "Feed":
        """The same feed with every step acknowledged, pinned to the files that this process sees."""
        self._check_open()
        return Feed(self._plan, _request.acknowledged(self._pinned(), name, patience), self._start, self)

    def _from(self, cursor: Mapping[str, Any]) -> "Feed":
        """The same feed from this position on."""
        self._check_open()
        return Feed(self._plan, _request.started(self._request, cursor), cursor, self)

    def _share(self, index: int, count: int) -> "Feed":
        """Every ``count``-th step of the same feed, for one of as many processes, pinned to the files that this one sees."""
        self._check_open()
        return Feed(self._plan, _request.shared(self._pinned(), index, count), self._start, self)

    def _pinned(self) -> dict[str, Any]:
        """The request, for the files that this process sees."""
        lanes, request = self.description["lanes"], self._known()
        return {**request, "feed": {**request["feed"], "lanes": lanes}}

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process of this machine it is the same feed, for as long as this one is there."""
        self._check_open()
        return _elsewhere, (self._plan, self._request, self._start, self._place[:2], self.description)

    def cursor(self, steps: int = 0) -> dict[str, Any]:
        """The position after ``steps`` batches of this feed, for ``penstock.feed(start=…)``."""
        start = self.description["start"]
        return _cursor.at(self.description, self._request["feed"]["seed"], start["epoch"], start["step"] + steps)

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that the newest plain iteration gave; a JSON-able dict.

        Before the first batch, and for a feed that is read by :meth:`tf`, it is the feed's start: there what was
        read ahead is not what was trained on, so let :meth:`position` count.
        """
        if self._given is None:
            return self.cursor()
        return _cursor.after(self.description, self._request["feed"]["seed"], *self._given)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Iterations that begin from now on go on after this position, at any world size.

        Raises ArgumentError for the position of a feed in another order, and FeedError for one whose files are
        not served any more; the feed then stays as it is.
        """
        self._check_open()
        request = _request.started(self._request, state)
        previous = (self._request, self._start)
        self._request, self._start = request, dict(state)
        known = self.__dict__.pop("description", None)
        try:
            self.description
        except PenstockError:
            self._request, self._start = previous
            if known is not None:
                self.description = known
            raise
        self._given = None

    def position(self) -> "Position":
        """How far training has come, to be saved with the model: ``tf.train.Checkpoint(model=model, feed=position)``.

        Call ``position.advance()`` after every step. Restoring the checkpoint moves the feed there; do it before
        :meth:`tf`.
        """
        from ._position import Position

        return Position(self)

    def keras_checkpoint(self, model: Any, directory: Union[str, "os.PathLike[str]"], keep: int = 3) -> "KerasCheckpoint":
        """A callback that saves model, optimizer and position together after every epoch, and restores them now.

        ``model`` is built and compiled. Restores the newest checkpoint of ``directory``, if there is one, into the
        model and this feed, so call it before :meth:`tf`::

            checkpoint = feed.keras_checkpoint(model, "checkpoints")
            model.fit(feed.tf(), epochs=3, initial_epoch=checkpoint.epoch,
                      steps_per_epoch=feed.steps_per_epoch, callbacks=[checkpoint])

        Rank 0 writes ``directory``, of which the last ``keep`` checkpoints stay; every rank restores from there. Under
        ``penstock run --replicas N`` each part of a model has a directory of its own there, ``replica-1`` and on beside the first's.
        """
        from . import _keras

        return _keras.checkpoint(self, model, os.fspath(directory), keep)

    def _has_datasets(self) -> bool:
        if self._datasets:
            # What only a cycle still refers to does not count.
            gc.collect()
        return len(self._datasets) > 0

    # Its end.

    def close(self) -> None:
        """Ends the feed's iterators, and the gateway and sidecar that were started for it alone."""
        self._closed = True
        self._end()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"feed '{self.name}' was closed")

    def _checked(self, description: dict[str, Any]) -> dict[str, Any]:
        rules = description.get("order_rules", _cursor.FIRST_RULES)
        description["order"] = _cursor.order(self._request["feed"], description.get("mixture", ()), rules)
        if self._start is not None:
            _cursor.check(self._start, description)
        return description


def _elsewhere(
    plan: _source.Plan, request: Mapping[str, Any], start: Optional[Mapping[str, Any]], place: tuple[Any, Any], description: dict[str, Any]
) -> Feed:
    """A feed that was pickled: its daemons are another process's to end."""
    feed = Feed(plan, request, start, place=_source.Place(*place, close=lambda: None))
    feed.description = description
    return feed


class FeedIterator(Iterator[Batch]):
    """One pass over a feed. Close it, or drop it, to end it early.

    ``maker`` makes the columns; numpy arrays if nothing else is said.
    """

    def __init__(self, feed: Feed, maker: _batch.Maker[Any] = _batch.array) -> None:
        self._feed = feed  # keeps the private daemons
        self._maker = maker
        place = feed._place.alive()
        self._handle = _native.open_feed(place.socket, feed._request_at(place), feed._group, OPEN_SECONDS)
        self._close = weakref.finalize(self, _close, self._handle, os.getpid())
        description = feed._checked(json.loads(_native.description(self._handle)))
        feed.__dict__.setdefault("description", description)
        self._ended = False
        self._columns = description["columns"]
        seed = feed._request["feed"]["seed"]
        self._cursor: Callable[[int, int], dict[str, Any]] = functools.partial(_cursor.after, _cursor.basis(description), seed)
        feed._passes, feed._given = feed._passes + 1, None
        self._pass = feed._passes

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        out = _native.BatchStruct()
        library = _native.library()
        for held in itertools.count():
            kind = library.penstock_next(self._handle, _SLICE_MS, ctypes.byref(out))
            if kind == 0:
                slot = _batch.Slot(out.batch)
                arrays = _batch.columns(slot, out.columns, self._columns, self._maker, self._takes_last_slot())
                if self._pass == self._feed._passes:
                    self._feed._given = (out.epoch, out.step)
                return Batch(arrays, out.epoch, out.step, out.rows, self._cursor)
            if kind == _native.END:
                # Others may have the memory; what is held of it stays.
                self._ended = True
                self._close()
                raise StopIteration
            if kind == _native.ALL_SLOTS_HELD and held * _SLICE_MS < HELD_SECONDS * 1000:
                continue
            if kind not in (_native.NOT_YET, _native.INTERRUPTED):
                raise _native.failure(kind)
        raise AssertionError("counting does not end")

    def _takes_last_slot(self) -> bool:
        """Whether a batch just received left none free: a loop that keeps its batches would then wait for itself."""
        slots, held = _native.slots(self._handle)
        # A batch of a delivery that gave its slot back would be offered again.
        if held < slots or "acknowledgement" in self._feed._request:
            return False
        if not self._feed._copies:
            self._feed._copies = True
            text = f"feed '{self._feed.name}': {_copied(slots)}"
            warnings.warn(text, CopyWarning, stacklevel=3)
        return True

    def acknowledge(self, batch: Batch) -> None:
        """Tells the sidecar that the effect of this batch is safe."""
        _native.check(_native.library().penstock_acknowledge(self._handle, batch.epoch, batch.step))

    def close(self) -> None:
        """Ends the pass; batches that are held stay readable."""
        self._ended = True
        self._close()


def _copied(slots: int) -> str:
    """Why a batch that took the last of so many slots is copied."""
    if slots == 1:
        return "its ring has room for one batch, so every batch is copied to make room for the next: give the feed more memory=, or lower batch_size"
    kept = "1 batch" if slots == 2 else f"{slots - 1} batches"
    return (
        f"this process keeps {kept} and its ring has {slots} slots, so this one is copied, and so are "
        "all that come while as many are kept: drop what you do not need, or give the feed more memory="
    )


def _close(handle: int, pid: int) -> None:
    # A forked child inherits the object but not the feed.
    if os.getpid() == pid:
        _native.library().penstock_close(handle)


def _end(pid: int, group: str, close_place: Optional[Callable[[], None]]) -> None:
    if os.getpid() != pid:
        return
    _native.library().penstock_cancel(group.encode())
    if close_place is not None:
        close_place()
