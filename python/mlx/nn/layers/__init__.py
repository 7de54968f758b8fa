"""Layers, one file a kind."""

from importlib import import_module as _import_module

from mlx.nn.layers.activations import (
    CELU as CELU,
    ELU as ELU,
    GELU as GELU,
    GLU as GLU,
    SELU as SELU,
    HardShrink as HardShrink,
    Hardswish as Hardswish,
    HardTanh as HardTanh,
    LeakyReLU as LeakyReLU,
    LogSigmoid as LogSigmoid,
    LogSoftmax as LogSoftmax,
    Mish as Mish,
    PReLU as PReLU,
    ReLU as ReLU,
    ReLU2 as ReLU2,
    ReLU6 as ReLU6,
    Sigmoid as Sigmoid,
    SiLU as SiLU,
    Softmax as Softmax,
    Softmin as Softmin,
    Softplus as Softplus,
    Softshrink as Softshrink,
    Softsign as Softsign,
    Step as Step,
    Tanh as Tanh,
    celu as celu,
    elu as elu,
    gelu as gelu,
    gelu_approx as gelu_approx,
    gelu_fast_approx as gelu_fast_approx,
    glu as glu,
    hard_shrink as hard_shrink,
    hard_tanh as hard_tanh,
    hardswish as hardswish,
    leaky_relu as leaky_relu,
    log_sigmoid as log_sigmoid,
    log_softmax as log_softmax,
    mish as mish,
    prelu as prelu,
    relu as relu,
    relu2 as relu2,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    softmin as softmin,
    softplus as softplus,
    softshrink as softshrink,
    softsign as softsign,
    step as step,
    tanh as tanh,
)
from mlx.nn.layers.base import (
    Module as Module,
)
from mlx.nn.layers.containers import (
    Sequential as Sequential,
)
from mlx.nn.layers.convolution import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
)
from mlx.nn.layers.convolution_transpose import (
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
)
from mlx.nn.layers.distributed import (
    AllToShardedLinear as AllToShardedLinear,
    FullyShardedModule as FullyShardedModule,
    QuantizedAllToShardedLinear as QuantizedAllToShardedLinear,
    QuantizedShardedToAllLinear as QuantizedShardedToAllLinear,
    ShardedToAllLinear as ShardedToAllLinear,
    fully_shard as fully_shard,
)
from mlx.nn.layers.dropout import (
    Dropout as Dropout,
    Dropout2d as Dropout2d,
    Dropout3d as Dropout3d,
)
from mlx.nn.layers.embedding import (
    Embedding as Embedding,
)
from mlx.nn.layers.linear import (
    Bilinear as Bilinear,
    Identity as Identity,
    Linear as Linear,
)
from mlx.nn.layers.normalization import (
    BatchNorm as BatchNorm,
    GroupNorm as GroupNorm,
    InstanceNorm as InstanceNorm,
    LayerNorm as LayerNorm,
    RMSNorm as RMSNorm,
)
from mlx.nn.layers.pooling import (
    AvgPool1d as AvgPool1d,
    AvgPool2d as AvgPool2d,
    AvgPool3d as AvgPool3d,
    MaxPool1d as MaxPool1d,
    MaxPool2d as MaxPool2d,
    MaxPool3d as MaxPool3d,
)
from mlx.nn.layers.positional_encoding import (
    ALiBi as ALiBi,
    RoPE as RoPE,
    SinusoidalPositionalEncoding as SinusoidalPositionalEncoding,
)
from mlx.nn.layers.quantized import (
    QQLinear as QQLinear,
    QuantizedEmbedding as QuantizedEmbedding,
    QuantizedLinear as QuantizedLinear,
    quantize as quantize,
)
from mlx.nn.layers.recurrent import (
    GRU as GRU,
    LSTM as LSTM,
    RNN as RNN,
)
from mlx.nn.layers.transformer import (
    MultiHeadAttention as MultiHeadAttention,
    Transformer as Transformer,
    TransformerDecoder as TransformerDecoder,
    TransformerDecoderLayer as TransformerDecoderLayer,
    TransformerEncoder as TransformerEncoder,
    TransformerEncoderLayer as TransformerEncoderLayer,
)
from mlx.nn.layers.upsample import (
    Upsample as Upsample,
)

# Models call these for every token: the common case of their calls is done without Python.
_quicken = _import_module("mlx.core._layers").quicken
_quicken(QuantizedLinear, "quantized_linear")
_quicken(Linear, "linear")
_quicken(RMSNorm, "rms_norm")
_quicken(RoPE, "rope")
