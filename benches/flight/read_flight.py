"""Reads a whole feed with the stock Flight client and prints what it saw as one JSON line."""

import json
import sys
import time

import pyarrow.flight as fl

address, batch_size = sys.argv[1], int(sys.argv[2])
client = fl.connect(address)
command = json.dumps({"dataset": "bench", "batch_size": batch_size}).encode()

cpu, start = time.process_time(), time.perf_counter()
info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
rows = size = 0
for endpoint in info.endpoints:
    for chunk in client.do_get(endpoint.ticket):
        rows += chunk.data.num_rows
        size += chunk.data.nbytes
print(
    json.dumps(
        {
            "seconds": time.perf_counter() - start,
            "cpu_s": time.process_time() - cpu,
            "rows": rows,
            "bytes": size,
        }
    )
)
