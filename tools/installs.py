"""Installs the wheel into fresh environments, in every order with upstream's and its clients.

    python tools/installs.py --wheel dist/mlx_vulkan-....whl [--only WORD] [--jobs 2]

Each row of the table is an environment: pip resolves the real requirements of every package, then a
program of each client computes something. Where the package stops with a message, the commands of
that message are run (from local files in place of where the package is published), and the program
once more. What the clients need and these
programs do not (torch, video, servers) is stood in for by empty distributions; all else is fetched
once into the cache. Without an index it says NOT RUN. The exit status is 1 where a row differs
from what is expected.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlx-vulkan"
SHARED = CACHE / f"clients-{sys.version_info[0]}{sys.version_info[1]}"

NEEDED = """numpy numba tiktoken scipy huggingface_hub tqdm more-itertools transformers
    sentencepiece protobuf pyyaml jinja2 pillow requests""".split()
STOOD_IN = """torch datasets opencv-python llguidance miniaudio fastapi python-multipart starlette
    uvicorn websockets cryptography sounddevice""".split()

UPSTREAM = "mlx[cpu]==0.32.4"
OURS, DROP_IN = "mlx-vulkan", "mlx-vulkan[drop-in]"

PROGRAMS = {
    "mlx": """
import mlx.core as mx
import mlx.nn as nn
assert nn.Linear(4, 2)(mx.ones((3, 4))).shape == (3, 2)
""",
    "mlx-whisper": """
import mlx.core as mx, numpy as np
from mlx_whisper.audio import log_mel_spectrogram
from mlx_whisper.whisper import ModelDimensions, Whisper
model = Whisper(ModelDimensions(80, 50, 32, 2, 1, 100, 20, 32, 2, 1), mx.float32)
mel = log_mel_spectrogram(np.sin(np.arange(16000, dtype=np.float32) / 20))
out = model(mel[None, :100], mx.array([[1, 2, 3]]))
assert out.shape == (1, 3, 100) and mx.isfinite(out).all()
""",
    "mlx-vlm": """
import mlx.core as mx
from mlx_vlm.models import qwen2_vl as q
text = q.TextConfig(
    model_type="qwen2_vl", hidden_size=32, num_hidden_layers=1, intermediate_size=64,
    num_attention_heads=4, rms_norm_eps=1e-6, vocab_size=100, num_key_value_heads=2,
    rope_scaling={"type": "mrope", "mrope_section": [1, 1, 2]})
vision = q.VisionConfig(
    depth=1, embed_dim=32, hidden_size=32, num_heads=4, patch_size=14, mlp_ratio=2)
model = q.Model(q.ModelConfig(
    text_config=text, vision_config=vision, model_type="qwen2_vl", vocab_size=100,
    image_token_id=90, video_token_id=91))
pixels = mx.random.normal((4, 3 * 2 * 14 * 14))
tokens, grid = mx.array([[1, 90, 2, 3]]), mx.array([[1, 2, 2]])
out = model(tokens, pixel_values=pixels, image_grid_thw=grid).logits
assert out.shape == (1, 4, 100) and mx.isfinite(out).all()
""",
    "mlx-embeddings": """
import mlx.core as mx
from mlx_embeddings.models import bert
model = bert.Model(bert.ModelArgs(
    model_type="bert", hidden_size=32, num_hidden_layers=1, intermediate_size=64,
    num_attention_heads=4, vocab_size=100, max_position_embeddings=64))
out = model(mx.array([[1, 2, 3]]), attention_mask=mx.ones((1, 3))).text_embeds
assert out.shape == (1, 32) and mx.isfinite(out).all()
""",
    "mlx-audio": """
import mlx.core as mx
from mlx_audio.codec.models.snac import SNAC
from mlx_audio.dsp import mel_filters, stft
model = SNAC(
    sampling_rate=8000, encoder_dim=8, encoder_rates=[2, 2], latent_dim=32, decoder_dim=32,
    decoder_rates=[2, 2], attn_window_size=None, codebook_size=16, codebook_dim=4,
    vq_strides=[2, 1])
