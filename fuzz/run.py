#!/usr/bin/env python3
"""Attacks the library with damaged files, hostile descriptions of memory and hostile programs.

    python fuzz/run.py --seconds 60                 each target for a minute, two at a time
    python fuzz/run.py --seconds 3600 --only gguf   one of them for an hour
    python fuzz/run.py --only gguf --case 1234      one case again, in this process
    python fuzz/run.py --only gguf --file FILE      the same of a file

A case is its number: with the same seed it is the same everywhere. Cases run in child processes
that are watched: one that ends, hangs, takes too much memory, or raises what is no refusal is a
finding. Findings are written to fuzz/findings; once mended they belong into fuzz/corpus/TARGET,
which every run goes through first. Ends with 1 if there was any."""

import argparse
import concurrent.futures
import hashlib
import json
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import targets  # noqa: E402

SLOWEST = 300.0  # seconds of a processor for one case
LONGEST = 600.0  # seconds of one case that waits, or of a machine with much to do
LARGEST = 3 << 30  # bytes that one case adds to its process
FULL = 2 << 30  # bytes of a process, compiled kernels among them, that is followed by another one
MOST_FINDINGS = 20
STATE = struct.Struct("<qqd")  # case, cases done, when it began


def corpus(name):
    return sorted((HERE / "corpus" / name).glob("*"))


def data_of(target, name, seed, case):
    """What case number `case` is made of; the kept files come first."""
    kept = corpus(name)
    if case < len(kept):
        return kept[case].read_bytes()
    rng = random.Random(f"{seed}:{name}:{case}")
    return target.make(rng)


def child(args):
    """Runs cases until the time is over; writes where it is before each one."""
    name = args.only[0]
    state = mmap.mmap(os.open(args.state, os.O_RDWR), STATE.size)
    target = targets.ALL[name]()
    done = 0
    for case in range(args.case, 1 << 62):
        if time.time() > args.until or resident(os.getpid()) > FULL:
            break
        data = data_of(target, name, args.seed, case)
        state[:] = STATE.pack(case, done, time.time())
        try:
            targets.attempt(target, data)
        except BaseException as e:
            print(json.dumps({"case": case, "what": f"{type(e).__name__}: {e}"[:600]}), flush=True)
        done += 1
    state[:] = STATE.pack(-1, done, time.time())
    os._exit(0)


