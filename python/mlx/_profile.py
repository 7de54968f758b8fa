"""What `mx.vulkan.profile()` gives: the table of kernels, the trace file, the pictures.

Recording is native (`mlx.core.vulkan._Recording`); all times here are nanoseconds since the profile
began, on the host's clock.
"""

import dataclasses
import html
import json
from collections import defaultdict

import mlx.core as mx

__all__ = ["Command", "Profile", "Row", "Span"]


@dataclasses.dataclass(frozen=True)
class Command:
    """One kernel or copy on a GPU."""

    #: Name of the kernel; `upload` or `download` for copies.
    kernel: str
    #: The operation it belongs to, or "".
    op: str
    #: Type of the operation's first output, or "".
    dtype: str
    #: Sizes that decide the time: of the product, or the shape of the operation's first output.
    shape: tuple[int, ...]
    #: Index of the GPU, and number of the stream on it.
    track: tuple[int, int]
    #: Number of the command buffer.
    batch: int
    #: Beginning and end, or None where the queue cannot tell the time.
    times: tuple[float, float] | None
    #: Bytes that it says it reads and writes.
    bytes: int
    #: Floating point operations, where the kernel tells them.
    flops: float
    #: It waited for all commands before it on its stream.
    barrier: bool

    @property
    def duration(self) -> float:
        """Nanoseconds."""
        return self.times[1] - self.times[0] if self.times else 0.0


@dataclasses.dataclass(frozen=True)
class Span:
    """A stretch of a host thread's time."""

    #: record, compile, submit, wait, upload, download or cpu (an operation of a CPU stream).
    kind: str
    name: str
    thread: int
    start: float
    end: float


@dataclasses.dataclass
class Row:
    """All commands of one kernel, dtype and bucket of shapes."""

    kernel: str
    dtype: str
    shape: str
    count: int = 0
    total_ns: float = 0.0
    #: Part of the busy time; where commands overlap, each takes its part of the time.
    share: float = 0.0
    bytes: int = 0
    flops: float = 0.0

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.count

    @property
    def gb_per_s(self) -> float:
        return self.bytes / self.total_ns if self.total_ns else 0.0

    @property
    def tflops(self) -> float:
        return self.flops / self.total_ns / 1e3 if self.total_ns else 0.0


def _bucket(command):
    """A command's shape with each size rounded up to a power of two, without axes of one.

    Sizes that a kernel tells itself are all kept, but for a batch of one product.
    """
    shape = command.shape
    if command.flops:
        shape = shape[1:] if len(shape) == 4 and shape[0] == 1 else shape
    else:
        shape = [n for n in shape if n > 1] or shape[:1]
    return "x".join(str(1 << max(n - 1, 0).bit_length()) for n in shape)


def _short(text, most=56):
    return text if len(text) <= most else text[: most - 3] + "..."


def _time(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.2f} {unit}"
    return f"{ns:.0f} ns"


def _ceiling(intervals):
    """Intervals joined where they meet."""
    joined = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def _length(intervals):
    return sum(end - start for start, end in _ceiling(intervals))


def _parts(intervals):
    """The part of the time that each interval takes; what covers the same moment shares it."""
    edges = sorted({t for pair in intervals for t in pair})
    changes = defaultdict(int)
    for start, end in intervals:
        changes[start] += 1
        changes[end] -= 1
    total, active, so_far = {}, 0, 0.0
    for i, t in enumerate(edges):
        if i and active:
            so_far += (t - edges[i - 1]) / active
        total[t] = so_far
        active += changes[t]
    return [total[end] - total[start] for start, end in intervals]


