//! Pattern: kernels over rows. Steps over one shape, folds of its last axis, and steps over the results of these, one number
//! for each row. The numbers may come back to the elements of their row, as in a softmax.

use smallvec::SmallVec;

use super::device;
use super::elementwise::elementwise;
use super::fused::Code;
use super::recorded::{Graph, Kernel, MAX_ARRAYS, Pattern};
use crate::core::{Array, Dtype, Result, Shape, Stream};
use crate::graph::tape::{Step, Value};
use crate::kernels::elementwise::program::{Inst, Src};
use crate::kernels::{ReduceOp, RowInst, RowInstr, RowProgram};
use crate::ops::reduce::folds_last;
use crate::ops::reduce::programs::{Reads, run_cpu, run_gpu};
use crate::ops::view::{is_broadcast, is_reshape};

/// Folds of a kernel, and library functions in the unit of `Row::code_size`: rows unroll more than other kernels.
const MAX_FOLDS: usize = 8;
const MAX_CODE: usize = 20;

/// What a step can be in such a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Each(Inst),
    Fold(ReduceOp),
    /// The same number for a row in another shape, or for each of its elements.
    Same,
}

/// The role of a step, if it can have one.
fn role(graph: &Graph, step: &Step) -> Option<Role> {
    if let Some(op) = elementwise(step) {
        return Some(Role::Each(op));
    }
    let [arg] = step.args.as_slice() else { return None };
    let (shape, dtype) = graph.spec(arg);
    let p = &*step.primitive;
    match folds_last(p, shape.len()) {
        Some(op) => {
            let folds = op.row().fold.is_some() && dtype.is_float() && dtype == step.specs[0].1;
            folds.then_some(Role::Fold(op))
        }
        None => (is_reshape(p) || is_broadcast(p)).then_some(Role::Same),
    }
}

/// The shape of a kernel: with its last axis, with 1 in its place, and without it.
struct Shapes {
    whole: Shape,
    kept: Shape,
    dropped: Shape,
}

/// Where the values of a shape belong.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Whole,
    Kept,
    Dropped,
}

impl Shapes {
    fn new(whole: Shape) -> Shapes {
        let last = whole.len() - 1;
        let (mut kept, dropped) = (whole.clone(), whole[..last].into());
        kept[last] = 1;
        Shapes { whole, kept, dropped }
    }

    fn of(graph: &Graph, members: &[usize]) -> Option<Shapes> {
        let fold = |&&m: &&usize| matches!(role(graph, &graph.tape.steps[m]), Some(Role::Fold(_)));
        let m = members.iter().find(fold)?;
        Some(Shapes::new(graph.spec(&graph.tape.steps[*m].args[0]).0))
    }

    fn place(&self, shape: &[i64]) -> Option<Place> {
        match shape {
            s if s == &self.whole[..] => Some(Place::Whole),
            s if s == &self.kept[..] => Some(Place::Kept),
            s if s == &self.dropped[..] => Some(Place::Dropped),
            _ => None,
        }
    }
}

/// Whether steps can be one kernel over rows.
fn fit(graph: &Graph, members: &[usize]) -> bool {
    let Some(shapes) = Shapes::of(graph, members) else { return false };
    let n = shapes.whole[shapes.whole.len() - 1];
    let rows: i64 = shapes.dropped.iter().product();
    let on = graph.tape.steps[members[0]].stream;
    if rows == 0 || !device::folds_in_rows(on, n, rows) || graph.code(members) > MAX_CODE {
        return false;
    }
    let mut folds = 0;
    for &m in members {
        let step = &graph.tape.steps[m];
        let (Some(place), Some(role)) = (shapes.place(&step.specs[0].0), role(graph, step)) else {
            return false;
        };
        for arg in &step.args {
            let shape = graph.spec(arg).0;
            let inside = graph.maker(arg).is_some_and(|p| members.contains(&p));
            let from = shapes.place(&shape);
            // A number without axes is that of the only row.
            let only = from == Some(Place::Dropped) && shape.is_empty();
            let fine = match (role, place) {
                (Role::Fold(_), _) => from == Some(Place::Whole),
                (Role::Same, Place::Whole) => from == Some(Place::Kept) || only,
                (Role::Same, _) => matches!(from, Some(Place::Kept | Place::Dropped)),
                (Role::Each(_), Place::Whole) => {
                    !inside || matches!(from, Some(Place::Whole | Place::Kept)) || only
                }
                (Role::Each(_), _) => !inside || from == Some(place) || only,
            };
            if !fine {
                return false;
            }
        }
        folds += usize::from(matches!(role, Role::Fold(_)));
    }
    if folds > MAX_FOLDS {
        return false;
    }
    // An array that is read in two ways counts twice.
    let k = run(graph, members, &shapes);
    k.reads.len() + k.stored.len() <= MAX_ARRAYS
}

