//! Runs kernels that users write (`kernels::user`). They are compiled and kept like our own.

use std::sync::Arc;

use super::elem::Push;
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::user::Launch;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// A whole module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Program {
    /// GLSL with `main`.
    Glsl(Arc<str>),
    /// SPIR-V with entry point `main`.
    Spirv(Arc<[u32]>),
}

/// Bytes of an array that an index of GLSL reaches, as `elementwise::span`.
const MOST: u64 = 1 << 32;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct UserKey {
    name: Arc<str>,
    program: Program,
    group: [u32; 3],
}

impl KernelKey for UserKey {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn module(&self, _: &Features) -> Module {
        let source = match &self.program {
            Program::Glsl(text) => Source::Text(text.to_string()),
            Program::Spirv(words) => Source::Words(words.clone()),
        };
        Module { source, spec: self.group.to_vec(), ..Module::default() }
    }

    fn foreign(&self) -> bool {
        true
    }
}

/// The bytes of an element of `dtype` that holds `value`, repeated over a word; `None` where that needs more.
fn pattern(dtype: Dtype, value: f64) -> Option<u32> {
    use half::{bf16, f16};
    let twice = |x: u16| u32::from(x) * 0x1_0001;
    Some(match dtype {
        Dtype::Bool => u32::from(value != 0.0) * 0x0101_0101,
        Dtype::U8 | Dtype::I8 => u32::from(value as i64 as u8) * 0x0101_0101,
        Dtype::U16 | Dtype::I16 => twice(value as i64 as u16),
        Dtype::F16 => twice(f16::from_f64(value).to_bits()),
        Dtype::BF16 => twice(bf16::from_f32(value as f32).to_bits()),
        Dtype::U32 | Dtype::I32 => value as i64 as u32,
        Dtype::F32 => (value as f32).to_bits(),
        _ if value == 0.0 && value.is_sign_positive() => 0,
        _ => return None,
    })
}

/// Records a kernel over `launch`; with `init` outputs hold that number first.
///
/// # Errors
/// Value error for workgroups that the device does not have and numbers that do not fill; runtime error, with the
/// lines of the compiler, for code that does not compile.
pub fn run(
    enc: &mut CommandEncoder,
    name: &Arc<str>,
    program: &Program,
    inputs: &[DeviceView],
    outputs: &[DeviceView],
    launch: &Launch,
    init: Option<f64>,
) -> Result<()> {
    const OP: &str = "vulkan_kernel";
    let f = enc.device().features();
    let [x, y, z] = launch.group.map(u64::from);
    let most = f.max_workgroup_size;
    let fits = (0..3).all(|i| launch.group[i] <= most[i]);
    if !fits || x * y * z > f.max_workgroup_invocations.into() {
        bail!(
            Value,
            "[{OP}] {name}: the device takes threadgroups of {} threads within {most:?}, got {:?}.",
            f.max_workgroup_invocations,
            launch.group
        );
    }
    if let Some(v) = inputs.iter().chain(outputs).find(|v| !v.ptr.is_multiple_of(v.dtype.size() as u64)) {
        bail!(Runtime, "[{OP}] {name}: an array of {} lies at the odd address {:#x}.", v.dtype, v.ptr);
    }
    let glsl = matches!(program, Program::Glsl(_));
    if let Some(v) = inputs.iter().chain(outputs).find(|v| glsl && v.range().1 > MOST) {
        bail!(
            Value,
            "[{OP}] {name}: an index reaches {MOST} bytes of an array, got one of {}. Pass parts of it.",
            v.range().1
        );
    }
    if let Some(value) = init {
        for out in outputs {
            let Some(word) = pattern(out.dtype, value) else {
                bail!(Value, "[{OP}] {name}: init_value of {} must be 0, got {value}.", out.dtype);
            };
            enc.fill(out.range(), word)?;
        }
    }
    let mut table: Vec<u64> = inputs.iter().chain(outputs).map(|v| v.ptr).collect();
    for v in inputs {
        let shape: Vec<u8> = v.shape.iter().flat_map(|&d| (d as i32).to_ne_bytes()).collect();
        let strides: Vec<u8> = v.strides.iter().flat_map(|s| s.to_ne_bytes()).collect();
        for bytes in [shape, strides] {
            table.push(if bytes.is_empty() { 0 } else { enc.params(&bytes)? });
        }
    }
    let bytes: Vec<u8> = table.iter().flat_map(|p| p.to_ne_bytes()).collect();
    let push = Push::default().u64s(&[enc.params(&bytes)?]).u32s(&launch.grid);
    let key = UserKey { name: name.clone(), program: program.clone(), group: launch.group };
    let pipeline = enc.device().pipeline(&key)?;
    let reads: Vec<_> = inputs.iter().map(DeviceView::range).collect();
    let writes: Vec<_> = outputs.iter().map(DeviceView::range).collect();
    enc.dispatch(&pipeline, &push, launch.groups(), &reads, &writes)
}
