#!/usr/bin/env python3
"""Draws rows of the board from a Prometheus, without Grafana. It asks exactly what the board's panels ask.

    dashboards/draw.py http://127.0.0.1:9090 dashboards/pictures --start 1767225600 --end 1767226500

Panels without data are left out. Needs matplotlib and pillow.
"""

import argparse
import datetime
import io
import itertools
import json
import math
import pathlib
import re
import urllib.parse
import urllib.request

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator
from PIL import Image

HERE = pathlib.Path(__file__).parent

# A picture for each group of rows.
PICTURES = {
    "traffic-and-latency": ["Summary", "Traffic", "Latency"],
    "fan-out": ["Fan-out"],
    "log-and-storage": ["Log and storage"],
    "actors-resources-process": ["Actors", "Resources", "Process"],
}
LEGENDS = 8


def rows(board):
    """The board's rows by their titles, with their panels."""
    found = {}
    for panel in board["panels"]:
        if panel["type"] == "row":
            found[panel["title"]] = row = []
        else:
            row.append(panel)
    return found


def ask(arguments, query):
    """The series of an expression: pairs of their labels and their points."""
    for name, value in {"$job": arguments.job, "$instance": ".+", "$__rate_interval": arguments.interval}.items():
        query = query.replace(name, value)
    form = {"query": query, "start": arguments.start, "end": arguments.end, "step": arguments.step}
    address = f"{arguments.prometheus}/api/v1/query_range?{urllib.parse.urlencode(form)}"
    with urllib.request.urlopen(address) as answer:
        result = json.load(answer)["data"]["result"]
    return [(series["metric"], [(float(t), float(v)) for t, v in series["values"]]) for series in result]


def legend(form, labels):
    text = re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found.group(1), ""), form)
    return text.strip() or "{}"


def number(value, unit):
    """A value as people write it."""
    if unit == "percentunit":
        return f"{value * 100:.4g} %"
    if unit == "s":
        for size, name in (86400, "days"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return "0"
    if unit == "bytes":
        for size, name in (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.3g} B"
    suffix = {"reqps": "/s", "ops": "/s"}.get(unit, "")
    for size, name in (1e9, "G"), (1e6, "M"), (1e3, "k"):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}{suffix}"
    return f"{value:.3g}{suffix}"


def answered(arguments, panel):
    """The series of a panel that have points: pairs of a legend and points."""
    found = []
    for target in panel["targets"]:
        for labels, points in ask(arguments, target["expr"]):
            points = [(t, v) for t, v in points if math.isfinite(v)]
            if points:
                found.append((legend(target["legendFormat"], labels), points))
    return found


def draw_value(axes, panel, series):
    axes.axis("off")
    unit = panel["fieldConfig"]["defaults"]["unit"]
    name, points = series[-1]
    text = name if panel["options"]["textMode"] == "value_and_name" else number(points[-1][1], unit)
    text = re.sub(r"([0-9a-f]{12})[0-9a-f]{28}", r"\1", text)
    axes.text(0.5, 0.45, text, ha="center", va="center", fontsize=18 if len(text) < 16 else 11, color="#1a7f37")


