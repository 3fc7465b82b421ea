"""Writes a snappy Parquet file of 510 MB: seven row groups of a million rows of ten columns, with page locations."""

import itertools
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUPS, ROWS = 7, 1_000_000

directory = pathlib.Path(sys.argv[1])
noise = np.random.default_rng(7)


def columns():
    """Eight bytes a row each: measurements, which nothing shrinks, and codes, which fit in half of that."""
    codes = {f"c{column}": noise.integers(0, 1 << 18, ROWS) for column in (2, 5, 8)}
    measurements = {f"c{column}": noise.random(ROWS) for column in (0, 1, 3, 4, 6, 7, 9)}
    return dict(sorted((codes | measurements).items()))


tables = (pa.table(columns()) for _ in range(ROW_GROUPS))
first = next(tables)
with pq.ParquetWriter(
    directory / "part-0.parquet", first.schema, compression="snappy", write_page_index=True
) as file:
    for table in itertools.chain([first], tables):
        file.write_table(table, row_group_size=ROWS)
