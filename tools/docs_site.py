"""Builds the documentation site: the pages of docs/ and a page for each public function.

    pip install -r docs/requirements.txt
    python tools/docs_site.py [--out site] [--few]

The function pages come from the live module: signature, documentation, example, the row of
docs/support.md, a link to the source. --few builds three of each module, for tests. The result is
read from disk or from a server. Dead links, also those to places in a page, end it with status 1.
"""

import argparse
import html.parser
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import types
import urllib.parse

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.utils
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
REPOSITORY = URLS["Repository"]

# Module, how programs call it, what it is.
MODULES = [
    ("mlx.core", "mx", mx, "Arrays, operations, transforms, devices"),
    ("mlx.core.fast", "mx.fast", mx.fast, "Operations of networks as one kernel, own kernels"),
    ("mlx.core.fft", "mx.fft", mx.fft, "Fourier transforms"),
    ("mlx.core.linalg", "mx.linalg", mx.linalg, "Linear algebra"),
    ("mlx.core.random", "mx.random", mx.random, "Random numbers"),
    ("mlx.core.distributed", "mx.distributed", mx.distributed, "Several processes"),
    ("mlx.core.vulkan", "mx.vulkan", mx.vulkan, "Profiles, statistics, devices"),
    ("mlx.core.metal", "mx.metal", mx.metal, "Names of another backend"),
    ("mlx.nn", "nn", nn, "Layers and functions of networks"),
    ("mlx.nn.init", "nn.init", nn.init, "Initial values"),
    ("mlx.nn.losses", "nn.losses", nn.losses, "Losses"),
    ("mlx.optimizers", "optim", optim, "Optimizers and schedules"),
    ("mlx.utils", "mlx.utils", mlx.utils, "Trees"),
]
GUIDES = [
    ("Home", "index.md"),
    ("First hour", "first_hour.md"),
    ("Devices and memory", "guide.md"),
    ("Transforms", "transforms.md"),
    ("Training", "training.md"),
    ("Language models", "language_models.md"),
    ("Kernels of your own", "custom_kernels.md"),
    ("Profiling", "profiling.md"),
    ("Devices and tuning", "tuning.md"),
    ("Tuning: environment", "environment.md"),
    ("Functions in files", "graphs.md"),
    ("Several devices", "distributed.md"),
    ("What to try next", "next.md"),
]
ABOUT = [
    ("Support matrix", "support.md"),
    ("Portability", "portability.md"),
    ("Tested devices", "tested_devices.md"),
    ("Differences from MLX", "differences.md"),
    ("Benchmarks", "benchmarks.md"),
    ("Measurements", "performance.md"),
    ("Platforms", "platforms.md"),
    ("Versions", "versions.md"),
    ("Architecture", "ARCHITECTURE.md"),
    ("Progress", "PROGRESS.md"),
    ("Changes", "CHANGELOG.md"),
    ("Reliability", "reliability.md"),
    ("Security", "SECURITY.md"),
    ("Contributing", "CONTRIBUTING.md"),
]
HEADS = re.compile(r"^(Args|Returns|Raises|Attributes|Yields|Note|References?):\s*$")


# --- pages from the live module -------------------------------------------------------------------


def public(module):
    """Functions and classes of a module that are its own, by name."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", None)
        if name.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
            continue
        if home not in ("typing", "collections.abc", "functools"):
            found[name] = value
    return found


def support():
    """Rows of the support matrix by function, and its heading."""
    rows, heading = {}, []
    for line in (ROOT / "docs" / "support.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if line.startswith("| function"):
            heading = cells[1:]
        elif line.startswith("| `") and len(cells) == len(heading) + 1:
            rows[cells[0].strip("`")] = cells[1:]
    return heading, rows


def sources():
    """Where functions of the native module are defined: file and line by name."""
    found = {}
    for path in sorted((ROOT / "src" / "python").rglob("*.rs")):
        for i, line in enumerate(path.read_text().splitlines(), 1):
            for name in re.findall(r"^\s*(?:pub )?(?:fn|struct) (?:r#)?(\w+)|^ {4}(\w+) =>", line):
                name = name[0] or name[1]
                found.setdefault(name, f"{path.relative_to(ROOT)}#L{i}")
    return found


def source(name, value, native):
    """Address of a definition."""
    try:
        path = pathlib.Path(inspect.getsourcefile(value))
        line = inspect.getsourcelines(value)[1]
        inside = path.parts[len(path.parts) - path.parts[::-1].index("mlx") - 1 :]
        place = f"python/{'/'.join(inside)}#L{line}"
    except (TypeError, OSError, ValueError):
        place = native.get(name, "src/python")
    kind = "blob" if "." in place.rsplit("/", 1)[-1] else "tree"
    return f"{REPOSITORY}/{kind}/main/{place}"


def signature(value):
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


def escape(text):
    """Text in which Markdown sees no tags; code in backquotes stays."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else p.replace("<", "&lt;") for p in parts)


