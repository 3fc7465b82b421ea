"""Writes scikit-learn's bundled handwritten digits as Parquet: several training files, one held out.

Columns: `id` int64 (the row's index in the bundled set), `image` fixed-size list of 64 uint8 (8 by 8
pixels, 0 to 16), `label` int64 (the digit).
"""

import argparse
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

PIXELS = 64
# Of different lengths, and none a multiple of a batch: what real directories look like.
TRAINING_FILES = [401, 333, 257, 229, 217]
ROWS_PER_GROUP = 64


def table(ids: np.ndarray, images: np.ndarray, labels: np.ndarray) -> pa.Table:
    pixels = pa.array(images[ids].astype(np.uint8).reshape(-1))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "image": pa.FixedSizeListArray.from_arrays(pixels, PIXELS),
            "label": pa.array(labels[ids], pa.int64()),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).parent / "data")
    out = parser.parse_args().out

    digits = load_digits()
    every = np.random.default_rng(0).permutation(len(digits.target))
    training = sum(TRAINING_FILES)
    cuts = np.cumsum(TRAINING_FILES)
    parts = {f"train/part-{i}.parquet": ids for i, ids in enumerate(np.split(every[:training], cuts[:-1]))}
    parts["held-out/part-0.parquet"] = every[training:]
    for name, ids in parts.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table(ids, digits.data, digits.target), path, row_group_size=ROWS_PER_GROUP)
    print(f"{training} training rows in {len(TRAINING_FILES)} files, {len(every) - training} held out: {out}")


if __name__ == "__main__":
    main()
