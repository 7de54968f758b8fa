//! Simplification of a tape: marks of finished transforms are dropped, equal steps are computed once, and what
//! nobody needs is not computed. Scalars that the function closed over become constants of the program.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::core::Placeholders;
use crate::core::{Array, Param, Result};
use crate::graph::tape::{Step, Tape, Value};
use crate::ops::elementwise::scalar_bits;
use crate::ops::view::is_alias;

/// Evaluates single numbers among the constants, so that they can be written into programs. Inside a function that runs
/// on placeholders they may be some.
pub fn evaluate_scalars(tape: &Tape) -> Result<()> {
    if Placeholders::exist() {
        return Ok(());
    }
    let mut pending: Vec<Array> = Vec::new();
    for v in tape.steps.iter().flat_map(|s| &s.args) {
        if let Value::Const(a) = v
            && a.size() == 1
            && !a.has_data()
        {
            pending.push(a.clone());
        }
    }
    crate::eval::eval(&pending)
}

fn hash_value(v: &Value, h: &mut DefaultHasher) {
    match v {
        Value::Input(i) => (0, *i).hash(h),
        Value::Temp(t) => (1, *t).hash(h),
        Value::Const(a) => match scalar_bits(a) {
            Some(bits) => (2, bits, a.dtype()).hash(h),
            None => (3, a.id()).hash(h),
        },
    }
}

fn hash_param(p: &Param, h: &mut DefaultHasher) {
    match p {
        Param::Int(v) => v.hash(h),
        // Zeros of both signs are equal.
        Param::Float(v) => (v + 0.0).to_bits().hash(h),
        Param::Ints(v) => v.hash(h),
        Param::Text(v) => v.hash(h),
    }
}

/// Whether two values hold the same numbers.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Const(x), Value::Const(y)) if !x.same(y) => {
            let bits = scalar_bits(x);
            bits.is_some() && bits == scalar_bits(y) && x.dtype() == y.dtype() && x.shape() == y.shape()
        }
        _ => a.same(b),
    }
}

fn same_step(a: &Step, b: &Step) -> bool {
    a.stream == b.stream
        && a.specs == b.specs
        && a.args.len() == b.args.len()
        && a.args.iter().zip(&b.args).all(|(x, y)| equal(x, y))
        && a.primitive.same(&*b.primitive)
}

/// The tape without aliases, repeated and unused steps. Numbers are given anew.
pub fn simplify(tape: &Tape) -> Tape {
    let mut known: Vec<Option<Value>> = vec![None; tape.temps];
    let mut out = Tape { inputs: tape.inputs.clone(), steps: Vec::new(), outputs: Vec::new(), temps: 0 };
    let mut seen: HashMap<u64, Vec<usize>> = HashMap::new();
    let renamed = |known: &[Option<Value>], v: &Value| match v {
        // INVARIANT: steps are in order, so the argument has its new name.
        Value::Temp(t) => known[*t].clone().expect("an earlier step's output"),
        v => v.clone(),
    };
    for step in &tape.steps {
        let mut new = step.clone();
        for a in &mut new.args {
            *a = renamed(&known, a);
        }
        if is_alias(&*new.primitive) {
            known[step.outs[0]] = Some(new.args[0].clone());
            continue;
        }
        let mut h = DefaultHasher::new();
        new.primitive.name().hash(&mut h);
        new.primitive.params().unwrap_or_default().iter().for_each(|p| hash_param(p, &mut h));
        new.specs.iter().for_each(|spec| spec.hash(&mut h));
        new.args.iter().for_each(|a| hash_value(a, &mut h));
        let bucket = seen.entry(h.finish()).or_default();
        let at = match bucket.iter().find(|&&k| same_step(&out.steps[k], &new)) {
            Some(&k) => k,
            None => {
                bucket.push(out.steps.len());
                new.outs = (out.temps..out.temps + new.specs.len()).collect();
                out.temps += new.specs.len();
                out.steps.push(new);
                out.steps.len() - 1
            }
        };
        for (&old, &number) in step.outs.iter().zip(&out.steps[at].outs) {
            known[old] = Some(Value::Temp(number));
        }
    }
    out.outputs = tape.outputs.iter().map(|v| renamed(&known, v)).collect();
    without_dead(out)
}

/// Drops steps whose outputs nobody uses; numbers stay.
fn without_dead(mut tape: Tape) -> Tape {
    let mut used = vec![false; tape.temps];
    let mark = |used: &mut [bool], v: &Value| {
        if let Value::Temp(t) = v {
            used[*t] = true;
        }
    };
    tape.outputs.iter().for_each(|v| mark(&mut used, v));
    let mut kept = Vec::with_capacity(tape.steps.len());
    for step in std::mem::take(&mut tape.steps).into_iter().rev() {
        if step.outs.iter().any(|&k| used[k]) {
            step.args.iter().for_each(|v| mark(&mut used, v));
            kept.push(step);
        }
    }
    kept.reverse();
    tape.steps = kept;
    tape
}
