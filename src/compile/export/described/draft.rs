//! A description while it is written: values and operations, the small steps that rows are made of (each as MLX's
//! public op of that name builds it), and at the end their order, which is that of a walk from the results.

use std::collections::HashMap;

use super::{Arg, Call, Described, Met, Operation, Spec, Value, own, row};
use crate::compile;
use crate::core::layout::broadcast_shapes;
use crate::core::{Array, Dtype, Result, Shape};
use crate::fusion::Fused;
use crate::kernels::ReduceOp;
use crate::ops::elementwise::scalar_bits;
use crate::ops::scalar_f64;

pub(super) struct Draft {
    values: Vec<Value>,
    operations: Vec<Operation>,
    known: HashMap<u64, usize>,
    /// Which operation makes a value.
    maker: HashMap<usize, usize>,
    shapeless: bool,
}

/// Primitives that pass their input on.
const SAME: [&str; 2] = ["StopGradient", "Contiguous"];

impl Draft {
    pub fn new(shapeless: bool) -> Draft {
        let (values, operations) = (Vec::new(), Vec::new());
        Draft { values, operations, known: HashMap::new(), maker: HashMap::new(), shapeless }
    }

    pub fn is_known(&self, a: &Array) -> bool {
        self.known.contains_key(&a.id())
    }

    /// The value of an array; one that nothing is known of is an argument or a constant.
    pub fn known(&mut self, a: &Array) -> usize {
        if let Some(&v) = self.known.get(&a.id()) {
            return v;
        }
        self.values.push(Value { spec: (a.shape().into(), a.dtype()), constant: Some(a.clone()) });
        self.known.insert(a.id(), self.values.len() - 1);
        self.values.len() - 1
    }

    /// Whether shapes are those of this call only.
    pub fn shapeless(&self) -> bool {
        self.shapeless
    }

    pub fn name(&mut self, id: u64, value: usize) {
        self.known.insert(id, value);
    }

    pub fn shape(&self, v: usize) -> Shape {
        self.values[v].spec.0.clone()
    }

    pub fn ndim(&self, v: usize) -> usize {
        self.values[v].spec.0.len()
    }

    pub fn dtype(&self, v: usize) -> Dtype {
        self.values[v].spec.1
    }

    /// The operation that makes a value.
    pub fn made_by(&self, v: usize) -> Option<&Operation> {
        self.maker.get(&v).map(|&i| &self.operations[i])
    }

    /// What an array is a contiguous copy of: MLX's primitives take any strides.
    pub fn any_strides(&self, v: usize) -> usize {
        self.made_by(v).filter(|o| o.name == "Contiguous").map_or(v, |o| o.inputs[0])
    }

    /// The outputs of a call.
    pub fn call(&mut self, c: &Call) -> Vec<usize> {
        match row(c.name) {
            Some(row) => row(self, c),
            None => own(self, c),
        }
    }

    /// A primitive's outputs; `name` is also its label.
    pub fn emit(&mut self, name: &str, args: Vec<Arg>, inputs: Vec<usize>, outs: Vec<Spec>) -> Vec<usize> {
        self.labelled(name, name, args, inputs, outs)
    }

    pub fn labelled(
        &mut self,
        name: &str,
        label: &str,
        args: Vec<Arg>,
        inputs: Vec<usize>,
        outs: Vec<Spec>,
    ) -> Vec<usize> {
        let start = self.values.len();
        self.values.extend(outs.into_iter().map(|spec| Value { spec, constant: None }));
        let outputs: Vec<usize> = (start..self.values.len()).collect();
        for &o in &outputs {
            self.maker.insert(o, self.operations.len());
        }
        let (name, label) = (name.into(), label.into());
        self.operations.push(Operation { name, label, args, inputs, outputs: outputs.clone() });
        outputs
    }

    /// A primitive's only output.
    pub fn one(
        &mut self,
        name: &str,
        args: Vec<Arg>,
        inputs: Vec<usize>,
        shape: Shape,
        dtype: Dtype,
    ) -> usize {
        self.emit(name, args, inputs, vec![(shape, dtype)])[0]
    }

