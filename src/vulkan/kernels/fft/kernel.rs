//! A kernel of shaders/fft/fft.comp: what it is compiled from, and the steps of a lane in the shader's words.

use crate::kernels::fft::plan::LinePlan;
use crate::vulkan::kernels::elem::{Defines, define};
use crate::vulkan::tune::fft::Layout;
use crate::vulkan::{Features, KernelKey, Module, Source};

/// Values of `LOAD` and `STORE` in the shader.
pub(super) mod io {
    pub const COMPLEX: u32 = 0;
    pub const REAL: u32 = 1;
    pub const HALF: u32 = 2;
    pub const HALF_PAIRS: u32 = 3;
    pub const PAIRS: u32 = 4;
    pub const STORE_PAIRS: u32 = 2;
    pub const STORE_HALF: u32 = 3;
}

/// Flag of a kernel that does all of a convolution.
pub(super) const CONVOLVED: &str = "CONVOLVED";
/// Flag of factors of columns.
pub(super) const TWIDDLE: &str = "TWIDDLE";

/// How values come or go on one side of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// From or to the registers of a lane.
    Lanes,
    /// Through shared memory, so that neighbouring lanes meet neighbouring elements.
    Staged,
    /// A lane has columns and their mirror images: half a spectrum.
    Pairs,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FftKey {
    pub plan: LinePlan,
    pub layout: Layout,
    pub load: u32,
    pub store: u32,
    /// On the way in and out.
    pub ways: (Way, Way),
    pub unit: (bool, bool),
    /// Values that lie side by side in the source.
    pub tile: usize,
    pub flags: Vec<&'static str>,
}

impl FftKey {
    fn flag(&self, name: &str) -> bool {
        self.flags.contains(&name)
    }

    /// What a lane does.
    fn steps(&self) -> String {
        let half = self.plan.stages.len();
        let count = if self.flag(CONVOLVED) { 2 * half } else { half };
        let (last, (way_in, way_out)) = (count - 1, self.ways);
        let stage = |i: usize| {
            let s = &self.plan.stages[i % half];
            let pairs = (i == 0 && way_in == Way::Pairs) || (i == last && way_out == Way::Pairs);
            let columns = if pairs { "PAIR" } else { "PLAIN" };
            (s.radix, s.before, s.each, s.factors, columns)
        };
        let again = |i: usize| u32::from(i > 0 || way_in == Way::Staged);
        let (r, _, b, ..) = stage(0);
        let mut list = vec![match way_in {
            Way::Lanes => format!("FROM_MEMORY({r}u, {b}u)"),
            Way::Staged => format!("GET({r}u, {b}u, PLAIN, xy)"),
            Way::Pairs => format!("FROM_HALVES({r}u)"),
        }];
        if way_in == Way::Lanes && self.flag(TWIDDLE) {
            list.push(format!("TURN({r}u, {b}u)"));
        }
        for i in 0..count {
            let (r, ns, b, at, columns) = stage(i);
            list.push(format!("BUTTERFLY({r}u, {ns}u, {b}u, {at}u, {columns})"));
            if i < last {
                let (r2, _, b2, _, columns2) = stage(i + 1);
                let from = format!("{r}u, {ns}u, {b}u, {columns}");
                list.push(format!("EXCHANGE({}, {from}, {r2}u, {b2}u, {columns2})", again(i)));
                if i + 1 == half {
                    list.push(format!("FILTERED({r2}u, {b2}u)"));
                }
                continue;
            }
            list.push(match way_out {
                Way::Lanes => format!("TO_MEMORY({r}u, {ns}u, {b}u)"),
                Way::Staged => format!("LEAVE({}, {r}u, {ns}u, {b}u)", again(i)),
                Way::Pairs => format!("TO_HALVES({r}u, {ns}u)"),
            });
        }
        list.join(" ")
    }
}

impl KernelKey for FftKey {
    fn name(&self) -> String {
        let real = if self.load + self.store == 0 { "" } else { "_real" };
        format!("fft_{}{real}", self.plan.n)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        let Layout { lines, pitch, padding, split } = self.layout;
        let numbers = [
            ("N", self.plan.n),
            ("T", self.plan.lanes),
            ("C", lines),
            ("E", self.plan.registers),
            ("PITCH", pitch),
        ];
        numbers.iter().for_each(|n| define(&mut d, n.0, format!("{}u", n.1)));
        define(&mut d, "STAGES", self.steps());
        let staged = [self.ways.0, self.ways.1].map(|w| w == Way::Staged);
        let shares = self.plan.stages.len() > 1 || self.flag(CONVOLVED) || staged.contains(&true);
        let switches =
            [("SHARES", shares), ("SPLIT", split), ("STAGED_IN", staged[0]), ("STAGED_OUT", staged[1])];
        switches.iter().for_each(|s| define(&mut d, s.0, u32::from(s.1)));
        define(&mut d, "PADDING", padding);
        define(&mut d, "IN_TILE", self.tile);
        define(&mut d, "IN_STEP", if self.unit.0 { "1" } else { "in_step" });
        define(&mut d, "OUT_STEP", if self.unit.1 { "1" } else { "out_step" });
        define(&mut d, "LOAD", self.load);
        define(&mut d, "STORE", self.store);
        self.flags.iter().for_each(|f| define(&mut d, f, 1));
        let spec = vec![(self.plan.lanes * lines) as u32];
        Module { source: Source::File("fft.comp"), defines: d, spec, subgroup_size: None, spirv16: false }
    }
}
