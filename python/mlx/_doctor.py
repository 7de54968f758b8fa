"""Checks an installation and says what to do: `python -m mlx.info --doctor`.

It runs where `mlx.core` cannot be imported, because the files of another distribution lie over
this one's; `mlx/__init__.py` asks it for the message then. Only what stands on the disk counts
until the files are known to be sound.
"""

import hashlib
import importlib.util
import os
import re
import stat
import sys
from base64 import urlsafe_b64encode
from importlib.metadata import Distribution, distributions
from pathlib import Path

OURS = "mlx-vulkan"
AGAIN = f"pip install --force-reinstall --no-deps {OURS}"
FOLDER = Path(__file__).resolve().parent


# --- distributions ------------------------------------------------------------------------------


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def _distributions() -> dict[str, Distribution]:
    """Installed distributions by normalised name; of several of one name the first on the path."""
    found: dict[str, Distribution] = {}
    for dist in distributions():
        name = dist.metadata["Name"]
        if name:
            found.setdefault(_name(name), dist)
    return found


def _upstream(dists: dict[str, Distribution]) -> list[str]:
    """Names of the distributions that bring upstream's files: mlx itself, unless it is the empty
    one that stands in for it, and its backends."""
    backends = [n for n in dists if re.fullmatch(r"mlx-(cpu|metal|cuda(-?\d+)?)", n)]
    mlx = dists.get("mlx")
    if mlx and not mlx.version.endswith("+vulkan"):
        backends.insert(0, "mlx")
    return backends


def _dependents(dists: dict[str, Distribution]) -> list[str]:
    """Names of the distributions that require one named mlx."""
    names = []
    for name, dist in dists.items():
        plain = [r for r in dist.requires or () if "extra ==" not in r]
        required = {_name(re.split(r"[^\w.-]", r, maxsplit=1)[0]) for r in plain}
        if name != OURS and "mlx" in required:
            names.append(name)
    return sorted(names)


def _remedy(dists: dict[str, Distribution]) -> str:
    """The command that installs this package with the stand-in, from where both are published."""
    ours = dists.get(OURS)
    urls = ours.metadata.get_all("Project-URL") or [] if ours else []
    wheels = [u.split(",", 1)[1].strip() for u in urls if u.startswith("Wheels,")]
    options = f" --find-links {wheels[0]}" if wheels else ""
    return f'pip install{options} "{OURS}[drop-in]"'


def _native(folder: Path) -> list[str]:
    """Names of the native modules `mlx.core` in a folder, the one that Python loads first."""
    from importlib.machinery import EXTENSION_SUFFIXES

    names = [f"core{suffix}" for suffix in EXTENSION_SUFFIXES]
    there = [n for n in names if (folder / n).exists()]
    others = sorted(p.name for p in folder.glob("core.*") if p.suffix in (".so", ".pyd"))
    return there + [n for n in others if n not in there]


def _altered(dist: Distribution) -> tuple[list[str], list[str]]:
    """Names of a distribution's files that are missing, and of those that others wrote over."""
    missing, changed = [], []
    for file in dist.files or ():
        path = Path(str(dist.locate_file(file)))
        if not str(file).startswith("mlx/") or "__pycache__" in file.parts:
            continue
        if not path.exists():
            missing.append(str(file))
        elif file.hash and file.hash.mode == "sha256":
            digest = hashlib.sha256(path.read_bytes()).digest()
            if urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
                changed.append(str(file))
    return missing, changed


# --- the refusal ---------------------------------------------------------------------------------


def _removal(dists: dict[str, Distribution]) -> str:
    """The commands that make a sound installation of one where two packages lie in one folder."""
    names = [*_upstream(dists), *[n for n in ("mlx", OURS) if n in dists]]
    return f"pip uninstall -y {' '.join(dict.fromkeys(names))}\n    {_remedy(dists)}"


def message() -> str:
    """What is wrong with the files in this folder, and the remedy."""
    dists = _distributions()
    native = _native(FOLDER)
    if len(native) > 1:
        named = [f"{n} {dists[n].version}" for n in _upstream(dists)]
        whose = f" ({', '.join(named)})" if named else ""
        return (
            f"[mlx] Two packages lie in {FOLDER}: {OURS}'s files and upstream's{whose}; Python "
            f"would load {native[0]}. Install only one:\n    {_removal(dists)}\n"
            "The extra drop-in brings an empty distribution named mlx, so that packages which "
            "require mlx do not bring upstream's files again. To keep upstream's: pip uninstall -y "
            f"{OURS}, and install mlx anew. `python -m mlx.info --doctor` tells more."
        )
    return (
        f"[mlx] Files of {OURS} are missing in {FOLDER}, since a package with files of the same "
        f"names was removed. Install it again:\n    {AGAIN}\n"
        "`python -m mlx.info --doctor` tells more."
    )


def refuse() -> None:
    """Raises ImportError with the remedy, unless it is the doctor that Python was started for."""
    if "mlx.info" not in sys.orig_argv or "--doctor" not in sys.orig_argv:
        raise ImportError(message())


# --- the examination ------------------------------------------------------------------------------


