"""What clients of mlx_lm.server get: many at once, beside a long prompt, with a known prefix.

A model of Qwen3's shape with random weights and a tokenizer of made-up words are written into a
temporary folder, mlx_lm.server serves them on 127.0.0.1, and threads stream chats from it. Three
things are measured, each in two rounds, the first of which compiles kernels: generated tokens per
second and the time to the first token with many clients; how long the tokens of one client stop
while another one's long prompt is read; how soon a prompt is answered whose beginning was read
before. All times are the clients'. Prompts never repeat, answers never end early. Nothing is
fetched, and the server ends with the benchmark. mlx-lm has to be installed. Prints and writes JSON.

    python benches/service.py [--model tiny|0.6b|8b] [--device cpu|gpu] [--quick] [--json FILE]
"""

import argparse
import dataclasses
import http.client
import json
import math
import os
import pathlib
import queue
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata, util
from itertools import pairwise

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

#: Hidden size, layers, hidden size of the gated unit, heads, heads of keys and values, features of
#: a head, words; whether the embedding is the last layer, too.
SHAPES = {
    "tiny": (256, 6, 512, 8, 4, 32, 4096, True),
    "0.6b": (1024, 28, 3072, 16, 8, 128, 151_936, True),
    "8b": (4096, 36, 12288, 32, 8, 128, 151_936, False),
}
GROUP = 64
#: Before and behind each message; the last two words of the model.
START, END = "<|start|>", "<|end|>"
TEMPLATE = (
    "{% for m in messages %}" + START + "{{ m['content'] }}" + END + "{% endfor %}"
    "{% if add_generation_prompt %}" + START + "{% endif %}"
)
#: Seconds in which the server may take up no request while it generates.
UPTAKE = 0.5
#: Seconds between connections: the server's listen queue is five long, and what is beyond is reset.
SPACE = 0.005
#: Tokens of an answer at most.
MOST = 8192
#: Tokens of answers that matter by their first token only.
SHORT = 8


def word(i):
    """The i-th word: four letters, since byte-level tokenizers part letters from digits."""
    return "".join(chr(ord("a") + i // 26**place % 26) for place in (3, 2, 1, 0))


def tokenizer_of(words):
    """The files of a tokenizer with a token for each word, streamed by bytes as Qwen3's is."""
    names = [f"Ġ{word(i)}" for i in range(words - 2)] + [START, END]
    # The model has no row for the token that would end an answer.
    special = {START: words - 2, END: words - 1, "<|stop|>": words}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    by_bytes = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    by_bytes["use_regex"] = True
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": name, "special": True, **flags} for name, i in special.items()
        ],
        "pre_tokenizer": by_bytes,
        "decoder": by_bytes,
        "model": {
            "type": "WordLevel",
            "unk_token": END,
            "vocab": {name: i for i, name in enumerate(names)},
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|stop|>",
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": settings}


def write_model(folder, name, bits):
    """Writes model and tokenizer into a folder, and prints what computes. In a process of its own,
    so that none of it stays in memory."""
    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.models import qwen3
    from mlx_lm.utils import save_config, save_model

    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from sharded import randomize

    hidden, layers, inner, heads, shared, head, words, tied = SHAPES[name]
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": head,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "vocab_size": words,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
    }
    mx.random.seed(0)
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    # Layer by layer: the whole in bfloat16 would be four times as large.
    for layer in model.model.layers:
        randomize(layer)
        if bits < 16:
            nn.quantize(layer, GROUP, bits)
        mx.eval(layer.parameters())
    for rest in (model.model.embed_tokens, model.model.norm, *([] if tied else [model.lm_head])):
        randomize(rest)
    if bits < 16:
        nn.quantize(model, GROUP, bits)
        config["quantization"] = {"group_size": GROUP, "bits": bits}
    mx.eval(model.parameters())
    save_model(folder, model, donate_model=True)
    save_config(config, folder / "config.json")
    for file, content in tokenizer_of(words).items():
        (folder / file).write_text(json.dumps(content))
    device = mx.default_device()
    about = {"device": str(mx.device_info(device)["device_name"]), "mlx": mx.__version__}
    print(json.dumps(about))


class Server:
    """mlx_lm.server as a child process, from `with` until its end."""

    def __init__(self, folder, model, environment, options):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = folder / "server.log"
        command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model)]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--log-level", "WARNING"]
        if options.step:
            command += ["--prefill-step-size", str(options.step)]
        self.command, self.environment, self.timeout = command, environment, options.timeout
        self.door = threading.Lock()

    def __enter__(self):
        with self.log.open("w") as log:
            # In a session of its own, so that Ctrl-C reaches it by way of __exit__ alone.
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait(self):
        """Returns when requests are taken; the model may still be loading."""
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}")
            try:
                connection = self.connect()
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    connection.close()
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise TimeoutError(f"the server did not answer within {self.timeout} s")

    def connect(self):
        """A connection for one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        with self.door:
            connection.connect()
            time.sleep(SPACE)
        return connection

    def said(self):
        """The lines that the server wrote, but for those on requests that were answered."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if not line.endswith('" 200 -')]


