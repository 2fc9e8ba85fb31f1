"""Write README.md and draw the figures from the files in results/ and notes/.

Writes ``README.md``, ``results/figures/`` and the short table in the README of the
project; reads nothing but ``results/*.csv`` and ``notes/*.md``.
"""

import argparse

import matplotlib
import numpy as np
import pandas as pd
from _tables import (
    ABLATION,
    FAMILIES,
    FAMILY_NAMES,
    HERE,
    TASKS,
    medians,
    read,
    readme,
    with_headlines,
)

COLOURS = dict(zip(FAMILIES, ("C3", "C0", "C2", "0.6"), strict=True))


def draw_errors(task, rows, folder):
    """Error of every method on every split, one panel per configuration."""
    configs = rows["config"].unique()
    width = max(8, 0.5 * rows["split"].nunique())
    fig, axes = _plt().subplots(
        len(configs), 1, figsize=(width, 3.4 * len(configs)), squeeze=False
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
    ax.set(yscale="log", ylim=(max(wide.min(axis=None) / 2, 1e-13), None))
    ax.set_xticks(
        range(len(wide.columns)), wide.columns, rotation=25, ha="right", fontsize=8
    )
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
            ax.set(xticks=[], yticks=[], xlabel="column")
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
    project = HERE.parent / "README.md"
    project.write_text(with_headlines(project.read_text()))
    for task in TASKS:
        rows = read(task)
        if rows is not None:
            draw_errors(task, rows, folder)
    draw_maps(folder)
    draw_rollouts(folder)


if __name__ == "__main__":
    main()
