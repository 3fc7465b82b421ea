"""Writes what a trainer's process is measured with: DIRECTORY/small and DIRECTORY/large, of whose rows 64 are a batch of
61 KiB and of 64 MiB, and DIRECTORY/images, 3 KB a row, of which an epoch is 200 batches of 512."""

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

directory = pathlib.Path(sys.argv[1])
noise = np.random.default_rng(7)
for name, rows, row_bytes, row_group in [("small", 6_400, 976, 6_400), ("large", 256, 1 << 20, 64), ("images", 102_400, 3072, 5_120)]:
    (directory / name).mkdir()
    values = pa.py_buffer(noise.integers(0, 256, rows * row_bytes, dtype=np.uint8))
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(row_bytes), rows, [None, values])
    pq.write_table(
        pa.table({"x": column}), directory / name / "part-0.parquet", row_group_size=row_group, compression="none", use_dictionary=False
    )