@dataclasses.dataclass
class Answer:
    """What came of a request, and when, in seconds of `time.perf_counter`."""

    sent: float
    accepted: float
    times: list
    prompt: int
    cached: int

    @property
    def wait(self):
        """Seconds to the first token."""
        return self.times[0] - self.sent

    @property
    def rate(self):
        """Tokens a second from the first one on."""
        return (len(self.times) - 1) / (self.times[-1] - self.times[0])

    def gaps(self, begin=-math.inf, end=math.inf):
        """Seconds between tokens, of gaps that reach into a span of time."""
        return [b - a for a, b in pairwise(self.times) if b > begin and a < end]


def ask(server, texts, count, ready=None, seen=None):
    """Streams one answer of `count` tokens to a system's message, if there are two, and a user's.

    `ready` is called between connecting and asking, `seen` with the number of tokens so far.
    """
    roles = ["user"] if len(texts) == 1 else ["system", "user"]
    body = {
        "messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)],
        "max_tokens": count,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    connection = server.connect()
    try:
        if ready:
            ready()
        sent = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        accepted = time.perf_counter()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}: {response.read(500)!r}")
        times, usage, done = [], None, False
        for line in response:
            now = time.perf_counter()
            # The rest are empty lines, and comments on how much of the prompt was read.
            if not line.startswith(b"data: "):
                continue
            if line.startswith(b"data: [DONE]"):
                done = True
                break
            event = json.loads(line[6:])
            usage = event.get("usage", usage)
            if any(choice["delta"].get("content") for choice in event["choices"]):
                times.append(now)
                if seen:
                    seen(len(times))
    finally:
        connection.close()
    if not done or usage is None or not usage["completion_tokens"] == len(times) == count:
        raise RuntimeError(f"{len(times)} of {count} tokens came, usage {usage}, done: {done}")
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return Answer(sent, accepted, times, usage["prompt_tokens"], cached)


def at_once(calls, limit, progress):
    """Answers of calls that run in a thread each; the first error is raised at once.

    Threads are daemons: they last as long as the server answers, and nobody waits for them.
    """
    done = queue.SimpleQueue()

    def run(i, call):
        try:
            done.put((i, call()))
        except Exception as e:
            done.put((i, e))

    for i, call in enumerate(calls):
        threading.Thread(target=run, args=(i, call), daemon=True).start()
    answers, end = [None] * len(calls), time.monotonic() + limit
    for _ in calls:
        try:
            i, answer = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"{len(calls)} requests took more than {limit} s") from None
        if isinstance(answer, Exception):
            raise answer
        answers[i] = answer
        progress.update()
    return answers


