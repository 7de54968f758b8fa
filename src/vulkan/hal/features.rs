//! What a device can do, probed once. Kernels ask [`Features`] before they take a path; everything a
//! kernel may use is enabled when the device is opened.

/// Element type of a cooperative matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Component {
    F16,
    F32,
    F64,
    Bf16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    /// A type this library does not know, by its Vulkan value.
    Other(i32),
}

/// A cooperative matrix shape of VK_KHR_cooperative_matrix: an M x K by K x N product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct CoopMatrix {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a: Component,
    pub b: Component,
    pub c: Component,
    pub result: Component,
    pub saturating: bool,
    /// Whether one subgroup owns the matrix (else a workgroup or more).
    pub subgroup_scope: bool,
}

/// A family of shapes of VK_NV_cooperative_matrix2: sizes are multiples of the granularities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct CoopFlexible {
    pub m_granularity: u32,
    pub n_granularity: u32,
    pub k_granularity: u32,
    pub a: Component,
    pub b: Component,
    pub c: Component,
    pub result: Component,
    pub saturating: bool,
    /// Whether the workgroup owns the matrix (else a subgroup).
    pub workgroup_scope: bool,
    /// Workgroup size this entry holds for, 0 in subgroup scope.
    pub workgroup_invocations: u32,
}

/// VK_NV_cooperative_matrix2 with its parts.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct CoopMatrix2 {
    pub workgroup_scope: bool,
    pub flexible_dimensions: bool,
    pub reductions: bool,
    pub conversions: bool,
    pub per_element_operations: bool,
    pub tensor_addressing: bool,
    pub block_loads: bool,
    pub max_workgroup_size: u32,
    pub max_dimension: u32,
    pub reserved_shared_memory: u32,
}

/// Capabilities and limits of an opened device.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct Features {
    pub vendor_id: u32,
    /// Multiprocessors or compute units, 0 where no extension tells.
    pub units: u32,
    pub software: bool,
    /// One memory for host and device, mapped and cached.
    pub unified: bool,
    /// The host can write device-local memory.
    pub bar: bool,
    /// The host can read memory through its cache.
    pub host_cached: bool,

    pub subgroup_size: u32,
    pub min_subgroup_size: u32,
    pub max_subgroup_size: u32,
    /// Pipelines may require a subgroup size.
    pub subgroup_size_control: bool,
    pub full_subgroups: bool,
    /// Operations allowed in compute shaders.
    pub subgroup_basic: bool,
    pub subgroup_vote: bool,
    pub subgroup_arithmetic: bool,
    pub subgroup_ballot: bool,
    pub subgroup_shuffle: bool,
    pub subgroup_shuffle_relative: bool,
    pub subgroup_clustered: bool,
    /// Subgroup operations on 8-, 16- and 64-bit types.
    pub subgroup_extended_types: bool,

    pub int64: bool,
    pub int16: bool,
    pub int8: bool,
    pub float16: bool,
    pub float64: bool,
    pub bfloat16: bool,
    pub bfloat16_dot: bool,
    pub bfloat16_coop: bool,
    pub push_constant8: bool,
    pub push_constant16: bool,
    pub int_dot_product: bool,
    pub atomic_int64: bool,
    pub atomic_float32: bool,
    pub atomic_float32_add: bool,
    pub memory_model: bool,
    pub memory_model_device_scope: bool,
    pub workgroup_explicit_layout: bool,
    /// LocalSizeId in SPIR-V.
    pub maintenance4: bool,
    /// Modules may be SPIR-V 1.6.
    pub spirv16: bool,

    /// Execution mode SignedZeroInfNanPreserve 32 / 16.
    pub nan_preserve32: bool,
    pub nan_preserve16: bool,
    /// Execution mode DenormPreserve 32 / 16.
    pub denorm_preserve32: bool,
    pub denorm_preserve16: bool,
    /// Execution mode RoundingModeRTE 32 / 16.
    pub rte32: bool,
    pub rte16: bool,

    pub coop_matrices: Vec<CoopMatrix>,
    pub coop2: Option<CoopMatrix2>,
    pub coop_flexible: Vec<CoopFlexible>,

    pub shared_memory: u32,
    /// Bytes of push constants that kernels may have, between 128 and [`MOST_PUSH_BYTES`](super::device::MOST_PUSH_BYTES).
    pub push_constants: u32,
    pub max_workgroup_invocations: u32,
    pub max_workgroup_size: [u32; 3],
    pub max_groups_x: u32,
    pub max_groups_y: u32,
    pub max_groups_z: u32,
    /// Largest array in bytes.
    pub max_buffer: u64,
    /// Largest allocation in bytes that the driver promises.
    pub max_allocation: u64,
    /// Larger ones are granted too.
    pub large_allocations: bool,
    /// Buffers can be bound to several allocations, within so many bytes of addresses.
    pub sparse_binding: bool,
    pub sparse_space: u64,
    pub memory_budget: bool,
    /// Memory can be exported to other APIs of the same GPU, and that was asked for.
    pub external_memory: bool,
    /// What memory of the host has to begin and end at, so that the device can use it as it lies; 0 where it cannot.
    pub host_memory: u64,
    pub timestamp_period: f32,
    /// Queries can be reset by the host.
    pub host_query_reset: bool,
    /// Kernels may be PTX of sm_90a beside shaders (VK_NVX_binary_import).
    pub ptx: bool,
    /// The driver tells what it made of a kernel; asked for by devices that only compile.
    pub pipeline_statistics: bool,
}
