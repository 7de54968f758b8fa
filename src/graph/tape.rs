//! A recorded function: steps in order over numbered values. It is made from the graph that a function builds
//! on placeholders, and played on other arrays, which builds the graph again without calling the function.

use smallvec::SmallVec;

use crate::core::{Array, Dtype, PrimitiveRef, Result, Shape, Stream, lengths_vary};
use crate::graph::order::{IdMap, postorder};

/// Where a step finds an argument.
#[derive(Clone)]
pub enum Value {
    /// An argument of the function.
    Input(usize),
    /// An output of an earlier step.
    Temp(usize),
    /// An array that the function closed over or made without its arguments.
    Const(Array),
}

impl Value {
    /// Whether both name the same array.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Input(a), Value::Input(b)) | (Value::Temp(a), Value::Temp(b)) => a == b,
            (Value::Const(a), Value::Const(b)) => a.same(b),
            _ => false,
        }
    }
}

/// Shape and dtype of a value.
pub type Spec = (Shape, Dtype);

/// One primitive applied to values.
#[derive(Clone)]
pub struct Step {
    /// What to compute.
    pub primitive: PrimitiveRef,
    /// Where.
    pub stream: Stream,
    /// Its arguments.
    pub args: Vec<Value>,
    /// What its outputs look like.
    pub specs: Vec<Spec>,
    /// Numbers of its outputs.
    pub outs: Vec<usize>,
}

impl Step {
    fn over(&self, specs: Vec<Spec>, args: Vec<Array>) -> Result<SmallVec<[Array; 1]>> {
        Array::lazy_shared(specs, self.primitive.clone(), args, self.stream)
    }

    /// The outputs over arguments of other shapes.
    fn again(&self, args: Vec<Array>) -> Result<SmallVec<[Array; 1]>> {
        if self.primitive.expands() && !lengths_vary() {
            return self.primitive.expand(&args, self.stream).map(SmallVec::from_vec);
        }
        let shapes = self.primitive.output_shapes(&args)?;
        let specs = shapes.into_iter().zip(&self.specs).map(|(shape, (_, dtype))| (shape, *dtype)).collect();
        self.over(specs, args)
    }
}

/// A recorded function.
#[derive(Clone)]
pub struct Tape {
    /// What the arguments looked like.
    pub inputs: Vec<Spec>,
    /// Steps; arguments come before their uses.
    pub steps: Vec<Step>,
    /// What is returned.
    pub outputs: Vec<Value>,
    /// How many numbers are taken.
    pub temps: usize,
}

impl Tape {
    /// The graph between `inputs` (placeholders) and `outputs`. Arrays with numbers below `born` existed
    /// before the function was called; of what it makes without `inputs`, arrays of at most `hoist` bytes are constants.
    pub fn record(inputs: &[Array], outputs: &[Array], born: u64, hoist: usize) -> Tape {
        let mut known: IdMap<Value> = IdMap::default();
        for (i, a) in inputs.iter().enumerate() {
            known.insert(a.id(), Value::Input(i));
        }
        let mut tape = Tape {
            inputs: inputs.iter().map(spec).collect(),
            steps: Vec::new(),
            outputs: Vec::new(),
            temps: 0,
        };
        for array in postorder(outputs, |a| known.contains_key(&a.id()) || a.id() < born) {
            let Some(node) = array.node() else { continue };
            let args: Vec<Value> = node.inputs.iter().map(|i| value_of(&known, i)).collect();
            let outs = array.outputs_of(&node);
            let constant = args.iter().all(|a| matches!(a, Value::Const(_)));
            if constant && outs.iter().map(Array::nbytes).sum::<usize>() <= hoist {
                continue;
            }
            for (k, o) in outs.iter().enumerate() {
                known.insert(o.id(), Value::Temp(tape.temps + k));
            }
            let specs: Vec<Spec> = outs.iter().map(spec).collect();
            let numbers = (tape.temps..tape.temps + specs.len()).collect();
            tape.temps += specs.len();
            let (primitive, stream) = (node.primitive.clone(), node.stream);
            tape.steps.push(Step { primitive, stream, args, specs, outs: numbers });
        }
        tape.outputs = outputs.iter().map(|o| value_of(&known, o)).collect();
        tape
    }

    /// The recorded graph over other arguments. `shapeless`: they may have other shapes than the recorded
    /// ones, and each primitive says what its outputs look like, or is made into graph for these shapes.
    pub fn play(&self, inputs: &[Array], shapeless: bool) -> Result<Vec<Array>> {
        let mut temps: Vec<Option<Array>> = vec![None; self.temps];
        // Whether a value follows from the arguments; others keep their shapes.
        let mut follows = vec![false; if shapeless { self.temps } else { 0 }];
        let get = |temps: &[Option<Array>], v: &Value| match v {
            Value::Input(i) => inputs[*i].clone(),
            // INVARIANT: steps are in order, so the argument was computed.
            Value::Temp(t) => temps[*t].clone().expect("an earlier step's output"),
            Value::Const(a) => a.clone(),
        };
        for step in &self.steps {
            let args: Vec<Array> = step.args.iter().map(|v| get(&temps, v)).collect();
            let varies = shapeless
                && step.args.iter().any(|v| match v {
                    Value::Input(_) => true,
                    Value::Temp(t) => follows[*t],
                    Value::Const(_) => false,
                });
            let outs = if varies { step.again(args)? } else { step.over(step.specs.clone(), args)? };
            for (o, &number) in outs.into_iter().zip(&step.outs) {
                temps[number] = Some(o);
                if varies {
                    follows[number] = true;
                }
            }
        }
        Ok(self.outputs.iter().map(|v| get(&temps, v)).collect())
    }

    /// The step that makes each value, and which of its outputs that is.
    pub fn makers(&self) -> Vec<Option<(usize, usize)>> {
        let mut maker = vec![None; self.temps];
        for (s, step) in self.steps.iter().enumerate() {
            for (k, &number) in step.outs.iter().enumerate() {
                maker[number] = Some((s, k));
            }
        }
        maker
    }
}

/// Shape and dtype of an array.
pub fn spec(a: &Array) -> Spec {
    (a.shape().into(), a.dtype())
}

fn value_of(known: &IdMap<Value>, a: &Array) -> Value {
    known.get(&a.id()).cloned().unwrap_or_else(|| Value::Const(a.clone()))
}
