"""Checks that the links of a static site lead to files of the site, and their fragments to ids of these files.

    check.py FOLDER

Addresses of other sites are not checked.
"""

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.ids.add(value or "")
            elif name in ("href", "src"):
                self.links.append(value or "")


def main() -> None:
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {file: Page(file.read_text()) for file in root.rglob("*.html")}
    bad, checked = [], 0
    for file, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            checked += 1
            path, fragment = urldefrag(unquote(link))
            to = (file.parent / path).resolve() if path else file
            if to.is_dir():
                to /= "index.html"
            if not to.is_relative_to(root) or not to.is_file():
                bad.append(f"{file.relative_to(root)}: {link}: no such file")
            elif fragment and fragment not in pages[to].ids:
                bad.append(f"{file.relative_to(root)}: {link}: no such heading")
    if bad or checked < 1000:
        sys.exit("\n".join([*bad, f"site: {len(bad)} broken links of {checked} on {len(pages)} pages"]))
    print(f"site: {len(pages)} pages, {checked} links")


main()
