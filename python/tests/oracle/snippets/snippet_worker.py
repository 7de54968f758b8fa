"""Runs snippets with the `mlx` of its interpreter: snippet_worker.py DEVICE PER SECONDS < CASES.

CASES is a pickled list of wire.Snippet; the pickled results go to standard output, one as soon as
it is known. The process that reads them never computes: it forks children, each of which runs up to
PER snippets in a scratch folder and may crash, hang or exhaust memory without taking the others
along. A snippet has SECONDS of processor time, ten times as long by the clock, and MEMORY bytes.
"""

import contextlib
import os
import pathlib
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import warnings

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from wire import Arr, Boxed, Crashed, Failed  # noqa: E402

MEMORY = 12 << 30


def load():
    """Imports `mlx`. A GPU does not survive a fork, so that its children load for themselves."""
    import mlx.core
    import prelude
    from described import described
    from worker import build

    return mlx.core, prelude, described, build


def told(e):
    """What an exception says; one that names a traced array may fail to."""
    try:
        return str(e)[:400]
    except Exception:  # noqa: BLE001 - its kind is known
        return ""


def outcome(snippet, device):
    """What the snippet gives: its value described, or the exception it raises."""
    mx, prelude, described, build = load()
    mx.set_default_device(getattr(mx, device))
    mx.enable_compile()
    mx.random.seed(7)
    space = prelude.namespace()
    try:
        space.update({k: build(v) if isinstance(v, Arr) else v for k, v in snippet.given.items()})
        return described(prelude.value(snippet.text, space))
    except MemoryError:
        return Failed("MemoryError", "")
    except RecursionError:
        return Failed("RecursionError", "")
    except SyntaxError as e:
        return Boxed("unreadable", [str(e)])
    except BaseException as e:  # noqa: BLE001 - the kind of error is the result
        return Failed(type(e).__name__, told(e))


def child(todo, out, device, seconds):
    warnings.simplefilter("ignore")
    import numpy as np

    np.seterr(all="ignore")
    if device == "cpu":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    # A compiled function draws other numbers of MLX where they are the first ones of a process.
    mx = load()[0]
    mx.eval(mx.random.uniform())
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    try:
        for snippet in todo:
            # These signals end the process, wherever it is.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
            result = outcome(snippet, device)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                frame = pickle.dumps(result)
            except Exception as e:  # noqa: BLE001 - what cannot be sent is named
                frame = pickle.dumps(Failed("Unsent", repr(e)[:200]))
            out.write(frame)
            out.flush()
            for name in os.listdir("."):
                with contextlib.suppress(OSError):
                    os.remove(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def forked(todo, device, seconds):
    """Results of a child that runs `todo`, fewer where it died, and its status."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        status = 1
        try:
            with open(write, "wb") as out:
                child(todo, out, device, seconds)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with open(read, "rb") as frames:
        while True:
            try:
                yield pickle.load(frames)
            except (EOFError, pickle.UnpicklingError):
                break
    status = os.waitpid(pid, 0)[1]
    if status:
        yield Crashed(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def main():
    device, per, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    todo = pickle.load(sys.stdin.buffer)
    # What snippets print, and what dying processes say, is not the result.
    results = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    if device == "cpu":
        load()
    done = 0
    while done < len(todo):
        before = done
        for result in forked(todo[done : done + per], device, seconds):
            pickle.dump(result, results)
            results.flush()
            done += 1
        if done == before:
            pickle.dump(Crashed(0), results)
            results.flush()
            done += 1


if __name__ == "__main__":
    main()
