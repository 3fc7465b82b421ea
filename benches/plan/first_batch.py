"""Asks for a feed with the stock Flight client and prints how soon its first step was there, as one JSON line.

    first_batch.py ADDRESS BATCH_SIZE
"""

import json
import sys
import time

import pyarrow.flight as fl

address, batch_size = sys.argv[1], int(sys.argv[2])
cpu, start = time.process_time(), time.perf_counter()
client = fl.connect(address)
command = json.dumps({"dataset": "bench", "batch_size": batch_size, "shuffle": "blocks"}).encode()
info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
chunk = client.do_get(info.endpoints[0].ticket).read_chunk()
print(
    json.dumps(
        {
            "seconds": time.perf_counter() - start,
            "cpu_s": time.process_time() - cpu,
            "rows": chunk.data.num_rows,
            "bytes": chunk.data.nbytes,
        }
    )
)
