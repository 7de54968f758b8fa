//! Records programs over rows: one kernel from the inputs to the outputs, with the folds of each row between them.
//! The GLSL comes from `kernels::reduce::codegen_rows`. Rows that fit stay in registers, up to a workgroup a row; longer
//! ones are walked once for each phase.

use smallvec::SmallVec;

use crate::bail;
use crate::core::layout::{collapse, show, size_of};
use crate::core::{Result, Strides};
use crate::kernels::elementwise::codegen::{Access, vector_width};
use crate::kernels::reduce::codegen_rows::{self, RowClass};
use crate::kernels::{DeviceView, RowProgram};
use crate::vulkan::kernels::elem::{WG, aligned16, grid, required_subgroup, shuffles};
use crate::vulkan::kernels::elementwise::caps;
use crate::vulkan::tune::reduce::{ROW_CODE, ROW_REGISTERS};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowsKey {
    program: RowProgram,
    class: RowClass,
    group: u32,
    lanes: u32,
}

impl KernelKey for RowsKey {
    fn name(&self) -> String {
        let class = if self.class.in_registers == 0 { "loop" } else { "registers" };
        format!("{}_{class}_v{}", self.program.name(), self.class.width)
    }

    fn module(&self, f: &Features) -> Module {
        // `run` checked the program; the message would show in the compiler's log.
        let text = codegen_rows::rows(&self.program, &self.class, caps(f));
        let text = text.unwrap_or_else(|e| format!("#version 460\n#error {e}\n"));
        let defines = if shuffles(f) { vec![("SG".into(), "1".into())] } else { Vec::new() };
        Module {
            source: Source::Text(text),
            defines,
            spec: vec![self.group, self.lanes],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Lanes of a workgroup and of a row, and the vectors that a lane holds (0 for none), for rows of `steps` vectors.
fn split(p: &RowProgram, steps: u64, width: u64, largest: u64) -> (u64, u64, u64) {
    let arrays = codegen_rows::kept(p).max(1) as u64;
    let by_code = ROW_CODE / (p.code().max(1) as u64 * width);
    let most = (ROW_REGISTERS / width / arrays).min(by_code).max(1);
    // About four vectors a lane; a subgroup a row (no barriers) as long as the registers allow.
    let group = u64::from(WG);
    let lanes = (steps / 4).max(1).next_power_of_two().min(group);
    let mut lanes = if steps <= 32 * most { lanes.min(32) } else { lanes };
    while steps > lanes * most && lanes < group {
        lanes *= 2;
    }
    if steps <= lanes * most {
        return (group, lanes, steps.div_ceil(lanes).next_power_of_two().min(most));
    }
    // Wider workgroups leave fewer registers to a lane.
    for (wide, most) in [(2 * group, most), (4 * group, most / 2)] {
        if wide <= largest && steps <= wide * most {
            return (wide, wide, steps.div_ceil(wide).next_power_of_two().min(most));
        }
    }
    (largest, largest, 0)
}

/// Computes `p` on inputs that are broadcast to one shape, the rows of which are its last axis; what has one number
/// for a row does not move along that. Outputs are row-major, those of numbers for a row without the last axis. An
/// output may be the same memory as an input of the same layout.
pub fn run(
    enc: &mut CommandEncoder,
    p: &RowProgram,
    shape: &[i64],
    inputs: &[DeviceView],
    outputs: &[DeviceView],
) -> Result<()> {
    codegen_rows::supported(p, caps(enc.device().features()))?;
    let Some((&n, lead)) = shape.split_last() else {
        bail!(Value, "[{}] Expected at least one axis, got a scalar.", p.name());
    };
    if size_of(shape) == 0 {
        return Ok(());
    }
    let rows = size_of(lead) as u64;
    if rows > u64::from(u32::MAX) || n > i64::from(i32::MAX) {
        bail!(Value, "[{}] Shape {} is too large.", p.name(), show(shape));
    }
    let last = lead.len();
    let strides: SmallVec<[&[i64]; 6]> = inputs.iter().map(|v| &v.strides[..last]).collect();
    let (axes, kept): (_, Vec<Strides>) = collapse(lead, &strides);
    let inner = |k: usize| inputs[k].strides[last];
    let whole = |k: usize| !p.inputs[k].1 && inner(k) != 0;
    let stored = || outputs.iter().zip(&p.outputs).filter(|(_, r)| !p.instrs[**r as usize].row).map(|o| o.0);
    let moving = || (0..inputs.len()).filter(|&k| whole(k));
    let sizes = moving().map(|k| inputs[k].dtype.size()).chain(stored().map(|v| v.dtype.size()));
    let sizes: SmallVec<[usize; 8]> = sizes.collect();
    let width = i64::from(vector_width(sizes.iter().copied()));
    let wide = n % width == 0
        && moving().all(|k| inner(k) == 1 && aligned16(inputs[k].ptr, inputs[k].dtype.size(), &kept[k]))
        && stored().all(|v| v.ptr.is_multiple_of(16))
        && sizes.iter().all(|&s| (n as usize * s).is_multiple_of((width as usize * s).min(16)));
    let width = if wide { width } else { 1 };
    let access = (0..inputs.len()).map(|k| match (whole(k), wide && width > 1) {
        (false, _) => Access::Splat,
        (true, true) => Access::Wide,
        (true, false) => Access::Strided,
    });
    let largest = u64::from(enc.device().features().max_workgroup_invocations.clamp(WG, 1024));
    let largest = 1 << largest.ilog2();
    let (group, lanes, in_registers) = split(p, (n / width) as u64, width as u64, largest);
    let class = RowClass { access: access.collect(), width: width as u8, in_registers: in_registers as u8 };
    let mut params: Vec<i64> = axes.to_vec();
    for (k, v) in inputs.iter().enumerate() {
        params.extend(kept[k].iter().map(|s| s * v.dtype.size() as i64));
    }
    params.extend((0..inputs.len()).map(|k| inner(k) * inputs[k].dtype.size() as i64));
    let bytes: Vec<u8> = params.iter().flat_map(|v| v.to_ne_bytes()).collect();
    let mut push: SmallVec<[u8; 128]> = SmallVec::new();
    for v in inputs.iter().chain(outputs) {
        push.extend_from_slice(&v.ptr.to_ne_bytes());
    }
    push.extend_from_slice(&enc.params(&bytes)?.to_ne_bytes());
    for v in [rows as u32, n as u32, axes.len() as u32] {
        push.extend_from_slice(&v.to_ne_bytes());
    }
    if push.len() > 128 {
        bail!(Value, "[{}] A kernel takes at most 12 arrays.", p.name());
    }
    let reads: SmallVec<[(u64, u64); 6]> = inputs.iter().map(DeviceView::range).collect();
    let writes: SmallVec<[(u64, u64); 4]> = outputs.iter().map(DeviceView::range).collect();
    let key = RowsKey { program: p.clone(), class, group: group as u32, lanes: lanes as u32 };
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows.div_ceil(group / lanes));
    enc.dispatch(&pipeline, &push, groups, &reads, &writes)
}