    /// A number.
    pub fn scalar(&mut self, value: f64, dtype: Dtype) -> usize {
        // INVARIANT: every dtype has scalars; the block of a few bytes is all that could be missing.
        let a = scalar_f64(value, dtype).expect("memory for a number");
        self.known(&a)
    }

    pub fn broadcast(&mut self, v: usize, shape: &[i64]) -> usize {
        if self.shape(v).as_slice() == shape {
            return v;
        }
        let dtype = self.dtype(v);
        self.one("Broadcast", vec![Arg::Tuple(shape.to_vec())], vec![v], shape.into(), dtype)
    }

    /// Values in the shape that they have together.
    pub fn together(&mut self, values: &[usize]) -> Vec<usize> {
        let mut shape = Shape::new();
        for &v in values {
            // INVARIANT: the op that reads them broadcast them before.
            shape = broadcast_shapes("broadcast", &shape, &self.shape(v)).expect("shapes that fit");
        }
        if !self.shapeless || values.len() < 2 {
            return values.iter().map(|&v| self.broadcast(v, &shape)).collect();
        }
        let mut wide = Vec::with_capacity(values.len());
        for (i, &v) in values.iter().enumerate() {
            let others = values.iter().enumerate().filter(|(k, _)| *k != i).map(|(_, &o)| o);
            let inputs = std::iter::once(v).chain(others).collect();
            let dtype = self.dtype(v);
            wide.push(self.one("Broadcast", vec![Arg::Tuple(shape.to_vec())], inputs, shape.clone(), dtype));
        }
        wide
    }

    /// An elementwise primitive.
    pub fn each(&mut self, name: &str, label: &str, args: Vec<Arg>, inputs: &[usize], dtype: Dtype) -> usize {
        let inputs = self.together(inputs);
        let shape = self.shape(inputs[0]);
        self.labelled(name, label, args, inputs, vec![(shape, dtype)])[0]
    }

    pub fn unary(&mut self, name: &str, v: usize) -> usize {
        let dtype = self.dtype(v);
        self.each(name, name, vec![], &[v], dtype)
    }

    pub fn binary(&mut self, name: &str, a: usize, b: usize) -> usize {
        let dtype = self.dtype(a);
        self.each(name, name, vec![], &[a, b], dtype)
    }

    pub fn compare(&mut self, name: &str, a: usize, b: usize) -> usize {
        let args = if name == "Equal" { vec![Arg::Bool(false)] } else { vec![] };
        self.each(name, name, args, &[a, b], Dtype::Bool)
    }

    pub fn select(&mut self, condition: usize, a: usize, b: usize) -> usize {
        let dtype = self.dtype(a);
        self.each("Select", "Select", vec![], &[condition, a, b], dtype)
    }

    pub fn rsqrt(&mut self, v: usize) -> usize {
        let dtype = self.dtype(v);
        self.each("Sqrt", "Rsqrt", vec![Arg::Bool(true)], &[v], dtype)
    }

    pub fn cast(&mut self, v: usize, dtype: Dtype) -> usize {
        if self.dtype(v) == dtype {
            return v;
        }
        let shape = self.shape(v);
        self.one("AsType", vec![Arg::Dtype(dtype)], vec![v], shape, dtype)
    }

    /// Number and label of a kind of reduction.
    fn kind(op: ReduceOp) -> (i64, &'static str) {
        match op {
            ReduceOp::All => (0, "And"),
            ReduceOp::Any => (1, "Or"),
            ReduceOp::Sum => (2, "Sum"),
            ReduceOp::Prod => (3, "Prod"),
            ReduceOp::Min => (4, "Min"),
            ReduceOp::Max => (5, "Max"),
        }
    }

    pub fn reduce(&mut self, op: ReduceOp, v: usize, axes: &[i64], keepdims: bool, dtype: Dtype) -> usize {
        let (kind, label) = Draft::kind(op);
        let mut shape = self.shape(v);
        axes.iter().for_each(|&a| shape[a as usize] = 1);
        let args = vec![Arg::Int(kind), Arg::List(axes.to_vec())];
        let out = self.labelled("Reduce", label, args, vec![v], vec![(shape, dtype)])[0];
        if keepdims { out } else { self.squeeze(out, axes) }
    }