/// Steps over rows: their program, the arrays it reads and how, and the members that it stores.
struct Run {
    program: RowProgram,
    reads: Vec<Value>,
    modes: Vec<Reads>,
    stored: Vec<usize>,
}

/// The program of steps that [`fit`].
fn run(graph: &Graph, members: &[usize], shapes: &Shapes) -> Run {
    let (mut reads, mut modes): (Vec<Value>, Vec<Reads>) = (Vec::new(), Vec::new());
    let mut inputs: SmallVec<[(Dtype, bool); 4]> = SmallVec::new();
    let (mut instrs, mut stored, mut outputs) = (Vec::new(), Vec::new(), SmallVec::new());
    for (r, &m) in members.iter().enumerate() {
        let step = &graph.tape.steps[m];
        // INVARIANT: groups of this kind have only steps with a role and a place.
        let role = role(graph, step).expect("a role");
        let place = shapes.place(&step.specs[0].0).expect("a place");
        let mut args: SmallVec<[Src; 3]> = SmallVec::new();
        for v in &step.args {
            if let Some(src) = graph.within(v, members, !matches!(role, Role::Fold(_))) {
                args.push(src);
                continue;
            }
            let (shape, dtype) = graph.spec(v);
            let mode = match (role, place) {
                (Role::Fold(_), _) | (Role::Each(_), Place::Whole) => Reads::Elements,
                (Role::Same, _) if shapes.place(&shape) == Some(Place::Dropped) => Reads::RowsDropped,
                (Role::Each(_), Place::Dropped) => Reads::RowsDropped,
                _ => Reads::Rows,
            };
            let known = reads.iter().zip(&modes).position(|(k, &m): (&Value, _)| k.same(v) && m == mode);
            let at = known.unwrap_or_else(|| {
                reads.push(v.clone());
                modes.push(mode);
                inputs.push((dtype, mode != Reads::Elements));
                reads.len() - 1
            });
            args.push(Src::Input(at as u8));
        }
        let op = match role {
            Role::Each(op) => RowInst::Each(op),
            Role::Fold(op) => RowInst::Fold(op),
            Role::Same => RowInst::Each(Inst::Cast),
        };
        instrs.push(RowInstr { op, args, dtype: step.specs[0].1, row: place != Place::Whole });
        if graph.leaves(m, members) {
            stored.push(m);
            outputs.push(r as u8);
        }
    }
    Run { program: RowProgram { inputs, instrs, outputs }, reads, modes, stored }
}

pub(super) struct Rows;

impl Pattern for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn joins(&self, graph: &Graph, step: &Step) -> bool {
        role(graph, step).is_some()
    }

    fn fits(&self, graph: &Graph, members: &[usize]) -> bool {
        fit(graph, members)
    }

    fn kernel(&self, graph: &Graph, members: &[usize]) -> Option<Kernel> {
        let shapes = Shapes::of(graph, members)?;
        let Run { program, reads, modes, stored } = run(graph, members, &shapes);
        Some(Kernel { reads, stored, code: Box::new(RowCode { program, shape: shapes.whole, modes }) })
    }
}

/// Operations over the rows of a shape, and how inputs are read.
struct RowCode {
    program: RowProgram,
    shape: Shape,
    modes: Vec<Reads>,
}

impl Code for RowCode {
    fn name(&self) -> String {
        self.program.name()
    }

    fn rows(&self) -> Option<&RowProgram> {
        Some(&self.program)
    }

    fn run_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_cpu(&self.program, &self.shape, &self.modes, inputs, outputs)
    }

    fn run_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_gpu(&self.program, &self.shape, &self.modes, stream, inputs, outputs)
    }
}