def markdown(doc):
    """A docstring as Markdown: sections become headings, their items lists, examples code."""
    out, block, section, indent = [], [], False, 0

    def flush():
        if block:
            out.extend(["", "```pycon", *block, "```", ""])
            block.clear()

    for line in re.sub(r":\w+:`", "`", doc or "").splitlines():
        text = line.strip()
        follows = block and text and not HEADS.match(text)
        if text.startswith((">>>", "...")) or follows:
            indent = indent if block else len(line) - len(line.lstrip())
            block.append(line[indent:])
            continue
        flush()
        if HEADS.match(text):
            section = True
            out.extend(["", f"**{text[:-1]}**", ""])
        elif section and text and line.startswith(" "):
            deep = len(line) - len(line.lstrip()) > 4
            named = re.match(r"([\w*]+)( \([^)]*\))?: (.*)", text)
            if named and not deep:
                kind = f" *{escape(named[2].strip(' ()'))}*:" if named[2] else ":"
                out.append(f"- `{named[1]}`{kind} {escape(named[3])}")
            elif deep and out and out[-1]:
                out[-1] += " " + escape(text)
            else:
                out.append(f"- {escape(text)}" if not deep else escape(text))
        else:
            section = section and not (text and not line.startswith(" "))
            out.append(escape(text))
    flush()
    return "\n".join(out)


def method_pages(value):
    """Documentation of a class's public methods."""
    out = []
    for name, method in sorted(vars(value).items()):
        if name.startswith("_") or not (callable(method) or isinstance(method, property)):
            continue
        doc = inspect.getdoc(method)
        if doc:
            shape = "" if isinstance(method, property) else signature(getattr(value, name))
            out += ["", f"## {name}", "", f"```python\n{name}{shape}\n```", "", markdown(doc)]
    return out


def page(called, name, value, heading, row, place):
    """The page of one function or class."""
    lines = [f"# {called}.{name}", "", f"```python\n{called}.{name}{signature(value)}\n```", ""]
    lines.append(markdown(inspect.getdoc(value)))
    if row:
        lines += ["", "## Types and devices", "", f"| {' | '.join(heading)} |"]
        lines += [f"|{'---|' * len(heading)}", f"| {' | '.join(row)} |", ""]
        lines.append("[What the marks mean](../../support.md)")
    if inspect.isclass(value):
        lines += method_pages(value)
    lines += ["", f"[Source]({place})", ""]
    return "\n".join(lines)


def functions(stage, few):
    """Writes the function pages; returns entries of the navigation."""
    heading, rows = support()
    native, nav = sources(), []
    for module, called, value, about in MODULES:
        folder = stage / "functions" / module
        folder.mkdir(parents=True)
        # The pages themselves are what a search should find.
        index = [
            "---",
            "search: {exclude: true}",
            "---",
            "",
            f"# {called}",
            "",
            f"{about}. `import {module}`",
            "",
            "| | |",
            "|---|---|",
        ]
        names = public(value)
        for name in sorted(names)[: 3 if few else None]:
            entry = names[name]
            where = source(name, entry, native)
            row = rows.get(f"{called}.{name}".removeprefix("mx."))
            text = page(called, name, entry, heading, row, where)
            # Files of names that differ in case alone are one file on some systems.
            file = name + ("_class" if name != name.lower() and name.lower() in names else "")
            (folder / f"{file}.md").write_text(text)
            first = re.sub(r":\w+:`", "`", inspect.getdoc(entry) or "").split("\n\n")[0]
            first = first.replace("\n", " ")
            index.append(f"| [`{name}`]({file}.md) | {escape(first).replace('|', '&#124;')} |")
        (folder / "index.md").write_text("\n".join(index) + "\n")
        nav.append({called: f"functions/{module}/index.md"})
    return nav


# --- the site ------------------------------------------------------------------------------------