class Bench:
    """The measurements, each a dictionary of one round."""

    def __init__(self, server, options, progress):
        self.server, self.options, self.progress = server, options, progress
        self.words = SHAPES[options.model][6] - 2
        self.rng = random.Random(0)

    def text(self, count):
        """Words of chance, a token each."""
        return " ".join(word(self.rng.randrange(self.words)) for _ in range(count))

    def ask(self, *calls):
        """Answers of requests at the same moment, each given by its texts and tokens."""
        ready = threading.Barrier(len(calls), timeout=self.options.limit).wait
        calls = [lambda c=c: ask(self.server, *c, ready) for c in calls]
        return at_once(calls, self.options.limit, self.progress)

    def crowd(self, clients):
        """Clients that ask at the same moment."""
        o = self.options
        begin = time.perf_counter()
        answers = self.ask(*([[self.text(o.prompt)], o.tokens] for _ in range(clients)))
        seconds = max(a.times[-1] for a in answers) - min(a.sent for a in answers)
        rates, waits = [a.rate for a in answers], [a.wait for a in answers]
        gaps = [gap for a in answers for gap in a.gaps()]
        return {
            "clients": clients,
            "prompt_tokens": answers[0].prompt,
            "tokens": sum(len(a.times) for a in answers),
            "seconds": time.perf_counter() - begin,
            "tokens_per_s": sum(len(a.times) for a in answers) / seconds,
            "client_tokens_per_s": {"median": statistics.median(rates), "least": min(rates)},
            "first_token_s": {"median": statistics.median(waits), "worst": max(waits)},
            "accepted_s": {"worst": max(a.accepted - a.sent for a in answers)},
            "gap_ms": {"median": 1e3 * statistics.median(gaps), "worst": 1e3 * max(gaps)},
        }

    def stall(self):
        """One client's stream while the long prompt of another one is read."""
        o = self.options
        (probe,) = self.ask([[self.text(o.prompt)], o.tokens])
        rate = o.tokens / (probe.times[-1] - probe.sent)
        # Enough to outlast the long prompt: while it is read, few tokens come.
        count = min(MOST, 2 * o.tokens + math.ceil(3 * UPTAKE * rate))
        streaming = threading.Event()
        texts, long = [self.text(o.prompt)], [self.text(o.long)]

        def seen(n):
            if n >= o.tokens:
                streaming.set()

        def intrude():
            if not streaming.wait(o.limit):
                raise TimeoutError("the stream that is to be disturbed did not begin")
            return ask(self.server, long, SHORT)

        calls = [lambda: ask(self.server, texts, count, seen=seen), intrude]
        stream, other = at_once(calls, o.limit, self.progress)
        before = stream.gaps(end=other.sent)
        during = stream.gaps(other.sent, other.times[0])
        return {
            "prompt_tokens": other.prompt,
            "before_ms": {"median": 1e3 * statistics.median(before), "worst": 1e3 * max(before)},
            "during_ms": {"median": 1e3 * statistics.median(during), "worst": 1e3 * max(during)},
            "tokens_before": len(before),
            "tokens_during": len(during),
            "accepted_s": other.accepted - other.sent,
            "first_token_s": other.wait,
            # Otherwise the stream ended too soon, and the stall may have been longer.
            "outlasted": stream.times[-1] > other.times[0],
        }

    def prefix(self):
        """Two prompts that begin alike, one after the other, and one that does not."""
        o = self.options
        known, other = self.text(o.prefix), self.text(o.prefix)
        asked = {"first": known, "again": known, "other": other}
        row = {}
        for name, system in asked.items():
            (a,) = self.ask([[system, self.text(o.question)], SHORT])
            row[name] = {"prompt_tokens": a.prompt, "cached": a.cached, "first_token_s": a.wait}
        return row


HEAD = (
    f"{'round':>5} {'clients':>7} {'tokens/s':>9}   {'a client: median':>16} {'least':>8}"
    f"   {'first token: median':>19} {'worst':>9}   {'gap: median':>11} {'worst':>9}"
)


def crowd_line(i, r):
    client, first, gap = r["client_tokens_per_s"], r["first_token_s"], r["gap_ms"]
    return (
        f"{i:5} {r['clients']:7} {r['tokens_per_s']:9.1f}   {client['median']:16.1f}"
        f" {client['least']:8.1f}   {first['median']:17.3f} s {first['worst']:7.3f} s"
        f"   {gap['median']:8.1f} ms {gap['worst']:6.1f} ms"
    )


def stall_line(i, r):
    before, during = r["before_ms"]["worst"], r["during_ms"]["worst"]
    return (
        f"{i:5} largest gap of one stream: {before:.1f} ms alone, {during:.1f} ms beside a prompt"
        f" of {r['prompt_tokens']} tokens, which is taken up after {r['accepted_s']:.3f} s and"
        f" answered after {r['first_token_s']:.3f} s"
        + ("" if r["outlasted"] else "; the stream ended before that")
    )


def prefix_line(i, r):
    parts = [
        f"{name} {a['first_token_s']:.3f} s ({a['cached']} of {a['prompt_tokens']} known)"
        for name, a in r.items()
    ]
    return f"{i:5} first token of prompts that begin alike: {', '.join(parts)}"


LINES = {"clients": crowd_line, "stall": stall_line, "prefix": prefix_line}


