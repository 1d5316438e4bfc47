"""What mkdocs calls while it builds: pages that are not files of docs/, links between both, and the navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website.commands import command_reference
from website.equations import set_equations
from website.gallery import gallery_index
from website.notebooks import tutorial_pages
from website.paths import ASSETS, GALLERY, ROOT, TUTORIALS
from website.reference import reference_pages
from website.shared import NAME, library

# Pages of the site that are kept elsewhere, with the names that others link to them by.
ELSEWHERE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
_FOLDERS = {"docs/decisions": "decisions/0001-records.md", "docs/tutorials": "tutorials/index.md"}
_SERVED = {".css", ".html", ".js", ".png", ".svg"}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)((?:#[^)\s]*)?)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and complete the navigation."""
    for uri, text in _generated():
        files.append(File.generated(config, uri, content=text))
    for folder, where in ((ASSETS, "assets"), (GALLERY, "gallery"), (TUTORIALS, "tutorials")):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in _SERVED:
                uri = f"{where}/{path.relative_to(folder).as_posix()}"
                files.append(File.generated(config, uri, abs_src_path=str(path)))
    files.append(File.generated(config, f"assets/{NAME}", content=library()))
    config.nav = complete(config.nav or [], sorted(file.src_uri for file in files.documentation_pages()))
    return files


def _generated() -> Iterator[tuple[str, str]]:
    for uri, source in ELSEWHERE.items():
        yield uri, (ROOT / source).read_text(encoding="utf-8")
    for name, text in reference_pages().items():
        yield f"reference/{name}", text
    yield "reference/cli.md", command_reference()
    yield "gallery/index.md", gallery_index()
    for name, text in tutorial_pages().items():
        yield f"tutorials/{name}", text


def complete(nav: list[Any], pages: list[str]) -> list[Any]:
    """Return the navigation with the pages of its folders, and with those that it does not name as guides."""
    named = set(re.findall(r"[\w./-]+\.md", str(nav)))
    left = [page for page in pages if page not in named]

    def expand(entry: Any) -> Any:
        if isinstance(entry, dict):
            return {title: expand(value) for title, value in entry.items()}
        if isinstance(entry, list):
            return [expand(one) for one in entry]
        if not entry.endswith("/"):
            return entry
        inside = [page for page in left if page.startswith(entry)]
        left[:] = [page for page in left if page not in inside]
        return sorted(inside, key=lambda page: (not page.endswith("/index.md"), page))

    found = expand(nav)
    guides = next(one["Guides"] for one in found if isinstance(one, dict) and "Guides" in one)
    guides[-1:-1] = left
    return list(found)


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Resolve links as they work in the repository to where they lead on the site."""
    source = ELSEWHERE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    known = {file.src_uri for file in files}
    return _LINK.sub(lambda found: _resolve(found, page.file.src_uri, Path(source).parent, known), markdown)


def on_page_content(html: str, **_: object) -> str:
    """Show the equations of the tables of variants and exhibits as mathematics."""
    return set_equations(html)


def on_post_page(output: str, **_: object) -> str:
    """Give the search a name, for those who hear the page."""
    return output.replace('data-md-component="search" role="dialog"', 'data-md-component="search" role="search"')


def on_post_template(output_content: str, **_: object) -> str:
    """Do the same for the page that a host shows where there is none."""
    return on_post_page(output_content)


def _resolve(found: re.Match[str], uri: str, folder: Path, known: set[str]) -> str:
    mark, words, target, anchor = found.groups()
    if not target or "://" in target or target.startswith("mailto:"):
        return found[0]
    path = _normal(folder / target)
    elsewhere = {source: page for page, source in ELSEWHERE.items()}
    on_site = elsewhere.get(path, _FOLDERS.get(path, path.removeprefix("docs/").replace(".ipynb", ".md")))
    if on_site not in known:
        return words if (ROOT / path).exists() else found[0]  # a file of the repository, without a page
    up = "../" * uri.count("/")
    return f"{mark}[{words}]({up}{on_site}{anchor})"


def _normal(path: Path) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
