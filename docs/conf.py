"""How Sphinx builds the documents: `make docs`."""

project = "mledger"
author = "the mledger authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "mledger"
html_copy_source = False
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of signatures: not all of them have a page
default_role = "code"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
suppress_warnings = ["misc.highlighting_failure"]
