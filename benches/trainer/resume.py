"""How soon the next batch is there when a feed of shuffled rows goes on at a tenth and at nine tenths of an epoch.

    resume.py DIRECTORY TIMES

Prints {"early_s", "late_s"}: medians of as many, by turns, from asking to the batch; gateway and sidecar run already.
"""

import json
import statistics
import sys
import time

import penstock

directory, times = sys.argv[1], int(sys.argv[2])


def resumed(feed, part):
    began = time.perf_counter()
    feed.load_state_dict(positions[part])
    batch = next(iter(feed))
    assert len(batch["x"]) == 512
    return time.perf_counter() - began


with penstock.feed(directory, batch_size=512, shuffle="rows", seed=3, shuffle_bytes=32 << 20) as feed:
    steps = feed.steps_per_epoch
    positions = {part: feed.cursor(int(steps * part)) for part in (0.1, 0.9)}
    took = {part: [] for part in positions}
    for _ in range(times):
        for part, seconds in took.items():
            seconds.append(resumed(feed, part))
print(json.dumps({"early_s": statistics.median(took[0.1]), "late_s": statistics.median(took[0.9])}))
