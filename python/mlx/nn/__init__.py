"""Neural networks: modules, layers, activations, losses and initial values."""

from mlx.nn import init as init
from mlx.nn import losses as losses
from mlx.nn.layers import (
    CELU as CELU,
)
from mlx.nn.layers import (
    ELU as ELU,
)
from mlx.nn.layers import (
    GELU as GELU,
)
from mlx.nn.layers import (
    GLU as GLU,
)
from mlx.nn.layers import (
    GRU as GRU,
)
from mlx.nn.layers import (
    LSTM as LSTM,
)
from mlx.nn.layers import (
    RNN as RNN,
)
from mlx.nn.layers import (
    SELU as SELU,
)
from mlx.nn.layers import (
    ALiBi as ALiBi,
)
from mlx.nn.layers import (
    AllToShardedLinear as AllToShardedLinear,
)
from mlx.nn.layers import (
    AvgPool1d as AvgPool1d,
)
from mlx.nn.layers import (
    AvgPool2d as AvgPool2d,
)
from mlx.nn.layers import (
    AvgPool3d as AvgPool3d,
)
from mlx.nn.layers import (
    BatchNorm as BatchNorm,
)
from mlx.nn.layers import (
    Bilinear as Bilinear,
)
from mlx.nn.layers import (
    Conv1d as Conv1d,
)
from mlx.nn.layers import (
    Conv2d as Conv2d,
)
from mlx.nn.layers import (
    Conv3d as Conv3d,
)
from mlx.nn.layers import (
    ConvTranspose1d as ConvTranspose1d,
)
from mlx.nn.layers import (
    ConvTranspose2d as ConvTranspose2d,
)
from mlx.nn.layers import (
    ConvTranspose3d as ConvTranspose3d,
)
from mlx.nn.layers import (
    Dropout as Dropout,
)
from mlx.nn.layers import (
    Dropout2d as Dropout2d,
)
from mlx.nn.layers import (
    Dropout3d as Dropout3d,
)
from mlx.nn.layers import (
    Embedding as Embedding,
)
from mlx.nn.layers import (
    FullyShardedModule as FullyShardedModule,
)
from mlx.nn.layers import (
    GroupNorm as GroupNorm,
)
from mlx.nn.layers import (
    HardShrink as HardShrink,
)
from mlx.nn.layers import (
    Hardswish as Hardswish,
)
from mlx.nn.layers import (
    HardTanh as HardTanh,
)
from mlx.nn.layers import (
    Identity as Identity,
)
from mlx.nn.layers import (
    InstanceNorm as InstanceNorm,
)
from mlx.nn.layers import (
    LayerNorm as LayerNorm,
)
from mlx.nn.layers import (
    LeakyReLU as LeakyReLU,
)
from mlx.nn.layers import (
    Linear as Linear,
)
from mlx.nn.layers import (
    LogSigmoid as LogSigmoid,
)
from mlx.nn.layers import (
    LogSoftmax as LogSoftmax,
)
from mlx.nn.layers import (
    MaxPool1d as MaxPool1d,
)
from mlx.nn.layers import (
    MaxPool2d as MaxPool2d,
)
from mlx.nn.layers import (
    MaxPool3d as MaxPool3d,
)
from mlx.nn.layers import (
    Mish as Mish,
)
from mlx.nn.layers import (
    Module as Module,
)
from mlx.nn.layers import (
    MultiHeadAttention as MultiHeadAttention,
)
from mlx.nn.layers import (
    PReLU as PReLU,
)
from mlx.nn.layers import (
    QQLinear as QQLinear,
)
from mlx.nn.layers import (
    QuantizedAllToShardedLinear as QuantizedAllToShardedLinear,
)
from mlx.nn.layers import (
    QuantizedEmbedding as QuantizedEmbedding,
)
from mlx.nn.layers import (
    QuantizedLinear as QuantizedLinear,
)
from mlx.nn.layers import (
    QuantizedShardedToAllLinear as QuantizedShardedToAllLinear,
)
from mlx.nn.layers import (
    ReLU as ReLU,
)
from mlx.nn.layers import (
    ReLU2 as ReLU2,
)
from mlx.nn.layers import (
    ReLU6 as ReLU6,
)
from mlx.nn.layers import (
    RMSNorm as RMSNorm,
)
from mlx.nn.layers import (
    RoPE as RoPE,
)
from mlx.nn.layers import (
    Sequential as Sequential,
)
from mlx.nn.layers import (
    ShardedToAllLinear as ShardedToAllLinear,
)
from mlx.nn.layers import (
    Sigmoid as Sigmoid,
)
from mlx.nn.layers import (
    SiLU as SiLU,
)
from mlx.nn.layers import (
    SinusoidalPositionalEncoding as SinusoidalPositionalEncoding,
)
from mlx.nn.layers import (
    Softmax as Softmax,
)
from mlx.nn.layers import (
    Softmin as Softmin,
)
from mlx.nn.layers import (
    Softplus as Softplus,
)
from mlx.nn.layers import (
    Softshrink as Softshrink,
)
from mlx.nn.layers import (
    Softsign as Softsign,
)
from mlx.nn.layers import (
    Step as Step,
)
from mlx.nn.layers import (
    Tanh as Tanh,
)
from mlx.nn.layers import (
    Transformer as Transformer,
)
from mlx.nn.layers import (
    TransformerDecoder as TransformerDecoder,
)
from mlx.nn.layers import (
    TransformerDecoderLayer as TransformerDecoderLayer,
)
from mlx.nn.layers import (
    TransformerEncoder as TransformerEncoder,
)
from mlx.nn.layers import (
    TransformerEncoderLayer as TransformerEncoderLayer,
)
from mlx.nn.layers import (
    Upsample as Upsample,
)
from mlx.nn.layers import (
    activations as activations,
)
from mlx.nn.layers import (
    base as base,
)
from mlx.nn.layers import (
    celu as celu,
)
from mlx.nn.layers import (
    containers as containers,
)
from mlx.nn.layers import (
    convolution as convolution,
)
from mlx.nn.layers import (
    convolution_transpose as convolution_transpose,
)
from mlx.nn.layers import (
    distributed as distributed,
)
from mlx.nn.layers import (
    dropout as dropout,
)
from mlx.nn.layers import (
    elu as elu,
)
from mlx.nn.layers import (
    embedding as embedding,
)
from mlx.nn.layers import (
    fully_shard as fully_shard,
)
from mlx.nn.layers import (
    gelu as gelu,
)
from mlx.nn.layers import (
    gelu_approx as gelu_approx,
)
from mlx.nn.layers import (
    gelu_fast_approx as gelu_fast_approx,
)
from mlx.nn.layers import (
    glu as glu,
)
from mlx.nn.layers import (
    hard_shrink as hard_shrink,
)
from mlx.nn.layers import (
    hard_tanh as hard_tanh,
)
from mlx.nn.layers import (
    hardswish as hardswish,
)
from mlx.nn.layers import (
    leaky_relu as leaky_relu,
)
from mlx.nn.layers import (
    linear as linear,
)
from mlx.nn.layers import (
    log_sigmoid as log_sigmoid,
)
from mlx.nn.layers import (
    log_softmax as log_softmax,
)
from mlx.nn.layers import (
    mish as mish,
)
from mlx.nn.layers import (
    normalization as normalization,
)
from mlx.nn.layers import (
    pooling as pooling,
)
from mlx.nn.layers import (
    positional_encoding as positional_encoding,
)
from mlx.nn.layers import (
    prelu as prelu,
)
from mlx.nn.layers import (
    quantize as quantize,
)
from mlx.nn.layers import (
    quantized as quantized,
)
from mlx.nn.layers import (
    recurrent as recurrent,
)
from mlx.nn.layers import (
    relu as relu,
)
from mlx.nn.layers import (
    relu2 as relu2,
)
from mlx.nn.layers import (
    relu6 as relu6,
)
from mlx.nn.layers import (
    selu as selu,
)
from mlx.nn.layers import (
    sigmoid as sigmoid,
)
from mlx.nn.layers import (
    silu as silu,
)
from mlx.nn.layers import (
    softmax as softmax,
)
from mlx.nn.layers import (
    softmin as softmin,
)
from mlx.nn.layers import (
    softplus as softplus,
)
from mlx.nn.layers import (
    softshrink as softshrink,
)
from mlx.nn.layers import (
    softsign as softsign,
)
from mlx.nn.layers import (
    step as step,
)
from mlx.nn.layers import (
    tanh as tanh,
)
from mlx.nn.layers import (
    transformer as transformer,
)
from mlx.nn.layers import (
    upsample as upsample,
)
from mlx.nn.utils import average_gradients as average_gradients
from mlx.nn.utils import value_and_grad as value_and_grad
