//! Pattern: steps of one kind over not many elements each, all of which are there already: the lengths that caches of a language model
//! count, one for each layer, or weights of normalisations that one is added to. Results lie one behind the other, so that in the next
//! evaluation counts are one list; where operands lie anywhere, a table says where. One command does for all.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::device;
use super::plan::{Free, Join, Members, Work};
#[cfg(feature = "vulkan")]
use crate::core::layout::is_row_major;
use crate::core::layout::row_major;
use crate::core::{Array, Dtype, Result, Shape, Stream, Strides};
use crate::kernels::Program;
use crate::kernels::elementwise::program::Inst;
use crate::on_gpu;
#[cfg(feature = "vulkan")]
use crate::ops::elementwise::expanded;
use crate::ops::elementwise::instruction;
#[cfg(feature = "vulkan")]
use crate::ops::elementwise::scalar_bits;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::elementwise::{self, tabled};

/// Elements of a result, at most: weights of a normalisation.
const ELEMENTS: usize = 1 << 14;
/// Elements from which on results begin at whole [`UNIT`]s of bytes, as whoever reads many wants them.
const APART: usize = 64;
/// See [`APART`].
const UNIT: usize = 16;
/// Steps that are worth it, and those of a command.
const LEAST: usize = 4;
/// See [`LEAST`].
const MOST: usize = 128;

/// What steps have in common.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    stream: Stream,
    inst: Inst,
    dtype: Dtype,
    /// Of each operand, and whether it is a single element.
    operands: SmallVec<[(Dtype, bool); 2]>,
    size: usize,
}

/// Steps that were met so far, by their kind, in the order in which kinds were.
#[derive(Default)]
pub(super) struct Alike {
    places: HashMap<Kind, usize>,
    groups: Vec<SmallVec<[usize; 8]>>,
}

/// The kind of step i, if it may be one of several.
fn kind(free: &Free, i: usize) -> Option<Kind> {
    let (size, node) = (free.array(i).size(), free.node(i)?);
    if !(1..=ELEMENTS).contains(&size) {
        return None;
    }
    let inst @ Inst::Op(_) = instruction(&*node.primitive)? else { return None };
    let known = |a: &Array| (a.size() == size || a.size() == 1) && free.is_from_before(a);
    if !node.inputs.iter().all(known) || !device::joins_alike(node.stream) {
        return None;
    }
    let operands = node.inputs.iter().map(|a| (a.dtype(), a.size() == 1 && size > 1)).collect();
    Some(Kind { stream: node.stream, inst, dtype: free.array(i).dtype(), operands, size })
}

impl Alike {
    /// Notes a step.
    pub fn meet(&mut self, free: &Free, i: usize) {
        let Some(kind) = kind(free, i) else { return };
        let place = *self.places.entry(kind).or_insert_with(|| {
            self.groups.push(SmallVec::new());
            self.groups.len() - 1
        });
        self.groups[place].push(i);
    }

    /// What steps that are still free are joined. They run in the turn of the first: what they read is there.
    pub fn joins(mut self, free: impl Fn(usize) -> bool) -> Vec<Join> {
        self.groups.iter_mut().for_each(|g| g.retain(|i| free(*i)));
        let parts = self.groups.iter().flat_map(|g| g.chunks(MOST)).filter(|g| g.len() >= LEAST);
        let join = |g: &[usize]| Join {
            at: g[0],
            members: SmallVec::from_slice(g),
            results: SmallVec::from_slice(g),
            work: Box::new(Each),
        };
        parts.map(join).collect()
    }
}

/// Runs steps that are alike.
struct Each;

/// Operand k of all members as one array, where they lie one behind the other or are all the same number.
#[cfg(feature = "vulkan")]
fn together(
    enc: &mut crate::vulkan::CommandEncoder,
    members: &Members,
    k: usize,
    n: usize,
) -> Result<Option<crate::kernels::DeviceView>> {
    let operand = |m: usize| &members.all[m].node.inputs[k];
    let all = (n * members.all.len()) as i64;
    let first = operand(0);
    if first.size() == 1
        && let Some(bits) = scalar_bits(first)
        && (1..members.all.len()).all(|m| operand(m).size() == 1 && scalar_bits(operand(m)) == Some(bits))
    {
        let one = dev_in(enc, first)?;
        return Ok(Some(expanded(
            crate::kernels::View { shape: Shape::new(), strides: Strides::new(), ..one },
            &[all],
        )));
    }
    let from = first.data()?;
    for m in 0..members.all.len() {
        let (a, d) = (operand(m), operand(m).data()?);
        let follows =
            std::sync::Arc::ptr_eq(&d.storage, &from.storage) && d.offset == from.offset + (m * n) as i64;
        if a.size() != n || !follows || !is_row_major(a.shape(), &d.strides) {
            return Ok(None);
        }
    }
    let one = dev_in(enc, first)?;
    Ok(Some(crate::kernels::View { shape: [all].as_slice().into(), strides: [1].as_slice().into(), ..one }))
}

