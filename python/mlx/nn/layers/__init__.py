"""Layers, one file a kind."""

from mlx.nn.layers.activations import (
    CELU as CELU,
)
from mlx.nn.layers.activations import (
    ELU as ELU,
)
from mlx.nn.layers.activations import (
    GELU as GELU,
)
from mlx.nn.layers.activations import (
    GLU as GLU,
)
from mlx.nn.layers.activations import (
    SELU as SELU,
)
from mlx.nn.layers.activations import (
    HardShrink as HardShrink,
)
from mlx.nn.layers.activations import (
    Hardswish as Hardswish,
)
from mlx.nn.layers.activations import (
    HardTanh as HardTanh,
)
from mlx.nn.layers.activations import (
    LeakyReLU as LeakyReLU,
)
from mlx.nn.layers.activations import (
    LogSigmoid as LogSigmoid,
)
from mlx.nn.layers.activations import (
    LogSoftmax as LogSoftmax,
)
from mlx.nn.layers.activations import (
    Mish as Mish,
)
from mlx.nn.layers.activations import (
    PReLU as PReLU,
)
from mlx.nn.layers.activations import (
    ReLU as ReLU,
)
from mlx.nn.layers.activations import (
    ReLU2 as ReLU2,
)
from mlx.nn.layers.activations import (
    ReLU6 as ReLU6,
)
from mlx.nn.layers.activations import (
    Sigmoid as Sigmoid,
)
from mlx.nn.layers.activations import (
    SiLU as SiLU,
)
from mlx.nn.layers.activations import (
    Softmax as Softmax,
)
from mlx.nn.layers.activations import (
    Softmin as Softmin,
)
from mlx.nn.layers.activations import (
    Softplus as Softplus,
)
from mlx.nn.layers.activations import (
    Softshrink as Softshrink,
)
from mlx.nn.layers.activations import (
    Softsign as Softsign,
)
from mlx.nn.layers.activations import (
    Step as Step,
)
from mlx.nn.layers.activations import (
    Tanh as Tanh,
)
from mlx.nn.layers.activations import (
    celu as celu,
)
from mlx.nn.layers.activations import (
    elu as elu,
)
from mlx.nn.layers.activations import (
    gelu as gelu,
)
from mlx.nn.layers.activations import (
    gelu_approx as gelu_approx,
)
from mlx.nn.layers.activations import (
    gelu_fast_approx as gelu_fast_approx,
)
from mlx.nn.layers.activations import (
    glu as glu,
)
from mlx.nn.layers.activations import (
    hard_shrink as hard_shrink,
)
from mlx.nn.layers.activations import (
    hard_tanh as hard_tanh,
)
from mlx.nn.layers.activations import (
    hardswish as hardswish,
)
from mlx.nn.layers.activations import (
    leaky_relu as leaky_relu,
)
from mlx.nn.layers.activations import (
    log_sigmoid as log_sigmoid,
)
from mlx.nn.layers.activations import (
    log_softmax as log_softmax,
)
from mlx.nn.layers.activations import (
    mish as mish,
)
from mlx.nn.layers.activations import (
    prelu as prelu,
)
from mlx.nn.layers.activations import (
    relu as relu,
)
from mlx.nn.layers.activations import (
    relu2 as relu2,
)
from mlx.nn.layers.activations import (
    relu6 as relu6,
)
from mlx.nn.layers.activations import (
    selu as selu,
)
from mlx.nn.layers.activations import (
    sigmoid as sigmoid,
)
from mlx.nn.layers.activations import (
    silu as silu,
)
from mlx.nn.layers.activations import (
    softmax as softmax,
)
from mlx.nn.layers.activations import (
    softmin as softmin,
)
from mlx.nn.layers.activations import (
    softplus as softplus,
)
from mlx.nn.layers.activations import (
    softshrink as softshrink,
)
from mlx.nn.layers.activations import (
    softsign as softsign,
)
from mlx.nn.layers.activations import (
    step as step,
)
from mlx.nn.layers.activations import (
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
)
from mlx.nn.layers.convolution import (
    Conv2d as Conv2d,
)
from mlx.nn.layers.convolution import (
    Conv3d as Conv3d,
)
from mlx.nn.layers.convolution_transpose import (
    ConvTranspose1d as ConvTranspose1d,
)
from mlx.nn.layers.convolution_transpose import (
    ConvTranspose2d as ConvTranspose2d,
)
from mlx.nn.layers.convolution_transpose import (
    ConvTranspose3d as ConvTranspose3d,
)
from mlx.nn.layers.distributed import (
    AllToShardedLinear as AllToShardedLinear,
)
from mlx.nn.layers.distributed import (
    FullyShardedModule as FullyShardedModule,
)
from mlx.nn.layers.distributed import (
    QuantizedAllToShardedLinear as QuantizedAllToShardedLinear,
)
from mlx.nn.layers.distributed import (
    QuantizedShardedToAllLinear as QuantizedShardedToAllLinear,
)
from mlx.nn.layers.distributed import (
    ShardedToAllLinear as ShardedToAllLinear,
)
from mlx.nn.layers.distributed import (
    fully_shard as fully_shard,
)
from mlx.nn.layers.dropout import (
    Dropout as Dropout,
)
from mlx.nn.layers.dropout import (
    Dropout2d as Dropout2d,
)
from mlx.nn.layers.dropout import (
    Dropout3d as Dropout3d,
)
from mlx.nn.layers.embedding import (
    Embedding as Embedding,
)
from mlx.nn.layers.linear import (
    Bilinear as Bilinear,
)
from mlx.nn.layers.linear import (
    Identity as Identity,
)
from mlx.nn.layers.linear import (
    Linear as Linear,
)
from mlx.nn.layers.normalization import (
    BatchNorm as BatchNorm,
)
from mlx.nn.layers.normalization import (
    GroupNorm as GroupNorm,
)
from mlx.nn.layers.normalization import (
    InstanceNorm as InstanceNorm,
)
from mlx.nn.layers.normalization import (
    LayerNorm as LayerNorm,
)
from mlx.nn.layers.normalization import (
    RMSNorm as RMSNorm,
)
from mlx.nn.layers.pooling import (
    AvgPool1d as AvgPool1d,
)
from mlx.nn.layers.pooling import (
    AvgPool2d as AvgPool2d,
)
from mlx.nn.layers.pooling import (
    AvgPool3d as AvgPool3d,
)
from mlx.nn.layers.pooling import (
    MaxPool1d as MaxPool1d,
)
from mlx.nn.layers.pooling import (
    MaxPool2d as MaxPool2d,
)
from mlx.nn.layers.pooling import (
    MaxPool3d as MaxPool3d,
)
from mlx.nn.layers.positional_encoding import (
    ALiBi as ALiBi,
)
from mlx.nn.layers.positional_encoding import (
    RoPE as RoPE,
)
from mlx.nn.layers.positional_encoding import (
    SinusoidalPositionalEncoding as SinusoidalPositionalEncoding,
)
from mlx.nn.layers.quantized import (
    QQLinear as QQLinear,
)
from mlx.nn.layers.quantized import (
    QuantizedEmbedding as QuantizedEmbedding,
)
from mlx.nn.layers.quantized import (
    QuantizedLinear as QuantizedLinear,
)
from mlx.nn.layers.quantized import (
    quantize as quantize,
)
from mlx.nn.layers.recurrent import (
    GRU as GRU,
)
from mlx.nn.layers.recurrent import (
    LSTM as LSTM,
)
from mlx.nn.layers.recurrent import (
    RNN as RNN,
)
from mlx.nn.layers.transformer import (
    MultiHeadAttention as MultiHeadAttention,
)
from mlx.nn.layers.transformer import (
    Transformer as Transformer,
)
from mlx.nn.layers.transformer import (
    TransformerDecoder as TransformerDecoder,
)
from mlx.nn.layers.transformer import (
    TransformerDecoderLayer as TransformerDecoderLayer,
)
from mlx.nn.layers.transformer import (
    TransformerEncoder as TransformerEncoder,
)
from mlx.nn.layers.transformer import (
    TransformerEncoderLayer as TransformerEncoderLayer,
)
from mlx.nn.layers.upsample import (
    Upsample as Upsample,
)
