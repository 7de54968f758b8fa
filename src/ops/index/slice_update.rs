//! Writing an update into a slice of an array: the functional form of `a[...] = b`. A source that nobody
//! else holds is written in place.

use smallvec::smallvec;

use crate::bail;
use crate::core::array::Inputs;
use crate::core::{
    Array, Batched, Derivatives, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::on_gpu;
use crate::ops::batching::{batched, with_batch};
use crate::ops::elementwise::astype;
use crate::ops::reduce::sum_to;
use crate::ops::support::*;
use crate::ops::view::{broadcast_to, slice, slice_shape, sliced, start_along};
use crate::ops::zeros_like;
use crate::params;
#[cfg(feature = "vulkan")]
use crate::{kernels::DeviceView, vulkan::CommandEncoder};

#[derive(PartialEq)]
pub(crate) struct SliceUpdate {
    start: Shape,
    step: Shape,
}

impl SliceUpdate {
    fn stop(&self, update: &Array) -> Vec<i64> {
        (0..self.start.len()).map(|i| self.start[i] + self.step[i] * update.shape()[i]).collect()
    }

    /// Gives the output its memory, that of the source where nobody else holds it, or else a copy of it; all of it, and the
    /// part that the update belongs in.
    #[cfg(feature = "vulkan")]
    pub fn target(
        &self,
        enc: &mut CommandEncoder,
        inputs: &[Array],
        output: &Array,
    ) -> Result<[DeviceView; 2]> {
        let dst = dev_out_reusing(enc, output, &inputs[..1])?;
        if output.size() > 0 && !same_storage(&inputs[0], output)? {
            let src = dev_in(enc, &inputs[0])?;
            crate::vulkan::kernels::elementwise::copy(enc, &src, &dst)?;
        }
        let part = self.part(&dst, &inputs[1]);
        Ok([dst, part])
    }

    /// The part of a view that the update belongs in.
    #[cfg(feature = "vulkan")]
    fn part(&self, dst: &DeviceView, update: &Array) -> DeviceView {
        sliced(dst, &self.start, &self.step, update.shape(), |p, shift| p.wrapping_add_signed(shift))
    }

    /// Where the update begins, if its elements are neighbours along each axis.
    pub fn dense_from(&self) -> Option<&[i64]> {
        self.step.iter().all(|&s| s == 1).then_some(&self.start)
    }

    /// Where an update begins that covers all of `a` but along one axis.
    pub fn begins_along(&self, axis: usize, a: &Array, update: &Array) -> Option<i64> {
        start_along(axis, &self.start, &self.step, a, update)
    }
}

impl Primitive for SliceUpdate {
    fn name(&self) -> &str {
        "slice_update"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.start.as_slice(), self.step.as_slice()]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (src, update) = (host_in(&inputs[0])?, host_in(&inputs[1])?);
        let dst = host_out_reusing(&outputs[0], &inputs[..1])?;
        if !same_storage(&inputs[0], &outputs[0])? {
            crate::cpu::elementwise::copy(&src, &dst)?;
        }
        let part = sliced(&dst, &self.start, &self.step, inputs[1].shape(), |p, shift| {
            p.wrapping_offset(shift as isize)
        });
        if inputs[1].size() == 0 {
            return Ok(());
        }
        crate::cpu::elementwise::copy(&update, &part)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let update = dev_in(enc, &inputs[1])?;
            let dst = dev_out_reusing(enc, &outputs[0], &inputs[..1])?;
            if outputs[0].size() > 0 && !same_storage(&inputs[0], &outputs[0])? {
                let src = dev_in(enc, &inputs[0])?;
                let at = (&self.start[..], &self.step[..]);
                if crate::vulkan::kernels::index::interleave::interleave(enc, &src, &update, at, &dst)? {
                    return Ok(());
                }
                crate::vulkan::kernels::elementwise::copy(enc, &src, &dst)?;
            }
            let part = self.part(&dst, &inputs[1]);
            if part.size() == 0 {
                return Ok(());
            }
            crate::vulkan::kernels::elementwise::copy(enc, &update, &part)
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, stream: s, .. } = r;
        let (cot, update) = (&cotangents[0], &primals[1]);
        let stop = self.stop(update);
        r.each(|i| {
            Ok(Some(match i {
                0 => slice_update(cot, &zeros_like(update, s)?, &self.start, &stop, &self.step, s)?,
                _ => sum_to(&slice(cot, &self.start, &stop, &self.step, s)?, update.shape(), s)?,
            }))
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let stop = self.stop(&r.primals[1]);
        let (a, update) = (tangent_or_zeros(r, 0)?, tangent_or_zeros(r, 1)?);
        Ok(Some(vec![Some(slice_update(&a, &update, &self.start, &stop, &self.step, r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let whole = |first: i64, rest: Vec<i64>| [vec![first], rest].concat();
        let (a, update) = (with_batch(r, 0)?, with_batch(r, 1)?);
        let stop: Vec<i64> =
            (0..self.start.len()).map(|i| self.start[i] + self.step[i] * update.shape()[i + 1]).collect();
        let (start, stop) = (whole(0, self.start.to_vec()), whole(r.size(), stop));
        slice_update(&a, &update, &start, &stop, &whole(1, self.step.to_vec()), r.stream).map(batched)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let shape = inputs[0].shape();
        slice_shape("slice_update", shape, &self.start, &self.stop(&inputs[1]), &self.step)?;
        Ok(vec![shape.into()])
    }
}

/// A stored update.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let [a, update] = c.inputs()?;
    if a.ndim() != update.ndim() {
        bail!(Value, "[slice_update] Cannot write {} axes into {}.", update.ndim(), a.ndim());
    }
    let (start, step) = (c.steps(0, a.ndim())?, c.steps(1, a.ndim())?);
    let primitive = SliceUpdate { start: start.into(), step: step.into() };
    slice_update(a, update, start, &primitive.stop(update), step, c.stream)
}

/// `a` with `update`, broadcast and converted, written at `start:stop:step` (absolute bounds).
pub fn slice_update(
    a: &Array,
    update: &Array,
    start: &[i64],
    stop: &[i64],
    step: &[i64],
    s: Stream,
) -> Result<Array> {
    let shape = slice_shape("slice_update", a.shape(), start, stop, step)?;
    let mut update = update.clone();
    while update.ndim() > shape.len() && update.shape()[0] == 1 {
        update = crate::ops::view::reshape(&update, &update.shape()[1..], s)?;
    }
    let update = broadcast_to(&astype(&update, a.dtype(), s)?, &shape, s)?;
    if shape.as_slice() == a.shape() && step.iter().all(|&x| x == 1) {
        return Ok(update);
    }
    let primitive = SliceUpdate { start: Shape::from_slice(start), step: Shape::from_slice(step) };
    let inputs: Inputs = smallvec![a.clone(), update];
    Ok(Array::like(a, a.dtype(), primitive, inputs, s))
}
