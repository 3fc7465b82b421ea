"""The peer: a Flight server of pyarrow's own (C++), sending one batch over and over.

    pyarrow_server.py FILE TIMES    the batch is the one in an IPC file; whatever is asked is answered so
"""

import sys

import pyarrow as pa
import pyarrow.flight as fl


class Server(fl.FlightServerBase):
    def __init__(self, path: str, times: int):
        super().__init__("grpc://127.0.0.1:0")
        self.batch = pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
        self.times = times

    def do_get(self, context, ticket):
        reader = pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch] * self.times)
        return fl.RecordBatchStream(reader)


if __name__ == "__main__":
    server = Server(sys.argv[1], int(sys.argv[2]))
    print(f"listening on grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()
