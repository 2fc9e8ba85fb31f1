"""Markdown tables and texts from the files in results/ and notes/.

A line ``<!-- table: TASK CONFIG; CONFIG -->`` in a note becomes the table of medians
over seeds of these configurations (all, if none is named), ``<!-- goals: TASK -->`` the
comparison of the Vector Network with the best baselines, ``<!-- budgets: TASK -->``
what the networks were given.
"""

import re
from pathlib import Path

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
# Rows of the table in the README of the project: label, task, configuration, split.
HEADLINES = (
    (
        "signals: hidden block, three functions",
        "functions",
        "wide",
        "block triples",
    ),
    ("forces: new state, three at once", "nbody", "query", "triples"),
    ("the same, noise .01", "nbody", "query, noise .01", "triples"),
    ("image of a ring: new row and column", "spatial", "decode-ring", "ood"),
    ("half-hidden bump: new row and column", "spatial", "half", "ood"),
    ("sum of two digits, 32 numbers", "images", "mnist-reconstruct", "sum2"),
    ("sum of two digits, half hidden", "images", "mnist-half", "sum2"),
    ("moving digit, three moves at once", "images", "mnist-moving", "rts"),
)
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
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
    each = rows.groupby(["family", "method"])
    costs = each[["fit_time", "n_parameters"]].median()
    costs["seeds"] = each["seed"].nunique()
    counted = wide[wide.index.get_level_values("family") != "reference"]
    lines, last = [], None
    for (family, method), errors in wide[splits].iterrows():
        if family != last:
            lines.append([f"*{FAMILY_NAMES[family]}*"] + [""] * (len(splits) + 3))
            last = family
        cells = [
            f"**{number(e)}**"
            if family != "reference" and e == counted[s].min()
            else number(e)
            for s, e in errors.items()
        ]
        cost = costs.loc[(family, method)]
        size = f"{cost['n_parameters']:.0f}", f"{cost['seeds']:.0f}"
        lines.append([method, *cells, number(cost["fit_time"]), *size])
    return markdown(["method", *splits, "fit s", "parameters", "seeds"], lines)


def champion(wide):
    """The Vector Network with the lowest error in distribution (ablations apart)."""
    own = wide.loc["vn"]
    own = own[~own.index.str.startswith(ABLATION)]
    known = [s for s in wide.columns if is_id(s)] or list(wide.columns)
    return np.log(own[known]).mean(axis=1).idxmin()


def goals(rows):
    """For every configuration and split: the best of each family and its ratio."""
    lines = []
    started = rows["family"].eq("vn").groupby(rows["config"]).transform("any")
    for config, part in rows[started].groupby("config", sort=False):
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


def headlines():
    """The Vector Network beside the best of the others, one row per headline."""
    lines = []
    for label, task, config, split in HEADLINES:
        rows = read(task)
        wide = medians(rows[rows["config"] == config])
        errors = {"vn": (champion(wide), wide.loc[("vn", champion(wide)), split])}
        for family in ("neural", "classical"):
            if family in wide.index.get_level_values("family"):
                best = wide.loc[family, split].dropna()
                errors[family] = best.idxmin(), best.min()
        least = min(error for _, error in errors.values())
        shown = {f: f"{m} {number(e)}" for f, (m, e) in errors.items()}
        shown |= {f: f"**{shown[f]}**" for f, (_, e) in errors.items() if e == least}
        lines.append([label, *(shown.get(f, "") for f in FAMILIES[:3])])
    header = ["unseen combination", "Vector Network", "best network", "best other"]
    return markdown(header, lines)


def with_headlines(text):
    """The README of the project with its short table renewed."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{headlines()}\n{END}{after}"


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
        parts = rows.groupby("config", sort=False)
        return "\n\n".join(f"**{config}**\n\n{table(part)}" for config, part in parts)

    return re.sub(r"<!-- ((?:table|goals|budgets): [^>]*?) -->", replace, text)


def readme():
    """The whole text of README.md."""
    names = ["intro", *TASKS]
    notes = [HERE / "notes" / f"{name}.md" for name in names]
    parts = [fill(note.read_text()).strip() for note in notes if note.exists()]
    return "\n\n".join(parts) + "\n"
