"""A feed's rows, one by one, as TensorFlowOnSpark's ``DataFeed`` hands them out.

In: the job's input. Out: lists of rows. Every row of this task's share comes once an epoch; the last batch may be short.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

#: Rows of a batch of the feed below, per task; of what the program asks for this decides nothing.
_ROWS = 256


class DataFeed:
    """Rows until there are no more, or until the program has enough."""

    def __init__(self, epochs: int, name: str, results: str, input_mapping: Optional[Mapping[str, str]] = None) -> None:
        """``input_mapping`` is column to tensor: batches are then dicts of lists, by tensor."""
        self._results = results
        self._mapping = dict(input_mapping) if input_mapping is not None else None
        self._rows: Optional[Iterator[Any]] = self._read(epochs, name)
        self._ended = False

    def next_batch(self, batch_size: int) -> Union[list[Any], dict[str, list[Any]]]:
        """The next ``batch_size`` rows; fewer at the end, and then none.

        A row is a tuple of its columns' values, or the value where there is one column.
        """
        rows: list[Any] = []
        while self._rows is not None and len(rows) < batch_size:
            try:
                rows.append(next(self._rows))
            except StopIteration:
                self._end()
        if self._mapping is None:
            return [row[0] if len(row) == 1 else row for row in rows]
        return {tensor: [row[place] for row in rows] for place, tensor in enumerate(self._mapping.values())}

    def should_stop(self) -> bool:
        """Whether the rows are at their end, or the program has said that it has enough."""
        return self._ended

    def terminate(self) -> None:
        """The program has enough: nothing more is read for it."""
        self._end()

    def batch_results(self, results: Sequence[Any]) -> None:
        """Appends these to the task's results in the run directory, one JSON value a line."""
        with open(self._results, "a") as file:
            file.writelines(json.dumps(result, default=_plain) + "\n" for result in results)

    def _end(self) -> None:
        if self._rows is not None:
            self._rows.close()  # type: ignore[attr-defined]
        self._rows, self._ended = None, True

    def _read(self, epochs: int, name: str) -> Iterator[tuple[Any, ...]]:
        from . import feed

        world = int(os.environ.get("PENSTOCK_WORLD_SIZE", "1"))
        columns = list(self._mapping) if self._mapping is not None else None
        with feed(
            dataset=_dataset(name),
            batch_size=_ROWS * world,
            columns=columns,
            epochs=epochs,
            remainder="keep",
        ) as source:
            for batch in source:
                # A row outlives its batch, whose memory is the sidecar's.
                yield from zip(*[[_own(value) for value in column] for column in batch.values()])


def _dataset(name: str) -> Optional[str]:
    """Of several inputs."""
    there = [known for known in os.environ.get("PENSTOCK_DATASETS", "").split(",") if known]
    if len(there) < 2:
        return None
    return name if name in there else "train"


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    raise TypeError(f"a result of type {type(value).__name__} cannot be written as JSON: give numbers, text, lists or dicts of them")
