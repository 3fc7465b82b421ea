"""A feed as ``tf.data.Dataset``, and its batches as tensors of any graph.

A raw GeneratorDataset opens a ring for every iterator, hands on its number, and closes what it opened; a raw MapDataset
takes a batch for each time it hears the number, until the feed's end. ``Dataset.map`` over an op would turn the end into
an error, and ``from_generator`` would copy every batch through Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence

import tensorflow as tf

from . import _native

if TYPE_CHECKING:
    from ._feed import Feed

_DTYPES = {
    "bool": tf.bool,
    "int8": tf.int8,
    "int16": tf.int16,
    "int32": tf.int32,
    "int64": tf.int64,
    "uint8": tf.uint8,
    "uint16": tf.uint16,
    "uint32": tf.uint32,
    "uint64": tf.uint64,
    "float16": tf.float16,
    "bfloat16": tf.bfloat16,
    "float32": tf.float32,
    "float64": tf.float64,
    "string": tf.string,
    "bytes": tf.string,
}


#: The component by which a batch is acknowledged: feed, epoch, step, rank. To the op it is column -1.
TOKEN = "_batch"
TOKEN_SPEC = tf.TensorSpec([4], tf.int64)


def dataset(feed: "Feed", prefetch: int) -> tf.data.Dataset:
    """See :meth:`penstock.Feed.tf`."""
    made = _ragged_ones(feed, _generated(feed, element_spec(feed)))
    # Known lengths spare Keras a step into the end, and an early end becomes an error.
    made = made.apply(tf.data.experimental.assert_cardinality(length(feed)))
    return Batches(made.prefetch(prefetch) if prefetch else made)


def acknowledged_dataset(feed: "Feed", prefetch: int) -> tf.data.Dataset:
    """The same for a feed whose request asks for acknowledgement, with a token in every element.

    The graph is traced in one process and runs in others, whose shares may differ by a row: rows are open.
    """
    made = _ragged_ones(feed, _generated(feed, {**element_spec(feed, open_rows=True), TOKEN: TOKEN_SPEC}))
    return made.prefetch(prefetch) if prefetch else made


class Batches(tf.data.Dataset):
    """The same dataset, whose batches cost a Python loop less: by itself TensorFlow puts each together column by column,
    which for wide tables takes longer than all the rest. A TensorFlow that keeps its iterators otherwise goes on as it does.
    """

    def __init__(self, made: tf.data.Dataset) -> None:
        self._made = made
        # Where nothing comes behind it there is nothing to tune, and TensorFlow's tuner may hold up the end of an iterator for
        # as long as it has already run: it sleeps ever longer, and is not always woken.
        options = tf.data.Options()
        options.autotune.enabled = False
        self._alone = made.with_options(options)
        super().__init__(tf.data.experimental.to_variant(made))

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._made]

    @property
    def element_spec(self) -> dict[str, Any]:
        return self._made.element_spec

    def __iter__(self) -> Any:
        if not tf.executing_eagerly():
            return super().__iter__()
        iterator = iter(self._alone)
        # What is put together of several tensors is TensorFlow's to make.
        if all(type(each) is tf.TensorSpec for each in self.element_spec.values()):
            iterator._element_spec = _Together.of(self.element_spec)
        return iterator


class _Together(dict):
    """A spec that an iterator takes for that of a single thing, and asks to make it of its tensors: a plain dict."""

    def __new__(cls, *items: Any) -> dict[str, Any]:  # type: ignore[misc]
        # What TensorFlow makes after this pattern is of the usual type.
        return dict(*items)

    @classmethod
    def of(cls, spec: Mapping[str, tf.TensorSpec]) -> "_Together":
        made = dict.__new__(cls)
        made.update(spec)
        made._names = sorted(spec)
        return made

    def _from_compatible_tensor_list(self, tensors: Iterable[tf.Tensor]) -> dict[str, tf.Tensor]:
        # The op has compared types and shapes with those that it was told.
        return dict(zip(self._names, tensors))


def acknowledge(token: tf.Tensor) -> tf.Operation:
    """Says that a batch is done; to be made to depend on the effect of the batch."""
    return _operation("PenstockAcknowledge", [token], [], {})


def _generated(feed: "Feed", spec: dict[str, tf.TensorSpec]) -> tf.data.Dataset:
    _native.register_ops()
    # tf.nest flattens dicts by sorted name; the ring has the description's order.
    position = {name: -1 if name == TOKEN else i for i, name in enumerate(spec)}
    columns = [position[name] for name in tf.nest.flatten({name: name for name in spec})]
    flat = tf.nest.flatten(spec)
    types, shapes = [each.dtype for each in flat], [each.shape for each in flat]

    @tf.function(input_signature=[])
    def init() -> tf.Tensor:
        place = feed._place.alive()
        attrs = {"request": feed._request_at(place), "socket": place.socket, "group": feed._group}
        return _op("PenstockOpen", [], [tf.int64], {k: _text(v) for k, v in attrs.items()}, [tf.TensorShape([])])[0]

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
    def again(handle: tf.Tensor) -> tf.Tensor:
        return tf.identity(handle)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
    def next_batch(handle: tf.Tensor) -> Sequence[tf.Tensor]:
        return following(handle, columns, types, shapes)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
    def finalize(handle: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([_operation("PenstockClose", [handle], [], {})]):
            return tf.identity(handle)

    functions = [function.get_concrete_function() for function in (init, again, finalize, next_batch)]
    handle = tf.raw_ops.GeneratorDataset(
        init_func_other_args=[],
        next_func_other_args=[],
        finalize_func_other_args=[],
        init_func=functions[0],
        next_func=functions[1],
        finalize_func=functions[2],
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    handles = tf.data.experimental.from_variant(handle, tf.TensorSpec([], tf.int64))
    # Asked for once: what follows it costs no thread a call.
    handles = handles.flat_map(lambda handle: tf.data.Dataset.from_tensors(handle).repeat())
    variant = tf.raw_ops.MapDataset(
        input_dataset=tf.data.experimental.to_variant(handles),
        other_arguments=[],
        f=functions[3],
        output_types=types,
        output_shapes=shapes,
        # The kernel runs in the thread that asks for a batch, not in one that is woken for it and waited for.
        use_inter_op_parallelism=False,
        # The end of the feed is the end of the dataset.
        preserve_cardinality=False,
    )
    made = tf.data.experimental.from_variant(variant, spec)
    # The graph functions live as long as the dataset, and so does the feed with its private daemons.
    made._penstock = (feed, functions)
    feed._datasets.add(made)
    options = tf.data.Options()
    # Every rank has its own share already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)


def following(
    handle: tf.Tensor, columns: Iterable[int], types: Sequence[tf.DType], shapes: Sequence[tf.TensorShape]
) -> list[tf.Tensor]:
    """These columns of the next batch of an open feed."""
    value = tf.compat.v1.AttrValue
    attrs = {
        "columns": value(list=value.ListValue(i=columns)),
        "output_types": value(list=value.ListValue(type=[each.as_datatype_enum for each in types])),
        "output_shapes": value(list=value.ListValue(shape=[each.as_proto() for each in shapes])),
    }
    return _op("PenstockNext", [handle], types, attrs, shapes)


def element_spec(feed: "Feed", open_rows: bool = False) -> dict[str, tf.TensorSpec]:
    """Of every column of the ring ``TensorSpec([rows, …], dtype)``; rows are open under ``remainder="keep"``, or if asked
    for, and where lists of many lengths decide."""
    rows = None if open_rows or feed._request["feed"]["remainder"] == "keep" else feed.rows_per_step
    columns = feed.description["columns"]
    levels = _levels(columns)

    def first(column: Mapping[str, Any]) -> Optional[int]:
        if column["name"] in levels:
            return None
        outermost = levels.get(column.get("splits_of"), [""])[0]
        if "splits_of" in column:
            return rows + 1 if rows is not None and column["name"] == outermost else None
        return rows

    return {c["name"]: tf.TensorSpec([first(c), *c["shape"]], _DTYPES[c["dtype"]], name=None) for c in columns}


def _levels(columns: Iterable[Mapping[str, Any]]) -> dict[Any, list[str]]:
    """Of every column of lists of many lengths the columns that bound them, the outermost first."""
    levels: dict[Any, list[str]] = {}
    for column in columns:
        if "splits_of" in column:
            levels.setdefault(column["splits_of"], []).append(column["name"])
    return levels


def _ragged_ones(feed: "Feed", made: tf.data.Dataset) -> tf.data.Dataset:
    """The same with values and bounds put together."""
    levels = _levels(feed.description["columns"])
    if not levels:
        return made
    bounds = {name for names in levels.values() for name in names}

    def together(batch: dict[str, tf.Tensor]) -> dict[str, Any]:
        joined: dict[str, Any] = {name: column for name, column in batch.items() if name not in bounds}
        for name, splits in levels.items():
            # The sidecar made them; checking them would read them all.
            joined[name] = tf.RaggedTensor.from_nested_row_splits(batch[name], [batch[each] for each in splits], validate=False)
        return joined

    return made.map(together)


def length(feed: "Feed") -> int:
    """Batches of the whole feed, or TensorFlow's word for endless."""
    return tf.data.INFINITE_CARDINALITY if feed._request["epochs"] is None else len(feed)


def _op(name: str, inputs: list[Any], types: list[Any], attrs: dict[str, Any], shapes: list[Any]) -> list[tf.Tensor]:
    outputs = _operation(name, inputs, types, attrs).outputs
    for output, shape in zip(outputs, shapes):
        output.set_shape(shape)
    return list(outputs)


def _operation(name: str, inputs: list[Any], types: list[Any], attrs: dict[str, Any]) -> tf.Operation:
    # The library may have been loaded before TensorFlow was, so tf.load_op_library has no wrappers.
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(name, inputs, types, attrs=attrs)


def _text(text: str) -> tf.compat.v1.AttrValue:
    return tf.compat.v1.AttrValue(s=text.encode())
