"""Reads a whole feed as a trainer does, through a sidecar into numpy, and prints one JSON line.

The sidecar's CPU time counts with the reader's: it runs on the trainer's machine.
"""

import json
import resource
import sys
import time

import penstock

address, batch_size = sys.argv[1], int(sys.argv[2])
with penstock.feed(address, dataset="bench", batch_size=batch_size) as feed:
    cpu, start = time.process_time(), time.perf_counter()
    rows = size = touched = 0
    for batch in feed:
        rows += len(batch["id"])
        size += sum(column.nbytes for column in batch.values())
        touched += int(batch["id"][0])
    seconds, own = time.perf_counter() - start, time.process_time() - cpu
# Closing the feed ended the sidecar that was started for it.
children = resource.getrusage(resource.RUSAGE_CHILDREN)
print(
    json.dumps(
        {
            "seconds": seconds,
            "cpu_s": own + children.ru_utime + children.ru_stime,
            "rows": rows,
            "bytes": size,
        }
    )
)
