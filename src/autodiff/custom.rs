//! Functions whose derivatives, or whose form over a batch, the caller gives. The results pass through a node
//! that keeps the rules; where a rule is missing, transforms see what the function itself built.

use std::sync::Arc;

use crate::bail;
use crate::core::primitive::Rule;
use crate::core::{Array, Batched, Derivatives, Jvp, Primitive, Result, Shape, Stream, Vjp, Vmap};
use crate::ops::batching::{front, with_batch};
use crate::ops::{self, zeros_like};

/// Cotangents of the arguments from arguments, cotangents and results; `None` is zero.
pub type VjpRule = dyn Fn(&[Array], &[Array], &[Array]) -> Result<Derivatives> + Send + Sync;
/// Tangents of the results from the arguments and those of their tangents that exist.
pub type JvpRule = dyn Fn(&[Array], &[Option<Array>]) -> Result<Derivatives> + Send + Sync;
/// Results over a batch and their batch axes, from arguments and theirs.
pub type VmapRule = dyn Fn(&[Array], &[Option<usize>]) -> Result<Batched> + Send + Sync;

/// The rules that a function comes with.
#[derive(Clone, Default)]
pub struct Rules {
    /// Reverse derivative.
    pub vjp: Option<Arc<VjpRule>>,
    /// Forward derivative.
    pub jvp: Option<Arc<JvpRule>>,
    /// Vectorised form.
    pub vmap: Option<Arc<VmapRule>>,
}

/// Hands results through. Inputs are the arguments, then the results as the function built them.
struct Custom {
    args: usize,
    rules: Rules,
}

impl Custom {
    fn eval(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        for (from, out) in inputs[self.args..].iter().zip(outputs) {
            let d = from.data()?;
            out.set_data(d.strides.clone(), d.offset, d.storage.clone());
        }
        Ok(())
    }
}

/// Whether the rules of a primitive are those of the caller.
pub(crate) fn is_custom(p: &dyn Primitive) -> bool {
    (p as &dyn std::any::Any).is::<Custom>()
}

/// As many derivatives as there are arrays, of their shapes.
fn checked(op: &str, got: Derivatives, like: &[Array]) -> Result<Derivatives> {
    if got.len() != like.len() {
        bail!(Value, "[custom_function] The {op} rule gave {} arrays, expected {}.", got.len(), like.len());
    }
    Ok(got)
}

impl Primitive for Custom {
    fn name(&self) -> &str {
        "custom_function"
    }

    fn is_view(&self) -> bool {
        true
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, outputs)
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, outputs)
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let Some(rule) = &self.rules.vjp else {
            return r.each(|i| Ok(i.checked_sub(self.args).map(|k| r.cotangents[k].clone())));
        };
        let primals = &r.primals[..self.args];
        let grads = checked("vjp", rule(primals, r.cotangents, r.outputs)?, primals)?;
        r.each(|i| Ok(grads.get(i).cloned().flatten()))
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let Some(rule) = &self.rules.jvp else {
            let inner = self.args..r.primals.len();
            return Ok(Some(inner.map(|i| r.tangent(i).cloned()).collect()));
        };
        let tangents: Vec<Option<Array>> = (0..self.args).map(|i| r.tangent(i).cloned()).collect();
        checked("jvp", rule(&r.primals[..self.args], &tangents)?, r.outputs).map(Some)
    }

    fn passes_over(&self, rule: Rule, input: usize) -> bool {
        let own = match rule {
            Rule::Jvp => self.rules.jvp.is_some(),
            Rule::Vmap => self.rules.vmap.is_some(),
        };
        own && input >= self.args
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        if let Some(rule) = &self.rules.vmap {
            let (outs, axes) = rule(&r.inputs[..self.args], &r.axes[..self.args])?;
            if outs.len() != r.outputs.len() || axes.len() != outs.len() {
                let n = r.outputs.len();
                bail!(Value, "[custom_function] The vmap rule gave {} arrays, expected {n}.", outs.len());
            }
            return Ok((outs, axes));
        }
        let args = (0..self.args).map(|i| front(r, i)).collect::<Result<Vec<_>>>()?;
        let outs = (self.args..r.inputs.len()).map(|i| with_batch(r, i)).collect::<Result<Vec<_>>>()?;
        let axes: Vec<Option<i64>> = r.axes[..self.args].iter().map(|a| a.map(|_| 0)).collect();
        let rules = self.rules.over_batch(axes);
        let n = outs.len();
        Ok((custom(&args, &outs, rules, r.stream)?, vec![Some(0); n]))
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(inputs[self.args..].iter().map(|a| a.shape().into()).collect())
    }
}

