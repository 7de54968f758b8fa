//! A graph in MLX's words: which of MLX's primitives compute it, with the names and arguments that MLX gives them
//! in the callbacks of `export_function` and in the drawings of `export_to_dot`. Our own primitives are not always
//! MLX's; `rows_*` say what each of them is there, one row a primitive, and an op whose parts MLX joins otherwise
//! says so itself (`core::notes`). Called by the Python face.

mod composed_elementwise;
mod draft;
mod rows_attention;
mod rows_diagonal;
mod rows_elementwise;
mod rows_fast;
mod rows_general;
mod rows_index;
mod rows_view;

use std::sync::Arc;

use crate::core::notes::Note;
use crate::core::{Array, Dtype, Param, Result, Shape};
use crate::ops::composite::Composite;

use super::dot::class_name;
use crate::fusion::Fused;
use crate::graph::order::IdSet;
use draft::Draft;

/// Shape and dtype of a value.
pub type Spec = (Shape, Dtype);

/// One argument of a primitive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// A flag.
    Bool(bool),
    /// A name.
    Text(String),
    /// An element type.
    Dtype(Dtype),
    /// Axes.
    List(Vec<i64>),
    /// A shape, or a number for each axis.
    Tuple(Vec<i64>),
}

/// A primitive applied to values, which have numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// How callbacks name it.
    pub name: String,
    /// How drawings name it.
    pub label: String,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// What it reads.
    pub inputs: Vec<usize>,
    /// What it makes.
    pub outputs: Vec<usize>,
}

/// What a value is.
pub struct Value {
    /// Shape and dtype.
    pub spec: Spec,
    /// The array, where nothing computes it.
    pub constant: Option<Array>,
}

/// What a walk meets.
#[derive(Debug, Clone, Copy)]
pub enum Met {
    /// A value that nothing computes.
    Constant(usize),
    /// An operation, by its place in the list.
    Operation(usize),
}

/// A graph in MLX's words.
pub struct Described {
    /// All values.
    pub values: Vec<Value>,
    /// Numbers of the arguments.
    pub inputs: Vec<usize>,
    /// Numbers of the results.
    pub outputs: Vec<usize>,
    /// What a walk from the results meets, inputs first.
    pub order: Vec<Met>,
    /// Operations in that order.
    pub operations: Vec<Operation>,
    /// Numbers of the values by arrays.
    pub known: std::collections::HashMap<u64, usize>,
}

impl Described {
    /// Values that nothing computes, besides the arguments.
    pub fn constants(&self) -> Vec<usize> {
        let constant = |m: &Met| match m {
            Met::Constant(v) => Some(*v),
            Met::Operation(_) => None,
        };
        self.order.iter().filter_map(constant).collect()
    }
}

/// What computes an array, as a row sees it.
pub(crate) struct Call<'a> {
    name: &'a str,
    params: &'a [Param],
    inputs: Vec<usize>,
    outs: Vec<Spec>,
}

impl Call<'_> {
    fn int(&self, i: usize) -> i64 {
        match self.params.get(i) {
            Some(Param::Int(v)) => *v,
            _ => 0,
        }
    }

    fn flag(&self, i: usize) -> bool {
        self.int(i) != 0
    }

    fn float(&self, i: usize) -> f64 {
        match self.params.get(i) {
            Some(Param::Float(v)) => *v,
            Some(Param::Int(v)) => *v as f64,
            _ => 0.0,
        }
    }

    fn ints(&self, i: usize) -> Vec<i64> {
        match self.params.get(i) {
            Some(Param::Ints(v)) => v.clone(),
            _ => Vec::new(),
        }
    }

    fn text(&self, i: usize) -> &str {
        match self.params.get(i) {
            Some(Param::Text(v)) => v,
            _ => "",
        }
    }

    /// The only input of most primitives.
    fn input(&self) -> usize {
        self.inputs[0]
    }

    fn shape(&self) -> Shape {
        self.outs[0].0.clone()
    }

    fn dtype(&self) -> Dtype {
        self.outs[0].1
    }
}

/// Says a call in MLX's words; returns the values that stand for its outputs.
type Row = fn(&mut Draft, &Call) -> Vec<usize>;

/// Rows by the names of primitives and notes.
const ROWS: &[&[(&[&str], Row)]] =
    &[rows_elementwise::ROWS, rows_view::ROWS, rows_index::ROWS, rows_general::ROWS, rows_fast::ROWS];

fn row(name: &str) -> Option<Row> {
    ROWS.iter().copied().flatten().find(|(names, _)| names.contains(&name)).map(|(_, row)| *row)
}

/// A primitive that MLX does not have or does not export, under a name of the same style.
fn own(d: &mut Draft, c: &Call) -> Vec<usize> {
    let args = c.params.iter().map(|p| match p {
        Param::Int(v) => Arg::Int(*v),
        Param::Float(v) => Arg::Float(*v),
        Param::Ints(v) => Arg::List(v.clone()),
        Param::Text(v) => Arg::Text(v.clone()),
    });
    d.emit(&class_name(c.name), args.collect(), c.inputs.clone(), c.outs.clone())
}

/// What is asked of a description.
pub struct Request<'a> {
    /// Placeholders of the arguments.
    pub inputs: &'a [Array],
    /// What they are made into.
    pub outputs: &'a [Array],
    /// What ops said about their arrays.
    pub notes: &'a [Arc<Note>],
    /// Whether shapes are those of this call only.
    pub shapeless: bool,
    /// Whether what is computed twice is shown once, and what has no effect not at all.
    pub simplify: bool,
}