sound = mx.sin(mx.arange(256) / 5)
out = model.decode(model.encode(sound[None, None]))
assert out.shape == (1, 259, 1) and mx.isfinite(out).all()
power = mx.square(mx.abs(stft(sound, n_fft=64, hop_length=16)))
bands = power @ mel_filters(8000, 64, 20, norm="slaney", mel_scale="slaney").T
assert bands.shape[1] == 20 and mx.isfinite(bands).all()
""",
}
WHOSE = "\nprint('works' if hasattr(mx, 'vulkan') else 'UPSTREAM RUNS')"


def orders():
    """(commands of pip, program, what is expected first): every order of each pair."""
    yield [OURS], "mlx", "works"
    yield [DROP_IN], "mlx", "works"
    for other in (UPSTREAM, "mlx-whisper", "mlx-vlm", "mlx-embeddings", "mlx-audio"):
        program = other if other in PROGRAMS else "mlx"
        yield [OURS, other], program, "stops"
        yield [other, OURS], program, "stops"
        if other != UPSTREAM:
            yield [DROP_IN, other], program, "works"
        yield [other, DROP_IN], program, "stops"
    yield [f"{DROP_IN} mlx-whisper"], "mlx-whisper", "works"
    yield [DROP_IN, UPSTREAM], "mlx", "works"


def pip(*args, python=None):
    """pip, in this environment or for another one."""
    command = [sys.executable, "-m", "pip", *(["--python", str(python)] if python else [])]
    command += [*args, "--disable-pip-version-check", "--quiet"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def stand_in(name):
    """An installed distribution without files."""
    about = SHARED / "site" / f"{name.replace('-', '_')}-99.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.0\n")
    (about / "RECORD").write_text("")


def prepare(links, wheel):
    """Fills the shared folder and `links`, the packages that are installed; None, or why not."""
    done = SHARED / "done"
    if not done.exists():
        got = pip("install", "--target", str(SHARED / "site"), "--upgrade", *NEEDED)
        if got.returncode:
            return got.stderr.strip().splitlines()[-1]
        for name in STOOD_IN:
            stand_in(name)
        done.touch()
    clients = ["mlx-whisper", "mlx-vlm", "mlx-embeddings", "mlx-audio"]
    (links / "shim").mkdir()
    for args in ([UPSTREAM], ["--no-deps", *clients]):
        got = pip("download", "--dest", str(links), "--find-links", str(SHARED / "links"), *args)
        if got.returncode:
            return got.stderr.strip().splitlines()[-1]
    shim = pip(
        "wheel", "--no-deps", "--wheel-dir", str(links / "shim"), str(ROOT / "packaging" / "mlx")
    )
    if shim.returncode:
        return shim.stderr.strip().splitlines()[-1]
    (links / wheel.name).write_bytes(wheel.read_bytes())
    return None


def run(python, code, *args):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MLX_TEST_DEVICE")}
    # Programs run where nothing else can be imported from.
    command = [str(python), *(args or ("-c", code + WHOSE))]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=env, cwd=python.parent
    )


def outcome(python, program):
    """What a program does ("works", "stops" or how it fails), and the message."""
    done = run(python, PROGRAMS[program])
    text = done.stdout.strip() if done.returncode == 0 else done.stderr
    if "ImportError: [mlx]" in text:
        return "stops", text[text.index("ImportError: [mlx]") :]
    return text.strip().splitlines()[-1], text


def remedies(message):
    """The commands in a message: its indented lines."""
    return [shlex.split(line)[1:] for line in re.findall(r"^    (pip .*)$", message, re.M)]


def row(order, links):
    """Makes an environment, and says what happens in it."""
    steps, program, expected = order
    local = ["--no-index", "--find-links", str(links), "--no-compile"]
    shim = str(links / "shim")
    with tempfile.TemporaryDirectory(prefix="mlx-install-") as folder:
        venv.create(folder, with_pip=False)
        python = Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        site = run(python, "", "-c", "import site; print(site.getsitepackages()[0])").stdout.strip()
        (Path(site) / "shared.pth").write_text(f"{SHARED / 'site'}\n")
        for step in steps:
            found = ["--find-links", shim] if DROP_IN in step else []
            got = pip("install", *local, *found, *step.split(), python=python)
            if got.returncode:
                return (
                    steps,
                    program,
                    f"pip: {got.stderr.strip().splitlines()[-1]}",
                    "",
                    "",
                    False,
                    "",
                )
        first, message = outcome(python, program)
        doctor = run(python, "", "-m", "mlx.info", "--doctor").returncode
        well = first == expected and doctor == (expected != "works")
        then = ""
        if first == "stops":
            for args in remedies(message):
                args = [shim if a.startswith("https:") else a for a in args]
                got = pip(*args, *(local if args[0] == "install" else []), python=python)
                well = well and got.returncode == 0
            then = outcome(python, program)[0]
            after = run(python, "", "-m", "mlx.info", "--doctor")
            well = well and then == "works" and after.returncode == 0
            message += "" if after.returncode == 0 else after.stdout
        return steps, program, first, "finds it" if doctor else "ok", then, well, message


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--only", default="", help="orders that hold this word")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--messages", action="store_true", help="print each different message")
    args = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mlx-links-") as links:
        why = prepare(Path(links), args.wheel)
        if why:
            print(f"NOT RUN: packages could not be fetched ({why})")
            return 0
        wanted = [o for o in orders() if args.only in " ".join(o[0])]
        with ThreadPoolExecutor(args.jobs) as pool:
            rows = list(pool.map(lambda o: row(o, Path(links)), wanted))
    print("| pip install, in this order | program | what happens | --doctor | after the remedy |")
    print("|---|---|---|---|---|")
    messages = {}
    for steps, program, first, doctor, then, well, message in rows:
        order = ", then ".join(f"`{s}`" for s in steps)
        mark = "" if well else " NOT EXPECTED"
        print(f"| {order} | {program} | {first} | {doctor} | {then} |{mark}")
        if message and (args.messages or not well):
            messages.setdefault(re.sub(r"/\S*mlx-install-\w+", "", message), order)
    for message, order in messages.items():
        print(f"\n{order}:\n{message}")
    bad = sum(not r[5] for r in rows)
    print(f"{len(rows)} environments, {bad} not as expected, {time.perf_counter() - begin:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
