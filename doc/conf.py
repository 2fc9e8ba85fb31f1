"""Settings of the documentation; `make doc` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import skvn

project = "skvn"
author = copyright = "The skvn developers"
release = version = skvn.__version__

extensions = [
    "mathml",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
exclude_patterns = ["_build", "_templates", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
default_role = "literal"

# Every reference has to lead somewhere. Docstrings name types in prose, and
# scikit-learn's pages are not looked up: a build needs no network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"sklearn\..*"), ("py:class", ".*")]

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

plot_basedir = str(Path(__file__).parent / "plots")
plot_formats = [("png", 120)]
plot_html_show_formats = plot_html_show_source_link = False
plot_rcparams = {"figure.facecolor": "white", "font.size": 9}
plot_apply_rcparams = True

html_theme = "pydata_sphinx_theme"
html_title = "skvn"
toc_object_entries_show_parents = "hide"
html_static_path = ["_static"]
html_css_files = ["skvn.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "skvn"},
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 4,
}
_ALONE = ["index", "benchmarks", "changelog", "contributing", "bibliography"]
html_sidebars = {page: [] for page in _ALONE}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery.order",
    "reset_modules": ("matplotlib", "gallery.link_here"),
    "doc_module": ("skvn",),
    "backreferences_dir": "generated/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "parallel": 2,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}
