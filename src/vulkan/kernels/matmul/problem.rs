//! One product as its kernels see it: matrices by address and strides, batch axes, what is added and what follows.
//! Problems are cut, folded and transposed here; which kernel takes them is decided in the folder's own module.

use smallvec::SmallVec;

use super::epilogue::Fused;
use super::kernel::{Push, Table};
use super::round_up;
use crate::core::Dtype;
use crate::kernels::{DeviceView, Epilogue};
use crate::vulkan::tune::matmul::Shape as Product;

/// A batch of matrices: address, strides in elements, and the bytes touched.
#[derive(Debug, Clone)]
pub(in crate::vulkan) struct Operand {
    pub ptr: u64,
    pub rs: i64,
    pub cs: i64,
    /// Strides of the batch axes of the problem.
    pub batch: SmallVec<[i64; 4]>,
    pub range: (u64, u64),
}

/// One product with everything that its kernels need.
#[derive(Debug, Clone)]
pub(in crate::vulkan) struct Problem {
    pub dtype: Dtype,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    /// Collapsed batch axes, outermost first.
    pub batch: SmallVec<[i64; 4]>,
    pub a: Operand,
    pub b: Operand,
    /// Addend; present also for `alpha` alone.
    pub c: Option<Operand>,
    pub alpha: f32,
    pub beta: f32,
    /// Result: columns are contiguous.
    pub d: u64,
    pub d_rs: i64,
    /// Elements from one product of the batch to the next.
    pub d_batch: i64,
    pub d_range: (u64, u64),
    /// What products by index read in the addend's place: address and bytes. The operands' batch strides then
    /// only tell how they are aligned.
    pub table: Option<(Table, (u64, u64))>,
    /// Matrices that the rows of [`Table::Runs`] pick from.
    pub right_matrices: i64,
    /// What follows the product.
    pub fused: Option<Fused>,
}

/// Elements inside one matrix that a 32-bit offset reaches.
pub(in crate::vulkan) const REACH: i64 = 1 << 31;

#[cfg(test)]
thread_local! {
    /// What [`reach`] says in a test that wants small problems cut.
    pub(super) static TEST_REACH: std::cell::Cell<Option<i64>> = const { std::cell::Cell::new(None) };
}

/// The same of elements of so many bytes: no more than 4 GiB, as `elementwise::span`.
pub(in crate::vulkan) fn reach(size: usize) -> i64 {
    #[cfg(test)]
    if let Some(reach) = TEST_REACH.get() {
        return reach;
    }
    REACH.min((1 << 32) / size as i64)
}

impl Operand {
    pub(in crate::vulkan) fn new(v: &DeviceView, batch: &[i64]) -> Operand {
        let nd = v.ndim();
        let [rows, cols] = [v.shape[nd - 2], v.shape[nd - 1]];
        let stride = |d: i64, s: i64| if d == 1 { 0 } else { s };
        Operand {
            ptr: v.ptr,
            rs: stride(rows, v.strides[nd - 2]),
            cs: stride(cols, v.strides[nd - 1]),
            batch: batch.into(),
            range: v.range(),
        }
    }

    /// The form that kernels take: `(false, ld)` row-major, `(true, ld)` column-major. The stride of an
    /// axis of length one is free.
    pub(in crate::vulkan) fn form(&self, rows: i64, cols: i64) -> Option<(bool, i64)> {
        if (cols == 1 || self.cs == 1) && self.rs >= 0 {
            return Some((false, if rows == 1 { round_up(cols, 8) } else { self.rs }));
        }
        if (rows == 1 || self.rs == 1) && self.cs >= 0 {
            return Some((true, if cols == 1 { round_up(rows, 8) } else { self.cs }));
        }
        None
    }

    pub(in crate::vulkan) fn reach(&self, rows: i64, cols: i64) -> i64 {
        (rows - 1) * self.rs.abs() + (cols - 1) * self.cs.abs()
    }

    pub(super) fn total_reach(&self, rows: i64, cols: i64, batch: &[i64]) -> i64 {
        self.reach(rows, cols) + self.batch.iter().zip(batch).map(|(s, d)| s.abs() * (d - 1)).sum::<i64>()
    }

