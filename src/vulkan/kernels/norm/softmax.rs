//! Host side of shaders/norm/softmax.comp: softmax, log-sum-exp and log-softmax over the last axis, accumulated in float32.
//! Rows of up to 32 elements a lane stay in registers; longer ones are walked twice. A few long rows are shared by several
//! workgroups: one command where the last one ends a row, two where elements are written.

use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{
    Defines, Push, WG, aligned16, collapse, define, grid, joined_by_last, operand, required_subgroup,
    row_dims, shuffles,
};
use crate::vulkan::tune::norm::Parts;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

pub static SOFTMAX_REGISTERS: KernelVariant =
    KernelVariant::new("softmax_registers", "the kernel that reads a row three times");

/// What is stored: every element's share, or one or two numbers for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    Softmax,
    LogSumExp,
    Parts,
    /// The row less its log-sum-exp.
    LogSoftmax,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Softmax => "softmax",
            Form::LogSumExp => "logsumexp",
            Form::Parts => "logsumexp_parts",
            Form::LogSoftmax => "log_softmax",
        }
    }
}

/// What a workgroup does of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Share {
    All,
    /// The maximum and the sum of a part.
    Sum,
    /// These, and the last one joins them.
    SumAndJoin,
    /// The elements of a part, once all sums are there.
    Write,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    /// Of the result.
    to: Dtype,
    form: Form,
    wide: bool,
    /// Rows begin anywhere in 16 bytes.
    shifted: bool,
    /// Vectors are held as they are.
    raw: bool,
    /// Vectors a lane holds in registers; 0 walks the row in a loop.
    vectors: u32,
    /// Vectors of a lane at a time in a loop.
    round: u32,
    share: Share,
    lanes: u32,
    group: u32,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let class = match self.share {
            Share::All if self.vectors > 0 => "registers",
            Share::All => "loop",
            Share::Sum => "sums",
            Share::SumAndJoin | Share::Write => "parts",
        };
        format!("{}_{class}_{}", self.form.name(), self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.to);
        define(&mut d, "MODE", u32::from(self.vectors == 0));
        define(&mut d, "NV", if self.vectors == 0 { self.round } else { self.vectors });
        let (lse, parts) = (self.form != Form::Softmax, self.form == Form::Parts);
        let flags = [(lse, "LSE"), (parts, "PARTS"), (self.wide, "VEC"), (shuffles(f), "SG")];
        let less = self.form == Form::LogSoftmax;
        let flags = flags.into_iter().chain([(self.shifted, "SHIFTED"), (less, "LESS"), (self.raw, "RAW")]);
        let shared = [(self.share != Share::All, "SPLIT"), (self.share == Share::Write, "JOINED")];
        flags.chain(shared).filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        if self.share == Share::SumAndJoin {
            joined_by_last(&mut d);
        }
        let spec = vec![self.group, self.lanes];
        Module {
            source: Source::File("softmax.comp"),
            defines: d,
            spec,
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Softmax over the last axis; `dst` is contiguous, of the same shape and dtype (float16, bfloat16, float32).
pub fn softmax(enc: &mut CommandEncoder, src: &DeviceView, dst: &DeviceView) -> Result<()> {
    run(enc, src, dst, Form::Softmax)
}

/// Log of the sum of exponentials over the last axis; `dst` is contiguous, without that axis, of the same dtype or float32. With `parts` it has two
/// elements there: the maximum, and the logarithm of the sum of exponentials above it.
pub fn logsumexp(enc: &mut CommandEncoder, src: &DeviceView, parts: bool, dst: &DeviceView) -> Result<()> {
    run(enc, src, dst, if parts { Form::Parts } else { Form::LogSumExp })
}

/// The row less the log of its sum of exponentials, over the last axis; `dst` as [`softmax`]'s.
pub fn log_softmax(enc: &mut CommandEncoder, src: &DeviceView, dst: &DeviceView) -> Result<()> {
    run(enc, src, dst, Form::LogSoftmax)
}

fn run(enc: &mut CommandEncoder, src: &DeviceView, dst: &DeviceView, form: Form) -> Result<()> {
    // Whether there are results of rows, not of elements.
    let (op, lse) = (form.name(), matches!(form, Form::LogSumExp | Form::Parts));
    let fits = src.dtype == dst.dtype || lse && dst.dtype == Dtype::F32;
    if !matches!(src.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) || !fits {
        bail!(Value, "[{op}] Expected float16, bfloat16 or float32, got {} into {}.", src.dtype, dst.dtype);
    }
    let Some((&n, lead)) = src.shape.split_last() else {
        bail!(Value, "[{op}] Expected at least one axis, got a scalar.");
    };
    let rows = crate::core::layout::size_of(lead) as u64;
    if dst.size() == 0 {
        return Ok(());
    }
    if rows > u64::from(u32::MAX) || n > i64::from(i32::MAX) {
        bail!(Value, "[{op}] Shape {} is too large.", crate::core::layout::show(&src.shape));
    }
    let size = src.dtype.size();
    // INVARIANT: the shape has a last axis, so the strides have one.
    let stride = if n == 1 { 1 } else { *src.strides.last().expect("last axis") };
    let kept = collapse(lead.iter().copied().zip(src.strides.iter().copied()));
    let aligned = aligned16(src.ptr, size, kept.iter().map(|k| &k.1))
        && (lse || (dst.ptr.is_multiple_of(16) && (n as usize * size).is_multiple_of(16)));
    // Where elements are written where those that they come of lie, 16 bytes of one are 16 bytes of the other.
    let alike = kept.len() <= 1 && kept.iter().all(|k| k.1 == n) && src.ptr % 16 == dst.ptr % 16;
    let vector = 16 / size as u64;
    let shifted = !aligned && (lse || alike) && n as u64 >= 4 * vector;
    let wide = stride == 1 && (aligned || shifted);
    let shifted = wide && shifted;
    let vector = if wide { vector } else { 1 };
    let steps = (n as u64 + if shifted { vector - 1 } else { 0 }).div_ceil(vector).max(1);
    let (lanes, vectors) = tune::norm::registers(steps, vector, WG);
    let vectors = if SOFTMAX_REGISTERS.disabled() { 0 } else { vectors };
    let most = enc.device().features().max_workgroup_invocations.clamp(WG, 1024);
    let long = tune::norm::looping(enc.device().profile(), rows, WG, most);
    let whole = Some(steps).filter(|_| wide && !lse && vectors == 0 && !SOFTMAX_REGISTERS.disabled());
    let whole = whole.and_then(|steps| tune::norm::whole(steps, WG, most));
    let parts = tune::norm::parts(enc.device().profile(), rows, steps, WG);
    let parts = parts.filter(|_| vectors == 0 && (whole.is_none() || steps >= tune::norm::SHARED));
    let (group, lanes, vectors) = match whole {
        Some((lanes, held)) => (lanes, lanes, held),
        None if vectors == 0 => (long, long, 0),
        None => (WG, lanes, vectors),
    };
    let raw = size == 2 && u64::from(vectors) * vector > 32;
    let (share, round) = (Share::All, tune::norm::ROUND);
    let key = Key {
        dtype: src.dtype,
        to: dst.dtype,
        form,
        wide,
        shifted,
        raw,
        vectors,
        round,
        share,
        lanes,
        group,
    };
    let params = row_dims(enc, &kept)?;
    let push = Push::default().u64s(&[src.ptr, dst.ptr, params]).i64s(&[stride]);
    let numbers = [rows as u32, n as u32, kept.len() as u32];
    if let Some(parts) = parts {
        return shared(enc, key, parts, push, numbers, src, dst);
    }
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows.div_ceil(u64::from(group / lanes)));
    enc.dispatch(&pipeline, &push.u32s(&numbers), groups, &[src.range()], &[dst.range()])
}