def measure(server, options, result, progress, say):
    """All rounds; rows are said and kept as they come."""
    bench = Bench(server, options, progress)
    begun = time.monotonic()
    for i in range(1, options.rounds + 1):
        tasks = [("clients", lambda n=n: bench.crowd(n)) for n in options.clients]
        tasks += [("stall", bench.stall), ("prefix", bench.prefix)]
        say(HEAD)
        for kind, task in tasks:
            if time.monotonic() - begun > options.seconds:
                say(f"{i:5} left out: {kind}")
                continue
            row = task()
            result[kind].append({"round": i, **row})
            say(LINES[kind](i, row))


class Silent:
    """Stands in for tqdm."""

    def update(self, n=1):
        pass

    def close(self):
        pass


def run(options, folder):
    """Makes the model, serves it, measures; what was found."""
    model = folder / "model"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    if options.device:
        environment["MLX_DEFAULT_DEVICE"] = options.device
    begin = time.perf_counter()
    command = [sys.executable, __file__, "--model", options.model, "--bits", str(options.bits)]
    command += ["--write", str(model)]
    made = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, timeout=options.limit
    )
    about = json.loads(made.stdout.splitlines()[-1])
    written = time.perf_counter() - begin
    result = {
        **about,
        "model": options.model,
        "bits": options.bits,
        "mlx_lm": metadata.version("mlx-lm"),
        **{name: getattr(options, name) for name in ("tokens", "prompt", "step")},
        **{kind: [] for kind in LINES},
    }
    with Server(folder, model, environment, options) as server:
        try:
            begin = time.perf_counter()
            server.wait()
            ask(server, [word(0)], SHORT)
            result["start_s"] = time.perf_counter() - begin
            print(
                f"{options.model}, {options.bits} bits, {about['device']}, mlx-lm"
                f" {result['mlx_lm']}: written in {written:.1f} s, served after"
                f" {result['start_s']:.1f} s; prompts of {options.prompt}, answers of"
                f" {options.tokens} tokens",
                flush=True,
            )
            # Beside the clients, two requests and a probe of a stall, and three of prefixes.
            total = options.rounds * (sum(options.clients) + 6)
            bar = tqdm(total=total, unit="request", disable=None) if tqdm else Silent()
            say = tqdm.write if tqdm else lambda line: print(line, flush=True)
            try:
                measure(server, options, result, bar, say)
            finally:
                bar.close()
        except Exception:
            print("what the server wrote last:", *server.said()[-30:], sep="\n  ", file=sys.stderr)
            raise
        said = server.said()
        result["failures"] = sum(line.startswith("Traceback") for line in said)
        if result["failures"]:
            print(f"the server wrote {result['failures']} tracebacks:", *said[-60:], sep="\n  ")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=[*SHAPES], default="0.6b")
    parser.add_argument("--device", choices=["cpu", "gpu"], help="default: MLX's default device")
    parser.add_argument("--bits", type=int, choices=[2, 3, 4, 5, 6, 8, 16], default=4)
    parser.add_argument("--clients", default="1,8,32", help="numbers of clients at once")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--long", type=int, default=8192, help="tokens of the long prompt")
    parser.add_argument("--prefix", type=int, default=2048, help="tokens that prompts share")
    parser.add_argument("--question", type=int, default=32, help="tokens behind them")
    parser.add_argument("--step", type=int, help="the server's --prefill-step-size")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds without a byte")
    parser.add_argument("--limit", type=float, default=900, help="seconds of a measurement")
    parser.add_argument("--seconds", type=float, default=1200, help="begins nothing after so many")
    parser.add_argument("--quick", action="store_true", help="the tiny model, short prompts")
    parser.add_argument("--write", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.write:
        write_model(options.write, options.model, options.bits)
        return
    if util.find_spec("mlx_lm") is None:
        sys.exit("mlx-lm is needed: pip install mlx-lm")
    if options.quick:
        options.model, options.prompt, options.tokens = "tiny", 64, 48
        options.long, options.prefix = 4096, 1024
        options.timeout, options.limit, options.seconds = 20, 30, 40
    options.clients = [int(n) for n in options.clients.split(",")]
    # Whoever ends this process lets it end the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mlx-service-") as folder:
        result = run(options, pathlib.Path(folder))
    result["seconds"] = time.perf_counter() - begin
    print(f"{result['seconds']:.1f} s")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
