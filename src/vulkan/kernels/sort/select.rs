//! Host side of shaders/sort/select.comp: the places of the elements of short rows that have some ranks, and numbers at
//! those places, which a language model with experts asks for in each layer.

use super::choice;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::sort::{Followed, Selection};
use crate::vulkan::kernels::elem::{
    Defines, Push, define, float_controls, grid, operand, ordered, required_subgroup, shuffles,
};
use crate::vulkan::kernels::progress;
use crate::vulkan::tune::sort::selecting;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SelectKey {
    keys: Dtype,
    numbers: Dtype,
    /// Numbers are not those of the keys.
    apart: bool,
    how: Selection,
    /// Lanes of a workgroup, and elements of a lane.
    lanes: u32,
    items: u32,
    /// It begins while the commands before it end.
    early: bool,
}

impl KernelKey for SelectKey {
    fn name(&self) -> String {
        let before = if self.how.softmax { "softmax_" } else { "" };
        let after = match self.how.after {
            Followed::Nothing => "",
            Followed::Divided => "_divided",
            Followed::Softmax => "_softmax",
        };
        format!("{before}select_{}_{}{after}", self.how.count, self.keys)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        ordered(&mut d, self.keys);
        operand(&mut d, "B", self.numbers);
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
/// others. `places` (uint32) and `chosen` are contiguous.
pub fn select(
    enc: &mut CommandEncoder,
    keys: &DeviceView,
    numbers: Option<&DeviceView>,
    how: Selection,
    places: &DeviceView,
    chosen: &DeviceView,
) -> Result<()> {
    // INVARIANT: the pattern asks for a last axis.
    let n = *keys.shape.last().expect("a last axis") as u32;
    if places.size() == 0 {
        return Ok(());
    }
    if numbers.is_none() && choice::hold(enc, keys, how, places, chosen)? {
        return Ok(());
    }
    let rows = keys.size() as u64 / u64::from(n);
    let (lanes, items) = selecting(n, enc.device().features().max_workgroup_invocations);
    let apart = numbers.is_some();
    let push = Push::default()
        .u64s(&[keys.ptr, numbers.map_or(0, |v| v.ptr), places.ptr, chosen.ptr])
        .u32s(&[rows as u32, n]);
    let early = progress::shaders(enc.device().profile(), rows, push.len());
    let key = SelectKey { keys: keys.dtype, numbers: chosen.dtype, apart, how, lanes, items, early };
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows);
    let mut reads = vec![keys.range()];
    reads.extend(numbers.map(|v| v.range()));
    let writes = [places.range(), chosen.range()];
    if early {
        let late: Vec<u64> = reads.iter().map(|r| r.0).collect();
        return enc.dispatch_early(&pipeline, &push, groups, [&reads, &writes], &late);
    }
    enc.dispatch(&pipeline, &push, groups, &reads, &writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        let floats = [Dtype::F32, Dtype::F16, Dtype::BF16];
        for (keys, numbers) in floats.into_iter().flat_map(|a| floats.map(|b| (a, b))) {
            for after in [Followed::Nothing, Followed::Divided, Followed::Softmax] {
                for (softmax, negated) in [(false, false), (true, false), (false, true)] {
                    let how = Selection { from: 0, count: 8, softmax, negated, after };
                    let apart = keys != numbers;
                    let key = SelectKey { keys, numbers, apart, how, lanes: 128, items: 2, early: apart };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}
