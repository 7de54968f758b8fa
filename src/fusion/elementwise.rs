//! Pattern: a run of elementwise steps of one shape is one kernel that writes nothing in between.

use smallvec::SmallVec;

use super::fused::Code;
use super::recorded::{Graph, Kernel, Pattern};
use crate::core::{Array, Dtype, Result, Stream};
use crate::graph::tape::{Step, Value};
use crate::kernels::Program;
use crate::kernels::elementwise::program::{Inst, Instr, Src};
use crate::ops::elementwise::{instruction, run_cpu, run_gpu};
use crate::ops::view::is_stop_gradient;

/// What a step does to each element, if that is all it does.
pub(super) fn elementwise(step: &Step) -> Option<Inst> {
    if is_stop_gradient(&*step.primitive) { Some(Inst::Cast) } else { instruction(&*step.primitive) }
}

pub(super) struct Elementwise;

impl Pattern for Elementwise {
    fn name(&self) -> &'static str {
        "elementwise"
    }

    fn joins(&self, _: &Graph, step: &Step) -> bool {
        elementwise(step).is_some()
    }

    fn fits(&self, graph: &Graph, members: &[usize]) -> bool {
        let step = |m: usize| &graph.tape.steps[m];
        let shape = &step(members[0]).specs[0].0;
        members.iter().all(|&m| elementwise(step(m)).is_some() && step(m).specs[0].0 == *shape)
    }

    fn kernel(&self, graph: &Graph, members: &[usize]) -> Option<Kernel> {
        let own = members.iter().all(|&m| elementwise(&graph.tape.steps[m]).is_some());
        let Run { program, reads, stored } = own.then(|| run(graph, members))?;
        Some(Kernel { reads, stored, code: Box::new(program) })
    }
}

/// A run of elementwise steps: its program, the arrays it reads, and the members whose results it stores.
pub(super) struct Run {
    pub program: Program,
    pub reads: Vec<Value>,
    pub stored: Vec<usize>,
}

/// The program of elementwise steps.
pub(super) fn run(graph: &Graph, members: &[usize]) -> Run {
    let mut reads: Vec<Value> = Vec::new();
    let mut inputs: SmallVec<[Dtype; 4]> = SmallVec::new();
    let mut instrs: SmallVec<[Instr; 1]> = SmallVec::new();
    let mut stored = Vec::new();
    let mut outputs: SmallVec<[u8; 1]> = SmallVec::new();
    for (r, &m) in members.iter().enumerate() {
        let step = &graph.tape.steps[m];
        let mut args: SmallVec<[Src; 3]> = SmallVec::new();
        for v in &step.args {
            if let Some(src) = graph.within(v, members, true) {
                args.push(src);
                continue;
            }
            let at = reads.iter().position(|known| known.same(v)).unwrap_or_else(|| {
                reads.push(v.clone());
                inputs.push(graph.spec(v).1);
                reads.len() - 1
            });
            args.push(Src::Input(at as u8));
        }
        // INVARIANT: only elementwise steps are grouped.
        let op = elementwise(step).expect("an elementwise step");
        instrs.push(Instr { op, args, dtype: step.specs[0].1 });
        if graph.leaves(m, members) {
            stored.push(m);
            outputs.push(r as u8);
        }
    }
    Run { program: Program { inputs, instrs, outputs }, reads, stored }
}

impl Code for Program {
    fn name(&self) -> String {
        Program::name(self)
    }

    fn program(&self) -> Option<&Program> {
        Some(self)
    }

    fn run_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_cpu(self, inputs, outputs)
    }

    fn run_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_gpu(self, stream, inputs, outputs)
    }
}
