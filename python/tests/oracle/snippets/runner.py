"""Runs snippets in two interpreters and keeps what the official one answers.

Used by behaviour.py and contract.py. The answers of the official implementation are kept in the
user's cache by the snippet and the files that decide what is read, so that the second device,
and the next run, need ours alone.
"""

import hashlib
import os
import pathlib
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from compare import bar

HERE = pathlib.Path(__file__).parent
DECIDE = ("prelude.py", "described.py", "../wire.py")
KEPT = 3  # files of official answers, one for each version of what runs them


def run(python, todo, device, label, per, seconds, jobs):
    """The result of each snippet. `per` snippets share a process; a snippet has `seconds`."""
    environment = dict(os.environ)
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    # Neighbours stay together, so that kernels are compiled once.
    bounds = [len(todo) * i // jobs for i in range(jobs + 1)]
    parts = [todo[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
    with bar(len(todo), f"{label} {device}") as progress, ThreadPoolExecutor(jobs) as pool:

        def part(some):
            return list(results(python, some, device, per, seconds, environment, progress))

        return [r for some in pool.map(part, parts) for r in some]


def results(python, todo, device, per, seconds, environment, progress):
    if not todo:
        return
    worker = subprocess.Popen(
        [python, str(HERE / "snippet_worker.py"), device, str(per), str(seconds)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with worker:
        worker.stdin.write(pickle.dumps(todo))
        worker.stdin.close()
        for _ in todo:
            try:
                yield pickle.load(worker.stdout)
            except EOFError:
                sys.exit(f"{python}: the worker ended\n{worker.stderr.read().decode()[-2000:]}")
            progress.update(1)


def official(python, todo, label, per, seconds, jobs):
    """The official answers, from the cache where they are."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "mlx-vulkan"
    key = hashlib.sha256()
    for name in DECIDE:
        key.update((HERE / name).read_bytes())
    kept = cache / f"answers-{label}-{key.hexdigest()[:16]}.pickle"
    known = pickle.loads(kept.read_bytes()) if kept.exists() else {}
    names = [hashlib.sha256(pickle.dumps(s)).digest()[:16] for s in todo]
    missing = [i for i, name in enumerate(names) if name not in known]
    if missing:
        some = [todo[i] for i in missing]
        answers = run(python, some, "cpu", f"{label}: official", per, seconds, jobs)
        known.update(zip([names[i] for i in missing], answers, strict=True))
        cache.mkdir(parents=True, exist_ok=True)
        older = sorted(cache.glob(f"answers-{label}-*.pickle"), key=lambda p: p.stat().st_mtime)
        for old in older[: 1 - KEPT]:
            old.unlink(missing_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(pickle.dumps(known))
        fresh.replace(kept)
    return [known[name] for name in names]
