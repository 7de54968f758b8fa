#!/usr/bin/env python3
"""Runs random cases on kernels and on their plain twins, and holds both against float64.

    python kernels.py [--device gpu] [--cases 10000] [--only REGEX] [--seed 1] [--jobs 2]
    python kernels.py --only matmul --case 17 --seed 1

A case is a call with random dtypes, lengths, layouts and numbers. It is run twice, which must give
the same bits, and a third time without kernel variants (MLX_VK_DISABLE): without all of them, or
without some. Some cases are run again later, when kernels were made for their shape. Results are
held against NumPy in float64, within bounds that follow from dtypes and the lengths of sums
(kernels_check.py). `--cases` is the number of the largest families; others have a share of it.
Every second case runs in a process that takes warpgroup kernels wherever they can be. Printed are
the cases of each family, those of each kernel, and what was wrong. Exit status 1 if anything was.
"""

import argparse
import collections
import contextlib
import json
import math
import multiprocessing
import os
import re
import sys
import time
from multiprocessing import connection

CHUNK = 16  # cases that a process is told at once
PATIENCE = 300  # seconds for one case, compiling included


def work(pipe, device, seed, small, end):
    """A process: gets (family, numbers), sends what became of each case."""
    import warnings

    warnings.simplefilter("ignore")
    import kernels_families
    import kernels_run
    import mlx.core as mx

    mx.set_default_device(getattr(mx, device))
    runner = kernels_run.Runner(device == "gpu")
    waiting = collections.deque()

    def told(kind, family, number, f):
        pipe.send(("begin", family, number))
        begin = time.monotonic()
        try:
            kernels, twins, worst, wrong = f()
        except Exception as e:  # noqa: BLE001 - the case failed, whatever it was
            kernels, twins, worst, wrong = (), (), 0.0, f"{type(e).__name__}: {e}"[:2000]
        spent = time.monotonic() - begin
        ran = sorted(kernels), sorted(twins)
        pipe.send((kind, family, number, *ran, worst, wrong, spent))

    def late():
        return end is not None and time.time() > end

    def again(count):
        while len(waiting) > count and not late():
            family, number, case = waiting.popleft()
            told("again", family, number, lambda case=case: runner.repeated(case))

    while (order := pipe.recv()) is not None:
        family, numbers = order
        for number in numbers:
            if late():
                break
            case = None

            def once(family=family, number=number):
                nonlocal case
                case, rng = kernels_families.drawn(family, number, seed, small)
                kernels, twins, worst, wrong = runner.run(family, case, rng)
                return kernels, twins, worst, wrong and f"{wrong}\n    {case.text}"

            told("done", family, number, once)
            if case is not None and case.later and runner.gpu:
                waiting.append((family, number, case))
            again(kernels_run.LATER)
        pipe.send(("idle",))
    again(0)
    pipe.send(("end", runner.seconds))


class Worker:
    """A process and what it was given."""

    def __init__(self, args, mode, home):
        from kernels_modes import MODES

        self.mode, self.home, self.case = mode, home, None
        self.heard = time.monotonic()
        self.left = []
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        with environment({**MODES[mode], **threads(args.jobs)}):
            self.process = context.Process(
                target=work,
                args=(other, args.device, args.seed, args.small, args.end),
                daemon=True,
            )
            self.process.start()
        other.close()
        self.state = "idle"

    def give(self, order):
        """Some cases of a family, or nothing more."""
        self.state, self.left = "ending", []
        if order is not None:
            family, numbers = order
            self.state, self.left = "busy", [(family, n) for n in numbers]
        self.pipe.send(order)