class Profile:
    """A profile: use it as a context, then print it, or ask for its parts.

    with mx.vulkan.profile() as p:
        mx.eval(model(x))
    print(p)
    p.save("trace.json")
    """

    def __init__(self, isolate=False):
        self.isolate = bool(isolate)
        #: Kernels and copies, in the order of submission to each stream.
        self.commands: list[Command] = []
        #: What the host did.
        self.spans: list[Span] = []
        self._recording = None
        self._done = False
        self._streams: dict[tuple[int, int], str] = {}
        self._threads: list[str] = []
        self.batches = 0
        self.wall_ns = 0.0
        self._before: dict = {}
        self._after: dict = {}

    def __enter__(self):
        if self._recording is not None:
            raise RuntimeError("[profile] This profile runs already.")
        self.__init__(self.isolate)
        self._before = mx.vulkan.stats()
        self._recording = mx.vulkan._Recording(self.isolate)
        return self

    def __exit__(self, kind, error, traceback):
        recording, self._recording = self._recording, None
        try:
            raw = recording.stop()
        except Exception:
            if kind is None:
                raise
            return  # what the block raised says more
        self._after = mx.vulkan.stats()
        self.commands = [Command(k, o, d, tuple(s), *rest) for k, o, d, s, *rest in raw["commands"]]
        self.spans = [Span(*s) for s in raw["spans"]]
        self.batches, self.wall_ns = raw["batches"], float(raw["wall_ns"])
        self._streams = {(device, n): name for device, n, name in raw["streams"]}
        self._threads = raw["threads"]
        self._done = True

    # --- numbers ------------------------------------------------------------------------------

    def _finished(self):
        if not self._done:
            raise RuntimeError("[profile] The profile has not ended; ask behind its `with` block.")

    def rows(self):
        """One `Row` for each kernel, dtype and bucket of shapes, the most expensive first."""
        self._finished()
        rows = {}
        for device in sorted({c.track[0] for c in self.commands}):
            timed = [c for c in self.commands if c.times and c.track[0] == device]
            for c, part in zip(timed, _parts([c.times for c in timed]), strict=True):
                key = (c.kernel, c.dtype, _bucket(c))
                row = rows.setdefault(key, Row(*key))
                row.count += 1
                row.total_ns += c.duration
                row.share += part
                row.bytes += c.bytes
                row.flops += c.flops
        for c in self.commands:
            if not c.times:
                key = (c.kernel, c.dtype, _bucket(c))
                rows.setdefault(key, Row(*key)).count += 1
        busy = sum(row.share for row in rows.values())
        for row in rows.values():
            row.share = row.share / busy if busy else 0.0
        return sorted(rows.values(), key=lambda r: (-r.total_ns, r.kernel, r.dtype, r.shape))

    def host_rows(self):
        """One `Row` for each operation that CPU streams ran, the most expensive first."""
        self._finished()
        rows = {}
        for s in self.spans:
            if s.kind == "cpu":
                row = rows.setdefault(s.name, Row(s.name, "", ""))
                row.count += 1
                row.total_ns += s.end - s.start
        total = sum(row.total_ns for row in rows.values())
        for row in rows.values():
            row.share = row.total_ns / total if total else 0.0
        return sorted(rows.values(), key=lambda r: (-r.total_ns, r.kernel))

    def summary(self):
        """A dict of totals.

        Nanoseconds: `busy_ns` (some command ran, added over the GPUs), `gap_ns` (none did between
        the first and the last), `wall_ns`, `record_ns` (the host recorded commands, without the
        times that follow), `compile_ns`, `submit_ns`, `wait_ns`, `cpu_ns` (CPU streams). `overlap`
        is the sum of the commands' times over `busy_ns`. Counts: `commands`, `copies`, `barriers`
        (within command buffers), `batches`, `untimed`, `compiled`, `host_ops`, and `fallbacks` by
        operation.
        """
        self._finished()
        busy = gap = 0.0
        for device in {c.track[0] for c in self.commands}:
            spans = [c.times for c in self.commands if c.times and c.track[0] == device]
            if spans:
                own = _length(spans)
                busy += own
                gap += max(e for _, e in spans) - min(s for s, _ in spans) - own
        own = self._own_times()
        before, after = self._before, self._after
        fallbacks = {
            op: n - before["fallbacks"].get(op, 0)
            for op, n in after["fallbacks"].items()
            if n > before["fallbacks"].get(op, 0)
        }
        total = sum(c.duration for c in self.commands)
        return {
            "wall_ns": self.wall_ns,
            "busy_ns": busy,
            "gap_ns": gap,
            "overlap": total / busy if busy else 1.0,
            "commands": len(self.commands),
            "copies": sum(c.kernel in ("upload", "download") for c in self.commands),
            "barriers": sum(c.barrier for c in self.commands),
            "batches": self.batches,
            "untimed": sum(c.times is None for c in self.commands),
            "record_ns": own["record"],
            "compile_ns": own["compile"],
            "submit_ns": own["submit"],
            "wait_ns": own["wait"],
            "cpu_ns": own["cpu"],
            "compiled": sum(s.kind == "compile" and ": " not in s.name for s in self.spans),
            "host_ops": after["host_ops"] - before["host_ops"],
            "fallbacks": fallbacks,
        }

    def _own_times(self):
        """Host time by kind, each span without those inside it."""
        own = defaultdict(float)
        by_thread = defaultdict(list)
        for s in self.spans:
            by_thread[s.thread].append(s)
        for spans in by_thread.values():
            stack = []
            for s in sorted(spans, key=lambda s: (s.start, -s.end)):
                while stack and stack[-1].end <= s.start:
                    stack.pop()
                length = s.end - s.start
                own[s.kind] += length
                if stack:
                    own[stack[-1].kind] -= min(length, stack[-1].end - s.start)
                stack.append(s)
        return own

    # --- text ---------------------------------------------------------------------------------

    _HEADS = ("kernel", "dtype", "shape", "count", "total", "mean", "GB/s", "TFLOP/s", "share")

    def _cells(self, limit):
        rows = self.rows() or self.host_rows()
        cells = [
            (
                _short(r.kernel),
                r.dtype,
                r.shape,
                str(r.count),
                _time(r.total_ns),
                _time(r.mean_ns),
                f"{r.gb_per_s:.3g}" if r.bytes and r.total_ns else "",
                f"{r.tflops:.3g}" if r.flops and r.total_ns else "",
                f"{100 * r.share:.1f} %",
            )
            for r in rows[:limit]
        ]
        return cells, max(0, len(rows) - len(cells))

    def _lines(self):
        s = self.summary()
        lines = []
        if self.commands:
            lines.append(
                f"GPU busy {_time(s['busy_ns'])}, gaps {_time(s['gap_ns'])}, "
                f"{s['commands']} commands ({s['copies']} copies) in {s['batches']} command "
                f"buffers, {s['barriers']} barriers, overlap {s['overlap']:.2f}"
                + (" (isolated)" if self.isolate else "")
            )
        else:
            lines.append("No GPU commands.")
        if s["untimed"]:
            lines.append(f"{s['untimed']} commands ran on a queue that cannot tell the time.")
        lines.append(
            f"host: {_time(s['wall_ns'])} in all, recording {_time(s['record_ns'])}, "
            f"compiling {_time(s['compile_ns'])} ({s['compiled']} kernels), "
            f"submitting {_time(s['submit_ns'])}, waiting {_time(s['wait_ns'])}"
        )
        if s["host_ops"]:
            lines.append(f"CPU streams: {s['host_ops']} operations, {_time(s['cpu_ns'])}")
        if s["fallbacks"]:
            listed = ", ".join(f"{op} {n}" for op, n in s["fallbacks"].items())
            lines.append(f"fallbacks to the host: {listed}")
        return lines

    def table(self, limit=30):
        """The `limit` most expensive rows and the totals as text."""
        self._finished()
        cells, more = self._cells(limit)
        lines = []
        if cells:
            table = [self._HEADS, *cells]
            widths = [max(len(row[i]) for row in table) for i in range(len(self._HEADS))]
            for row in table:
                left = [row[i].ljust(widths[i]) for i in range(3)]
                right = [row[i].rjust(widths[i]) for i in range(3, len(row))]
                lines.append("  ".join(left + right).rstrip())
            lines.insert(1, "-" * max(map(len, lines)))
        if more:
            lines.append(f"... {more} more")
        return "\n".join(lines + self._lines())

    def __str__(self):
        return self.table() if self._done else repr(self)

    def __repr__(self):
        if not self._done:
            state = "running" if self._recording is not None else "not started"
            return f"<profile, {state}>"
        return f"<profile of {len(self.commands)} commands, {_time(self.wall_ns)}>"

    def _repr_html_(self):
        if not self._done:
            return html.escape(repr(self))
        cells, more = self._cells(30)
        head = "".join(f"<th>{h}</th>" for h in self._HEADS)
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{"left" if i < 3 else "right"}">{html.escape(cell)}</td>'
                for i, cell in enumerate(row)
            )
            + "</tr>"
            for row in cells
        )
        notes = self._lines() if not more else [f"... {more} more", *self._lines()]
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table * bool(cells) + "".join(f"<div>{html.escape(line)}</div>" for line in notes)

    # --- trace --------------------------------------------------------------------------------

    def _lanes(self):
        """Timed commands with their place: GPU, stream, and a lane where none overlap."""
        ends = defaultdict(list)
        ordered = sorted((c for c in self.commands if c.times), key=lambda c: c.times)
        for c in ordered:
            lanes = ends[c.track]
            free = (i for i, end in enumerate(lanes) if end <= c.times[0])
            lane = next(free, len(lanes))
            if lane == len(lanes):
                lanes.append(0.0)
            lanes[lane] = c.times[1]
            yield c, lane

    def trace(self):
        """The trace as a dict in Chrome's trace event format, which Perfetto opens.

        Each GPU is a process with a track for each stream, and further ones where commands of a
        stream overlap; the host is a process with a track for each thread.
        """
        self._finished()
        events, names = [], {}
        processes = {0: "host"}
        for c, lane in self._lanes():
            device, stream = c.track
            pid, tid = device + 1, 1 + 64 * stream + min(lane, 63)
            if pid not in processes:
                processes[pid] = f"GPU {device}: {mx.vulkan.device_info(device)['device_name']}"
            more = f", overlap {lane}" if lane else ""
            names[pid, tid] = self._streams.get(c.track, f"stream {stream}") + more
            args = {
                "op": c.op,
                "dtype": c.dtype,
                "shape": list(c.shape),
                "bytes": c.bytes,
                "flops": c.flops,
                "barrier": c.barrier,
                "batch": c.batch,
                "ns": c.duration,
            }
            events.append(
                {
                    "name": c.kernel,
                    "cat": "gpu",
                    "ph": "X",
                    "pid": pid,
                    "tid": tid,
                    "ts": c.times[0] / 1e3,
                    "dur": c.duration / 1e3,
                    "args": args,
                }
            )
        for s in self.spans:
            names[0, s.thread] = self._threads[s.thread - 1]
            events.append(
                {
                    "name": f"{s.kind} {s.name}".rstrip(),
                    "cat": s.kind,
                    "ph": "X",
                    "pid": 0,
                    "tid": s.thread,
                    "ts": s.start / 1e3,
                    "dur": (s.end - s.start) / 1e3,
                }
            )
        events.sort(key=lambda e: (e["ts"], -e["dur"]))
        meta = [
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
            for pid, name in processes.items()
        ]
        for (pid, tid), name in sorted(names.items()):
            meta.append(
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
            )
        return {"traceEvents": meta + events, "displayTimeUnit": "ns"}

    def save(self, path):
        """Writes the trace; open the file in https://ui.perfetto.dev or chrome://tracing."""
        trace = self.trace()
        with open(path, "w", encoding="utf-8") as f:
            json.dump(trace, f)

    # --- pictures -----------------------------------------------------------------------------

    def plot(self, kind="kernels", top=15, ax=None):
        """Draws the `top` most expensive kernels, or with kind "timeline" what ran when.

        Returns the matplotlib axes. Raises ImportError without matplotlib.
        """
        self._finished()
        if kind not in ("kernels", "timeline"):
            raise ValueError(f'[profile] plot draws "kernels" or "timeline", got {kind!r}.')
        try:
            import matplotlib.pyplot as plt
        except ImportError as e:
            raise ImportError("[profile] plot() needs matplotlib: pip install matplotlib") from e
        if ax is None:
            size = (9, 0.35 * top + 1.5) if kind == "kernels" else (11, 5)
            ax = plt.subplots(figsize=size, layout="constrained")[1]
        if kind == "kernels":
            self._plot_kernels(ax, top)
        else:
            self._plot_timeline(ax, top, plt)
        return ax

    def _plot_kernels(self, ax, top):
        rows = (self.rows() or self.host_rows())[:top]
        labels = [" ".join(filter(None, (_short(r.kernel, 40), r.dtype, r.shape))) for r in rows]
        bars = ax.barh(range(len(rows)), [r.total_ns / 1e6 for r in rows])
        ax.bar_label(bars, [f"{100 * r.share:.1f} %" for r in rows], padding=3, fontsize=8)
        ax.set_yticks(range(len(rows)), labels, fontsize=8)
        ax.invert_yaxis()
        ax.margins(x=0.15)
        ax.set_xlabel("GPU time, ms" if self.commands else "time on CPU streams, ms")

    def _plot_timeline(self, ax, top, plt):
        totals = defaultdict(float)
        for c in self.commands:
            totals[c.kernel] += c.duration
        ranked = sorted(totals, key=totals.get, reverse=True)
        palette = plt.get_cmap("tab20")
        shown = min(top, 9)
        color = {name: palette(i) for i, name in enumerate(ranked[:shown])}
        tracks = defaultdict(lambda: defaultdict(list))
        for c, _ in self._lanes():
            label = f"GPU {c.track[0]} {self._streams.get(c.track, '')}"
            tracks[label][c.kernel].append((c.times[0] / 1e6, c.duration / 1e6))
        for s in self.spans:
            label = f"host: {self._threads[s.thread - 1]}"
            tracks[label]["host " + s.kind].append((s.start / 1e6, (s.end - s.start) / 1e6))
        kinds = {"record": 12, "compile": 13, "submit": 14, "wait": 15, "cpu": 16}
        seen = {}
        for y, (_, groups) in enumerate(tracks.items()):
            for name, bars in groups.items():
                host = name.removeprefix("host ") if name.startswith("host ") else None
                paint = palette(kinds.get(host, 17)) if host else color.get(name, "lightgray")
                label = name if host or name in color else "other kernels"
                drawn = ax.broken_barh(bars, (y - 0.4, 0.8), facecolors=[paint])
                seen.setdefault(label, drawn)
        ax.set_yticks(range(len(tracks)), list(tracks))
        ax.invert_yaxis()
        ax.set_xlabel("ms")
        if seen:
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15), "ncols": 3}
            names = [_short(name, 48) for name in seen]
            ax.legend(seen.values(), names, fontsize=7, **place)
