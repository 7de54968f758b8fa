"""Differences of programs (behaviour.py) that are wanted, each with its reason."""

NO_ANSWER = "official MLX crashes, hangs or reports a failed C++ cast (std::bad_cast)"


def reason(program, got, want, device):
    return None
