"""Pages of the documentation site that are made from something else; a hook of MkDocs.

Notebooks become pages with what they printed and drew, files beside `docs/` become pages that
links can lead to, the commands are described by their own files, and `costs.md` is computed from
the records under `results/`. Nothing here is written to disk but the site.
"""

import ast
import base64
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from costs import costs_page

ROOT = Path(__file__).parents[1]
log = logging.getLogger("mkdocs.hooks.site_pages")
LANGUAGES = {".py": "python"}
_LOADED = re.compile(r'<(?:script|link|img|iframe|video)\b[^>]*?(?:src|href)="(https?://[^"]*)"')
SHIM, OWN_SHIM = "https://unpkg.com/iframe-worker/shim", "search_from_files.js"

BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/ros2_node.py": "ros2_node.md",
}
"""Files that are not in `docs/`, and the pages that show them."""

MADE = {**BESIDE, "tools/costs.py": "costs.md"}
"""Where links to files that are not in `docs/` lead."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        pages = _notebook_pages(Path(config.docs_dir), notebook.src_uri)
        _append(files, config, pages)
    _append(files, config, {page: _show(ROOT / source) for source, page in BESIDE.items()})
    costs = f"---\nhide: [toc]\n---\n{costs_page(ROOT)}"  # a wide table and no other headings
    _append(files, config, {"costs.md": costs, "reference/commands.md": _commands()})
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to notebooks and files beside `docs/` lead to the pages made from them."""
    up = "../" * page.file.src_uri.count("/")
    for source, shown in MADE.items():
        markdown = markdown.replace(f"](../{up}{source})", f"]({up}{shown})")
    return markdown.replace(".ipynb)", ".md)")


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Take a script of our own for the one that Material would load from the net."""
    up = "../" * page.file.src_uri.count("/")
    return _offline(output.replace(SHIM, f"{up}{OWN_SHIM}"), page.file.src_uri)


def on_post_template(output: str, *, template_name: str, config: MkDocsConfig) -> str:
    """The same for pages that are not of `docs/`, such as the one for a wrong address."""
    return _offline(output.replace(SHIM, f"/{OWN_SHIM}"), template_name)


def _offline(output: str, name: str) -> str:
    """Warn, which ends a strict build, of a page that would load something from the net."""
    for address in _LOADED.findall(output):
        log.warning("'%s' would load %s", name, address)
    return output


def _append(files: Files, config: MkDocsConfig, pages: dict[str, str | bytes]) -> None:
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))


def _show(path: Path) -> str:
    """A Markdown file as it is; a program in a frame, under its first line's title."""
    text = path.read_text()
    if path.suffix == ".md":
        return re.sub(r"\]\(docs/", "](", text)
    title = (ast.get_docstring(ast.parse(text)) or path.name).splitlines()[0].rstrip(".")
    where = f"This is `{path.relative_to(ROOT)}`."
    return f"# {title}\n\n{where}\n\n```{LANGUAGES[path.suffix]}\n{text}```\n"


def _commands() -> str:
    """What each command's file says of it at its top, which is also its `--help`."""
    parts = [
        "# The command line",
        "`hypercrl COMMAND --help` shows every flag with its default; `hypercrl train SUITE "
        "METHOD --help` those of the suite's preset too.",
    ]
    folder = ROOT / "src" / "hypercrl" / "commands"
    for path in sorted(folder.glob("*.py")):
        says = ast.get_docstring(ast.parse(path.read_text())) or ""
        title, _, rest = says.partition("\n\n")
        if "usage: hypercrl" in rest:
            usage, _, more = rest.partition("\n\n")
            parts += [f"## {path.stem}", title, f"```text\n{usage}\n```", more]
    return "\n\n".join(part for part in parts if part) + "\n"


def _notebook_pages(docs: Path, uri: str) -> dict[str, str | bytes]:
    """A notebook's page, and the pictures in it."""
    cells = json.loads((docs / uri).read_text())["cells"]
    page = uri.removesuffix(".ipynb") + ".md"
    pictures: dict[str, str | bytes] = {}
    parts = [f"*This page is a notebook that was run: `docs/{uri}`.*"]
    for number, cell in enumerate(cells):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        for kind, content in _outputs(cell):
            if kind == "image/png":
                name = f"{Path(uri).stem}-{number}.png"
                pictures[str(Path(uri).with_name(name))] = content
                inside = f"![What the cell above drew]({name})"
            else:
                inside = f"```text\n{content}\n```"
            parts.append(f'<div class="printed" markdown>\n\n{inside}\n\n</div>')
    title, *rest = [*parts[1:2], parts[0], *parts[2:]]
    return {page: "\n\n".join([title, *rest]) + "\n", **pictures}


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a cell printed, returned and drew, in this order."""
    printed = "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
    if printed.strip():
        yield "text/plain", printed.rstrip()
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield "image/png", base64.b64decode("".join(data["image/png"]))
        elif "text/plain" in data:
            yield "text/plain", "".join(data["text/plain"])
