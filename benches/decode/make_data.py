"""Writes Parquet files of one column of lists each, about 60 MB decoded: NAME.parquet for every bench line."""

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

directory = pathlib.Path(sys.argv[1])
noise = np.random.default_rng(7)


def fixed(values, length):
    return pa.FixedSizeListArray.from_arrays(pa.array(values), length)


def write(name, lists, rows, codec="none", **options):
    table = pa.table({"x": lists})
    pq.write_table(table, directory / f"{name}.parquet", row_group_size=rows, compression=codec, **options)


images = fixed(noise.integers(0, 256, 20_000 * 3072, dtype=np.uint8), 3072)
for codec in ["none", "snappy", "zstd"]:
    write(f"uint8-{codec}", images, 10_000, codec)
write("uint8-plain-none", images, 10_000, use_dictionary=False)
write("uint8-plain-snappy", images, 10_000, "snappy", use_dictionary=False)

tokens = noise.zipf(1.3, 16_000 * 512) % 32_000
for codec in ["none", "snappy"]:
    write(f"int64-{codec}", fixed(tokens, 512), 8_000, codec)

embeddings = fixed(noise.standard_normal(120_000 * 128, dtype=np.float32), 128)
for codec in ["none", "snappy", "zstd"]:
    write(f"float32-{codec}", embeddings, 60_000, codec)

lengths = noise.integers(1, 200, 80_000)
offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
ragged = pa.ListArray.from_arrays(pa.array(offsets), pa.array(noise.zipf(1.3, offsets[-1]) % 32_000))
write("ragged-int64", ragged, 40_000)
