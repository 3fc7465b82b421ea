"""Writes four Parquet files of ten float64 columns of noise, 40 MB each: nothing shrinks them."""

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES, ROWS, ROW_GROUP = 4, 500_000, 50_000

directory = pathlib.Path(sys.argv[1])
noise = np.random.default_rng(7)
for number in range(FILES):
    columns = {f"c{column}": noise.random(ROWS) for column in range(10)}
    pq.write_table(
        pa.table(columns),
        directory / f"part-{number}.parquet",
        row_group_size=ROW_GROUP,
        compression="none",
        use_dictionary=False,
    )
