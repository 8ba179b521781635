"""Draws the dashboards' panels from what a Prometheus has, one picture for each dashboard, so that a person can see them.

Needs matplotlib, which nothing else does: cmake/fetch.sh pictures.
"""

import itertools
import math
import sys

from prometheus import panels

SECONDS = 180  # of the past that a picture shows


def draw(prometheus, folder):
    venv = _site_packages()
    sys.path.insert(0, venv)
    import matplotlib  # only here, as it is there only for this

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    for uid, found in itertools.groupby(panels(), key=lambda p: p[0]["uid"]):
        by_panel = [
            (panel, list(queries))
            for panel, queries in itertools.groupby(found, key=lambda p: p[1])
        ]
        stats = [p for p in by_panel if p[0]["type"] == "stat"]
        graphs = [p for p in by_panel if p[0]["type"] == "timeseries"]
        tables = [p for p in by_panel if p[0]["type"] == "table"]
        rows = math.ceil(len(graphs) / 3) + bool(stats) + len(tables)
        figure = plt.figure(figsize=(18, 3.1 * rows), dpi=60)
        figure.suptitle(by_panel[0][1][0][0]["title"], fontsize=16)
        grid = figure.add_gridspec(rows, 6)
        for i, (panel, queries) in enumerate(stats):
            _stat(figure.add_subplot(grid[0, i]), prometheus, panel, queries)
        top = bool(stats)
        for i, (panel, queries) in enumerate(tables):
            _table(figure.add_subplot(grid[top + i, :]), prometheus, panel, queries)
        top += len(tables)
        for i, (panel, queries) in enumerate(graphs):
            axes = figure.add_subplot(grid[top + i // 3, 2 * (i % 3) : 2 * (i % 3) + 2])
            _graph(axes, prometheus, panel, queries)
        figure.tight_layout(rect=(0, 0, 1, 0.98))
        figure.savefig(folder / f"{uid}.png")
        plt.close(figure)


def _site_packages():
    import os
    import pathlib

    cache = os.environ.get("DDP_CACHE", pathlib.Path.home() / ".cache/ddp")
    (found,) = pathlib.Path(cache, "pictures").glob("lib/python3*/site-packages")
    return str(found)


def _text(value, unit):
    """A number as Grafana would write it, more or less."""
    if unit == "percentunit":
        return f"{100 * value:.1f} %"
    if unit == "dateTimeFromNow":
        return "just now"
    if unit in ("s",):
        return (
            f"{value:.0f} s"
            if value >= 10
            else f"{1000 * value:.1f} ms" if value < 1 else f"{value:.1f} s"
        )
    return f"{value:.4g}"


def _legend(template, labels):
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def _stat(axes, prometheus, panel, queries):
    axes.axis("off")
    axes.set_title(panel["title"], fontsize=11)
    results = prometheus.query(queries[0][3])
    unit = panel["fieldConfig"]["defaults"]["unit"]
    text = "\n".join(_text(float(r["value"][1]), unit) for r in results[:3]) or "no data"
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=20, color="tab:green")


def _table(axes, prometheus, panel, queries):
    axes.axis("off")
    axes.set_title(panel["title"], fontsize=11)
    renamed = panel["transformations"][1]["options"]["renameByName"]
    rows = {}
    for i, (_, _, _, expression) in enumerate(queries):
        for result in prometheus.query(expression):
            labels = result["metric"]
            row = rows.setdefault((labels["namespace"], labels["job_name"]), {})
            if i == 0:
                row["Phase"] = labels["phase"]
            else:
                row[renamed[f"Value #{chr(ord('A') + i)}"]] = f"{float(result['value'][1]):.4g}"
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = [[*key, *(row.get(name, "") for name in names)] for key, row in rows.items()]
    made = axes.table(
        cellText=cells or [[""] * (len(names) + 2)],
        colLabels=["Namespace", "Job", *names],
        loc="center",
    )
    made.scale(1, 1.6)


def _graph(axes, prometheus, panel, queries):
    axes.set_title(panel["title"], fontsize=11)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    stack = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    lines = []
    for _, _, target, expression in queries:
        for result in prometheus.query_range(expression, SECONDS):
            lines.append((_legend(target["legendFormat"], result["metric"]), result["values"]))
    if not lines:
        axes.text(0.5, 0.5, "no data", ha="center", transform=axes.transAxes)
        return
    end = max(float(values[-1][0]) for _, values in lines)
    factor = 100 if unit == "percentunit" else 1 / 2**20 if unit in ("bytes", "Bps") else 1
    if stack:
        times = sorted({float(t) for _, values in lines for t, _ in values})
        heights = []
        for _, values in lines:
            at = {float(t): float(v) * factor for t, v in values}
            heights.append([0 if math.isnan(at.get(t, 0)) else at.get(t, 0) for t in times])
        axes.stackplot(
            [t - end for t in times], heights, labels=[name for name, _ in lines], alpha=0.6
        )
    else:
        for name, values in lines:
            axes.plot(
                [float(t) - end for t, _ in values],
                [float(v) * factor for _, v in values],
                label=name,
            )
    words = {"percentunit": "%", "bytes": "MiB", "Bps": "MiB/s", "none": ""}
    axes.set_ylabel(words.get(unit, unit))
    axes.set_xlabel("seconds")
    axes.legend(fontsize=7, loc="best")
    axes.grid(alpha=0.3)
    if panel["fieldConfig"]["defaults"].get("min") == 0:
        axes.set_ylim(bottom=0)
