"""Makes the data, runs the job on a chief, two workers and a parameter server, judges it: what `make demo` does.

Exits with 0 if the job succeeded and every promise was kept.
"""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[2] / "target" / "demo-flights"


def main() -> int:
    run, data = OUT / "run", OUT / "data"
    shutil.rmtree(OUT, ignore_errors=True)
    subprocess.run([sys.executable, HERE / "make_data.py", data], check=True)
    job = subprocess.run(
        [
            *(sys.executable, "-m", "penstock", "run", "--file", HERE / "job.yaml"),
            *("--input", f"flights={data / 'train'}", "--input", f"held-out={data / 'held-out'}"),
            *("--python", sys.executable, "--run-dir", run),
        ],
        # TensorFlow's notices would bury the training's own lines; a user's wish counts more.
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
    )
    if job.returncode != 0:
        print(f"the job failed with {job.returncode}: its logs are in {run / 'logs'}", file=sys.stderr)
        return job.returncode
    return subprocess.run([sys.executable, HERE / "report.py", run, data]).returncode


if __name__ == "__main__":
    sys.exit(main())
