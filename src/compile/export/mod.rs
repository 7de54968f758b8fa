//! Functions as data: what a function builds from its arguments, as calls of named primitives that a file can
//! hold (`io::function`), and the way back. What comes back is made by `ops::restore`, which checks every call,
//! and is then compiled as if the function itself had been recorded.

pub mod described;
pub mod dot;

use std::cell::Cell;

use super::{Compiled, Tape, Traced, Value};
use crate::autodiff::derived::restore;
use crate::bail;
use crate::compile;
use crate::core::{Array, Device, Dtype, Error, Param, Result, Shape, Stored, Stream};
use crate::core::{default_device, default_stream};
use crate::graph::order::IdMap;

thread_local! {
    static EXPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a function that is being exported.
pub fn is_exporting() -> bool {
    EXPORTING.get()
}

/// What `f` builds on placeholders that look like `inputs`, for a file or a description.
pub fn trace(f: crate::autodiff::Function, inputs: &[Array], shapeless: bool) -> Result<Traced> {
    /// What the thread did before.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            EXPORTING.set(self.0);
        }
    }
    let _before = Before(EXPORTING.replace(true));
    compile::trace(f, inputs, shapeless)
}

/// Shape and dtype of an array.
pub type Spec = (Shape, Dtype);

/// Where a call finds an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ref {
    /// An argument of the function.
    Input(usize),
    /// An output of an earlier call; they are numbered over all calls.
    Temp(usize),
    /// A constant of the function.
    Const(usize),
}

/// Where a call runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// On the default device, or on the CPU if that device does not have the op.
    Default,
    /// On the CPU.
    Cpu,
    /// On the GPU.
    Gpu,
}

/// A primitive applied to arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name of the primitive.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Where it runs.
    pub place: Place,
    /// What it reads.
    pub args: Vec<Ref>,
    /// What its outputs look like.
    pub specs: Vec<Spec>,
}

/// What a function does with arguments of one form.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What the arguments look like: first those by position, then those by name.
    pub inputs: Vec<Spec>,
    /// Names of the arguments that have one, in order.
    pub keywords: Vec<String>,
    /// Calls; arguments come before their uses.
    pub calls: Vec<Call>,
    /// What is returned.
    pub outputs: Vec<Ref>,
}

impl Trace {
    /// How many arguments have no name.
    pub fn positional(&self) -> usize {
        self.inputs.len() - self.keywords.len()
    }

    /// Whether arguments of other forms are other traces.
    pub fn same_form(&self, other: &Trace, shapeless: bool) -> bool {
        self.keywords == other.keywords
            && self.inputs.len() == other.inputs.len()
            && self.inputs.iter().zip(&other.inputs).all(|(a, b)| fits(a, &b.0, b.1, shapeless))
    }

    /// Whether arrays are arguments of this form.
    pub fn takes(&self, arrays: &[Array], keywords: &[String], shapeless: bool) -> bool {
        self.keywords == keywords
            && self.inputs.len() == arrays.len()
            && self.inputs.iter().zip(arrays).all(|(s, a)| fits(s, a.shape(), a.dtype(), shapeless))
    }
}

fn fits(spec: &Spec, shape: &[i64], dtype: Dtype, shapeless: bool) -> bool {
    spec.1 == dtype && if shapeless { spec.0.len() == shape.len() } else { spec.0.as_slice() == shape }
}

/// A function as data.
#[derive(Default)]
pub struct Exported {
    /// Text of the caller.
    pub metadata: String,
    /// Whether arguments may have other shapes (of as many axes) than those of a trace.
    pub shapeless: bool,
    /// Arrays that the function closes over.
    pub constants: Vec<Array>,
    /// One for each form of the arguments.
    pub traces: Vec<Trace>,
}

impl Exported {
    /// Adds what a function does, as it was recorded; the last of its arguments have the names `keywords`. What it
    /// makes without its arguments is kept as calls, which take less room than arrays, if a file can hold them.
    pub fn add(&mut self, traced: &Traced, keywords: Vec<String>) -> Result<()> {
        let whole = compile::simplified(&traced.tape(false))?;
        let fits = |t: &Tape| t.steps.iter().all(|s| s.primitive.params().is_some());
        let tape = if fits(&whole) { whole } else { compile::simplified(&traced.tape(true))? };
        let places = self.constants.iter().enumerate().map(|(i, c)| (c.id(), i)).collect();
        let mut draft =
            Draft { constants: self.constants.clone(), places, temps: vec![Ref::Const(0); tape.temps] };
        let mut calls = Vec::new();
        let mut made = 0;
        for step in &tape.steps {
            let args: Vec<Ref> = step.args.iter().map(|v| draft.find(v)).collect();
            let Some(params) = step.primitive.params() else {
                // What does not depend on the arguments can be kept as it is.
                if args.iter().all(|a| matches!(a, Ref::Const(_))) {
                    draft.evaluate(step, &args)?;
                    continue;
                }
                let name = step.primitive.name();
                bail!(Value, "[export_function] Unable to serialize primitive {name}.");
            };
            for &t in &step.outs {
                draft.temps[t] = Ref::Temp(made);
                made += 1;
            }
            let (name, specs) = (step.primitive.name().to_string(), step.specs.clone());
            calls.push(Call { name, params, place: place_of(step.stream), args, specs });
        }
        let outputs = tape.outputs.iter().map(|v| draft.find(v)).collect();
        let trace = Trace { inputs: tape.inputs.clone(), keywords, calls, outputs };
        if self.traces.iter().any(|t| t.same_form(&trace, self.shapeless)) {
            bail!(
                Runtime,
                "[export_function] Attempting to export a function twice with the same signature is not allowed."
            );
        }
        crate::eval::eval(&draft.constants)?;
        self.constants = draft.constants;
        self.traces.push(trace);
        Ok(())
    }

