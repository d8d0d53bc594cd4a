"""The report: what it consists of, and how it is drawn as HTML, SVG and Markdown."""
