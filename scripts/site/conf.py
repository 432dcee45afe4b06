# SPDX-License-Identifier: Apache-2.0
# Sphinx's settings for `make site` (scripts/site.sh), which copies the pages beside this file.
project = "Kerf"
author = "The authors of Kerf"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
html_theme = "furo"
html_title = "Kerf"
myst_heading_anchors = 4
# Links to files outside of docs/ stay as they are: the pages are also read in the repository.
suppress_warnings = ["myst.xref_missing", "toc.not_included", "misc.highlighting_failure"]  # Pygments knows no MLIR
autodoc_member_order = "bysource"
