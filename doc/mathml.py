"""Formulas as MathML, which browsers draw themselves: no script, font or network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def visit_inline(translator, node):
    """A formula within a line."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(translator, node):
    """A formula of its own."""
    formula = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="formula">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer; Sphinx prefers it to its own."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