def draw_lines(axes, panel, series, arguments):
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults["unit"]
    series = sorted(series, key=lambda one: -max(v for _, v in one[1]))
    if defaults["custom"]["stacking"]["mode"] == "normal":
        times = sorted({t for _, points in series for t, _ in points})
        stack = [[dict(points).get(t, 0.0) for t in times] for _, points in series]
        axes.stackplot([time(t) for t in times], stack, labels=[name for name, _ in series], alpha=0.7)
    else:
        for name, points in series:
            gaps = []
            for (t, v), after in zip(points, points[1:] + [None]):
                gaps.append((t, v))
                if after and after[0] - t > 1.5 * arguments.step:
                    gaps.append((t + arguments.step, math.nan))
            marker = "." if len(points) < 3 else None
            axes.plot([time(t) for t, _ in gaps], [v for _, v in gaps], label=name, linewidth=1.1, marker=marker)
    if "min" in defaults:
        # A little below, so that a line at the minimum is seen.
        axes.set_ylim(bottom=defaults["min"] - 0.02 * axes.get_ylim()[1])
    axes.set_xlim(time(arguments.start), time(arguments.end))
    top = axes.get_ylim()[1]
    if unit == "bytes" and top > 0:
        axes.yaxis.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(top / 5))))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=unit == "none" and top > 3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, unit)))
    axes.xaxis.set_major_locator(matplotlib.dates.AutoDateLocator(minticks=3, maxticks=8))
    axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%H:%M"))
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in "top", "right", "left", "bottom":
        axes.spines[side].set_color("#cccccc")
    axes.tick_params(labelsize=7, colors="#555555", length=2)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[:LEGENDS], names[:LEGENDS], loc="upper center", bbox_to_anchor=(0.5, -0.1), ncol=2,
                fontsize=6.5, frameon=False, handlelength=1.2, columnspacing=1, labelspacing=0.3)


def time(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def draw(arguments, name, chosen, file):
    """Draws some rows into one file."""
    lines = []
    for title, panels in chosen:
        found = [(panel, answered(arguments, panel)) for panel in panels]
        found = [(panel, series) for panel, series in found if series]
        missing = [panel["title"] for panel in panels if panel["title"] not in [kept["title"] for kept, _ in found]]
        if missing:
            print(f"{name}: no data for {', '.join(missing)}")
        if found:
            lines.append(("row", title))
        # In lines as on the board.
        for _, line in itertools.groupby(found, lambda one: one[0]["gridPos"]["y"]):
            line = list(line)
            lines.append(("values" if line[0][0]["type"] == "stat" else "graphs", line))
    heights = [{"row": 0.25, "values": 0.8, "graphs": 2.5}[kind] for kind, _ in lines]
    figure = plt.figure(figsize=(15, sum(heights)), dpi=80, facecolor="white")
    grid = figure.add_gridspec(len(lines), 1, height_ratios=heights, hspace=0.0, left=0.05, right=0.99, top=1, bottom=0)
    for place, (kind, what) in zip(grid, lines):
        if kind == "row":
            axes = figure.add_subplot(place)
            axes.axis("off")
            axes.text(-0.045, 0.3, what, fontsize=11, fontweight="bold", va="center")
            continue
        if kind == "graphs":
            columns = max(3, len(what))
            parts = place.subgridspec(3, columns, wspace=0.22, height_ratios=[0.3, 1.45, 0.75])
            cells = [parts[1, column] for column in range(columns)]
        else:
            parts = place.subgridspec(2, len(what), height_ratios=[0.3, 0.5])
            cells = [parts[1, column] for column in range(len(what))]
        for cell, (panel, series) in zip(cells, what):
            axes = figure.add_subplot(cell)
            axes.set_title(panel["title"], fontsize=9, loc="left" if kind == "graphs" else "center", color="#222222")
            if kind == "values":
                draw_value(axes, panel, series)
            else:
                draw_lines(axes, panel, series, arguments)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    plt.close(figure)
    # Lines need few colours, which makes a small file.
    colours = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} KiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prometheus", help="its address")
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures go")
    parser.add_argument("--start", type=float, required=True, help="seconds since 1970")
    parser.add_argument("--end", type=float, required=True)
    parser.add_argument("--step", type=float, default=5)
    parser.add_argument("--interval", default="30s", help="what $__rate_interval stands for")
    parser.add_argument("--job", default="taffrail")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    known = rows(json.loads((HERE / "taffrail.json").read_text()))
    for name, titles in PICTURES.items():
        draw(arguments, name, [(title, known[title]) for title in titles], arguments.folder / f"{name}.png")


if __name__ == "__main__":
    main()