fn filled(d: Derivatives, like: &[Array], s: Stream) -> Result<Vec<Array>> {
    d.into_iter().zip(like).map(|(d, a)| d.map_or_else(|| zeros_like(a, s), Ok)).collect()
}

impl Rules {
    /// The derivative rules for arguments of which those with an axis carry a batch there, and results that
    /// carry it first.
    fn over_batch(&self, axes: Vec<Option<i64>>) -> Rules {
        let vjp = self.vjp.clone().map(|rule| -> Arc<VjpRule> {
            let axes = axes.clone();
            Arc::new(move |p, c, o| {
                let all = [p, c, o].concat();
                let each = [axes.clone(), vec![Some(0); c.len() + o.len()]].concat();
                let mut one = |a: &[Array]| {
                    let (p, rest) = a.split_at(axes.len());
                    let (c, o) = rest.split_at(c.len());
                    let s = super::grad::stream_of(&c[0]);
                    let grads = filled(checked("vjp", rule(p, c, o)?, p)?, p, s)?;
                    Ok((grads, vec![Some(0); p.len()]))
                };
                let grads = super::vmap(&mut one, &all, &each)?;
                // What all elements share gets the sum of their cotangents.
                let shared = |(g, axis): (Array, &Option<i64>)| match axis {
                    Some(_) => Ok(Some(g)),
                    None => ops::sum(&g, Some(&[0]), false, super::grad::stream_of(&g)).map(Some),
                };
                grads.into_iter().zip(&axes).map(shared).collect()
            })
        });
        let jvp = self.jvp.clone().map(|rule| -> Arc<JvpRule> {
            Arc::new(move |p, t| {
                let given: Vec<usize> = (0..t.len()).filter(|&i| t[i].is_some()).collect();
                let tangents: Vec<Array> = t.iter().flatten().cloned().collect();
                let all = [p, tangents.as_slice()].concat();
                let each: Vec<Option<i64>> =
                    axes.iter().copied().chain(given.iter().map(|&i| axes[i])).collect();
                let mut one = |a: &[Array]| {
                    let mut t: Vec<Option<Array>> = vec![None; axes.len()];
                    for (&i, a) in given.iter().zip(&a[axes.len()..]) {
                        t[i] = Some(a.clone());
                    }
                    let out: Option<Vec<Array>> = rule(&a[..axes.len()], &t)?.into_iter().collect();
                    let Some(out) = out else {
                        bail!(Value, "[custom_function] The jvp rule gave no tangent for a result.");
                    };
                    let n = out.len();
                    Ok((out, vec![Some(0); n]))
                };
                Ok(super::vmap(&mut one, &all, &each)?.into_iter().map(Some).collect())
            })
        });
        Rules { vjp, jvp, vmap: None }
    }
}

/// Results that a function built from `args`, with rules of its own.
pub fn custom(args: &[Array], results: &[Array], rules: Rules, s: Stream) -> Result<Vec<Array>> {
    let specs = results.iter().map(|a| (a.shape().into(), a.dtype())).collect();
    let inputs = [args, results].concat();
    Array::lazy_many(specs, Arc::new(Custom { args: args.len(), rules }), inputs, s)
}

/// A function that can be called again, from any thread.
pub type Shared = Arc<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;

/// Results of `f`, whose intermediate arrays are not kept for the reverse derivative: that calls `f` again.
pub fn checkpoint(f: &Shared, args: &[Array]) -> Result<Vec<Array>> {
    let results = f(args)?;
    let Some(first) = results.first() else { return Ok(results) };
    let s = super::grad::stream_of(first);
    let again = f.clone();
    let vjp: Arc<VjpRule> = Arc::new(move |primals, cotangents, _| {
        // What is computed anew waits for the cotangents, so that it is not kept from the first time on.
        let primals = ops::depends(primals, cotangents)?;
        let (_, grads) = super::vjp(&mut |a| again(a), &primals, cotangents)?;
        Ok(grads.into_iter().map(Some).collect())
    });
    custom(args, &results, Rules { vjp: Some(vjp), ..Default::default() }, s)
}
