#!/usr/bin/env python3
"""Unpacks the newest Mesa of the distribution's backports beside the system's, which stays.

python tools/mesa.py            fetch it where it is missing, and print its folder

The folder is ~/.cache/mlx-vulkan/mesa-VERSION, with the libraries in lib/ and manifests for the
Vulkan loader: lvp.json is the software driver, radeon.json AMD's, which compiles for any of its
chips without hardware. To use one, VK_DRIVER_FILES (VK_ICD_FILENAMES for old loaders) names the
manifest and LD_LIBRARY_PATH the folder lib. Only Debian's way is known: apt-get downloads the
packages by a configuration of its own, dpkg-deb unpacks them, and nothing is installed. Where that
cannot be, a line says why and the exit status is 3.
"""

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

# Mesa's drivers, and libraries that they want newer than the system's.
PACKAGES = ["mesa-vulkan-drivers", "libdrm2", "libdrm-amdgpu1"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
DRIVERS = {"lvp.json": "libvulkan_lvp.so", "radeon.json": "libvulkan_radeon.so"}


class NotHere(Exception):
    """Why this machine cannot have it."""


def suite():
    """The distribution's backports."""
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        facts = {}
    if facts.get("ID") != "debian" or "VERSION_CODENAME" not in facts:
        raise NotHere("the backports of Debian alone are known")
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise NotHere(f"{tool} was not found")
    return facts["VERSION_CODENAME"]


def command(*words, cwd):
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise NotHere(f"{words[0]}: {lines[-1]}")
    return done.stdout


def options(folder, codename):
    """Those of apt-get that keep the system's lists and packages out of it."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    line = f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {{}} main\n"
    names = (codename, f"{codename}-backports")
    (folder / "sources.list").write_text("".join(line.format(name) for name in names))
    pairs = {
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder,
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "APT::Sandbox::User": "root",
    }
    return [word for k, v in pairs.items() for word in ("-o", f"{k}={v}")]


def fetch(cache):
    """The folder, fetched."""
    codename = suite()
    with tempfile.TemporaryDirectory(dir=cache) as name:
        work = pathlib.Path(name)
        how = options(work, codename)
        command("apt-get", *how, "-qq", "update", cwd=work)
        target = ["-t", f"{codename}-backports"]
        for package in PACKAGES:
            command("apt-get", *how, "-qq", *target, "download", package, cwd=work)
        debs = sorted(work.glob("*.deb"))
        for deb in debs:
            command("dpkg-deb", "-x", deb, work / "root", cwd=work)
        mesa = next(d for d in debs if d.name.startswith("mesa-vulkan-drivers_"))
        version = mesa.name.split("_")[1].split("-")[0]
        made = work / "made"
        made.mkdir()
        libraries = next((work / "root").glob("usr/lib/*/libvulkan_lvp.so")).parent
        shutil.move(libraries, made / "lib")
        folder = cache / f"mesa-{version}"
        for name, library in DRIVERS.items():
            told = {"library_path": str(folder / "lib" / library), "api_version": "1.3.0"}
            text = json.dumps({"file_format_version": "1.0.0", "ICD": told}, indent=1)
            (made / name).write_text(text + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
    return folder


def present(cache):
    """The newest folder that is there."""
    there = [p.parent for p in cache.glob("mesa-[0-9]*/lvp.json")]

    def number(p):
        return [int(n) for n in p.name.removeprefix("mesa-").split(".") if n.isdigit()]

    return max(there, key=number, default=None)


def main():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = pathlib.Path(home) / "mlx-vulkan"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        print(present(cache) or fetch(cache))
    except (NotHere, OSError, StopIteration) as e:
        print(f"NOT RUN: Mesa of the backports cannot be had here: {e}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