    /// The function again, once for each trace.
    ///
    /// # Errors
    /// Runtime error where calls and arrays do not fit each other: the file was damaged or made by somebody else.
    pub fn functions(&self) -> Result<Vec<Restored>> {
        self.traces.iter().map(|t| self.function(t)).collect()
    }

    fn function(&self, trace: &Trace) -> Result<Restored> {
        let mut body = |inputs: &[Array]| {
            let mut temps: Vec<Array> = Vec::new();
            for call in &trace.calls {
                let args =
                    call.args.iter().map(|&r| self.value(r, inputs, &temps)).collect::<Result<Vec<_>>>()?;
                temps.extend(restored(call, &args)?);
            }
            trace.outputs.iter().map(|&r| self.value(r, inputs, &temps)).collect()
        };
        let inputs = trace.inputs.iter().map(|(shape, dtype)| Array::placeholder(shape.clone(), *dtype));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let tape = compile::simplified(&compile::record(&mut body, &inputs, self.shapeless)?)?;
        Ok(Restored { compiled: Compiled::new(&tape, self.shapeless), tape, shapeless: self.shapeless })
    }

    fn value(&self, r: Ref, inputs: &[Array], temps: &[Array]) -> Result<Array> {
        let (list, i) = match r {
            Ref::Input(i) => (inputs, i),
            Ref::Temp(i) => (temps, i),
            Ref::Const(i) => (self.constants.as_slice(), i),
        };
        match list.get(i) {
            Some(a) => Ok(a.clone()),
            None => bail!(Runtime, "[import_function] The file is damaged: {r:?} is not there."),
        }
    }
}

/// What is known of a trace while it is written down.
struct Draft {
    constants: Vec<Array>,
    /// Where each constant is.
    places: IdMap<usize>,
    temps: Vec<Ref>,
}

impl Draft {
    fn constant(&mut self, a: &Array) -> Ref {
        let at = *self.places.entry(a.id()).or_insert_with(|| {
            self.constants.push(a.clone());
            self.constants.len() - 1
        });
        Ref::Const(at)
    }

    fn find(&mut self, v: &Value) -> Ref {
        match v {
            Value::Input(i) => Ref::Input(*i),
            Value::Temp(t) => self.temps[*t],
            Value::Const(a) => self.constant(a),
        }
    }

    fn evaluate(&mut self, step: &compile::Step, args: &[Ref]) -> Result<()> {
        let inputs = args.iter().filter_map(|r| match r {
            Ref::Const(i) => Some(self.constants[*i].clone()),
            _ => None,
        });
        let outs =
            Array::lazy_many(step.specs.clone(), step.primitive.clone(), inputs.collect(), step.stream)?;
        crate::eval::eval(&outs)?;
        for (&t, o) in step.outs.iter().zip(&outs) {
            self.temps[t] = self.constant(o);
        }
        Ok(())
    }
}

fn place_of(s: Stream) -> Place {
    match s.device {
        d if d == default_device() => Place::Default,
        d if d.is_gpu() => Place::Gpu,
        _ => Place::Cpu,
    }
}

/// The outputs of a stored call over arrays.
fn restored(call: &Call, inputs: &[Array]) -> Result<Vec<Array>> {
    let on = |stream: Stream| {
        restore(&Stored { name: &call.name, params: &call.params, inputs, specs: &call.specs, stream })
    };
    let cpu = default_stream(Device::CPU);
    let result = match call.place {
        Place::Default => {
            let s = default_stream(default_device());
            on(s).or_else(|e| if s.device.is_gpu() { on(cpu).map_err(|_| e) } else { Err(e) })
        }
        Place::Cpu => on(cpu),
        Place::Gpu => on(default_stream(Device::GPU)),
    };
    result.map_err(|e| Error::Runtime(format!("[import_function] The file is damaged: {e}")))
}

/// A function that came from a file, for one form of its arguments.
pub struct Restored {
    tape: Tape,
    compiled: Compiled,
    shapeless: bool,
}

impl Restored {
    /// Its outputs.
    pub fn call(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        // What is being recorded is fused as a whole.
        if compile::is_recording() || !compile::is_enabled() {
            return self.tape.play(inputs, self.shapeless);
        }
        self.compiled.tape(inputs)?.play(inputs, false)
    }
}