class _Report:
    """Findings: (whether all is well, what was looked at, what was found, what to do)."""

    def __init__(self) -> None:
        self.rows: list[tuple[bool, str, str, str]] = []

    def add(self, well: bool, what: str, found: str, remedy: str = "") -> None:
        self.rows.append((well, what, found, "" if well else remedy))

    @property
    def well(self) -> bool:
        return all(row[0] for row in self.rows)

    def print(self) -> None:
        for well, what, found, remedy in self.rows:
            print(f"{'ok  ' if well else 'BAD '} {what}: {found}")
            if remedy:
                print("     -> " + remedy.replace("\n", "\n     "))
        print("nothing needs doing" if self.well else "what is marked BAD needs doing")


def _examine_files(report: _Report, dists: dict[str, Distribution]) -> bool:
    """Distributions and files; whether `mlx.core` can be imported."""
    native = _native(FOLDER)
    report.add(
        bool(native), "package", f"{FOLDER}, native module {native[0] if native else 'none'}"
    )
    upstream = _upstream(dists)
    if len(native) > 1:
        found = (
            f"{', '.join(native)} lie side by side; installed: {', '.join(upstream) or 'unknown'}"
        )
        report.add(False, "native modules", found, _removal(dists))
    elif upstream:
        found = ", ".join(f"{n} {dists[n].version}" for n in upstream)
        if "mlx" not in upstream:
            found += ", which nothing loads and which may be removed"
        remedy = f"pip uninstall -y {' '.join(upstream)}"
        report.add("mlx" not in upstream, "upstream's distributions", found, remedy)
    ours = dists.get(OURS)
    if not ours:
        report.add(True, "distribution", f"{OURS} is not installed by pip; these are loose files")
    else:
        missing, changed = _altered(ours)
        text = f"{OURS} {ours.version}"
        for what, files in (("missing", missing), ("written over", changed)):
            if files:
                text += f"; {what}: {', '.join(files[:4])}"
                text += f" and {len(files) - 4} more" if len(files) > 4 else ""
        remedy = _removal(dists) if len(native) > 1 else AGAIN
        report.add(not (missing or changed), "distribution", text, remedy)
    needed = _dependents(dists)
    if needed:
        drop_in = "mlx" in dists and "mlx" not in upstream
        stands = f"satisfied by mlx {dists['mlx'].version}" if drop_in else "not satisfied"
        report.add(
            drop_in, "packages that require mlx", f"{', '.join(needed)}; {stands}", _remedy(dists)
        )
    return len(native) == 1 and importlib.util.find_spec("mlx.utils") is not None


def _examine_shadows(report: _Report) -> None:
    """Files that Python finds before the package when a program is started beside them."""
    here = Path.cwd()
    shadows = [p for p in (here / "mlx.py", here / "mlx") if p.exists() and p.resolve() != FOLDER]
    for path in shadows:
        report.add(False, "shadow", f"{path} hides the package for programs here", f"rename {path}")


def _examine_cache(report: _Report, folder: str) -> None:
    """Whether kernels can be kept on the disk."""
    path = Path(folder) if folder else None
    if path is None:
        report.add(False, "cache", "no folder can be used", "set MLX_VK_CACHE_DIR or HOME")
        return
    if not path.exists():
        parent = next(p for p in path.parents if p.exists())
        well = os.access(parent, os.W_OK)
        report.add(well, "cache", f"{path} is not made yet", f"make {parent} writable")
        return
    about, problems = path.stat(), []
    if hasattr(os, "getuid") and about.st_uid != os.getuid():
        problems.append("belongs to another user")
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problems.append("others can write to it")
    if not os.access(path, os.W_OK):
        problems.append("cannot be written to")
    remedy = f"chmod 700 {path}, or set MLX_VK_CACHE_DIR to a folder of your own"
    report.add(not problems, "cache", f"{path} {', '.join(problems) or 'is private'}", remedy)


def _examine_devices(report: _Report) -> None:
    """Drivers, and whether the devices that are there can be used."""
    import mlx.core as mx

    gpus = [mx.vulkan.device_info(i) for i in range(mx.device_count(mx.gpu))]
    for i, gpu in enumerate(gpus):
        name, kind = gpu.get("device_name"), gpu.get("kind")
        try:
            mx.eval(mx.add(mx.array(1.0), 1.0, stream=mx.Device(mx.gpu, i)))
            report.add(True, f"gpu {i}", f"{name} ({kind}) computes")
        except (RuntimeError, ValueError) as e:
            report.add(False, f"gpu {i}", f"{name}: {e}", "update its driver")
    problem, rejected = mx.vulkan._rejected()
    real = any(gpu.get("kind") != "software" for gpu in gpus)
    for name, kind, reason in rejected:
        report.add(real or kind == "software", name, f"{kind}; {reason}", "update its driver")
    if not gpus:
        remedy = "install the Vulkan driver of your GPU; without it the CPU is used"
        report.add(False, "gpu", problem or "none can be used", remedy)
    report.add(True, "default device", str(mx.default_device()))
    _examine_cache(report, mx.vulkan.cache_info()["folder"])


def main() -> int:
    """Prints the findings; returns 0 if nothing needs doing, else 1."""
    report = _Report()
    report.add(True, "Python", f"{sys.version.split()[0]} at {sys.executable}")
    _examine_shadows(report)
    if _examine_files(report, _distributions()):
        try:
            _examine_devices(report)
        except ImportError as e:
            report.add(False, "mlx.core", str(e), _removal(_distributions()))
    report.print()
    return 0 if report.well else 1