def resident(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * mmap.PAGESIZE
    except (OSError, IndexError):
        return 0


def worked(pid):
    """Seconds of a processor that a process took so far."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


class Watch:
    """One target: its children, one after the other, and what became of them."""

    def __init__(self, name, args, bar):
        self.name, self.args, self.bar = name, args, bar
        self.cases, self.findings, self.peak = 0, [], 0

    def report(self, case, what):
        # A fault that every case shows is one finding.
        if sum(f["what"][:60] == what[:60] for f in self.findings) >= 3:
            return
        folder = HERE / "findings"
        folder.mkdir(exist_ok=True)
        data = data_of(targets.ALL[self.name](), self.name, self.args.seed, case)
        path = folder / f"{self.name}-{hashlib.sha1(data).hexdigest()[:12]}"
        path.write_bytes(data)
        self.findings.append({"case": case, "what": what, "file": str(path)})
        self.bar.write(f"{self.name}: case {case}: {what}\n    {path}")

    def run(self):
        until = time.time() + self.args.seconds
        first = self.args.case
        while time.time() < until and len(self.findings) < MOST_FINDINGS:
            first = self.one_child(first, until)
        return self

    def command(self, case, *more):
        """Runs cases of the target from this one on, or this one alone."""
        words = [sys.executable, str(HERE / "run.py"), "--only", self.name, "--case", str(case)]
        return [*words, "--seed", str(self.args.seed), *more]

    def one_child(self, first, until):
        """Returns the case that the next child begins with."""
        with tempfile.NamedTemporaryFile() as state, tempfile.TemporaryDirectory() as scratch:
            state.write(STATE.pack(first - 1, 0, time.time()))
            state.flush()
            command = self.command(first, "--child", "--state", state.name, "--until", str(until))
            errors = tempfile.TemporaryFile()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=scratch)
            told = []
            reader = threading.Thread(
                target=lambda: told.extend(process.stdout.read().splitlines())
            )
            reader.start()
            ended, current, at_start, held = None, None, 0.0, 0
            while process.poll() is None:
                time.sleep(0.1)
                case, done, began = STATE.unpack(pathlib.Path(state.name).read_bytes())
                memory = resident(process.pid)
                self.peak = max(self.peak, memory)
                if case != current:
                    current, at_start, held = case, worked(process.pid), memory
                computed, waited = worked(process.pid) - at_start, time.time() - began
                if case >= 0 and (computed > SLOWEST or waited > LONGEST):
                    ended = f"hangs: {computed:.0f} s of work in {waited:.0f} s"
                elif memory - held > LARGEST:
                    ended = f"takes {(memory - held) >> 20} MB"
                if ended:
                    process.kill()
                    break
            process.wait()
            reader.join()
            case, done, _ = STATE.unpack(pathlib.Path(state.name).read_bytes())
            errors.seek(0)
            tail = errors.read()[-300:].decode(errors="replace").strip()
        self.cases += done
        self.bar.update(done)
        for line in told:
            finding = json.loads(line)
            self.report(finding["case"], finding["what"])
        if ended is None and process.returncode != 0:
            ended = f"ends with {process.returncode}: {tail}"
        if ended:
            self.cases += 1
            at = max(case, first)
            if ended.startswith("hangs") and self.ends_alone(at):
                self.bar.write(f"{self.name}: case {at}: {ended}; alone it ends")
            else:
                self.report(at, ended)
        return case + 1 if ended else first + done

    def ends_alone(self, case):
        """Whether a case that took too long ends in a process of its own."""
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with tempfile.TemporaryDirectory() as scratch:
            try:
                done = subprocess.run(self.command(case), cwd=scratch, timeout=LONGEST, **quiet)
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == 0


def again(args):
    """One case in this process, with what it does."""
    name = args.only[0]
    target = targets.ALL[name]()
    if args.file:
        data = pathlib.Path(args.file).read_bytes()
    else:
        data = data_of(target, name, args.seed, args.case)
    targets.attempt(target, data, tell=print)
    print("refused or right")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="for each target (60)")
    parser.add_argument("--only", nargs="+", choices=list(targets.ALL), help="these targets")
    parser.add_argument("--seed", type=int, default=16, help="another run of cases (16)")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time (2)")
    parser.add_argument("--case", type=int, help="one case again; with --from the first of a run")
    parser.add_argument("--from", dest="start", type=int, default=0, help="the first case (0)")
    parser.add_argument("--file", help="a file as a case")
    for hidden in ("--child", "--state", "--until"):
        action = {"action": "store_true"} if hidden == "--child" else {}
        parser.add_argument(hidden, help=argparse.SUPPRESS, **action)
    args = parser.parse_args()
    if args.child:
        args.until = float(args.until)
        return child(args)
    if args.case is not None or args.file:
        return again(args)
    from tqdm import tqdm

    args.case = args.start
    names = args.only or [n for n in targets.ALL if targets.possible(n)]
    begin = time.time()
    with tqdm(unit=" cases", smoothing=0) as bar:
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            watches = list(pool.map(lambda n: Watch(n, args, bar).run(), names))
    findings = 0
    print(f"{'target':14} {'cases':>9} {'findings':>9} {'peak MB':>8}")
    for w in watches:
        findings += len(w.findings)
        print(f"{w.name:14} {w.cases:9} {len(w.findings):9} {w.peak >> 20:8}")
    cases = sum(w.cases for w in watches)
    result = "failed" if findings else "passed"
    print(f"{cases} cases {result}, {findings} findings in {time.time() - begin:.1f}s")
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
