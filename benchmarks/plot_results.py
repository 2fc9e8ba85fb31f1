"""Draw the figures and fill the tables of README.md from the files in results/.

Reads ``results/*.csv`` and ``notes/*.md`` only, writes ``README.md`` and
``results/figures/``. A line ``<!-- table: TASK CONFIG ... -->`` in a note becomes the
table of medians over seeds of these configurations (all, if none is named),
``<!-- goals: TASK -->`` the comparison of the Vector Network with the best baselines,
``<!-- budgets: TASK -->`` what the networks were given.
"""

import argparse
import re
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

HERE = Path(__file__).parent
TASKS = ("functions", "spatial", "nbody", "images")
FAMILIES = ("vn", "neural", "classical", "reference")
FAMILY_NAMES = {
    "vn": "Vector Networks",
    "neural": "trained by backpropagation",
    "classical": "classical",
    "reference": "for reference",
}
ABLATION = "VN ablation"
COLOURS = dict(zip(FAMILIES, ("C3", "C0", "C2", "0.6"), strict=True))
# Splits that show what training showed; all others recombine or extrapolate.
_ID = re.compile(r"\b(id|id_pairs|singles)\b")


def read(task, results=HERE / "results"):
    """Rows of one task, or None if it has not been run."""
    path = results / f"{task}.csv"
    return pd.read_csv(path, keep_default_na=False) if path.exists() else None


def is_id(split):
    """Whether a split is in distribution."""
    return bool(_ID.search(split))


def medians(rows):
    """Median over seeds of one configuration: (family, method) by split."""
    wide = rows.pivot_table(
        "error", ["family", "method"], "split", "median", sort=False
    )
    order = {family: i for i, family in enumerate(FAMILIES)}
    return wide.sort_index(
        level="family", key=lambda f: f.map(order), sort_remaining=False
    )


def number(x):
    """Two significant digits, short; nothing for a missing one."""
    if np.isnan(x):
        return ""
    if x < 1e-3 or x >= 1000:
        return f"{x:.1e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{x:.2g}" if x < 100 else f"{x:.0f}"


