//! A random draw with the elementwise steps behind it, in the kernel that `kernels::random::codegen` writes for them: its
//! results are those of the steps one by one, which run where a kernel does not fit.

use smallvec::SmallVec;

use crate::core::layout::{collapse, row_major};
use crate::core::{Dtype, Result};
use crate::kernels::random::codegen::{self, Operand};
use crate::kernels::{DeviceView, Draw, Program};
use crate::vulkan::kernels::elem::{Push, WG, grid};
use crate::vulkan::kernels::elementwise::{self, caps};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DrawnKey {
    program: Program,
    draw: Draw,
    operands: SmallVec<[Operand; 4]>,
}

impl KernelKey for DrawnKey {
    fn name(&self) -> String {
        format!("random_{:?}_{}", self.draw, self.program.name()).to_lowercase()
    }

    fn module(&self, f: &Features) -> Module {
        let text = codegen::drawn(&self.program, self.draw, &self.operands, caps(f));
        // `drawn` checked the program; the message would show in the compiler's log.
        let text = text.unwrap_or_else(|e| format!("#version 460\n#error {e}\n"));
        Module { source: Source::Text(text), ..Default::default() }
    }
}

/// How an operand meets the elements of a result.
fn operand(v: &DeviceView) -> Operand {
    match () {
        _ if v.strides.iter().zip(&v.shape).all(|(&s, &d)| s == 0 || d == 1) => Operand::Single,
        _ if v.is_row_contiguous() => Operand::Whole,
        _ => Operand::Strided,
    }
}

/// Dtype of the words of a draw.
fn word(draw: Draw) -> Dtype {
    if draw == Draw::Bits { Dtype::U32 } else { Dtype::F32 }
}

/// What `program` computes from the words of `key` (u32, two of any stride), its first input, and from `inputs`, which are
/// broadcast to the shape of `dst`, a contiguous result.
pub fn drawn(
    enc: &mut CommandEncoder,
    draw: Draw,
    program: &Program,
    key: &DeviceView,
    inputs: &[DeviceView],
    dst: &DeviceView,
) -> Result<()> {
    let n = dst.size();
    if n == 0 {
        return Ok(());
    }
    let reach = |v: &DeviceView| v.range().1 as i64 / v.dtype.size() as i64;
    let far = |v: &DeviceView| reach(v) > elementwise::span(v.dtype.size());
    if n as i64 >= elementwise::span(dst.dtype.size())
        || inputs.iter().any(far)
        || !dst.ptr.is_multiple_of(16)
    {
        return apart(enc, draw, program, key, inputs, dst);
    }
    crate::kernels::elementwise::codegen::supported(program, caps(enc.device().features()))?;
    let operands: SmallVec<[Operand; 4]> = inputs.iter().map(operand).collect();
    let strided: SmallVec<[usize; 4]> =
        (0..inputs.len()).filter(|&k| operands[k] == Operand::Strided).collect();
    let strides: SmallVec<[&[i64]; 4]> = strided.iter().map(|&k| inputs[k].strides.as_slice()).collect();
    let (shape, strides) = collapse(&dst.shape, &strides);
    let mut addresses: SmallVec<[u64; 8]> = inputs.iter().map(|v| v.ptr).collect();
    let mut params: Vec<i32> = shape.iter().map(|&d| d as i32).collect();
    for (&k, s) in strided.iter().zip(&strides) {
        let below: i64 = shape.iter().zip(s).map(|(&d, &s)| ((d - 1) * s).min(0)).sum();
        params.extend(s.iter().map(|&s| s as i32));
        params.push(-below as i32);
        addresses[k] = inputs[k].ptr.wrapping_add_signed(below * inputs[k].dtype.size() as i64);
    }
    let params = match strided.is_empty() {
        true => 0,
        false => enc.params(&params.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>())?,
    };
    let second = key.ptr.wrapping_add_signed(4 * key.strides[0]);
    // A lane has four counters, of two words each but for one of an odd count.
    let lanes = n.div_ceil(2).div_ceil(4);
    let push = Push::default().u64s(&[key.ptr, second, dst.ptr, params]).u64s(&addresses);
    let push = push.u32s(&[n as u32, lanes as u32, shape.len() as u32]);
    let pipeline = enc.device().pipeline(&DrawnKey { program: program.clone(), draw, operands })?;
    let groups = grid(enc, (lanes as u64).div_ceil(u64::from(WG)));
    let reads: SmallVec<[(u64, u64); 6]> = inputs.iter().chain([key]).map(|v| v.range()).collect();
    enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])
}

/// The words, and then the program.
fn apart(
    enc: &mut CommandEncoder,
    draw: Draw,
    program: &Program,
    key: &DeviceView,
    inputs: &[DeviceView],
    dst: &DeviceView,
) -> Result<()> {
    let ptr = enc.temp(4 * dst.size())?;
    let words =
        DeviceView { ptr, dtype: word(draw), shape: dst.shape.clone(), strides: row_major(&dst.shape) };
    super::draw(enc, draw, key, &words)?;
    let all: SmallVec<[DeviceView; 4]> = [words].into_iter().chain(inputs.iter().cloned()).collect();
    elementwise::run(enc, program, &all, std::slice::from_ref(dst))
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::kernels::elementwise::table::op;
    use crate::kernels::{Inst, Instr, Src};
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_result_and_operand_compiles() {
        use Operand::{Single, Strided, Whole};
        let to = Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64);
        for (dtype, draw) in to.flat_map(|d| Draw::ALL.map(|draw| (d, draw))) {
            let from = word(draw);
            let (a, b) = (Src::Input(0), Src::Input(1));
            let add = |x, y| Instr { op: Inst::Op(op("add")), args: smallvec![x, y], dtype: from };
            let cast = Instr { op: Inst::Cast, args: smallvec![Src::Reg(2)], dtype };
            let program = Program {
                inputs: smallvec![from; 4],
                instrs: smallvec![
                    add(a, b),
                    add(Src::Reg(0), Src::Input(2)),
                    add(Src::Reg(1), Src::Input(3)),
                    cast
                ],
                outputs: smallvec![3],
            };
            let key = DrawnKey { program, draw, operands: smallvec![Single, Whole, Strided] };
            let f = Features { int64: true, ..Default::default() };
            compiler::spirv(&key.name(), &key.module(&f)).unwrap();
        }
    }
}
