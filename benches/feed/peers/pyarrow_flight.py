"""pyarrow's Flight server (C++) in a process of its own, and its client."""

import json
import pathlib
import subprocess
import sys

import pyarrow.flight as fl

from arrow import dense

FORMAT = "Parquet"
VERSIONS = ["pyarrow"]
SERVER = pathlib.Path(__file__).parents[2] / "flight" / "pyarrow_server.py"


def arrays(job):
    server = subprocess.Popen([sys.executable, SERVER, job.parquet], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = server.stdout.readline().split()[-1]
    command = json.dumps({"batch_size": job.made.batch}).encode()

    def batches():
        client = fl.connect(address)
        info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
        for chunk in client.do_get(info.endpoints[0].ticket):
            yield dense(chunk.data)

    return batches
