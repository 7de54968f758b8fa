"""What the families are and what processes are told; imports nothing that a process needs first."""

#: Families, and how many cases each has for one of the largest.
SHARES = {
    "matmul": 1.0,
    "epilogue": 0.3,
    "parts": 0.05,
    "gather_mm": 0.3,
    "quantized": 1.0,
    "gather_qmm": 0.4,
    "attention": 0.7,
    "attention_grad": 0.3,
    "joined": 0.3,
    "token": 0.2,
    "conv": 0.2,
    "conv_grad": 0.1,
    "sum": 0.2,
    "reduce": 0.2,
    "arg": 0.1,
    "softmax": 0.1,
    "norm": 0.1,
    "sort": 0.1,
    "scan": 0.1,
    "gather": 0.1,
    "scatter": 0.1,
    "fft": 0.1,
    "elementwise": 0.2,
    "cast": 0.1,
}
#: Every second case takes kernels wherever they can be, not only where they are the fastest.
MODES = (
    {},
    {"MLX_VK_WARPGROUP": "all", "MLX_VK_QMM": "native", "MLX_VK_MATMUL_EPILOGUE": "all"},
)


def mode_of(number):
    """Which of the modes a case belongs to."""
    return number % len(MODES)
