"""The documentation site, built by `make docs`: Sphinx with MyST-NB, without any request to the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import typer.main
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

project = "tallytree"
author = "The tallytree authors"
project_copyright = "the tallytree authors, Apache License 2.0"
release = version = version_of("tallytree")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_design"]
exclude_patterns: list[str] = []
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# The gallery's pages are notebooks as text; each is run at each build, and an error fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "image/svg+xml", 0), ("html", "text/html", 10), ("html", "text/plain", 20)]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_display_short_literal_types = True
maximum_signature_line_length = 72  # longer ones have a line for each argument
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False
default_role = "code"  # docstrings have names in single backticks

html_theme = "pydata_sphinx_theme"
html_title = "tallytree"
html_favicon = "pictures/icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "tallytree", "image_light": "pictures/icon.svg", "image_dark": "pictures/icon.svg"},
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "collapse_navigation": True,
}
suppress_warnings = ["myst.header"]


class CommandLine(SphinxDirective):
    """The help of every command, as the program prints it."""

    def run(self) -> list[nodes.Node]:
        """A section for each command."""
        from tallytree.cli.app import app

        program = typer.main.get_command(app)
        made: list[nodes.Node] = []
        for name, command in self._commands(program):
            context = command.make_context(f"tallytree {name}", [], resilient_parsing=True)
            context.max_content_width = 100
            section = nodes.section(ids=[nodes.make_id(f"tallytree-{name}")], names=[name])
            section += nodes.title(text=f"tallytree {name}")
            section += nodes.literal_block(text=command.get_help(context), language="text")
            made.append(section)
        return made

    def _commands(self, program: Any) -> list[tuple[str, Any]]:
        found = []
        for name, command in program.commands.items():
            found.append((name, command))
            found += [(f"{name} {below}", each) for below, each in getattr(command, "commands", {}).items()]
        return found


class PicturesForScreens(SphinxTransform):
    """A page names `x.png`. Where `x-narrow.png` or `x-dark.png` lie beside it, narrow or dark screens show these."""

    default_priority = 200  # before images are collected

    def apply(self, **_: Any) -> None:
        """Put each picture's variants beside it, with the classes of `site.css` and of the theme."""
        page = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            image.replace_self([*self._variants(image, page)])

    def _variants(self, image: nodes.image, page: Path) -> Iterator[nodes.image]:
        stem, dot, ending = image["uri"].rpartition(".")
        sizes = [size for size in ("", "-narrow") if (page / f"{stem}{size}.{ending}").is_file()]
        for size in sizes:
            schemes = [scheme for scheme in ("", "-dark") if (page / f"{stem}{size}{scheme}.{ending}").is_file()]
            for scheme in schemes:
                variant = image.deepcopy()
                variant["uri"] = f"{stem}{size}{scheme}{dot}{ending}"
                variant["classes"] += ["narrow" if size else "wide"] if len(sizes) > 1 else []
                variant["classes"] += ["only-dark" if scheme else "only-light"] if len(schemes) > 1 else []
                yield variant
        if not sizes:
            yield image


def _bars_as_they_are(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    """Absolute values such as |released − true| are no substitutions of reStructuredText."""
    lines[:] = [re.sub(r"\|(?=\S)|(?<=\S)\|", r"\\|", line) if "`" not in line else line for line in lines]


def setup(app: Sphinx) -> None:
    """Add the directive of the command line, and what docstrings need."""
    app.add_directive("command-line", CommandLine)
    app.add_transform(PicturesForScreens)
    app.connect("autodoc-process-docstring", _bars_as_they_are)
