"""Check that every local link and anchor of a built site leads somewhere.

python doc/check_links.py doc/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Collect what a tag points to, and what can be pointed to."""
        attrs = dict(attrs)
        self.anchors |= {attrs.get("id"), attrs.get("name")}
        links = {attrs.get("href"), attrs.get("src")}
        self.links |= {link for link in links if link}


def broken(path, page, pages, root):
    """Local links of a page that lead nowhere."""
    for link in page.links:
        address, anchor = urldefrag(link)
        if urlsplit(link).scheme or link.startswith("//"):
            continue
        # "#:~:text=" asks the browser to look for words.
        anchor = unquote(anchor).partition(":~:")[0]
        target = (path.parent / unquote(urlsplit(address).path)).resolve()
        target = target / "index.html" if target.is_dir() else target
        target = target if address else path
        known = anchor in pages[target].anchors if target in pages else not anchor
        if not target.is_file() or root not in target.parents or (anchor and not known):
            yield link


def main(folder):
    """Print broken links; exit with 1 if there are any."""
    root = Path(folder).resolve()
    files = [p for p in root.rglob("*.html") if "_static" not in p.parts]
    pages = {path: Page(path) for path in files}
    faults = [
        f"{path.relative_to(root)}: {link}"
        for path, page in pages.items()
        for link in sorted(broken(path, page, pages, root))
    ]
    print(*faults, sep="\n")
    print(f"{len(pages)} pages, {len(faults)} broken links")
    sys.exit(bool(faults) or not pages)


if __name__ == "__main__":
    main(sys.argv[1])
