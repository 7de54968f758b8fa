//! Host side of shaders/sort/select.comp: the places of the elements of short rows that have some ranks, and numbers at
//! those places, which a language model with experts asks for in each layer.

use smallvec::SmallVec;

use super::choice;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::sort::around::MAX_OTHERS;
use crate::kernels::sort::{Around, Followed, Selection};
use crate::vulkan::kernels::elem::{
    Defines, Push, define, float_controls, grid, operand, ordered, required_subgroup, shuffles,
};
use crate::vulkan::kernels::progress;
use crate::vulkan::tune::sort::selecting;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SelectKey {
    /// Of what is ranked, of the numbers at the places, and of what becomes of them.
    keys: Dtype,
    numbers: Dtype,
    chosen: Dtype,
    /// Numbers are not those of the keys.
    apart: bool,
    how: Selection,
    around: Option<Around>,
    /// Lanes of a workgroup, and elements of a lane.
    lanes: u32,
    items: u32,
    /// It begins while the commands before it end.
    early: bool,
}

impl KernelKey for SelectKey {
    fn name(&self) -> String {
        let around = self.around.as_ref();
        let before = match around.and_then(|a| a.before.as_ref()) {
            Some(p) => format!("{}_", p.name()),
            None if self.how.softmax => "softmax_".into(),
            None => String::new(),
        };
        let after = match (self.how.after, around.and_then(|a| a.behind.as_ref())) {
            (Followed::Divided, _) => "_divided".into(),
            (Followed::Softmax, _) => "_softmax".into(),
            (Followed::Steps, Some(p)) => format!("_{}", p.name()),
            (Followed::Nothing | Followed::Steps, _) => String::new(),
        };
        format!("{before}select_{}_{}{after}", self.how.count, self.keys)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        ordered(&mut d, self.keys);
        operand(&mut d, "N", self.numbers);
        operand(&mut d, "B", self.chosen);
        if let Some(around) = &self.around {
            d.extend(around.defines());
            around.row().into_iter().for_each(|row| operand(&mut d, "R", row[0]));
        }
        define(&mut d, "ITEMS", format!("{}u", self.items));
        define(&mut d, "AFTER", self.how.after as u32);
        let flags = [
            (self.how.softmax, "SOFT"),
            (self.early, "PROGRESS"),
            (self.apart, "APART"),
            (self.how.negated, "NEGATED"),
            (shuffles(f), "SG"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("select.comp"),
            defines: d,
            spec: vec![self.lanes, self.how.from, self.how.count],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Chooses from rows of `keys`, contiguous along their last axis, and from `numbers`, which lie likewise, where those are
/// others. Steps around the choice come with the arrays that they read besides; where some come before it, `keys` are what those read.
/// `places` (uint32) and `chosen` are contiguous.
pub fn select(
    enc: &mut CommandEncoder,
    keys: &DeviceView,
    numbers: Option<&DeviceView>,
    how: Selection,
    around: Option<(Around, &[DeviceView])>,
    places: &DeviceView,
    chosen: &DeviceView,
) -> Result<()> {
    // INVARIANT: the pattern asks for a last axis.
    let n = *keys.shape.last().expect("a last axis") as u32;
    if places.size() == 0 {
        return Ok(());
    }
    if numbers.is_none() && around.is_none() && choice::hold(enc, keys, how, places, chosen)? {
        return Ok(());
    }
    let rows = keys.size() as u64 / u64::from(n);
    let (lanes, items) = selecting(n, enc.device().features().max_workgroup_invocations);
    let apart = numbers.is_some();
    let (around, others) = around.map_or((None, &[][..]), |(a, others)| (Some(a), others));
    let at: SmallVec<[u64; MAX_OTHERS]> = others.iter().map(|v| v.ptr).collect();
    let push = Push::default()
        .u64s(&[keys.ptr, numbers.map_or(0, |v| v.ptr), places.ptr, chosen.ptr])
        .u64s(&at)
        .u32s(&[rows as u32, n]);
    let early = progress::shaders(enc.device().profile(), rows, push.len());
    let made = around.as_ref().and_then(Around::row);
    let key = SelectKey {
        keys: made.map_or(keys.dtype, |row| row[1]),
        numbers: made.map_or(numbers.unwrap_or(keys).dtype, |row| row[2]),
        chosen: chosen.dtype,
        apart,
        how,
        around,
        lanes,
        items,
        early,
    };
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows);
    let mut reads = vec![keys.range()];
    reads.extend(numbers.into_iter().chain(others).map(DeviceView::range));
    let writes = [places.range(), chosen.range()];
    if early {
        let late: Vec<u64> = reads.iter().map(|r| r.0).collect();
        return enc.dispatch_early(&pipeline, &push, groups, [&reads, &writes], &late);
    }
    enc.dispatch(&pipeline, &push, groups, &reads, &writes)
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::kernels::elementwise::table::op;
    use crate::kernels::{Inst, Instr, Program, Spread, Src};
    use crate::vulkan::shader::compiler;

    /// Sigmoids of dtype `from` as float32, and less what a column has as keys; numbers that are divided by their sum and rounded to
    /// `to`.
    fn router(from: Dtype, to: Dtype) -> Around {
        let instr = |op, args: &[Src], dtype| Instr { op, args: args.into(), dtype };
        let each = |name, args: &[Src]| instr(Inst::Op(op(name)), args, Dtype::F32);
        let before = [
            instr(Inst::Cast, &[Src::Input(0)], Dtype::F32),
            each("sigmoid", &[Src::Reg(0)]),
            each("add", &[Src::Reg(1), Src::Input(1)]),
            each("negative", &[Src::Reg(2)]),
        ];
        let behind = [
            each("divide", &[Src::Input(0), Src::Input(1)]),
            each("multiply", &[Src::Reg(0), Src::Input(2)]),
            instr(Inst::Cast, &[Src::Reg(1)], to),
        ];
        let program = |inputs: &[Dtype], instrs: &[Instr], outputs: &[u8]| {
            Some(Program { inputs: inputs.into(), instrs: instrs.into(), outputs: outputs.into() })
        };
        Around {
            before: program(&[from, Dtype::BF16], &before, &[3, 1]),
            behind: program(&[Dtype::F32; 3], &behind, &[2]),
            others: smallvec![Spread::Columns, Spread::Single],
        }
    }

    #[test]
    fn every_variant_compiles() {
        let floats = [Dtype::F32, Dtype::F16, Dtype::BF16];
        for (keys, numbers) in floats.into_iter().flat_map(|a| floats.map(|b| (a, b))) {
            for after in [Followed::Nothing, Followed::Divided, Followed::Softmax] {
                for (softmax, negated) in [(false, false), (true, false), (false, true)] {
                    let how = Selection { from: 0, count: 8, softmax, negated, after };
                    let apart = keys != numbers;
                    let key = SelectKey {
                        keys,
                        numbers,
                        chosen: numbers,
                        apart,
                        how,
                        around: None,
                        lanes: 128,
                        items: 2,
                        early: apart,
                    };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }

    #[test]
    fn variants_with_steps_around_compile() {
        for (from, to) in [(Dtype::BF16, Dtype::BF16), (Dtype::F16, Dtype::F32), (Dtype::F32, Dtype::F16)] {
            let key = SelectKey {
                keys: Dtype::F32,
                numbers: Dtype::F32,
                chosen: to,
                apart: false,
                how: Selection { from: 0, count: 8, softmax: false, negated: false, after: Followed::Steps },
                around: Some(router(from, to)),
                lanes: 128,
                items: 2,
                early: from == Dtype::F16,
            };
            let name = key.name();
            assert!(name.contains("sigmoid") && name.contains("_select_8_float32_"), "{name}");
            compiler::check(&name, &key.module(&Features::default())).unwrap();
        }
    }
}