/// Where operands and results of all members lie, if those are in order; a number that all share is one.
#[cfg(feature = "vulkan")]
fn rows(
    enc: &mut crate::vulkan::CommandEncoder,
    members: &Members,
    output: impl Fn(usize) -> u64,
) -> Result<Option<Vec<tabled::Row>>> {
    let mut all: Vec<tabled::Row> = Vec::with_capacity(members.all.len());
    let mut numbers: SmallVec<[(usize, u64, u64); 3]> = SmallVec::new();
    for (i, member) in members.all.iter().enumerate() {
        let mut inputs = SmallVec::new();
        for (k, a) in member.node.inputs.iter().enumerate() {
            let bits = scalar_bits(a).filter(|_| a.size() == 1);
            let known = |n: &&(usize, u64, u64)| n.0 == k && Some(n.1) == bits;
            if let Some(n) = numbers.iter().find(known) {
                inputs.push(n.2);
                continue;
            }
            let v = dev_in(enc, a)?;
            if !v.is_row_contiguous() {
                return Ok(None);
            }
            numbers.extend(bits.map(|b| (k, b, v.ptr)));
            inputs.push(v.ptr);
        }
        all.push(tabled::Row { inputs, output: output(i) });
    }
    Ok(Some(all))
}

impl Work for Each {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (n, dtype) = (results[0].size(), results[0].dtype());
            let node = &members.all[0].node;
            // INVARIANT: `kind` asked for it.
            let inst = instruction(&*node.primitive).expect("an elementwise step");
            let dtypes: SmallVec<[Dtype; 3]> = node.inputs.iter().map(Array::dtype).collect();
            let program = Program::one(inst, &dtypes, dtype);
            let pitch = if n > APART { (n * dtype.size()).next_multiple_of(UNIT) / dtype.size() } else { n };
            let (storage, ptr) = enc.output(pitch * dtype.size() * results.len())?;
            for (i, r) in results.iter().enumerate() {
                r.set_data(Strides::from_slice(&row_major(r.shape())), (i * pitch) as i64, storage.clone());
            }
            let part = |from: usize, count: usize| crate::kernels::View {
                ptr: ptr + (from * pitch * dtype.size()) as u64,
                dtype,
                shape: Shape::from_slice(&[(count * n) as i64]),
                strides: Strides::from_slice(&[1]),
            };
            let mut all = SmallVec::<[_; 3]>::new();
            for k in (0..node.inputs.len()).filter(|_| pitch == n) {
                match together(enc, members, k, n)? {
                    Some(view) => all.push(view),
                    None => break,
                }
            }
            if all.len() == node.inputs.len() {
                return elementwise::run(enc, &program, &all, &[part(0, results.len())]);
            }
            if let Some(rows) = rows(enc, members, |i| part(i, 1).ptr)?
                && tabled::takes(enc, &program, n, rows.len())
            {
                let single: SmallVec<[bool; 3]> =
                    node.inputs.iter().map(|a| a.size() == 1 && n > 1).collect();
                return tabled::run(enc, &program, n, &single, &rows);
            }
            for (i, member) in members.all.iter().enumerate() {
                let mut own = SmallVec::<[_; 3]>::new();
                for a in &member.node.inputs {
                    own.push(expanded(dev_in(enc, a)?, results[i].shape()));
                }
                let shape = Shape::from_slice(results[i].shape());
                let strides = Strides::from_slice(&row_major(&shape));
                elementwise::run(
                    enc,
                    &program,
                    &own,
                    &[crate::kernels::View { shape, strides, ..part(i, 1) }],
                )?;
            }
            Ok(())
        })
    }
}
