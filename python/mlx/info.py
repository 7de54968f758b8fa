"""`python -m mlx.info`: what this installation and its devices are, and whether they work.

--json prints the same as JSON. --selftest runs a short check of correctness and bandwidth of each
kind of kernel on each device; the exit status is 1 when something fails. --compile compiles every
kernel that a device's features allow, without running any, and tells registers, spills, shared
memory and times; with --chip for a GPU of AMD that need not be there. --report writes facts,
self-tests and bandwidths of the GPUs to a file that can go with an issue. --doctor checks the
installation itself and says what to do; it runs where `mlx.core` cannot be imported, so that this
module imports it only when it is asked for facts.
"""

import argparse
import json
import os
import platform
import sys

__all__ = ["facts", "main", "selftest"]


def facts():
    """Everything that is known about versions, devices and the cache of kernels, as a dict."""
    import numpy as np

    import mlx.core as mx

    found = {
        "mlx": mx.__version__,
        "mlx_vulkan": mx.vulkan.__version__,
        "mlx_api": mx.__mlx_api__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "default_device": str(mx.default_device()),
        "cpu": mx.device_info(mx.cpu),
        "gpus": [],
        "cache": mx.vulkan.cache_info(),
        "environment": _environment(),
    }
    found["vulkan_problem"], rejected = mx.vulkan._rejected()
    keys = ("name", "kind", "reason")
    found["rejected"] = [dict(zip(keys, row, strict=True)) for row in rejected]
    for i in range(mx.device_count(mx.gpu)):
        try:
            found["gpus"].append(mx.vulkan.describe(i))
        except (RuntimeError, ValueError) as e:
            found["gpus"].append({**mx.vulkan.device_info(i), "error": str(e)})
    return found


def selftest(device):
    """Checks one device: `checks` (name to status and detail), `bandwidth` in GB/s, `ok`."""
    from mlx._selftest import selftest

    return selftest(device)


def _environment():
    """Variables of the library that are set."""
    import mlx.core as mx

    names = [row[0] for row in mx.vulkan._environment()[0]]
    return {name: os.environ[name] for name in names if name in os.environ}


# --- text -------------------------------------------------------------------------------------


def _size(n):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"


def _print(found):
    print(f"mlx {found['mlx']} (API {found['mlx_api']}), Python {found['python']}, ", end="")
    print(f"NumPy {found['numpy']}")
    print(found["platform"])
    print(f"default device: {found['default_device']}")
    print(f"cpu: {found['cpu']['device_name']}")
    for i, gpu in enumerate(found["gpus"]):
        if "error" in gpu:
            print(f"gpu {i}: {gpu.get('device_name')}: {gpu['error']}")
            continue
        print(f"gpu {i}: {gpu['name']} ({gpu['kind']})")
        print(f"  driver {gpu['driver']}, Vulkan {gpu['api_version']}")
        copies = ", and one for copies" if gpu["copy_queue"] else ""
        print(f"  memory {_size(gpu['memory_size'])}, queues {gpu['compute_queues']}{copies}")
        on = [name for name, there in gpu["features"].items() if there]
        off = [name for name, there in gpu["features"].items() if not there]
        print(f"  features: {', '.join(on)}")
        print(f"  without: {', '.join(off) or 'none'}")
        limits = ", ".join(f"{k} {v}" for k, v in gpu["limits"].items())
        print(f"  limits: {limits}")
        for what, kernels in gpu["tiers"].items():
            if isinstance(kernels, dict):
                kernels = ", ".join(f"{k}: {v}" for k, v in kernels.items())
            print(f"  {what}: {kernels}")
    if not found["gpus"]:
        print("gpu: no Vulkan device was found")
    if found["vulkan_problem"]:
        print(f"  because {found['vulkan_problem']}")
    for gpu in found["rejected"]:
        print(f"gpu that cannot be used: {gpu['name']} ({gpu['kind']}), {gpu['reason']}")
    cache = found["cache"]
    print(f"kernels: {cache['folder']}, {cache['files']} files, {_size(cache['bytes'])}")
    for name, value in found["environment"].items():
        print(f"{name}={value}")


def _print_test(name, result):
    print(f"\nself-test on {name}")
    for check, (status, detail) in result["checks"].items():
        print(f"  {check:<26} {status:<7} {detail}".rstrip())
    rates = ", ".join(f"{k} {v:.1f} GB/s" for k, v in result["bandwidth"].items())
    print(f"  bandwidth: {rates}")


def _report(path):
    """Writes what is known of the GPUs to a file; returns the exit status."""
    from mlx._report import device

    found = device.report()
    with open(path, "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)
    for gpu in found["gpus"]:
        print(f"{gpu.get('name', gpu.get('device_name'))}: {device.verdict(gpu)}")
    print(f"written to {path}; no names of files or users are in it")
    return 0


def _compile(args):
    """What becomes of the kernels on a device that only compiles; returns the exit status."""
    from mlx._report import compiled

    try:
        found = compiled.run(args.chip, args.full)
    except RuntimeError as e:
        print(e, file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({**found, "summary": compiled.summary(found)}, indent=1))
    else:
        compiled.show(found)
    return 1 if compiled.summary(found)["failures"] else 0


def main(argv=None):
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mlx.info", description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--selftest", action="store_true", help="check every device")
    parser.add_argument("--doctor", action="store_true", help="check the installation")
    parser.add_argument("--compile", action="store_true", help="compile every kernel, run none")
    parser.add_argument("--report", metavar="FILE", help="write a file to go with an issue")
    parser.add_argument("--chip", help="with --compile: a chip of Mesa's AMD driver, as navi31")
    parser.add_argument(
        "--full", action="store_true", help="with --compile: every dtype and layout"
    )
    args = parser.parse_args(argv)
    if args.doctor:
        from mlx import _doctor

        return _doctor.main()
    if args.compile:
        return _compile(args)
    if args.report:
        return _report(args.report)
    import mlx.core as mx

    found = facts()
    if not args.json:
        _print(found)
    ok = True
    if args.selftest:
        found["selftest"] = {}
        devices = [mx.Device(mx.cpu)]
        devices += [mx.Device(mx.gpu, i) for i in range(len(found["gpus"]))]
        for device in devices:
            result = found["selftest"][str(device)] = selftest(device)
            ok = ok and result["ok"]
            if not args.json:
                _print_test(str(device), result)
    if args.json:
        print(json.dumps(found, indent=2))
    elif args.selftest:
        print("\neverything that is there works" if ok else "\nFAILED")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
