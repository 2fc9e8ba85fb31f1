"""Rules that hold for the package as a whole."""

import ast
import importlib.metadata
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import skvn

PACKAGE = Path(skvn.__file__).parent
MAX_LINES = 600

# Run in a fresh interpreter: other tests have long imported everything here.
# None in sys.modules makes a package look as if it were not installed.
IMPORT_PROBE = """
import json, pickle, random, sys

for name in ("matplotlib", "pandas", "polars", "rich", "tqdm"):
    sys.modules[name] = None

import numpy, torch

def state():
    return {
        "random": pickle.dumps(random.getstate()).hex(),
        "numpy": pickle.dumps(numpy.random.get_state()).hex(),
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "dtype": str(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }

before = state()
import skvn
after = state()
print(json.dumps([key for key in before if before[key] != after[key]]))
"""


def test_version_is_the_installed_one():
    assert skvn.__version__ == importlib.metadata.version("skvn")


def test_import_needs_no_extras_and_changes_no_global_state():
    probe = subprocess.run(
        [sys.executable, "-c", IMPORT_PROBE], capture_output=True, text=True
    )
    assert probe.returncode == 0, probe.stderr
    assert json.loads(probe.stdout) == []


def test_public_names_have_numpydoc_docstrings():
    assert len(skvn.__all__) == len(set(skvn.__all__)) > 0
    public = {name: getattr(skvn, name) for name in skvn.__all__}
    faults = {name: docstring_faults(obj) for name, obj in public.items()}
    assert {name: found for name, found in faults.items() if found} == {}


def docstring_faults(obj):
    """What numpydoc would miss in the docstring of a module, class or function."""
    if isinstance(obj, str):  # __version__
        return []
    doc = inspect.getdoc(obj) or ""
    faults = [] if doc.split("\n")[0].strip() else ["summary"]
    if inspect.ismodule(obj):
        return faults
    documented = parameter_names(section(doc, "Parameters"))
    faults += [p for p in inspect.signature(obj).parameters if p not in documented]
    if inspect.isfunction(obj) and not (
        section(doc, "Returns") or section(doc, "Yields")
    ):
        faults.append("Returns")
    return faults


def section(doc, title):
    """Text of one underlined numpydoc section, "" where there is none."""
    pattern = rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-+$|\Z)"
    found = re.search(pattern, doc, flags=re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


def parameter_names(text):
    """Names in front of the colons of a section, without stars."""
    heads = re.findall(r"^(\S[^:\n]*?)\s*(?::|$)", text, flags=re.MULTILINE)
    return {name.strip(" *") for head in heads for name in head.split(",")}


def test_core_imports_torch_only():
    allowed = {"torch", *sys.stdlib_module_names}
    files = sorted((PACKAGE / "core").rglob("*.py"))
    assert files
    foreign = {
        f"{path.name}: {name}"
        for path in files
        for name in imported_modules(path)
        if name.split(".")[0] not in allowed and not f"{name}.".startswith("skvn.core.")
    }
    assert foreign == set()


def imported_modules(path):
    """Absolute names of the modules that a file imports, wherever in the file."""
    package = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            yield importlib.util.resolve_name(name, package)


def test_no_file_is_too_long():
    files = sorted(PACKAGE.rglob("*.py"))
    lengths = {path.name: len(path.read_bytes().splitlines()) for path in files}
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def test_ruff_is_pinned_to_one_version():
    root = Path(__file__).parents[1]
    constraint = re.search(
        r"^ruff==(\S+)$", (root / "constraints.txt").read_text(), flags=re.MULTILINE
    )
    hook = re.search(
        r"ruff-pre-commit\s+rev: v(\S+)", (root / ".pre-commit-config.yaml").read_text()
    )
    assert constraint.group(1) == hook.group(1)