def staged(stage, few):
    """Puts all pages into one folder; returns the navigation."""
    ignored = shutil.ignore_patterns("site", "requirements.txt")
    shutil.copytree(ROOT / "docs", stage, ignore=ignored)
    for _, name in ABOUT:
        if (stage / name).exists() or not (ROOT / name).exists():
            continue
        text = (ROOT / name).read_text().replace("](docs/", "](")
        (stage / name).write_text(text)
    blob = rf"{REPOSITORY}/blob/main/"
    readme = (ROOT / "README.md").read_text()
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com") + "/main/docs/"
    readme = (
        readme.replace(raw, "").replace(f"{blob}docs/", "").replace(f"{blob}PROGRESS", "PROGRESS")
    )
    (stage / "index.md").write_text(readme)
    # Links that leave the folder lead to the repository.
    for path in stage.glob("*.md"):
        text = re.sub(r"\]\(\.\./(SECURITY|PROGRESS|CHANGELOG)\.md", r"](\1.md", path.read_text())
        path.write_text(re.sub(r"\]\(\.\./", f"]({REPOSITORY}/blob/main/", text))
    about = [(title, name) for title, name in ABOUT if (stage / name).exists()]
    listed = {name for _, name in GUIDES + ABOUT}
    for path in sorted(stage.glob("*.md")):
        if path.name not in listed:
            about.append((re.search(r"^# (.+)", path.read_text(), re.M)[1], path.name))
    return [
        {"Guides": [{title: name} for title, name in GUIDES]},
        {"Functions": functions(stage, few)},
        {"About": [{title: name} for title, name in about]},
    ]


def configuration(stage, out, nav):
    return {
        "site_name": "mlx-vulkan",
        "site_url": URLS["Documentation"],
        "repo_url": REPOSITORY,
        "docs_dir": str(stage),
        "site_dir": str(out),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.top", "search.suggest", "search.share"],
            "palette": {"primary": "deep orange"},
        },
        # Names are found by their last part: softmax finds mx.softmax.
        "plugins": [{"search": {"separator": r'[\s\-,:!=\[\]()"/.`]+'}}, "offline"],
        "markdown_extensions": ["admonition", "tables", "toc", "pymdownx.superfences"],
        "nav": nav,
        "not_in_nav": "functions/**\n",
        "validation": {"omitted_files": "ignore", "unrecognized_links": "warn", "anchors": "warn"},
    }


# What the theme would fetch for pages that are read from disk.
SHIM = "https://unpkg.com/iframe-worker/shim"


def serve_shim(out):
    """Puts the worker of this repository in the place of the one that the theme fetches."""
    shutil.copy(ROOT / "docs" / "site" / "worker.js", out / "assets" / "javascripts")
    for path in out.rglob("*.html"):
        up = "../" * (len(path.relative_to(out).parts) - 1)
        path.write_text(path.read_text().replace(SHIM, f"{up}assets/javascripts/worker.js"))


class Links(html.parser.HTMLParser):
    """Links and places of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places |= {given[k] for k in ("id", "name") if given.get(k)}
        for key in ("href", "src"):
            if given.get(key) and tag in ("a", "img", "script", "link"):
                self.links.add(given[key])


def dead(out):
    """Links of the built pages that lead nowhere; those to other sites are not followed."""
    pages = {p.resolve(): Links(p.read_text()) for p in out.rglob("*.html")}
    bad = []
    for path, found in pages.items():
        if path.name == "404.html":
            continue
        for link in found.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            name = urllib.parse.unquote(parts.path)
            target = (path.parent / name).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            place = urllib.parse.unquote(parts.fragment)
            lost = place and target in pages and place not in pages[target].places
            if not target.exists() or lost:
                bad.append(f"{path.relative_to(out.resolve())}: {link}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "site")
    parser.add_argument("--few", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stage = pathlib.Path(folder) / "docs"
        nav = staged(stage, args.few)
        config = pathlib.Path(folder) / "mkdocs.yml"
        config.write_text(yaml.safe_dump(configuration(stage, args.out.resolve(), nav)))
        command = [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "-f",
            str(config),
        ]
        if subprocess.run(command).returncode:
            return 1
    serve_shim(args.out)
    bad = dead(args.out)
    print("\n".join(bad))
    print(f"{sum(1 for _ in args.out.rglob('*.html'))} pages in {args.out}, {len(bad)} dead links")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
