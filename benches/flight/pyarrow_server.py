"""The peer: a Flight server of pyarrow's own (C++), decoding the same Parquet files.

A ticket is JSON: {"batch_size": rows}. Batches are re-cut to that size, as a gateway's steps are.
"""

import json
import sys

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.flight as fl


class Server(fl.FlightServerBase):
    def __init__(self, directory: str):
        super().__init__("grpc://127.0.0.1:0")
        self.dataset = ds.dataset(directory, format="parquet")

    def get_flight_info(self, context, descriptor):
        endpoint = fl.FlightEndpoint(descriptor.command, [f"grpc://127.0.0.1:{self.port}"])
        return fl.FlightInfo(self.dataset.schema, descriptor, [endpoint], -1, -1)

    def do_get(self, context, ticket):
        rows = json.loads(ticket.ticket)["batch_size"]
        batches = self.dataset.to_batches(batch_size=rows)
        return fl.GeneratorStream(self.dataset.schema, batches)


if __name__ == "__main__":
    server = Server(sys.argv[1])
    print(f"listening on grpc://127.0.0.1:{server.port}", flush=True)
    print(f"pyarrow {pa.__version__}", file=sys.stderr, flush=True)
    server.serve()
