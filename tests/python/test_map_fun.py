"""A program written for TensorFlowOnSpark, run by `penstock run --map-fun` as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 1000

PROGRAM = """
def main_fun(args, ctx):
    import json, os
    import numpy as np
    from tensorflowonspark import TFNode, compat

    assert (ctx.job_name, ctx.num_workers) == ("worker", 2), vars(ctx)
    assert ctx.executor_id == ctx.task_index
    assert [len(hosts) for hosts in ctx.cluster_spec.values()] == [2]
    assert ctx.absolute_path("/data") == "file:///data"
    assert ctx.absolute_path("data") == "file://" + os.getcwd() + "/data"
    assert ctx.absolute_path("s3://bucket/data") == "s3://bucket/data"
    assert (args.batch_size, args.model_dir, args.verbose) == (30, "model", True), args

    feed = TFNode.DataFeed(ctx.mgr, args.mode == "train", input_mapping={"id": "ids", "name": "names"} if args.mapped else None)
    seen, sizes = [], []
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        ids = batch["ids"] if args.mapped else [row[0] for row in batch]
        assert not args.mapped or len(batch["names"]) == len(ids)
        seen += [int(id) for id in ids]
        sizes.append(len(ids))
        feed.batch_results([{"id": id} for id in ids])
        if args.enough and len(seen) >= args.enough:
            feed.terminate()
            assert feed.should_stop() and len(feed.next_batch(1)) == 0
    assert set(sizes[:-2]) <= {30}, sizes
    with open(os.path.join(os.environ["PENSTOCK_RUN_DIR"], "seen-%d.json" % ctx.task_index), "w") as file:
        json.dump(seen, file)

if __name__ == "__main__":
    from pyspark.context import SparkContext
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three files of ids and names."""
    place = tmp_path_factory.mktemp("rows")
    for file, ids in enumerate((range(400), range(400, 777), range(777, ROWS))):
        table = pa.table({"id": list(ids), "name": [f"row-{id}" for id in ids]})
        pq.write_table(table, place / f"{file}.parquet", row_group_size=60)
    return place


@pytest.fixture
def job(binary, data, tmp_path):
    """Runs the program on two workers; the ids that each has seen, and the ids of its results."""

    def start(*args: str) -> list[list[int]]:
        script, run = tmp_path / "program.py", tmp_path / "run"
        script.write_text(PROGRAM)
        command = [binary, "run", "--num-workers=2", f"--input=train={data}", "--map-fun=main_fun"]
        command += [f"--python={sys.executable}", f"--run-dir={run}", script]
        command += ["--batch_size=30", "--model-dir", "model", "--verbose", *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = [json.loads((run / f"seen-{index}.json").read_text()) for index in range(2)]
        for index, ids in enumerate(seen):
            results = (run / f"results-worker-{index}.jsonl").read_text().splitlines()
            assert [json.loads(line)["id"] for line in results] == ids
        return seen

    return start


def test_every_row_comes_once_an_epoch_over_both_workers(job):
    one, other = job("--epochs", "2", "--mode=train", "--mapped=0", "--enough=0")
    assert sorted(one + other) == sorted(list(range(ROWS)) * 2)
    assert min(len(one), len(other)) > 0


def test_inference_is_one_pass_and_columns_are_mapped(job):
    one, other = job("--epochs", "2", "--mode=inference", "--mapped=1", "--enough=0")
    assert sorted(one + other) == list(range(ROWS))


def test_a_program_that_has_enough_ends_early(job):
    seen = job("--epochs", "3", "--mode=train", "--mapped=0", "--enough=60")
    assert [len(ids) for ids in seen] == [60, 60]


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        ("absent", (), "has no function absent: name the one that it gives to TFCluster.run with --map-fun"),
        ("main_fun", (), "the program reads args.batch_size, which the command line does not say: add --batch_size VALUE"),
    ],
)
def test_what_is_missing_is_named(binary, tmp_path, function, args, said):
    script = tmp_path / "program.py"
    script.write_text("def main_fun(args, ctx):\n    args.batch_size\n")
    command = [binary, "run", f"--map-fun={function}", f"--python={sys.executable}", f"--run-dir={tmp_path / 'run'}", script, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert said in done.stdout, done.stdout


def test_a_function_trains_with_real_tensorflow(binary, data, tmp_path):
    pytest.importorskip("tensorflow")
    script, run = tmp_path / "program.py", tmp_path / "run"
    script.write_text(TRAINING)
    command = [binary, "run", "--num-workers=2", f"--input=train={data}", "--map-fun=main_fun"]
    command += [f"--python={sys.executable}", f"--run-dir={run}", script, "--epochs=1", f"--export_dir={tmp_path / 'model'}"]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker:0 | sum " + str(sum(range(ROWS))) in done.stdout, done.stdout
    assert (tmp_path / "model" / "saved_model.pb").is_file()


TRAINING = """
def main_fun(args, ctx):
    import tensorflow as tf
    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    feed = ctx.get_data_feed()

    def rows():
        while not feed.should_stop():
            for row in feed.next_batch(1):
                yield row[0]

    dataset = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.int64)).batch(10)
    total = tf.constant(0, tf.int64)
    for ids in dataset:
        total += tf.reduce_sum(ids)
    everywhere = strategy.reduce("SUM", strategy.run(lambda: total), axis=None)
    print("sum", int(everywhere), flush=True)
    module = tf.Module()
    module.total = tf.Variable(everywhere)
    compat.export_saved_model(module, args.export_dir, ctx.task_index == 0)
"""
