"""Reads a stream with the stock Flight client and prints what it saw as one JSON line.

    read_batches.py ADDRESS
"""

import json
import sys
import time

import pyarrow.flight as fl

client = fl.connect(sys.argv[1], generic_options=[("grpc.default_authority", "localhost")])

cpu, start = time.process_time(), time.perf_counter()
rows = size = 0
for chunk in client.do_get(fl.Ticket(b"all")):
    if not rows:
        row_bytes = chunk.data.nbytes / chunk.data.num_rows
    rows += chunk.data.num_rows
print(
    json.dumps(
        {
            "seconds": time.perf_counter() - start,
            "cpu_s": time.process_time() - cpu,
            "rows": rows,
            "bytes": rows * row_bytes,
        }
    )
)
