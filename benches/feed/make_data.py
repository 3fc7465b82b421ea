"""Writes the sets, as they are described in sets.py, to DIRECTORY/NAME/part-N.parquet.

What is there of the same description, DIRECTORY/NAME.json, stays; of another it is made anew, and the formats that peers
made of it go. Prints what the bench has to know of them as one JSON line.
"""

import dataclasses
import json
import pathlib
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sets


def table(made: sets.Set, ids: np.ndarray) -> pa.Table:
    columns = {"id": pa.array(ids)}
    if made.images:
        flat = sets.images(made.length, ids).reshape(-1)
        if made.kind == "list":
            columns["image"] = pa.FixedSizeListArray.from_arrays(pa.array(flat), made.length)
        else:
            columns["image"] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(made.length), len(ids), [None, pa.py_buffer(flat)])
        return pa.table(columns)
    for index, name in enumerate(sets.NUMBERS):
        values, null = sets.numbers(ids, index)
        columns[name] = pa.array(values, mask=null)
    of_kind = {"codes": sets.codes, "strings": sets.strings}[made.kind]
    for index, name in enumerate(sets.CODES):
        columns[name] = pa.array(of_kind(ids, index))
    return pa.table(columns)


def write(made: sets.Set, directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    rows = made.rows // sets.FILES
    for part in range(sets.FILES):
        groups = (np.arange(start, min(start + made.row_group, (part + 1) * rows)) for start in range(part * rows, (part + 1) * rows, made.row_group))
        first = table(made, next(groups))
        with pq.ParquetWriter(directory / f"part-{part}.parquet", first.schema, compression="snappy") as file:
            file.write_table(first)
            for ids in groups:
                file.write_table(table(made, ids))


def make(made: sets.Set, root: pathlib.Path, name: str) -> None:
    known, wanted = root / f"{name}.json", json.dumps(dataclasses.asdict(made))
    if known.exists() and known.read_text() == wanted:
        return
    known.unlink(missing_ok=True)
    for stale in [root / name, *root.glob(sets.converted("*", name))]:
        shutil.rmtree(stale, ignore_errors=True)
    write(made, root / name)
    known.write_text(wanted)


root = pathlib.Path(sys.argv[1])
for name, made in sets.SETS.items():
    make(made, root, name)
print(
    json.dumps(
        [
            {"name": name, "rows": made.rows, "row_bytes": made.row_bytes, "lists": made.kind == "list"}
            for name, made in sets.SETS.items()
        ]
    )
)
