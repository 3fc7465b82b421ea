"""Makes the data, runs the job on a chief, two workers and a parameter server, judges it: what `make demo` does.

With `--hdfs` the data lie on a real HDFS that is started for the occasion: `make demo-hdfs`. With `--tf1` the
training is that of `train_tf1.py`, on workers and a parameter server alone. Exits with 0 if the job succeeded and
every promise was kept.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
STYLE = "_tf1" if "--tf1" in sys.argv[1:] else ""
OUT = ROOT / "target" / f"demo-flights{STYLE}"


def main() -> int:
    run, data = OUT / "run", OUT / "data"
    shutil.rmtree(OUT, ignore_errors=True)
    subprocess.run([sys.executable, HERE / "make_data.py", data], check=True)
    place = on_hdfs if "--hdfs" in sys.argv[1:] else contextlib.nullcontext
    with place(data) as uri:
        job = subprocess.run(
            [
                *(sys.executable, "-m", "penstock", "run", "--file", HERE / f"job{STYLE}.yaml"),
                *("--input", f"flights={uri}/train", "--input", f"held-out={uri}/held-out"),
                *("--python", sys.executable, "--run-dir", run),
            ],
            # TensorFlow's notices would bury the training's own lines; a user's wish counts more.
            env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        )
    if job.returncode != 0:
        print(f"the job failed with {job.returncode}: its logs are in {run / 'logs'}", file=sys.stderr)
        return job.returncode
    return subprocess.run([sys.executable, HERE / "report.py", run, data]).returncode


@contextlib.contextmanager
def on_hdfs(data: pathlib.Path):
    """An HDFS of the test bed's with the data in it; its URI."""
    with tempfile.TemporaryDirectory() as directory, open(OUT / "hdfs.log", "w") as log:
        bed = subprocess.Popen(
            [ROOT / "tests" / "hdfs" / "bed" / "start", f"{directory}/hdfs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            ready = bed.stdout.readline()
            if not ready:
                sys.exit(f"no HDFS: it needs Java 17 and Maven, and says more in {log.name}")
            uri = json.loads(ready)["uri"]
            for name in ("train", "held-out"):
                print(f"put {data / name} {uri}/{name}", flush=True)
                bed.stdin.write(f"put {data / name} /{name}\n")
                bed.stdin.flush()
                answer = bed.stdout.readline()
                if not answer.startswith("ok"):
                    sys.exit(f"HDFS did not take {name}: {answer}")
            yield uri
        finally:
            # It lives as long as its input is open.
            bed.stdin.close()
            bed.wait()


if __name__ == "__main__":
    sys.exit(main())
