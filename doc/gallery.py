"""How the gallery is ordered, and where its estimators' "?" links lead."""

import skvn._base

_FIRST = "plot_quickstart.py"


def order(filename):
    """Sorting key: the introduction, then by name; what is not run comes last."""
    return filename != _FIRST, not filename.startswith("plot_"), filename


def link_here(gallery_conf, fname):
    """Let the diagrams of estimators link to the pages beside them."""
    skvn._base.DOCUMENTATION = ".."
