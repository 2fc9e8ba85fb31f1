"""The documentation names every public object, and what it shows runs."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import skvn
from skvn import _base

ROOT = Path(__file__).parents[1]
MODULES = ["", "datasets", "display", "inspection", "model_selection", "systems"]
# Names in the tables of the API page, without the leading "skvn.".
LISTED = re.findall(r"^   ([\w.]+)$", (ROOT / "doc/api.rst").read_text(), re.MULTILINE)


def public_names():
    """Names of all public objects, as the API page has them."""
    for name in MODULES:
        module = importlib.import_module(f"skvn.{name}".rstrip("."))
        yield from (f"{name}.{n}".lstrip(".") for n in module.__all__)


def resolve(name):
    """The object of a name in the API page."""
    module, _, attribute = f"skvn.{name}".rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_public_object_is_on_the_api_page():
    public = {resolve(name) for name in public_names() if name != "__version__"}
    assert public - {resolve(name) for name in LISTED} == set()


@pytest.mark.parametrize("name", LISTED)
def test_every_listed_object_has_an_example(name):
    _, _, example = inspect.getdoc(resolve(name)).partition("Examples\n--------\n")
    assert ">>> " in example


@pytest.mark.parametrize("name", [n for n in skvn.__all__ if n.startswith("Vector")])
def test_diagrams_link_to_the_page_of_the_estimator(name, monkeypatch):
    estimator = getattr(skvn, name)()
    assert estimator._get_doc_link() == ""  # no link rather than a dead one
    monkeypatch.setattr(_base, "DOCUMENTATION", "https://docs.test")
    # autosummary writes generated/<full name>.html
    assert name in LISTED
    page = f"https://docs.test/generated/skvn.{name}.html"
    assert estimator._get_doc_link() == page
    assert f'href="{page}"' in estimator._repr_html_()


def test_the_lines_on_the_first_page_run():
    (lines,) = re.findall(r"```python\n(.*?)```", first_page(), re.DOTALL)
    smaller = lines.replace("60:200, 190:400", "60:80, 190:210")
    assert smaller != lines
    names = {}
    exec(smaller, names)
    assert names["picture"].shape == names["photo"].shape


def test_the_first_page_says_what_the_readme_says():
    index = (ROOT / "doc/index.md").read_text()
    assert "```{include} ../README.md" in index
    for marker in ("<!-- first page: begin -->", "<!-- first page: end -->"):
        assert index.count(marker) == (ROOT / "README.md").read_text().count(marker)
    picture = re.search(r"\]\((.*?)\)", first_page()).group(1)
    assert (ROOT / picture).is_file()


def first_page():
    """The part of the README that the first page includes."""
    readme = (ROOT / "README.md").read_text()
    _, _, part = readme.partition("<!-- first page: begin -->")
    return part.partition("<!-- first page: end -->")[0]


@pytest.mark.parametrize("page", sorted((ROOT / "doc/guide").glob("*.rst")), ids=str)
def test_every_chapter_leads_on(page):
    chapters = (ROOT / "doc/guide/index.rst").read_text()
    assert page.stem == "index" or f"\n   {page.stem}\n" in chapters
    assert page.stem == "index" or "\nWhere to go next: " in page.read_text()
