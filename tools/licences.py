"""Writes licenses/: the licences of all that is linked in, and a list of the C++ parts.

    python tools/licences.py           write licenses/THIRD_PARTY.txt and licenses/native.cdx.json
    python tools/licences.py --check   exit 1 when they differ from what would be written

Both travel in the wheel. Crates come from Cargo.lock as cargo resolves it for Linux (cargo fetch
puts their sources there); of licences to choose from, MIT's is shown. C++ sources lie in the crates
that build them.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "licenses"
NOTICES = re.compile(r"(?i)^(un)?licen[cs]e|^copying|^notice")
# Part, crate that holds its sources, where its licence stands, where its version stands and how.
NATIVE = [
    ("shaderc", "shaderc-sys", "build/shaderc/LICENSE", "build/shaderc/CHANGES", r"^v(\S+)"),
    (
        "glslang",
        "shaderc-sys",
        "build/glslang/LICENSE.txt",
        "build/glslang/CHANGES.md",
        r"^## (\S+)",
    ),
    (
        "SPIRV-Tools",
        "shaderc-sys",
        "build/spirv-tools/LICENSE",
        "build/spirv-tools/CHANGES",
        r"^v(\S+)",
    ),
    ("SPIRV-Headers", "shaderc-sys", "build/spirv-headers/LICENSE", None, None),
    (
        "mimalloc",
        "libmimalloc-sys",
        "c_src/mimalloc/v2/LICENSE",
        "c_src/mimalloc/v2/include/mimalloc.h",
        r"MI_MALLOC_VERSION (\d+)",
    ),
    (
        "VulkanMemoryAllocator",
        "vk-mem",
        "vendor/VulkanMemoryAllocator/include/vk_mem_alloc.h",
        "vendor/VulkanMemoryAllocator/include/vk_mem_alloc.h",
        r"<b>Version (\S+)</b>",
    ),
]
# C++ runtime of the wheels that tools/release.sh builds: zig links LLVM's statically.
RUNTIME = ("libc++", "libc++abi", "libunwind")
HEADER = """\
mlx-vulkan's native module contains the software below, each under the licence that follows it. Of
several licences that may be chosen from, one is shown. LLVM's libraries are in released wheels for
Linux alone. Written by tools/licences.py.
"""
# Permission and disclaimer of the licence that this repository has too.
MIT = (ROOT / "LICENSE").read_text().split("\n\n", 2)[2].strip()


def linked():
    """Packages that the native module is linked from, by name and version; not ours."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    data = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {p["id"]: p for p in data["packages"]}
    nodes = {n["id"]: n for n in data["resolve"]["nodes"]}
    seen, todo = set(), [data["resolve"]["root"]]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            parts = nodes[current]["deps"]
            todo += [d["pkg"] for d in parts if any(k["kind"] is None for k in d["dep_kinds"])]
    found = [packages[i] for i in seen - {data["resolve"]["root"]}]
    return sorted(found, key=lambda p: (p["name"], p["version"]))


def text_of(package):
    """The licence of a crate: its MIT file, else all of its files, else what its field names."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(p for p in folder.iterdir() if p.is_file() and NOTICES.match(p.name))
    mit = [p for p in files if "mit" in p.name.lower() and "mit-0" not in p.name.lower()]
    kept = (mit[:1] if mit else files) + [p for p in files if "notice" in p.name.lower()]
    if not kept and "MIT" in (package["license"] or ""):
        holders = ", ".join(package["authors"]) or f"the authors of {package['name']}"
        return f"Copyright (c) {holders}\n\n{MIT}"
    if not kept:
        return f"Licence: {package['license']} (its text stands with the C++ parts that it builds)"
    return "\n\n".join(p.read_text(errors="replace").strip() for p in dict.fromkeys(kept))


def native(packages):
    """C++ parts: (name, version, licence text)."""
    folders = {p["name"]: Path(p["manifest_path"]).parent for p in packages}
    for name, crate, licence, place, form in NATIVE:
        text = (folders[crate] / licence).read_text(errors="replace")
        if licence.endswith(".h"):
            # The comment that the header begins with.
            text = text[: re.search(r"^(?!//)", text, re.M).start()]
            text = re.sub(r"^// ?", "", text, flags=re.M)
        extra = sorted((folders[crate] / licence).parent.glob("LICENSES/*"))
        text = "\n\n".join([text.strip(), *(p.read_text().strip() for p in extra)])
        version = ""
        if place:
            found = re.search(form, (folders[crate] / place).read_text(errors="replace"), re.M)
            version = found[1]
            if version.isdigit():  # major, and two digits each of minor and patch
                version = (
                    f"{int(version) // 10000}.{int(version) // 100 % 100}.{int(version) % 100}"
                )
        yield name, version, text, crate


def pages():
    """What the two files hold."""
    packages = linked()
    parts = list(native(packages))
    groups = defaultdict(list)
    for name, version, text, _ in parts:
        groups[text].append(f"{name} {version}".strip())
    for package in packages:
        groups[text_of(package)].append(f"{package['name']} {package['version']}")
    rust = f"Copyright (c) The Rust Project contributors\n\n{MIT}"
    groups[rust].append("the standard library of Rust")
    groups[(TARGET / "LLVM.txt").read_text().strip()].extend(f"LLVM's {name}" for name in RUNTIME)
    bar = "=" * 100
    chunks = [HEADER]
    chunks += [f"{bar}\n{', '.join(names)}\n{bar}\n\n{text}\n" for text, names in groups.items()]
    components = [
        {
            "type": "library",
            "bom-ref": f"native-{name}",
            "name": name,
            **({"version": version} if version else {}),
            "description": f"C++ sources of the crate {crate}, linked statically",
        }
        for name, version, _, crate in parts
    ]
    components += [
        {
            "type": "library",
            "bom-ref": f"native-{name}",
            "name": name,
            "description": "C++ runtime of LLVM, linked statically into released wheels for Linux",
        }
        for name in RUNTIME
    ]
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    return {
        "THIRD_PARTY.txt": "\n".join(chunks),
        "native.cdx.json": json.dumps(bom, indent=2) + "\n",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = 0
    for name, text in pages().items():
        path = TARGET / name
        if args.check:
            if not path.exists() or path.read_text() != text:
                print(f"{path.relative_to(ROOT)} is stale: run python tools/licences.py")
                stale = 1
        else:
            TARGET.mkdir(exist_ok=True)
            path.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
