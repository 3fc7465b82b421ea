"""Draws what the bench measured in the loop that is the same for all tools: rows a second at every set, and the CPU seconds that a GB costs.

    plot.py FIGURES.json PICTURE.png
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  the backend comes first

figures, picture = sys.argv[1:]
fairs = json.loads(pathlib.Path(figures).read_text())
PANELS = [("rows_a_second", "rows/s"), ("cpu_s_a_gb", "CPU s/GB, all processes"), ("trainer_cpu_s_a_gb", "CPU s/GB, trainer")]

most = max(len(fair["fed"]) for fair in fairs)
canvas, grid = plt.subplots(len(fairs), len(PANELS), figsize=(15, (1 + 0.22 * most) * len(fairs)), squeeze=False, layout="constrained")
for row, fair in zip(grid, fairs):
    fed = fair["fed"][::-1]
    tools = [f"{each['tool']} ({each['format']})" for each in fed]
    colours = ["tab:blue" if each["tool"] == "penstock" else "lightgrey" for each in fed]
    for axes, (figure, title) in zip(row, PANELS):
        values = [each[figure] for each in fed]
        bars = axes.barh(tools, values, color=colours)
        axes.bar_label(bars, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values], padding=2, fontsize=7)
        axes.set_xscale("log")
        axes.margins(x=0.15)
        axes.tick_params(labelsize=7)
        axes.set_title(f"{fair['set']}: {title}", fontsize=9)
        if axes is not row[0]:
            axes.set_yticklabels([])
    floor = fair["decoded"]
    row[0].axvline(floor["rows_a_second"], color="tab:red", linewidth=1)
    row[1].axvline(floor["cpu_s_a_gb"], color="tab:red", linewidth=1)
canvas.suptitle("One epoch to the same loop over a tf.data.Dataset; blue: penstock, rows shuffled; grey: in file order; red: decoding alone", fontsize=10)
canvas.savefig(picture, dpi=110)
