"""Judges a run of `train.py` or `train_tf1.py` by its run directory, prints a report, fails if a promise was broken.

    python report.py RUN_DIR DATA_DIR
"""

import json
import pathlib
import sys

import numpy as np
import pyarrow.parquet as pq

#: Better than the trivial answer by so much at least.
GAIN = 0.08


class Report:
    """Lines, and whether every promise among them was kept."""

    def __init__(self) -> None:
        self.kept = True

    def line(self, what: str, text: str) -> None:
        print(f"  {what:<22}{text}")

    def promise(self, what: str, kept: bool, text: str) -> None:
        self.kept &= bool(kept)
        self.line(what, f"{text}{'' if kept else '   <-- BROKEN'}")


def exactly_once(report: Report, seen: np.ndarray, ids: np.ndarray, epochs: list[dict]) -> None:
    """Counted by the parameter server beside the model, as it stood after every epoch, or at the end of all."""
    counted = np.diff(np.atleast_2d(seen), axis=0, prepend=0)
    times = len(epochs) // len(counted)
    expected = np.zeros_like(counted[0])
    expected[ids] = times
    lost, again = int((counted < expected).sum()), int((counted > expected).sum())
    admitted = sum(epoch["repeated_rows"] for epoch in epochs)
    text = f"{len(ids):,} ids in each of {len(epochs)} epochs" if times == 1 else f"{len(ids):,} ids {times} times in all"
    text += ", held-out rows never" + (f"; {lost} lost, {again} again" if lost or again else "")
    report.promise("rows trained once", lost == 0 and again <= admitted, text)
    report.promise("as the epochs say", all(epoch["rows"] == len(ids) for epoch in epochs), f"{admitted} rows repeated")
    report.line("shares of the workers", ", ".join(f"{share:,}" for share in epochs[-1]["rows_by_rank"]))


def of_workers(report: Report, run: pathlib.Path, ids: np.ndarray) -> list[dict]:
    """The epochs of `train_tf1.py`, from the ids that came out of the workers' queues."""
    workers = [np.load(file) for file in sorted(run.glob("worker-*.npz"))]
    epochs, ids = [], np.sort(ids)
    for epoch, ends in enumerate(zip(*(worker["ends"] for worker in workers))):
        shares = [worker[f"ids-{epoch}"] for worker in workers]
        taken = np.sort(np.concatenate(shares))
        once, repeated = np.array_equal(taken, ids), len(taken) - len(np.unique(taken))
        lost = len(np.setdiff1d(ids, taken))
        text = f"{len(taken):,} ids out of {len(workers)} queues"
        report.promise(f"each id in epoch {epoch}", once, text + ("" if once else f"; {lost} lost, {repeated} again"))
        seconds = max(ends) - sum(known["seconds"] for known in epochs)
        by_rank = [len(share) for share in shares]
        epochs.append({"rows": len(taken), "repeated_rows": repeated, "rows_by_rank": by_rank, "seconds": seconds})
    return epochs


def judge(run: pathlib.Path, data: pathlib.Path) -> bool:
    report = Report()
    summary = json.loads((run / "summary.json").read_text())
    print(f"\nflights on workers and a parameter server, {run}")
    report.promise("job", summary["state"] == "succeeded", f"{summary['outcome']} in {summary['seconds']:.1f} s")
    if not (run / "result.json").exists():
        report.promise("evidence", False, "none was kept")
        return False
    result = json.loads((run / "result.json").read_text())
    report.promise(
        "held-out accuracy",
        result["accuracy"] >= result["baseline"] + GAIN,
        f"{result['accuracy']:.1%} on {result['held_out_rows']:,} flights; always in time: {result['baseline']:.1%}",
    )
    ids = pq.read_table(data / "train", columns=["id"])["id"].to_numpy()
    epochs = result["epochs"] if "epochs" in result else of_workers(report, run, ids)
    exactly_once(report, np.load(run / "seen.npy"), ids, epochs)
    last = epochs[-1]
    report.line("speed", f"{last['rows'] / last['seconds']:,.0f} rows/s in the last epoch over all workers")
    for task in summary["tasks"]:
        if task["restarts"]:
            report.line(f"{task['role']}:{task['index']}", f"started again {task['restarts']} times")
    for daemon in summary["daemons"]:
        peak, cpu, rows = daemon["peak_memory_bytes"], daemon["cpu_seconds"], daemon["rows"]
        known = None not in (peak, cpu, rows)
        text = f"{rows:,} rows, peak memory {peak / 2**20:.1f} MiB, {cpu:.2f} s CPU" if known else "no metrics"
        report.promise(daemon["name"], known, text)
    print("every promise was kept" if report.kept else "A PROMISE WAS BROKEN")
    return report.kept


if __name__ == "__main__":
    sys.exit(0 if judge(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])) else 1)