/// Says in MLX's words how `outputs` follow from `inputs`.
///
/// # Errors
/// Value error for rules of the caller's own (`custom_function`).
pub fn describe(request: &Request) -> Result<Described> {
    let mut d = Draft::new(request.shapeless);
    for a in request.inputs {
        d.known(a);
    }
    let notes: std::collections::HashMap<u64, &Arc<Note>> =
        request.notes.iter().flat_map(|n| n.outputs.iter().map(move |(id, _)| (*id, n))).collect();
    for array in order(request.outputs, &d, &notes) {
        if d.is_known(&array) {
            continue;
        }
        if let Some(note) = notes.get(&array.id()) {
            let inputs = note.inputs.iter().map(|a| d.known(a)).collect();
            let outs: Vec<Spec> = note.outputs.iter().map(|(_, spec)| spec.clone()).collect();
            let values = d.call(&Call { name: note.name, params: &note.params, inputs, outs });
            for ((id, _), v) in note.outputs.iter().zip(values) {
                d.name(*id, v);
            }
            continue;
        }
        let Some(node) = array.node() else {
            d.known(&array);
            continue;
        };
        let inputs: Vec<usize> = node.inputs.iter().map(|a| d.known(a)).collect();
        let outputs = array.outputs_of(&node);
        let outs: Vec<Spec> = outputs.iter().map(|o| (o.shape().into(), o.dtype())).collect();
        let p = &*node.primitive;
        let values = match (p as &dyn std::any::Any).downcast_ref::<Fused>() {
            Some(fused) => d.compiled(fused, inputs, outs)?,
            None => {
                let params = p.params().unwrap_or_default();
                let call = Call { name: p.name(), params: &params, inputs, outs };
                // What stands for several primitives until lengths are known has parameters of its own.
                if (p as &dyn std::any::Any).is::<Composite>() { own(&mut d, &call) } else { d.call(&call) }
            }
        };
        for (o, v) in outputs.iter().zip(values) {
            d.name(o.id(), v);
        }
    }
    let outputs: Vec<usize> = request.outputs.iter().map(|a| d.known(a)).collect();
    let inputs = (0..request.inputs.len()).collect();
    Ok(d.finish(inputs, outputs, request.simplify))
}

/// Arrays in an order in which inputs come first; what a note stands for is not walked.
fn order(roots: &[Array], d: &Draft, notes: &std::collections::HashMap<u64, &Arc<Note>>) -> Vec<Array> {
    let before = |a: &Array| -> Vec<Array> {
        match notes.get(&a.id()) {
            Some(n) => n.inputs.clone(),
            None => a.node().map_or_else(Vec::new, |n| n.inputs.to_vec()),
        }
    };
    let mut seen = IdSet::default();
    let mut found = Vec::new();
    let mut stack: Vec<(Array, Vec<Array>, usize)> = Vec::new();
    for root in roots {
        if d.is_known(root) || !seen.insert(root.id()) {
            continue;
        }
        stack.push((root.clone(), before(root), 0));
        while let Some((_, inputs, next)) = stack.last_mut() {
            let Some(input) = inputs.get(*next).cloned() else {
                // INVARIANT: the loop condition saw this entry.
                let (array, ..) = stack.pop().expect("non-empty stack");
                found.push(array);
                continue;
            };
            *next += 1;
            if !d.is_known(&input) && seen.insert(input.id()) {
                let inputs = before(&input);
                stack.push((input, inputs, 0));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Primitives that MLX does not have, or that it cannot export itself.
    const OWN: &[&str] = &[
        "convolution_kernel_gradient",
        "det",
        "frames",
        "gated_delta_update",
        "logsumexp_parts",
        "mask_rank",
        "overlap_add",
        "quantize_dequantize",
        "recurrence",
        "scaled_dot_product_attention_kept",
        "scaled_dot_product_attention_vjp",
        "scaled_dot_product_attention_whole",
        "slogdet",
        "solve",
    ];

    /// What stands for several primitives where lengths vary: descriptions are made where they do not.
    const COMPOSED: &[&str] = &[
        "conv_general",
        "conv_transpose",
        "convolve",
        "cross",
        "diag",
        "diff",
        "einsum",
        "fftn",
        "fftshift",
        "flip",
        "full_like",
        "gather_matmul",
        "hadamard",
        "ifftshift",
        "index",
        "index_update",
        "istft",
        "kron",
        "linalg_lu",
        "linalg_solve",
        "masked_scatter",
        "matrix_product",
        "meshgrid",
        "outer",
        "pinv",
        "repeat",
        "repeated",
        "roll",
        "scatter_add_axis",
        "search_sorted",
        "slice_at",
        "slice_update_at",
        "stft",
        "take_along",
        "tensordot",
        "topk",
        "tril",
        "triu",
        "unique",
        "unstack",
        "vecdot",
        "view_as",
    ];

    #[test]
    fn every_primitive_has_a_row_or_keeps_its_name() {
        let all = crate::ops::restore::names()
            .chain(crate::kernels::elementwise::table::table().iter().map(|r| r.name));
        for name in all {
            let (described, own) = (row(name).is_some(), OWN.contains(&name) || COMPOSED.contains(&name));
            assert!(described != own, "{name}: has a row: {described}, is listed: {own}");
        }
    }
}