def threads(jobs):
    """Processes do not fight for processors."""
    each = str(max(1, (os.cpu_count() or 1) // jobs))
    return dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MLX_CPU_THREADS"), each)


@contextlib.contextmanager
def environment(values):
    before = {k: os.environ.get(k) for k in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for k, v in before.items():
            os.environ.pop(k) if v is None else os.environ.update({k: v})


class Run:
    """All cases of a run, dealt to processes, and what became of them."""

    def __init__(self, args, families, shares):
        self.args = args
        self.left = self.dealt(families, shares)
        self.counts = collections.Counter()
        self.again = collections.Counter()
        self.worst = collections.Counter()
        self.spent = collections.Counter()
        self.kernels, self.twins = collections.Counter(), collections.Counter()
        self.wrong, self.seconds = [], collections.Counter()

    def dealt(self, families, shares):
        """Cases by mode and family."""
        from kernels_modes import MODES, mode_of

        left = [{} for _ in MODES]
        for family in families:
            count = max(4, round(self.args.cases * shares[family]))
            numbers = range(count) if self.args.case is None else [self.args.case]
            for mode in range(len(MODES)):
                mine = [n for n in numbers if mode_of(n) == mode]
                if mine:
                    left[mode][family] = [len(mine), mine]
        return left

    def homes(self, mode, count):
        """Families that each of so many processes begins with: equal shares of the cases, so that
        most kernels are compiled by one process alone."""
        left = self.left[mode]
        each = sum(v[0] for v in left.values()) / count
        homes, before = [[] for _ in range(count)], 0
        for family, (cases, _) in left.items():
            first, last = before / each, (before + cases) / each
            for i in range(int(first), min(count, math.ceil(last))):
                homes[i].append(family)
            before += cases
        return homes

    def next(self, mode, home):
        """Some cases of the family of which the smallest share is done, first of those at home."""
        left = {f: v for f, v in self.left[mode].items() if v[1]}
        left = {f: left[f] for f in home if f in left} or left
        if not left:
            return None
        family = max(left, key=lambda f: len(left[f][1]) / left[f][0])
        some, self.left[mode][family][1] = left[family][1][:CHUNK], left[family][1][CHUNK:]
        return family, some

    def take(self, message):
        """Counts what a process said; 1 for a case."""
        kind, family, number, kernels, twins, worst, wrong, spent = message
        self.spent[family] += spent
        (self.counts if kind == "done" else self.again)[family] += 1
        self.worst[family] = max(self.worst[family], worst)
        self.kernels.update(kernels)
        self.twins.update(twins)
        if wrong:
            self.fail(family, number, wrong)
        return int(kind == "done")

    def fail(self, family, number, wrong):
        self.wrong.append((family, number, wrong))
        small = " --small" * self.args.small
        device = "" if self.args.device == "gpu" else f" --device {self.args.device}"
        again = f"--only '^{family}$' --case {number} --seed {self.args.seed}{small}{device}"
        if len(self.wrong) <= self.args.show:
            print(f"WRONG {again}: {wrong}", flush=True)


def bar(total):
    """A progress bar where somebody looks."""
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            return tqdm(total=total, unit="case", smoothing=0.05)
    return Lines(total)


class Lines:
    """A line now and then."""

    def __init__(self, total):
        self.total, self.done, self.begin = total, 0, time.monotonic()
        self.told = self.begin

    def update(self, count):
        self.done += count
        now = time.monotonic()
        if now - self.told > 15:
            self.told = now
            print(f"{self.done} of {self.total} cases, {now - self.begin:.0f} s", flush=True)

    def close(self):
        pass


def drive(run, args):
    """Deals cases to processes until all are run or the time is up."""
    total = sum(v[0] for mode in run.left for v in mode.values())
    modes = [m for m, left in enumerate(run.left) if left]
    progress = bar(total)
    waiting = modes[args.jobs :]  # one process: one mode behind the other
    each = max(1, args.jobs // len(modes))
    homes = {m: run.homes(m, each) for m in modes}
    workers = []
    for i in range(args.jobs):
        mode = modes[i % len(modes)]
        workers.append(Worker(args, mode, homes[mode][i // len(modes) % each]))
    while workers:
        late = args.end is not None and time.time() > args.end
        connection.wait([w.pipe for w in workers], 1)
        for worker in list(workers):
            gone = listen(run, worker, progress)
            if not gone and worker.state == "idle":
                worker.give(None if late else run.next(worker.mode, worker.home))
            if gone:
                workers.remove(worker)
                if gone == "died" and not late:
                    workers.append(Worker(args, worker.mode, worker.home))
                elif waiting and not late:
                    workers.append(Worker(args, waiting.pop(0), []))
    progress.close()


def listen(run, worker, progress):
    """Takes what a process said; a word when it is gone."""
    while True:
        try:
            if not worker.pipe.poll():
                break
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return lost(run, worker, "the process died")
        worker.heard = time.monotonic()
        if message[0] == "begin":
            worker.case = message[1:]
        elif message[0] == "idle":
            worker.state, worker.case = "idle", None
        elif message[0] == "end":
            run.seconds.update(message[1])
            worker.process.join()
            return "ended"
        else:
            progress.update(run.take(message))
            worker.case = None
            with contextlib.suppress(ValueError):
                worker.left.remove(message[1:3])
    if time.monotonic() - worker.heard > PATIENCE and worker.state != "idle":
        worker.process.kill()
        return lost(run, worker, f"no answer for {PATIENCE} s")
    return None


def lost(run, worker, why):
    """A process that is gone: its case is wrong, the others of its share are dealt again."""
    worker.process.join(5)
    case = worker.case or (worker.left[0] if worker.left else None)
    if case is None:
        print(f"WRONG: a process died with {worker.process.exitcode} and no case", flush=True)
        run.wrong.append(("", 0, why))
        return "ended"
    run.fail(*case, f"{why}, exit code {worker.process.exitcode}")
    for family, number in worker.left:
        if (family, number) != tuple(case):
            run.left[worker.mode][family][1].append(number)
    return "died"


def stem(name):
    """A kernel's name without sizes and dtypes."""
    name = re.sub(r"_(fused|with)_.*", r"_\1", name)
    parts = [p for p in name.split("_") if not re.fullmatch(r"[a-z]*\d[\w.]*|bfloat16|bool", p)]
    return "_".join(parts)


def report(run, args, seconds):
    for family, count in run.counts.items():
        more = f", {run.again[family]} again" if run.again[family] else ""
        each = 1000 * run.spent[family] / count
        print(
            f"{family:15} {count:7} cases{more}, {run.worst[family]:.2f} of the bound used, "
            f"{each:.0f} ms each"
        )
    groups = collections.Counter()
    twins = collections.Counter()
    for counter, to in ((run.kernels, groups), (run.twins, twins)):
        for name, count in counter.items():
            to[stem(name)] += count
    print(f"{len(run.kernels)} kernels, {len(run.twins)} of twins; cases by kind of kernel:")
    for name in sorted(set(groups) | set(twins)):
        print(f"{groups[name]:8} {twins[name]:8} {name}")
    if args.kernels:
        with open(args.kernels, "w") as f:
            json.dump({"kernels": run.kernels, "twins": run.twins}, f, indent=0, sort_keys=True)
    spent = ", ".join(f"{k} {v:.0f}" for k, v in run.seconds.items())
    by = collections.Counter(family for family, *_ in run.wrong)
    for family, count in by.most_common():
        print(f"wrong: {count} of {family}")
    print(
        f"{args.device}: {sum(run.counts.values())} cases, {len(run.wrong)} wrong, in "
        f"{seconds:.1f}s (seed {args.seed}; processes spent {spent} s)"
    )


def main():
    from kernels_modes import SHARES

    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ap.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    ap.add_argument("--cases", type=int, default=10_000, help="cases of the largest families")
    ap.add_argument("--only", help="regular expression of families")
    ap.add_argument("--case", type=int, help="the number of one case")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--jobs", type=int, default=min(14, os.cpu_count() or 1))
    ap.add_argument("--seconds", type=float, help="no case begins later")
    ap.add_argument("--small", action="store_true", help="short lengths, for software drivers")
    ap.add_argument("--show", type=int, default=40, help="wrong cases that are printed")
    ap.add_argument("--kernels", help="file for the number of cases of each kernel")
    args = ap.parse_args()
    args.jobs = 1 if args.case is not None else max(1, args.jobs)
    args.end = time.time() + args.seconds if args.seconds else None
    families = [f for f in SHARES if re.search(args.only or "", f)]
    begin = time.monotonic()
    run = Run(args, families, SHARES)
    drive(run, args)
    report(run, args, time.monotonic() - begin)
    sys.exit(int(bool(run.wrong)))


if __name__ == "__main__":
    main()
