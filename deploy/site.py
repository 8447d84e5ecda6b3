"""Builds the documentation site that the gateway serves at /docs: docs/ as HTML, and every page as Markdown beside it.

python deploy/site.py [FOLDER]   (build/docs if none is named)

Sources are gathered first (docs/, the changelog), then MkDocs makes the pages: a page's Markdown is its address plus
`index.md`, and `llms.txt` lists them all. Nothing of it needs the network, neither now nor in a browser.
"""

import gzip
import logging
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

os.environ["NO_MKDOCS_2_WARNING"] = "1"

ROOT = Path(__file__).resolve().parent.parent
VIEWER = ROOT / "panel" / "node_modules" / "swagger-ui-dist"
VIEWER_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")
ADDRESS = "/docs/"
SUMMARY = "Pepper is a gateway that gives many projects one door to several AI providers."
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)
NAMED_BLOCK = re.compile(r"^(```\w+) .+$", re.MULTILINE)
"""Blocks that tests look for have a name after their language, which MkDocs takes for no block at all."""
LINK = re.compile(r"(\]\()([^)\s:#/][^)\s:#]*)((?:#[^)\s]*)?\))")
PACKED = {".css", ".html", ".js", ".json", ".md", ".svg", ".txt"}
WORTH_PACKING = 1024


def gather(pages: Path) -> None:
    """Put the sources of all pages together."""
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "CHANGELOG.md", pages / "changelog.md")
    (pages / "assets" / "viewer").mkdir(parents=True)
    shutil.copyfile(ROOT / "panel" / "static" / "icon.svg", pages / "assets" / "icon.svg")
    for name in VIEWER_FILES if VIEWER.is_dir() else ():
        shutil.copyfile(VIEWER / name, pages / "assets" / "viewer" / name)
    for page in pages.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        text = text.replace("../CHANGELOG.md", "changelog.md")
        text = NAMED_BLOCK.sub(r"\1", text)
        if page.name == "changelog.md":
            text = text.replace("](docs/", "](")
        page.write_text(text, encoding="utf-8")
    for client in (pages / "client").glob("*.p*"):  # to be read, not run
        client.chmod(0o644)


def configuration(pages: Path, site: Path) -> object:
    """Read deploy/site.yml; decisions come into the navigation by themselves."""
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "deploy" / "site.yml"), docs_dir=str(pages), site_dir=str(site))
    config["extra"]["viewer"] = VIEWER.is_dir()
    decisions = sorted((pages / "decisions").glob("*.md"))
    config["nav"][-1]["For contributors"].append(
        {"Decisions": [{decision_title(path): f"decisions/{path.name}"} for path in decisions]}
    )
    return config


def decision_title(page: Path) -> str:
    return title_of(page.read_text(encoding="utf-8")) or page.stem


def title_of(text: str) -> str | None:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found and found.group(1)


def build(config: object, site: Path) -> None:
    """Make the HTML. Whatever MkDocs warns of, a broken link for one, stops it."""
    from mkdocs.commands.build import build as mkdocs_build

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    mkdocs_build(config)
    missing = site / "404.html"  # shown at any address, so it can't have relative links
    text = re.sub(r'((?:href|src)=")/(?!/)', rf"\1{ADDRESS}", missing.read_text(encoding="utf-8"))
    text = text.replace(f'href="{ADDRESS}."', f'href="{ADDRESS}"')
    text = re.sub(r'("base": ?)"/"', rf'\1"{ADDRESS}"', text)
    missing.write_text(re.sub(r'("search": ?")/', rf"\1{ADDRESS}", text), encoding="utf-8")
    for name in ("sitemap.xml", "sitemap.xml.gz"):  # they want to know the host
        (site / name).unlink(missing_ok=True)


def add_markdown(pages: Path, site: Path, nav: list) -> None:
    """Put every page's Markdown beside its HTML, and the list of pages for agents at the top."""
    titles = {}
    for page in sorted(pages.rglob("*.md")):
        name = page.relative_to(pages)
        text = FRONT_MATTER.sub("", page.read_text(encoding="utf-8"))
        twin = site / markdown_address(name)
        if not twin.parent.is_dir():
            raise SystemExit(f"{name} has a source but no page")
        twin.write_text(relinked(text, name), encoding="utf-8")
        titles[str(name)] = title_of(text) or str(name)
    lines = ["# Pepper", "", f"> {SUMMARY}", ""]
    for entry in nav:
        lines += listed("Start", entry, titles)
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def listed(heading: str, entry: object, titles: dict) -> list:
    """Give a part of the navigation as part of llms.txt."""
    if isinstance(entry, str):
        return [f"## {heading}", "", line(titles[entry], entry), ""]
    [(heading, entries)] = entry.items()
    pages = [page for each in entries for page in leaves(each)]
    return [f"## {heading}", "", *(line(titles[page], page) for page in pages), ""]


def leaves(entry: object) -> list:
    if isinstance(entry, str):
        return [entry]
    if isinstance(entry, list):
        return [page for each in entry for page in leaves(each)]
    return [page for each in entry.values() for page in leaves(each)]


def line(title: str, page: str) -> str:
    return f"- [{title}]({markdown_address(PurePosixPath(page))})"


def markdown_address(page: PurePosixPath) -> PurePosixPath:
    """Where a page's Markdown is, from the top of the site."""
    folder = page.parent if page.name == "index.md" else page.with_suffix("")
    return PurePosixPath(folder) / "index.md"


def relinked(text: str, page: PurePosixPath) -> str:
    """Give a page's Markdown with links that lead from Markdown to Markdown."""
    here = markdown_address(page).parent

    def moved(found: re.Match) -> str:
        target = PurePosixPath(os.path.normpath(page.parent / found.group(2)))
        if target.suffix == ".md":
            target = markdown_address(target)
        return f"{found.group(1)}{os.path.relpath(target, here)}{found.group(3)}"

    return LINK.sub(moved, text)


def pack(site: Path) -> None:
    """Put what is worth it beside itself, compressed: the gateway sends that to who can unpack it."""
    for path in [path for path in site.rglob("*") if path.suffix in PACKED]:
        whole = path.read_bytes()
        if len(whole) >= WORTH_PACKING:
            Path(f"{path}.gz").write_bytes(gzip.compress(whole, mtime=0))


def main(arguments: list) -> int:
    target = Path(arguments[0]).resolve() if arguments else ROOT / "build" / "docs"
    pages, site = target.with_name(f"{target.name}.pages"), target.with_name(f"{target.name}.new")
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    gather(pages)
    config = configuration(pages, site)
    build(config, site)
    add_markdown(pages, site, config["nav"])
    pack(site)
    shutil.rmtree(target, ignore_errors=True)
    site.rename(target)
    shutil.rmtree(pages)
    if not VIEWER.is_dir():
        print("npm has not fetched panel/package-lock.json: /docs/api/ will do without its viewer", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
