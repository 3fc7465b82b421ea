"""pyarrow's Flight server (C++) in a process of its own, its client, and ``tf.data.Dataset.from_generator``."""

import json
import pathlib
import subprocess
import sys

import pyarrow.flight as fl
import tensorflow as tf

from arrow import dense
from tensors import signature, warm

FORMAT = "Parquet"
VERSIONS = ["pyarrow", "tensorflow-cpu"]
SERVER = pathlib.Path(__file__).parents[2] / "flight" / "pyarrow_server.py"


def prepare(job):
    server = subprocess.Popen([sys.executable, SERVER, job.parquet], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = server.stdout.readline().split()[-1]
    command = json.dumps({"batch_size": job.made.batch}).encode()

    def batches():
        client = fl.connect(address)
        info = client.get_flight_info(fl.FlightDescriptor.for_command(command))
        for chunk in client.do_get(info.endpoints[0].ticket):
            yield dense(chunk.data)

    warm()
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature(job.made)).prefetch(2)
    return lambda: dataset
