"""Batches of Arrow as numpy arrays, with as few copies as can be; not a tool by itself."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def dense(batch):
    """Of a batch or a table a dict of arrays ``[rows, …]``; nulls are 0, strings objects."""
    return {name: _column(column) for name, column in zip(batch.schema.names, batch.columns)}


def _column(column):
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return column.flatten().to_numpy().reshape(len(column), kind.list_size)
    if pa.types.is_fixed_size_binary(kind):
        values = np.frombuffer(column.buffers()[1], np.uint8)
        return values[column.offset * kind.byte_width :][: len(column) * kind.byte_width].reshape(len(column), kind.byte_width)
    if column.null_count:
        column = pc.fill_null(column, 0)
    return column.to_numpy(zero_copy_only=False)
