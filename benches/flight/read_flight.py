"""Reads a whole feed with the stock Flight client and prints what it saw as one JSON line.

    read_flight.py ADDRESS BATCH_SIZE [COLUMN …]
"""

import json
import sys
import time

import pyarrow.flight as fl

address, batch_size, columns = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
client = fl.connect(address)
command = json.dumps({"dataset": "bench", "columns": columns, "batch_size": batch_size, "remainder": "keep"}).encode()

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