def markdown(header, rows):
    """A Markdown table; the first column to the left, the others to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table(rows):
    """Medians of one configuration, the lowest of every column in bold."""
    wide = medians(rows)
    splits = list(rows["split"].unique())
    times = rows.groupby(["family", "method"])[["fit_time", "n_parameters"]].median()
    counted = wide[wide.index.get_level_values("family") != "reference"]
    lines, last = [], None
    for (family, method), errors in wide[splits].iterrows():
        if family != last:
            lines.append([f"*{FAMILY_NAMES[family]}*"] + [""] * (len(splits) + 2))
            last = family
        cells = [
            f"**{number(e)}**"
            if family != "reference" and e == counted[s].min()
            else number(e)
            for s, e in errors.items()
        ]
        cost = times.loc[(family, method)]
        cost = [number(cost["fit_time"]), f"{cost['n_parameters']:.0f}"]
        lines.append([method, *cells, *cost])
    return markdown(["method", *splits, "fit s", "parameters"], lines)


def champion(wide):
    """The Vector Network with the lowest error in distribution (ablations apart)."""
    own = wide.loc["vn"]
    own = own[~own.index.str.startswith(ABLATION)]
    known = [s for s in wide.columns if is_id(s)] or list(wide.columns)
    return np.log(own[known]).mean(axis=1).idxmin()


def goals(rows):
    """For every configuration and split: the best of each family and its ratio."""
    lines = []
    for config, part in rows.groupby("config", sort=False):
        wide = medians(part)
        mine = champion(wide)
        for split in part["split"].unique():
            vn = wide.loc[("vn", mine), split]
            cells = [config, split, mine, number(vn)]
            for family in ("neural", "classical"):
                if family not in wide.index.get_level_values("family"):
                    cells += ["", "", ""]
                    continue
                best = wide.loc[family, split].dropna()
                name = best.idxmin()
                ratio = best[name] / vn
                shown = f"{number(ratio)}x"
                cells += [
                    name,
                    number(best[name]),
                    shown if ratio >= 1 else f"**{shown}**",
                ]
            lines.append(cells)
    header = ["configuration", "split", "VN (best on ID)", "error"]
    header += ["best network", "error", "ratio", "best classical", "error", "ratio"]
    return markdown(header, lines)


def budgets(rows):
    """What every network was given, of the first seed."""
    own = rows[(rows["family"] == "neural") & (rows["budget"] != "")]
    own = own.drop_duplicates(["config", "method"])
    lines = [
        [r.config, r.method, f"{r.n_parameters}", f"{float(r.fit_time):.0f}", r.budget]
        for r in own.itertuples()
    ]
    header = ["configuration", "method", "parameters", "fit s", "budget (first seed)"]
    return markdown(header, lines)


def fill(text):
    """A note with its markers replaced by tables."""

    def replace(match):
        kind, task, *configs = match[1].replace(":", "").split(" ", 2)
        rows = read(task)
        if rows is None:
            return f"*({task}: not run yet)*"
        chosen = [c.strip() for c in configs[0].split(";")] if configs else None
        if chosen is not None:
            rows = rows[rows["config"].isin(chosen)]
        if kind != "table":
            return {"goals": goals, "budgets": budgets}[kind](rows)
        parts = []
        for config, part in rows.groupby("config", sort=False):
            seeds = part["seed"].nunique()
            parts.append(f"**{config}** ({seeds} seeds)\n\n{table(part)}")
        return "\n\n".join(parts)

    return re.sub(r"<!-- ((?:table|goals|budgets): [^>]*?) -->", replace, text)


def readme():
    """The whole text of README.md."""
    names = ["intro", *TASKS]
    notes = [HERE / "notes" / f"{name}.md" for name in names]
    parts = [fill(note.read_text()).strip() for note in notes if note.exists()]
    return "\n\n".join(parts) + "\n"


def draw_errors(task, rows, folder):
    """Error of every method on every split, one panel per configuration."""
    configs = rows["config"].unique()
    fig, axes = _plt().subplots(
        len(configs), 1, figsize=(8, 3.2 * len(configs)), squeeze=False
    )
    for ax, config in zip(axes[:, 0], configs, strict=True):
        part = rows[rows["config"] == config]
        wide = medians(part)[list(part["split"].unique())]
        shown = wide[~wide.index.get_level_values(1).str.startswith(ABLATION)]
        _draw_config(ax, shown)
        ax.set_title(f"{task}: {config}", fontsize=10)
    fig.tight_layout()
    fig.savefig(folder / f"{task}.png", dpi=80)


def _draw_config(ax, wide):
    """One dot per (method, split), columns of splits, the best of a family named."""
    for x, split in enumerate(wide.columns):
        for i, family in enumerate(FAMILIES):
            if family not in wide.index.get_level_values(0):
                continue
            errors = wide.loc[family, split].dropna()
            place = np.full(len(errors), x + (i - 1.5) * 0.18)
            ax.scatter(place, errors, 14, COLOURS[family])
    ax.set_yscale("log")
    ax.set_xticks(range(len(wide.columns)), wide.columns, rotation=20, fontsize=8)
    ax.set_ylabel("relative squared error")
    ax.grid(axis="y", alpha=0.3)
    handles = [
        ax.scatter([], [], 14, COLOURS[f], label=FAMILY_NAMES[f]) for f in COLOURS
    ]
    ax.legend(handles=handles, fontsize=7, ncols=2)


def draw_maps(folder):
    """Error of every position of the object, one panel per method."""
    path = HERE / "results" / "spatial_maps.csv"
    if not path.exists():
        return
    maps = pd.read_csv(path)
    for config, part in maps.groupby("config", sort=False):
        methods = part["method"].unique()
        fig, axes = _plt().subplots(
            1, len(methods), figsize=(2.3 * len(methods), 2.8), squeeze=False
        )
        for ax, method in zip(axes[0], methods, strict=True):
            own = part[part["method"] == method]
            image = own.pivot_table("error", "row", "column")
            shown = ax.imshow(np.log10(image.clip(1e-8)), vmin=-8, vmax=0.3)
            ax.set_title(method, fontsize=9)
            ax.set(xticks=[], yticks=[], xlabel="column of the object")
        axes[0, 0].set_ylabel("row of the object")
        fig.colorbar(shown, ax=axes, label="log10 error", shrink=0.7)
        fig.savefig(folder / f"spatial_maps_{config}.png", dpi=80, bbox_inches="tight")


def draw_rollouts(folder):
    """Paths of the bodies: one row per system, one column per method."""
    path = HERE / "results" / "nbody_rollouts.csv"
    if not path.exists():
        return
    paths = pd.read_csv(path)
    systems, methods = paths["system"].unique(), paths["method"].unique()
    fig, axes = _plt().subplots(
        len(systems),
        len(methods),
        figsize=(2.5 * len(methods), 2.5 * len(systems)),
        squeeze=False,
        sharex="row",
        sharey="row",
    )
    for line, system in zip(axes, systems, strict=True):
        for ax, method in zip(line, methods, strict=True):
            own = paths[(paths["system"] == system) & (paths["method"] == method)]
            for source, style in (("truth", "0.6"), ("predicted", "C3")):
                for _, body in own[own["source"] == source].groupby("body"):
                    ax.plot(body["x"], body["y"], color=style, label=source)
                    ax.plot(body["x"].iloc[-1], body["y"].iloc[-1], "o", color=style)
            ax.set(xticks=[], yticks=[], aspect="equal")
        line[0].set_ylabel(system)
    for ax, method in zip(axes[0], methods, strict=True):
        ax.set_title(method, fontsize=9)
    fig.suptitle("truth grey, predicted red; a dot at the last step", fontsize=9)
    fig.tight_layout()
    fig.savefig(folder / "nbody_rollouts.png", dpi=80)


def _plt():
    import matplotlib.pyplot as plt

    return plt


def main():
    """Write README.md and the figures."""
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    matplotlib.use("agg")
    folder = HERE / "results" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (HERE / "README.md").write_text(readme())
    for task in TASKS:
        rows = read(task)
        if rows is not None:
            draw_errors(task, rows, folder)
    draw_maps(folder)
    draw_rollouts(folder)


if __name__ == "__main__":
    main()
