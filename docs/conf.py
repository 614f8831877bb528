"""The site, made by `make docs` from the files that readers of the repository see; docs/index.md is its first page."""

import fedgrid

project = "fedgrid"
author = "The fedgrid maintainers"
release = fedgrid.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "benchmarks/results/**.md"]
suppress_warnings = ["toc.not_included"]  # measurements are linked from where they come up

html_theme = "furo"
html_title = f"fedgrid {release}"
html_static_path = ["static"]
html_css_files = ["tables.css"]
nb_execution_mode = "off"  # tests run the notebooks
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
copybutton_exclude = ".linenos, .gp, .go"
default_role = "code"


def setup(app):
    """Sizes such as |θ| are no substitutions of reStructuredText."""
    app.connect("autodoc-process-docstring", _escape_sizes)


def _escape_sizes(app, what, name, subject, options, lines):
    lines[:] = [line.replace("|", "\\|") for line in lines]