/// Rows that several workgroups share; `numbers` are the rows, their length and their axes.
fn shared(
    enc: &mut CommandEncoder,
    key: Key,
    parts: Parts,
    push: Push,
    numbers: [u32; 3],
    src: &DeviceView,
    dst: &DeviceView,
) -> Result<()> {
    let rows = u64::from(numbers[0]);
    let (count, bytes) = (rows * u64::from(parts.count), 8 * rows * u64::from(parts.count));
    let pairs = (enc.temp(bytes as usize)?, bytes);
    let joins = matches!(key.form, Form::LogSumExp | Form::Parts);
    let counters = if joins { enc.counters(rows as usize)? } else { 0 };
    let [_, n, axes] = numbers;
    let push = push.u64s(&[pairs.0, counters]).u32s(&[numbers[0], n, axes, parts.count, parts.chunk]);
    let key = Key { raw: false, vectors: 0, round: parts.round, lanes: WG, group: WG, ..key };
    let groups = grid(enc, count);
    let share = if joins { Share::SumAndJoin } else { Share::Sum };
    let sums = enc.device().pipeline(&Key { share, ..key.clone() })?;
    if joins {
        return enc.dispatch(
            &sums,
            &push,
            groups,
            &[src.range()],
            &[pairs, (counters, 4 * rows), dst.range()],
        );
    }
    enc.dispatch(&sums, &push, groups, &[src.range()], &[pairs])?;
    let write = enc.device().pipeline(&Key { share: Share::Write, ..key })?;
    enc.dispatch(&write, &push, groups, &[src.range(), pairs], &[dst.range()])
}
