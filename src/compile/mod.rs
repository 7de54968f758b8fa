//! Compilation: a function is recorded once for each form of its arguments, simplified and fused, and from
//! then on played without being called.

pub mod export;
mod forms;
mod simplify;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::bail;
use crate::core::Placeholders;
use crate::core::varying::Lengths;
use crate::core::{Array, Result};
use crate::fusion;
use crate::graph::order::{IdSet, postorder};

use crate::core::env::{Values, Variable};
pub use crate::graph::tape::{Step, Tape, Value};
pub use forms::{Compiled, fixed};

pub static DISABLE_COMPILE: Variable = Variable::new(
    "MLX_DISABLE_COMPILE",
    "not set",
    Values::Text("anything"),
    "When set, `mx.compile` returns functions that run as they are, as in MLX",
);

thread_local! {
    static RECORDING: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is inside a function that is being recorded: compiled functions that it calls are
/// recorded as part of it.
pub fn is_recording() -> bool {
    RECORDING.get() > 0
}

/// 0: as the environment says; 1: on; 2: off.
static SWITCH: AtomicU8 = AtomicU8::new(0);

/// Switches compilation on or off for the process; before that MLX_DISABLE_COMPILE decides.
pub fn set_enabled(on: bool) {
    SWITCH.store(if on { 1 } else { 2 }, Ordering::Relaxed);
}

/// Whether functions are compiled.
pub fn is_enabled() -> bool {
    match SWITCH.load(Ordering::Relaxed) {
        0 => !DISABLE_COMPILE.is_set(),
        s => s == 1,
    }
}

/// Lasts as long as the function runs.
struct Recording(());

impl Recording {
    fn new() -> Recording {
        RECORDING.set(RECORDING.get() + 1);
        Recording(())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDING.set(RECORDING.get() - 1);
    }
}

/// Larger arrays that a function makes without its arguments are made again by each call.
const HOIST_BYTES: usize = 1 << 20;

/// A graph from placeholders to what a function made of them.
pub struct Traced {
    /// The placeholders.
    pub inputs: Vec<Array>,
    /// What the function returned.
    pub outputs: Vec<Array>,
    /// Arrays with numbers below existed before.
    born: u64,
}

impl Traced {
    /// The graph as steps; with `hoist`, arrays that do not depend on the arguments are constants if they are small.
    pub fn tape(&self, hoist: bool) -> Tape {
        Tape::record(&self.inputs, &self.outputs, self.born, if hoist { HOIST_BYTES } else { 0 })
    }
}

/// What `f` builds on placeholders that look like `inputs`. Nothing is evaluated.
pub fn trace(f: crate::autodiff::Function, inputs: &[Array], shapeless: bool) -> Result<Traced> {
    let traced: Vec<Array> = inputs.iter().map(Array::stand_in).collect();
    let born = match traced.last() {
        Some(last) => last.id(),
        None => Array::placeholder(&[][..], crate::core::Dtype::Bool)?.id(),
    };
    let outputs = {
        let _recording = (Recording::new(), Lengths::vary(shapeless), Placeholders::new());
        f(&traced)?
    };
    captured(inputs, &traced, &outputs)?;
    Ok(Traced { inputs: traced, outputs, born })
}

/// Records what `f` builds on placeholders that look like `inputs`. Nothing is evaluated. Fails where `f` reaches one
/// of `inputs` itself.
pub fn record(f: crate::autodiff::Function, inputs: &[Array], shapeless: bool) -> Result<Tape> {
    Ok(trace(f, inputs, shapeless)?.tape(true))
}

/// Fails where an array that is an input is also reached otherwise: later calls would not see what is passed for it.
/// Inputs that another transform follows are its placeholders, which the function may well close over.
fn captured(inputs: &[Array], traced: &[Array], outputs: &[Array]) -> Result<()> {
    if inputs.iter().any(Array::is_tracer) || Placeholders::exist() {
        return Ok(());
    }
    let given: IdSet = inputs.iter().map(Array::id).collect();
    let stand_ins: IdSet = traced.iter().map(Array::id).collect();
    let found = Cell::new(false);
    postorder(outputs, |a| {
        let hit = given.contains(&a.id());
        found.set(found.get() || hit);
        hit || stand_ins.contains(&a.id())
    });
    if found.get() {
        bail!(Value, "[compile] Attempting to compile a function with uncaptured inputs is not allowed.");
    }
    Ok(())
}

/// A recorded function without what need not be computed; single numbers among its constants are evaluated.
pub fn simplified(tape: &Tape) -> Result<Tape> {
    simplify::evaluate_scalars(tape)?;
    Ok(simplify::simplify(tape))
}

/// The tape with kernels in place of groups of steps.
pub(crate) fn fuse(tape: &Tape) -> Tape {
    let mut tape = tape.clone();
    fusion::through_broadcasts(&mut tape);
    fusion::fuse(&simplify::simplify(&tape))
}
