"""Judges a run of `train.py` by its run directory, prints a short report, fails if a promise was broken.

    python report.py RUN_DIR DATA_DIR
"""

import json
import pathlib
import sys

import numpy as np
import pyarrow.parquet as pq

GOOD_ACCURACY = 0.9


class Report:
    """Lines, and whether every promise among them was kept."""

    def __init__(self) -> None:
        self.kept = True

    def line(self, what: str, text: str) -> None:
        print(f"  {what:<22}{text}")

    def promise(self, what: str, kept: bool, text: str) -> None:
        self.kept &= bool(kept)
        self.line(what, f"{text}{'' if kept else '   <-- BROKEN'}")


def evidence_of(run: pathlib.Path) -> list[dict[str, np.ndarray]]:
    """One a worker, in rank order."""
    ranks = range(len(list(run.glob("evidence-*.npz"))))
    return [dict(np.load(run / f"evidence-{rank}.npz")) for rank in ranks]


def exactly_once(report: Report, evidence: list[dict[str, np.ndarray]], expected: np.ndarray) -> None:
    """Every epoch's valid ids, over all workers, are the ids of the files, each once."""
    steps = {len(worker["ids"]) for worker in evidence}
    report.promise("equal steps", len(steps) == 1, f"{sorted(steps)[0]} on every worker" if len(steps) == 1 else f"they differ: {sorted(steps)}")
    per_epoch = int(evidence[0]["steps_per_epoch"])
    epochs = min(steps) // per_epoch
    wrong, orders = [], []
    for epoch in range(epochs):
        during = slice(epoch * per_epoch, (epoch + 1) * per_epoch)
        fed = np.concatenate([worker["ids"][during][worker["valid"][during]] for worker in evidence])
        orders.append(fed.tobytes())
        if not np.array_equal(np.sort(fed), np.sort(expected)):
            wrong.append(epoch)
    text = f"{len(expected)} ids in each of {epochs} epochs, over {len(evidence)} workers"
    report.promise("rows fed exactly once", not wrong and epochs > 0, text + (f"; not in {wrong}" if wrong else ""))
    padded = sum(int((~worker["valid"]).sum()) for worker in evidence)
    report.line("rows of padding", f"{padded}, masked out of the loss")
    report.promise("shuffled anew", len(set(orders)) == epochs, f"{len(set(orders))} orders in {epochs} epochs")


def speed(report: Report, evidence: list[dict[str, np.ndarray]]) -> None:
    """Without the first step, which traces and connects."""
    seconds = [worker["wait_seconds"][1:].sum() + worker["step_seconds"][1:].sum() for worker in evidence]
    rows = sum(int(worker["valid"][1:].sum()) for worker in evidence)
    report.line("speed", f"{rows / max(seconds):,.0f} rows/s over all workers")
    for rank, worker in enumerate(evidence):
        waits, steps = worker["wait_seconds"][1:], worker["step_seconds"][1:]
        report.line(
            f"worker {rank} waited",
            f"{waits.sum() / seconds[rank]:.1%} of the time in next() for its data "
            f"(median {np.median(waits) * 1e3:.2f} ms, a step {np.median(steps) * 1e3:.1f} ms)",
        )


def daemons(report: Report, summary: dict) -> None:
    for daemon in summary["daemons"]:
        peak, cpu, rows = daemon["peak_memory_bytes"], daemon["cpu_seconds"], daemon["rows"]
        known = None not in (peak, cpu, rows)
        text = f"{rows:,} rows, peak memory {peak / 2**20:.1f} MiB, {cpu:.2f} s CPU" if known else "no metrics"
        # What of the trainer's wait was for want of a batch; the rest is Python's and TensorFlow's own.
        starved = daemon["metrics"].get("penstock_sidecar_trainer_wait_seconds")
        if starved is not None:
            text += f"; had no batch ready for {starved:.2f} s"
        report.promise(daemon["name"], known, text)


def judge(run: pathlib.Path, data: pathlib.Path) -> bool:
    report = Report()
    summary = json.loads((run / "summary.json").read_text())
    print(f"\ndigits on {len(summary['tasks'])} workers, {run}")
    report.promise("job", summary["state"] == "succeeded", f"{summary['outcome']} in {summary['seconds']:.1f} s")
    evidence = evidence_of(run)
    results = [json.loads((run / f"result-{rank}.json").read_text()) for rank in range(len(evidence))]
    if not results:
        report.promise("evidence", False, "none was kept")
        return False
    first = results[0]
    report.promise(
        "held-out accuracy",
        first["accuracy"] >= GOOD_ACCURACY > first["baseline"],
        f"{first['accuracy']:.1%} on {first['held_out_rows']} rows; always the most frequent digit: "
        f"{first['baseline']:.1%}",
    )
    same = {round(result["weights"], 3) for result in results}
    report.promise("one model", len(same) == 1, "the same weights on every worker")
    exactly_once(report, evidence, pq.read_table(data / "train", columns=["id"])["id"].to_numpy())
    speed(report, evidence)
    daemons(report, summary)
    print("every promise was kept" if report.kept else "A PROMISE WAS BROKEN")
    return report.kept


if __name__ == "__main__":
    sys.exit(0 if judge(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])) else 1)
