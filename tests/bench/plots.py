"""The plots of a section as SVG files that are the same for the same figures."""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402: after the choice of what draws

matplotlib.rcParams.update({"svg.hashsalt": "poolcuda", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                            "grid.alpha": 0.3, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False})
MARKERS = "osD^vPX*"


def draw_bars(axes, series):
    """Groups of bars: one group for each x, one bar in it for each series."""
    labels = list(dict.fromkeys(str(x) for points in series.values() for x, _ in points))
    width = 0.8 / len(series)
    for number, (name, points) in enumerate(series.items()):
        places = [labels.index(str(x)) + (number - (len(series) - 1) / 2) * width for x, _ in points]
        axes.bar(places, [y for _, y in points], width, label=name)
    axes.set_xticks(range(len(labels)))
    long = sum(len(label) for label in labels) > 60
    axes.set_xticklabels(labels, rotation=25 if long else 0, ha="right" if long else "center")


def draw_lines(axes, series):
    for marker, (name, points) in zip(MARKERS * len(series), series.items()):
        axes.plot([x for x, _ in points], [y for _, y in points], marker=marker, markersize=4, label=name)


def draw(section, folder):
    """Draws them into folder/benchmarks-ID.svg, -ID-2.svg and so on; [(title, file name)]."""
    for old in folder.glob(f"benchmarks-{section['id']}*.svg"):
        if old.stem.removeprefix(f"benchmarks-{section['id']}").lstrip("-").isdigit() or \
                old.stem == f"benchmarks-{section['id']}":
            old.unlink()
    drawn = []
    for number, plot in enumerate(section["plots"], 1):
        figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
        (draw_bars if plot["kind"] == "bar" else draw_lines)(axes, plot["series"])
        axes.set_title(plot["title"])
        axes.set_xlabel(plot["x_label"])
        axes.set_ylabel(plot["y_label"])
        if plot.get("log_x"):
            axes.set_xscale("log")
        if plot.get("log_y"):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        if len(plot["series"]) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        name = f"benchmarks-{section['id']}{'' if number == 1 else f'-{number}'}.svg"
        figure.savefig(folder / name, format="svg", metadata={"Date": None})
        plt.close(figure)
        drawn.append((plot["title"], name))
    return drawn