    /// Whether 16-byte loads may be used with rows `ld` apart.
    pub(in crate::vulkan) fn aligned(&self, dtype: Dtype, ld: i64) -> bool {
        let vector = 16 / dtype.size() as i64;
        self.ptr.is_multiple_of(16) && ld % vector == 0 && self.batch.iter().all(|s| s % vector == 0)
    }

    fn moved(&self, elements: i64, dtype: Dtype) -> Operand {
        Operand { ptr: self.ptr.wrapping_add_signed(elements * dtype.size() as i64), ..self.clone() }
    }

    /// The operand of item `i` of the outermost batch axis.
    pub(super) fn item(&self, i: i64, dtype: Dtype) -> Operand {
        let mut o = self.moved(i * self.batch[0], dtype);
        o.batch.remove(0);
        o
    }

    /// Rows and columns exchanged.
    pub(in crate::vulkan) fn transposed(&self) -> Operand {
        Operand { rs: self.cs, cs: self.rs, ..self.clone() }
    }
}

impl Problem {
    /// One product of (m, n, k), whose result has its rows without gaps and nothing behind it.
    pub(in crate::vulkan) fn plain(
        dtype: Dtype,
        [m, n, k]: [i64; 3],
        [a, b]: [Operand; 2],
        d: (u64, u64),
    ) -> Problem {
        Problem {
            dtype,
            m,
            n,
            k,
            batch: SmallVec::new(),
            a,
            b,
            c: None,
            alpha: 1.0,
            beta: 0.0,
            d: d.0,
            d_rs: n,
            d_batch: m * n,
            d_range: d,
            table: None,
            right_matrices: 1,
            fused: None,
        }
    }

    pub(in crate::vulkan) fn batches(&self) -> i64 {
        self.batch.iter().product()
    }

    /// What the choice of a kernel knows.
    pub(super) fn product(&self, aligned: bool) -> Product {
        let [m, n, k] = [self.m, self.n, self.k].map(|v| v as u64);
        Product { dtype: self.dtype, m, n, k, batch: self.batches() as u64, aligned }
    }

    /// The forms of both operands.
    pub(super) fn forms(&self) -> [(bool, i64); 2] {
        // INVARIANT: `solve` brought both operands into a form, or K is zero and they are not read.
        [self.a.form(self.m, self.k), self.b.form(self.k, self.n)].map(|form| form.unwrap_or((false, 0)))
    }

    /// Whether rows of the result may be written `vector` elements at a time.
    pub(super) fn even(&self, vector: i64) -> bool {
        let whole = |elements: i64| elements % vector == 0;
        self.d.is_multiple_of(16) && whole(self.d_rs) && (self.batches() == 1 || whole(self.d_batch))
    }

    /// Push block with addresses, sizes, batch strides and the epilogue.
    pub(in crate::vulkan) fn push(&self) -> Push {
        let pair = |o: &Operand| {
            let s = |i: usize| o.batch.iter().rev().nth(i).copied().unwrap_or(0) as u32;
            [s(0), s(1)]
        };
        let mut p = Push {
            a: self.a.ptr,
            b: self.b.ptr,
            d: self.d,
            m: self.m as u32,
            n: self.n as u32,
            k: self.k as u32,
            d_rs: self.d_rs as u32,
            d_cs: 1,
            nb0: self.batch.last().copied().unwrap_or(1) as u32,
            a_b: pair(&self.a),
            b_b: pair(&self.b),
            d_b: self.d_batch as u32,
            k_split: self.k as u32,
            tail: match &self.fused {
                Some(f) => [f.block as u32, (f.block >> 32) as u32],
                None => [self.alpha.to_bits(), self.beta.to_bits()],
            },
            ..Push::default()
        };
        if let Some(c) = &self.c {
            (p.c, p.c_rs, p.c_cs, p.c_b) = (c.ptr, c.rs as u32, c.cs as u32, pair(c));
        }
        if let Some((_, (table, _))) = self.table {
            p.c = table;
        }
        p
    }

    pub(in crate::vulkan) fn reads(&self) -> SmallVec<[(u64, u64); 3]> {
        let mut r: SmallVec<[(u64, u64); 3]> = [self.a.range, self.b.range].into_iter().collect();
        r.extend(self.c.as_ref().map(|c| c.range));
        r.extend(self.table.map(|t| t.1));
        r.extend(self.fused_reads());
        r
    }

