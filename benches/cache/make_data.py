"""Writes zstd Parquet of two kinds, about 250 MB decoded each: DIRECTORY/tab and DIRECTORY/lists."""

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

directory = pathlib.Path(sys.argv[1])
noise = np.random.default_rng(7)


def write(name, table, rows):
    (directory / name).mkdir()
    pq.write_table(table, directory / name / "part-0.parquet", row_group_size=rows, compression="zstd")


ROWS = 2_000_000
words = np.array([f"word{number:05}" for number in range(30_000)])
columns = {f"code{column}": noise.zipf(1.3, ROWS) % 1_000_000 for column in range(6)}
columns |= {f"measure{column}": noise.standard_normal(ROWS).round(3) for column in range(6)}
texts = words[noise.zipf(1.2, (3, ROWS)) % len(words)].astype(object)
columns["text"] = texts[0] + " " + texts[1] + " " + texts[2]
write("tab", pa.table(columns), 100_000)

LISTS, LENGTH = 100_000, 300
tokens = pa.FixedSizeListArray.from_arrays(pa.array(noise.zipf(1.3, LISTS * LENGTH) % 32_000), LENGTH)
write("lists", pa.table({"tokens": tokens}), 5_000)