    pub fn sum(&mut self, v: usize, axes: &[i64], keepdims: bool) -> usize {
        let dtype = self.dtype(v);
        self.reduce(ReduceOp::Sum, v, axes, keepdims, dtype)
    }

    /// Sum over the last axis, divided by its length.
    pub fn mean_last(&mut self, v: usize) -> usize {
        let last = self.ndim(v) as i64 - 1;
        let (n, dtype) = (self.shape(v)[last as usize], self.dtype(v));
        let sum = self.sum(v, &[last], true);
        let part = self.scalar(1.0 / n as f64, dtype);
        self.binary("Multiply", sum, part)
    }

    pub fn squeeze(&mut self, v: usize, axes: &[i64]) -> usize {
        if axes.is_empty() {
            return v;
        }
        let shape = self.shape(v);
        let kept = (0..shape.len()).filter(|&i| !axes.contains(&(i as i64))).map(|i| shape[i]).collect();
        let dtype = self.dtype(v);
        self.one("Squeeze", vec![Arg::List(axes.to_vec())], vec![v], kept, dtype)
    }

    /// New axes at these places of the result.
    pub fn expand(&mut self, v: usize, axes: &[i64]) -> usize {
        let old = self.shape(v);
        let mut rest = old.iter().copied();
        let n = old.len() + axes.len();
        let shape =
            (0..n).map(|i| if axes.contains(&(i as i64)) { 1 } else { rest.next().unwrap_or(1) }).collect();
        let dtype = self.dtype(v);
        self.one("ExpandDims", vec![Arg::List(axes.to_vec())], vec![v], shape, dtype)
    }

    pub fn reshape(&mut self, v: usize, shape: &[i64]) -> usize {
        if self.shape(v).as_slice() == shape {
            return v;
        }
        let dtype = self.dtype(v);
        self.one("Reshape", vec![Arg::Tuple(shape.to_vec())], vec![v], shape.into(), dtype)
    }

    pub fn flatten(&mut self, v: usize, first: usize, last: usize) -> usize {
        let old = self.shape(v);
        if first == last {
            return v;
        }
        let mut shape: Shape = old[..first].into();
        shape.push(old[first..=last].iter().product());
        shape.extend_from_slice(&old[last + 1..]);
        let dtype = self.dtype(v);
        self.one("Flatten", vec![Arg::Int(first as i64), Arg::Int(last as i64)], vec![v], shape, dtype)
    }

    /// All axes as one.
    pub fn flat(&mut self, v: usize) -> usize {
        match self.ndim(v) {
            0 => self.reshape(v, &[1]),
            n => self.flatten(v, 0, n - 1),
        }
    }

    pub fn transpose(&mut self, v: usize, axes: &[i64]) -> usize {
        let old = self.shape(v);
        let (shape, dtype) = (axes.iter().map(|&a| old[a as usize]).collect(), self.dtype(v));
        self.one("Transpose", vec![Arg::List(axes.to_vec())], vec![v], shape, dtype)
    }

    /// Transposes the last two axes.
    pub fn swapped(&mut self, v: usize) -> usize {
        let n = self.ndim(v) as i64;
        let axes: Vec<i64> = (0..n - 2).chain([n - 1, n - 2]).collect();
        self.transpose(v, &axes)
    }

    /// Elements from `start` on, `step` apart, in the shape `shape`.
    pub fn slice(&mut self, v: usize, start: &[i64], step: &[i64], shape: &[i64]) -> usize {
        let old = self.shape(v);
        if old.as_slice() == shape && step.iter().all(|&s| s == 1) {
            return v;
        }
        let stop = stops(start, step, shape, &old);
        self.slice_to(v, start, stop, step, shape)
    }

    fn slice_to(&mut self, v: usize, start: &[i64], stop: Vec<i64>, step: &[i64], shape: &[i64]) -> usize {
        let (start, step) = (Arg::Tuple(start.to_vec()), Arg::Tuple(step.to_vec()));
        let dtype = self.dtype(v);
        self.one("Slice", vec![start, Arg::Tuple(stop), step], vec![v], shape.into(), dtype)
    }