    pub(super) fn fused_reads(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.fused.iter().flat_map(|f| f.ranges.iter().copied())
    }

    /// What follows the product.
    pub(in crate::vulkan) fn epilogue(&self) -> Option<&'static Epilogue> {
        self.fused.as_ref().map(|f| f.code)
    }

    /// Dtype of the result.
    pub(super) fn to(&self) -> Dtype {
        self.epilogue().map_or(self.dtype, Epilogue::to)
    }

    /// Rows that meet one right matrix, on average.
    pub(super) fn run_length(&self) -> u64 {
        (self.m / self.right_matrices.max(1)).max(1) as u64
    }

    /// Which table the kernels read.
    pub(in crate::vulkan) fn kind(&self) -> Table {
        self.table.map_or(Table::None, |t| t.0)
    }

    /// Whether something is added or the product is scaled.
    pub(in crate::vulkan) fn has_addend(&self) -> bool {
        self.c.is_some()
    }

    pub(super) fn item(&self, i: i64) -> Problem {
        let inner: i64 = self.batch[1..].iter().product();
        let element = i * inner * self.d_batch;
        Problem {
            batch: self.batch[1..].into(),
            a: self.a.item(i, self.dtype),
            b: self.b.item(i, self.dtype),
            c: self.c.as_ref().map(|c| c.item(i, self.dtype)),
            d: self.d.wrapping_add_signed(element * self.to().size() as i64),
            fused: self.fused.as_ref().map(|f| f.moved(element, 0)),
            ..self.clone()
        }
    }

    /// Rows `from..to` (or columns) of the result.
    pub(super) fn part(&self, rows: bool, from: i64, to: i64) -> Problem {
        let (t, size) = (self.dtype, self.to().size() as i64);
        let mut p = self.clone();
        if rows {
            p.m = to - from;
            p.a = self.a.moved(from * self.a.rs, t);
            p.c = self.c.as_ref().map(|c| c.moved(from * c.rs, t));
            p.d = self.d.wrapping_add_signed(from * self.d_rs * size);
            p.fused = self.fused.as_ref().map(|f| f.moved(from * self.d_rs, 0));
        } else {
            p.n = to - from;
            p.b = self.b.moved(from * self.b.cs, t);
            p.c = self.c.as_ref().map(|c| c.moved(from * c.cs, t));
            p.d = self.d.wrapping_add_signed(from * size);
            p.fused = self.fused.as_ref().map(|f| f.moved(from, from));
        }
        p
    }

    /// The products of a part of K alone.
    pub(super) fn inner(&self, from: i64, to: i64) -> Problem {
        let (a, b) = (self.a.moved(from * self.a.cs, self.dtype), self.b.moved(from * self.b.rs, self.dtype));
        Problem { k: to - from, a, b, ..self.clone() }
    }

    /// Elements that an operand's offsets reach, and those of the result and what is read beside it.
    pub(super) fn reaches(&self) -> (i64, i64) {
        let beside = self.epilogue().map(Epilogue::array_sizes).unwrap_or_default();
        let widest = beside.into_iter().chain([self.to().size()]).max().unwrap_or(1);
        (reach(self.dtype.size()), reach(widest))
    }

    /// Turns a batch axis along which only `a` moves, in step with its rows, into more rows.
    pub(super) fn fold_batch(&mut self) {
        while let Some(&len) = self.batch.last() {
            let last = self.batch.len() - 1;
            let follows = |o: &Operand, m: i64| o.batch[last] == m * o.rs || (m == 1 && o.rs == 0);
            let fits = self.b.batch[last] == 0
                && self.d_batch == self.m * self.d_rs
                && self.m * len < REACH
                && follows(&self.a, self.m)
                && self.c.as_ref().is_none_or(|c| follows(c, self.m));
            if !fits {
                return;
            }
            if self.m == 1 {
                self.a.rs = self.a.batch[last];
                if let Some(c) = &mut self.c {
                    c.rs = c.batch[last];
                }
            }
            self.m *= len;
            self.d_batch *= len;
            self.batch.pop();
            self.a.batch.pop();
            self.b.batch.pop();
            if let Some(c) = &mut self.c {
                c.batch.pop();
            }
        }
    }
}
