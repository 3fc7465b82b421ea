"""Feeds one set by one tool, and says what came of it.

    feeder.py TOOL SET DIRECTORY SECONDS LOOP

TOOL is a module of peers/, SET one of sets.py below DIRECTORY. LOOP is ``tensors``, the same for every tool: over a
``tf.data.Dataset``, the tool's own or one that is generated from its arrays; or ``arrays``, over what a tool makes on its
own, without TensorFlow.

When all is prepared (imports, servers, conversions, which are kept below DIRECTORY) it prints a JSON line and waits for one;
then it feeds, epoch after epoch as in a training, until SECONDS have passed from the first batch on, and prints what it saw.
After another line it looks at two batches more, prints whether all was right, and ends at the end of its input. So whoever
started it can look at its processes in between.

A tool's module says what it reads, ``FORMAT``, and whose versions are told, ``VERSIONS``, and has ``arrays(job)``,
``tensors(job)`` or both: each prepares, and returns what is called for an epoch of batches, dicts by column of arrays
or of tensors.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import itertools
import json
import pathlib
import sys
import time
import types
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping

import numpy as np

import sets

HERE = pathlib.Path(__file__).parent


@dataclass(frozen=True)
class Job:
    """What a tool is to feed. ``parquet`` is the directory of the files, ``converted`` where a format of its own may be kept."""

    made: sets.Set
    parquet: pathlib.Path
    converted: pathlib.Path

    @property
    def files(self) -> list[str]:
        return sorted(map(str, self.parquet.glob("*.parquet")))


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def prepare(peer: types.ModuleType, job: Job, loop: str) -> Callable[[], Iterable[Mapping[str, Any]]]:
    if loop == "arrays":
        return peer.arrays(job)
    # Not before: it takes more time and memory to load than many a tool.
    import tensors

    tensors.warm()
    return peer.tensors(job) if hasattr(peer, "tensors") else tensors.generated(peer.arrays(job), job.made)


def main() -> None:
    tool, name, directory, seconds, loop = sys.argv[1:]
    made = sets.SETS[name]
    root = pathlib.Path(directory)
    job = Job(made, root / name, root / sets.converted(tool, name))
    sys.path.insert(0, str(HERE / "peers"))
    peer = importlib.import_module(tool)
    feed = prepare(peer, job, loop)
    packages = peer.VERSIONS + (["tensorflow-cpu"] if loop == "tensors" else [])
    versions = {package: importlib.metadata.version(package) for package in packages}
    say(format=peer.FORMAT, versions=versions, arrays=hasattr(peer, "arrays"))
    sys.stdin.readline()

    began = time.perf_counter()
    rows, epochs, first, first_epoch = 0, [], None, None
    while first is None or time.perf_counter() <= first + float(seconds):
        epochs.append([])
        for batch in feed():
            if first is None:
                first = time.perf_counter()
            # The one column that is read; a copy, for what a batch lies in may be used again.
            epochs[-1].append(np.array(batch["id"]))
            rows += len(epochs[-1][-1])
            if time.perf_counter() > first + float(seconds):
                break
        else:
            if first is None:
                sys.exit("no batch came")
            first_epoch = first_epoch or time.perf_counter() - began
    elapsed = time.perf_counter() - began
    say(rows=rows, seconds=elapsed, first_batch_s=first - began, first_epoch_s=first_epoch)
    sys.stdin.readline()

    wrong = None
    for ids in filter(None, epochs):
        seen = np.concatenate(ids).reshape(-1).astype(np.int64)
        if len(np.unique(seen)) != len(seen) or seen.min() < 0 or seen.max() >= made.rows:
            wrong = "rows come twice, or were never there"
    for batch in itertools.islice(feed(), 2):
        wrong = wrong or sets.wrong(made, {column: np.array(values) for column, values in batch.items()})
    say(wrong=wrong)


if __name__ == "__main__":
    main()
