"""How Sphinx builds the documents: `make docs`."""

project = "mledger"
author = "the mledger authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "mledger"
html_copy_source = False
exclude_patterns = ["_build"]
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]
