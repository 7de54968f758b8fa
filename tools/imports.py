#!/usr/bin/env python3
"""Checks what the modules of src/ import from each other.

python tools/imports.py             exit 1 where an import points up, where cpu and vulkan see each
                                    other, or where families form a circle that is not listed here
python tools/imports.py --circles   print the circles as they are

Floors and families are folders: `src/ops/reduce` is the family reduce of the floor ops, whatever
lies in a floor beside its families (`src/ops/support/`) is common to them and counts as none.
Tests may import anything.
"""

import argparse
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"

# Bottom to top. Floors of one row do not see each other.
FLOORS = [
    ("core",),
    ("memory",),
    ("kernels",),
    ("cpu", "vulkan"),
    ("distributed",),
    ("ops",),
    ("graph",),
    ("autodiff",),
    ("fusion",),
    ("eval",),
    ("compile",),
    ("io",),
    ("python",),
]

# Families of one floor that need each other in a circle, with the reason.
CIRCLES = {
    # A device owns its memory pool and its pipelines, and counts what they do.
    ("vulkan", ("hal", "memory", "report", "shader")),
    # A convolution is a product whose operand is gathered, as the product's key says.
    ("vulkan", ("kernels/conv", "kernels/matmul")),
    # Derivatives: that of a view is an indexed sum, that of a broadcast is a reduction.
    ("ops", ("elementwise", "index", "reduce", "view")),
    # The class `array` has the functions as methods, and they take and return it.
    ("python", ("array", "ops", "runtime", "transforms")),
}

PATH = re.compile(r"(?<![\w:$])(\$?crate|super|self)((?:::\w+)*)(::\{)?")
USE = re.compile(r"^[ ]*(?:pub(?:\([^)]*\))? )?use ((?:[^;])+);", re.MULTILINE)
INLINE = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?mod (\w+) \{$", re.MULTILINE)


def module_of(path):
    """A file's module, as a list of names."""
    names = list(path.relative_to(SRC).with_suffix("").parts)
    return names[:-1] if names[-1] in ("mod", "lib") else names


def without_tests(text):
    """The text without what is compiled for tests alone, and without comments."""
    text = re.sub(r"//[^\n]*", "", text)
    for found in reversed(
        list(re.finditer(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", text))
    ):
        end = text.find("\n}", found.end())
        text = text[: found.start()] + (text[end + 2 :] if end >= 0 else "")
    return text


def leaves(tree):
    """Paths in a `use` tree, as lists of names."""
    tree = tree.strip()
    start = tree.find("{")
    if start < 0:
        return [[name.strip() for name in tree.split(" as ")[0].split("::")]]
    head = [
        name.strip() for name in tree[:start].strip().removesuffix("::").split("::") if name.strip()
    ]
    parts, depth, part = [], 0, ""
    for letter in tree[start + 1 : tree.rindex("}")]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    parts.append(part)
    return [head + leaf for part in parts if part.strip() for leaf in leaves(part)]


def absolute(names, module):
    """A path from the crate's root; nothing for paths of other crates."""
    if names[0] in ("crate", "$crate"):
        return names[1:]
    if names[0] == "self":
        return module + names[1:]
    if names[0] != "super":
        return None
    while names and names[0] == "super":
        names, module = names[1:], module[:-1]
    return module + names


def imports(path):
    """(line, target) of everything that a file names of the crate."""
    text = without_tests(path.read_text())
    module = module_of(path)
    inside = []
    for found in INLINE.finditer(text):
        end = text.find(f"\n{found.group(1)}}}", found.end())
        inside.append((found.end(), end if end >= 0 else len(text), found.group(2)))

    def at(position):
        return module + [name for start, end, name in inside if start <= position < end]

    spans = []
    for found in USE.finditer(text):
        spans.append(found.span())
        for names in leaves(found.group(1)):
            target = absolute(names, at(found.start()))
            if target:
                yield text.count("\n", 0, found.start()) + 1, target
    for found in PATH.finditer(text):
        if not found.group(2) or any(start <= found.start() < end for start, end in spans):
            continue
        target = absolute(found.group(0).split("::"), at(found.start()))
        if target:
            yield text.count("\n", 0, found.start()) + 1, target


def families(floor):
    """Folders of a floor that are its families; in vulkan also those of its kernels/."""
    found = {entry.name for entry in (SRC / floor).iterdir() if entry.is_dir()}
    if floor == "vulkan":
        found |= {
            f"kernels/{entry.name}"
            for entry in (SRC / "vulkan/kernels").iterdir()
            if entry.is_dir()
        }
        found.discard("kernels")
    return found


def family(names, known):
    """Which family a module belongs to, or None."""
    if len(names) > 2 and f"{names[1]}/{names[2]}" in known:
        return f"{names[1]}/{names[2]}"
    return names[1] if len(names) > 1 and names[1] in known else None


def circles(edges):
    """Groups of names that reach each other (R. E. Tarjan's components, by plain reachability)."""

    def reach(start):
        seen, todo = set(), [start]
        while todo:
            for name in edges.get(todo.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        return seen

    reached = {name: reach(name) for name in edges}
    groups = {
        frozenset(other for other in reached[name] if name in reached.get(other, ()))
        for name in edges
        if name in reached[name]
    }
    return {tuple(sorted(group)) for group in groups}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--circles", action="store_true", help="print circles and stop")
    args = parser.parse_args()
    level = {name: height for height, row in enumerate(FLOORS) for name in row}
    known = {floor: families(floor) for floor in level}
    edges = {floor: {} for floor in level}
    wrong, seen = [], 0
    for path in sorted(SRC.rglob("*.rs")):
        module = module_of(path)
        if (
            not module
            or path.stem.endswith(("tests", "testing"))
            or "tests" in path.relative_to(SRC).parts
        ):
            continue
        here = module[0]
        for line, target in imports(path):
            there = target[0]
            place = f"src/{path.relative_to(SRC)}:{line}"
            if there not in level:
                continue
            seen += 1
            if here == there:
                a, b = family(module, known[here]), family(target, known[here])
                if a and b and a != b:
                    edges[here].setdefault(a, {}).setdefault(b, place)
            elif level[there] > level[here]:
                wrong.append(f"{place}: {here} imports {'::'.join(target)}, which is above it")
            elif level[there] == level[here]:
                wrong.append(f"{place}: {here} imports {'::'.join(target)}, which stands beside it")
    found = {floor: circles(edges[floor]) for floor in edges}
    if args.circles:
        for floor, groups in found.items():
            for group in sorted(groups):
                print(floor, group)
                for a in group:
                    for b, place in sorted(edges[floor][a].items()):
                        if b in group:
                            print(f"    {a} -> {b} ({place})")
        return 0
    for floor, groups in found.items():
        for group in groups:
            if (floor, group) not in CIRCLES:
                ways = [
                    f"{a} -> {b} ({place})"
                    for a in group
                    for b, place in edges[floor][a].items()
                    if b in group
                ]
                wrong.append(f"{floor}: families in a circle: " + "; ".join(ways))
    for floor, group in CIRCLES:
        if group not in found[floor]:
            wrong.append(f"{floor}: {group} is listed as a circle and is none")
    print(
        "\n".join(wrong)
        if wrong
        else f"{seen} imports: none points up, cpu and vulkan do not see each other"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