    /// From `from` to `to` of the last axis.
    pub fn slice_last(&mut self, v: usize, from: i64, to: i64, step: i64) -> usize {
        let mut shape = self.shape(v);
        let last = shape.len() - 1;
        let (mut start, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
        (start[last], steps[last]) = (from, step);
        let mut stop = shape.to_vec();
        (shape[last], stop[last]) = ((to - from + step - 1) / step, to);
        if shape == self.shape(v) {
            return v;
        }
        self.slice_to(v, &start, stop, &steps, &shape)
    }

    pub fn concatenate(&mut self, values: &[usize], axis: usize) -> usize {
        let mut shape = self.shape(values[0]);
        shape[axis] = values.iter().map(|&v| self.shape(v)[axis]).sum();
        let dtype = self.dtype(values[0]);
        self.one("Concatenate", vec![Arg::Int(axis as i64)], values.to_vec(), shape, dtype)
    }

    pub fn arange(&mut self, start: f64, stop: f64, step: f64, n: i64, dtype: Dtype) -> usize {
        let args = [start, stop, step].map(Arg::Float).to_vec();
        self.one("Arange", args, vec![], [n].into_iter().collect(), dtype)
    }

    pub fn full(&mut self, value: usize, shape: &[i64]) -> usize {
        let (v, dtype) = (self.broadcast(value, shape), self.dtype(value));
        self.one("Full", vec![], vec![v], shape.into(), dtype)
    }

    pub fn matmul(&mut self, a: usize, b: usize) -> usize {
        let (x, y) = (self.shape(a), self.shape(b));
        let (rows, cols) = (x[x.len() - 2], y[y.len() - 1]);
        // INVARIANT: the op that multiplies them broadcast them before.
        let batch =
            broadcast_shapes("matmul", &x[..x.len() - 2], &y[..y.len() - 2]).expect("batches that fit");
        let whole = |own: &[i64]| -> Shape { batch.iter().chain(&own[own.len() - 2..]).copied().collect() };
        let (a, b) = (self.broadcast(a, &whole(&x)), self.broadcast(b, &whole(&y)));
        let shape = batch.iter().copied().chain([rows, cols]).collect();
        let dtype = self.dtype(a);
        self.one("Matmul", vec![], vec![a, b], shape, dtype)
    }

    /// A fused kernel: one primitive that is named after what it does.
    pub fn compiled(&mut self, fused: &Fused, inputs: Vec<usize>, outs: Vec<Spec>) -> Result<Vec<usize>> {
        let tape = fused.steps();
        let mut inner = Draft::new(false);
        let mut args: Vec<usize> = Vec::new();
        for (shape, dtype) in &tape.inputs {
            args.push(inner.known(&Array::placeholder(shape.clone(), *dtype)?));
        }
        let mut temps = vec![0; tape.temps];
        for step in &tape.steps {
            let read = |inner: &mut Draft, v: &compile::Value| match v {
                compile::Value::Input(i) => args[*i],
                compile::Value::Temp(t) => temps[*t],
                compile::Value::Const(a) => inner.known(a),
            };
            let inputs = step.args.iter().map(|v| read(&mut inner, v)).collect();
            let params = step.primitive.params().unwrap_or_default();
            let (name, outs) = (step.primitive.name(), step.specs.clone());
            for (&t, v) in step.outs.iter().zip(inner.call(&Call { name, params: &params, inputs, outs })) {
                temps[t] = v;
            }
        }
        let read = |v: &compile::Value| match v {
            compile::Value::Temp(t) => temps[*t],
            compile::Value::Input(i) => args[*i],
            compile::Value::Const(_) => args[0],
        };
        let outputs = tape.outputs.iter().map(read).collect();
        let inner = inner.finish((0..args.len()).collect(), outputs, true);
        let label: String = inner.operations.iter().map(|o| o.label.as_str()).collect();
        let numbers: Vec<Array> =
            inner.constants().iter().filter_map(|&c| inner.values[c].constant.clone()).collect();
        let numbers: Vec<usize> = numbers.iter().map(|a| self.known(a)).collect();
        let label = format!("Compiled{label}");
        Ok(self.emit(&label, vec![], [inputs, numbers].concat(), outs))
    }

    /// The description, in the order of a walk from `outputs`.
    pub fn finish(mut self, inputs: Vec<usize>, outputs: Vec<usize>, simplify: bool) -> Described {
        let mut outputs = outputs;
        if simplify {
            outputs = self.simplify(&inputs, &outputs);
        }
        for &i in &inputs {
            self.values[i].constant = None;
        }
        let mut order = self.walk(&outputs);
        let mut operations = Vec::new();
        for met in &mut order {
            if let Met::Operation(i) = met {
                operations.push(self.operations[*i].clone());
                *i = operations.len() - 1;
            }
        }
        Described { values: self.values, inputs, outputs, order, operations, known: self.known }
    }

    /// What a walk from `outputs` meets, inputs first.
    fn walk(&self, outputs: &[usize]) -> Vec<Met> {
        let mut order = Vec::new();
        let mut done = vec![false; self.operations.len()];
        let mut met = vec![false; self.values.len()];
        let mut stack: Vec<(usize, usize)> = Vec::new();
        for &o in outputs {
            let mut next = Some(o);
            while next.is_some() || !stack.is_empty() {
                if let Some(v) = next.take() {
                    match self.maker.get(&v) {
                        Some(&op) if !done[op] => {
                            done[op] = true;
                            stack.push((op, 0));
                        }
                        None if self.values[v].constant.is_some() && !met[v] => {
                            met[v] = true;
                            order.push(Met::Constant(v));
                        }
                        _ => {}
                    }
                }
                let Some((op, at)) = stack.last_mut() else { break };
                match self.operations[*op].inputs.get(*at) {
                    Some(&v) => {
                        *at += 1;
                        next = Some(v);
                    }
                    None => {
                        order.push(Met::Operation(*op));
                        stack.pop();
                    }
                }
            }
        }
        order
    }

    /// Equal numbers become one, what is computed twice from the same values is computed once (results are left
    /// alone), and what passes its input on goes.
    fn simplify(&mut self, inputs: &[usize], outputs: &[usize]) -> Vec<usize> {
        let mut to: Vec<usize> = (0..self.values.len()).collect();
        let mut numbers: HashMap<(u64, Dtype), usize> = HashMap::new();
        for (v, value) in self.values.iter().enumerate() {
            if let Some(a) = value.constant.as_ref().filter(|a| !inputs.contains(&v) && a.ndim() == 0)
                && let Some(bits) = scalar_bits(a)
            {
                to[v] = *numbers.entry((bits, a.dtype())).or_insert(v);
            }
        }
        let mut seen: HashMap<String, usize> = HashMap::new();
        for met in self.walk(outputs) {
            let Met::Operation(at) = met else { continue };
            let op = &mut self.operations[at];
            op.inputs.iter_mut().for_each(|v| *v = to[*v]);
            if SAME.contains(&op.name.as_str()) {
                to[op.outputs[0]] = op.inputs[0];
                continue;
            }
            if op.inputs.is_empty() {
                continue;
            }
            let key = format!("{}{:?}{:?}", op.name, op.args, op.inputs);
            let first = *seen.entry(key).or_insert(at);
            if first != at && !op.outputs.iter().any(|o| outputs.contains(o)) {
                let (old, new) = (op.outputs.clone(), self.operations[first].outputs.clone());
                old.into_iter().zip(new).for_each(|(o, n)| to[o] = n);
            }
        }
        outputs.iter().map(|&o| to[o]).collect()
    }
}

/// Where a slice that has `shape` ends, as MLX writes it: below the first element, the length of the axis is
/// taken off once more.
pub(super) fn stops(start: &[i64], step: &[i64], shape: &[i64], of: &[i64]) -> Vec<i64> {
    let stop = |i: usize| match start[i] + step[i] * shape[i] {
        end if step[i] > 0 => end.min(of[i]),
        end if end < 0 => -1 - of[i],
        end => end,
    };
    (0..start.len()).map(stop).collect()
}

/// Parameters that name axes.
pub(super) fn list(p: &[i64]) -> Arg {
    Arg::List(p.to_vec())
}

/// Parameters that are a number for each axis.
pub(super) fn tuple(p: &[i64]) -> Arg {
    Arg::Tuple(p.to_vec())
}

/// Places that are marked.
pub(super) fn marked(bits: &[i64]) -> Vec<i64> {
    (0..bits.len() as i64).filter(|&i| bits[i as usize] != 0).collect()
}
