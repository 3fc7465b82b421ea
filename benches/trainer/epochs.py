"""What many epochs of a small set leave behind in the trainer's process and in the daemons that it started.

    epochs.py DIRECTORY EPOCHS

Prints {"mb", "fds", "threads", "gateway_mb", "sidecar_mb"}: how much more there is after the last epoch than after half of
them, when the sidecar has read ahead as far as its memory goes, all three processes together; and the most memory that gateway
and sidecar ever had.
"""

import json
import os
import pathlib
import sys

import penstock

directory, epochs = sys.argv[1], int(sys.argv[2])


def status(pid, key):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def children():
    """The daemons by what they are."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rsplit(")", 1)[1].split()[1]
            command = (stat.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(parent) == os.getpid() and len(command) > 1:
            found[command[1].decode()] = int(stat.parent.name)
    return found


def used(pids):
    return {
        "mb": sum(status(pid, "VmRSS") for pid in pids) / 1e3,
        "fds": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        "threads": sum(status(pid, "Threads") for pid in pids),
    }


with penstock.feed(directory, batch_size=64, shuffle="rows", epochs=epochs) as feed:
    steps, seen, before = feed.steps_per_epoch, 0, None
    for batch in feed.tf():
        seen += 1
        if seen == steps * epochs // 2:
            before = used([os.getpid(), *children().values()])
        if seen == steps * epochs:
            after = used([os.getpid(), *children().values()])
            daemons = {f"{name}_mb": status(pid, "VmHWM") / 1e3 for name, pid in children().items()}
print(json.dumps({key: after[key] - before[key] for key in after} | {key: daemons[key] for key in ("gateway_mb", "sidecar_mb")}))
