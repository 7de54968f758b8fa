"""What a user's GPU is and does, as one file for an issue: `python -m mlx.info --report FILE`."""

import re

__all__ = ["report", "verdict"]


def report():
    """Versions, and for each GPU its facts, what was measured to be faster on it, the self-test,
    bandwidths and the kernels that ran."""
    import mlx.core as mx
    from mlx import info

    found = info.facts()
    kept = ("mlx", "mlx_vulkan", "mlx_api", "python", "numpy", "platform", "gpus")
    out = {name: found[name] for name in kept}
    out["cpu"] = found["cpu"]["device_name"]
    # Settings decide what runs; folders are nobody's business.
    settings = found["environment"].items()
    out["environment"] = {k: v for k, v in settings if not re.search("DIR|FILE|PROFILE", k)}
    for i, gpu in enumerate(out["gpus"]):
        if "error" in gpu:
            continue
        gpu.pop("memory_used", None)
        gpu.pop("memory_available", None)
        mx.vulkan.stats(reset=True)
        gpu["winners"] = mx.vulkan._tune_winners(i)
        gpu["selftest"] = info.selftest(mx.Device(mx.gpu, i))
        stats = mx.vulkan.stats()
        gpu["kernels"] = sorted(stats.get("kernels", {}))
        gpu["fallbacks"] = stats["fallbacks"]
    return out


def verdict(gpu):
    """A line on a GPU of a report."""
    if "error" in gpu:
        return gpu["error"]
    checks = gpu["selftest"]["checks"].values()
    count = {s: sum(status == s for status, _ in checks) for s in ("ok", "absent", "FAILED")}
    rate = gpu["selftest"]["bandwidth"].get("add")
    speed = f", {rate:.0f} GB/s" if rate else ""
    return f"{count['ok']} checks ok, {count['FAILED']} failed, {count['absent']} absent{speed}"
