//! The passes over operands, on whichever Vulkan device is found; the kernels themselves run where there are warpgroups, and
//! are what `matmul` takes there.

use std::sync::Arc;

use super::super::kernel::{self, Kernel};
use super::super::plain;
use super::super::{Operand, round_up};
use super::image::{Order, Side};
use super::program::{DEPTH, STEP};
use crate::core::device::new_stream;
use crate::core::{Device, Storage};
use crate::core::{Dtype, Result};
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::elem::launch;
use crate::vulkan::{adapters, with_encoder};

/// Elements of an operand by number: none is zero.
fn element(i: usize) -> u16 {
    (i % 65_521) as u16 + 1
}

struct Case {
    rows: i64,
    k: i64,
    /// Elements between rows, and between elements of K.
    strides: [i64; 2],
    offset: usize,
    /// Lengths and strides, outermost first.
    batch: Vec<(i64, i64)>,
}

impl Case {
    /// Runs a pass over the operand; the words that it wrote.
    fn run(&self, pass: impl Fn(&mut CommandEncoder, &Side<'_>) -> Result<(u64, u64)>) -> Option<Vec<u16>> {
        crate::memory::init();
        if adapters().is_empty() {
            return None;
        }
        let reach = (self.rows - 1) * self.strides[0] + (self.k - 1) * self.strides[1];
        let far: i64 = self.batch.iter().map(|(d, s)| (d - 1) * s).sum();
        let count = (reach + far) as usize + 1 + self.offset;
        let from = host(count, element);
        let lengths: Vec<i64> = self.batch.iter().map(|b| b.0).collect();
        let mut size = 0;
        let result = with_encoder(new_stream(Device::GPU), |enc| {
            let address = enc.resident(&from)? + 2 * self.offset as u64;
            let o = Operand {
                ptr: address,
                rs: self.strides[0],
                cs: self.strides[1],
                batch: self.batch.iter().map(|b| b.1).collect(),
                range: (address, 2 * (count - self.offset) as u64),
            };
            let side = Side { o, rows: self.rows, k: self.k, batch: &lengths, dtype: Dtype::F16 };
            let (ptr, bytes) = pass(enc, &side)?;
            size = bytes as usize;
            copied(enc, ptr, size)
        })
        .unwrap();
        let host = result.host_ptr().unwrap().cast::<u16>();
        // SAFETY: so many bytes were copied.
        Some(unsafe { std::slice::from_raw_parts(host, size / 2) }.to_vec())
    }

    /// The element of a matrix, or zero where there is none.
    fn at(&self, matrix: i64, row: i64, k: i64) -> u16 {
        if row >= self.rows || k >= self.k {
            return 0;
        }
        let (mut rest, mut at) = (matrix, row * self.strides[0] + k * self.strides[1]);
        for &(d, s) in self.batch.iter().rev().filter(|b| b.1 != 0) {
            at += rest % d * s;
            rest /= d;
        }
        element(at as usize + self.offset)
    }

    fn matrices(&self) -> i64 {
        self.batch.iter().filter(|b| b.1 != 0).map(|b| b.0).product()
    }
}

/// So many elements.
pub(super) fn host(count: usize, element: fn(usize) -> u16) -> Arc<Storage> {
    let storage = crate::memory::host_storage(2 * count).unwrap();
    let host = storage.host_ptr().unwrap().cast::<u16>();
    // SAFETY: room for so many.
    (0..count).for_each(|i| unsafe { host.add(i).write(element(i)) });
    storage
}

/// Scratch as a result that the host may read.
pub(super) fn copied(enc: &mut CommandEncoder, ptr: u64, bytes: usize) -> Result<Arc<Storage>> {
    let (storage, address) = enc.output(bytes.max(2))?;
    let n = (bytes / 2) as u32;
    let push = kernel::Push { c: ptr, d: address, m: 1, n, d_rs: n, c_cs: 1, nb0: 1, ..Default::default() };
    let pipeline = enc.device().pipeline(&plain(Kernel::Copy { scale: false }, Dtype::F16))?;
    let (from, to) = ((ptr, bytes as u64), (address, bytes as u64));
    launch(enc, &pipeline, push, u64::from(n).div_ceil(256), 1, 1, &[from], &[to])?;
    Ok(storage)
}

const CASES: [(i64, i64); 5] = [(300, 96), (64, 128), (5, 7), (257, 333), (130, 1000)];

/// Every way in which an operand may lie: along K, with gaps, odd, across; and batches.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (rows, k) in CASES {
        let (k8, r8) = (round_up(k, 8), round_up(rows, 8));
        for (strides, offset, one) in [
            ([k8, 1], 8, rows * k8),
            ([k + 3, 1], 5, rows * (k + 3)),
            ([1, r8], 16, k * r8),
            ([1, rows], 3, k * rows),
        ] {
            let one = round_up(one, 8);
            for batch in [vec![], vec![(3, one)], vec![(2, 3 * one), (3, one)], vec![(2, one), (3, 0)]] {
                all.push(Case { rows, k, strides, offset, batch });
            }
        }
    }
    all
}

#[test]
fn images_hold_every_element_where_products_read_it() {
    for ((case, tile), i) in cases().iter().zip([64, 128, 256, 192].into_iter().cycle()).zip(0..) {
        let order = [Order::Dealt, Order::Codes][i / 2 % 2];
        // Attention has shorter tiles, of rows along K.
        let tile = if case.strides[1] == 1 && i % 3 == 0 { [32, 48][i % 2] } else { tile };
        let steps = (round_up(case.k, DEPTH.into()) / i64::from(STEP)) as u32;
        let image =
            |enc: &mut CommandEncoder, side: &Side<'_>| side.image(enc, tile, steps, order).map(|i| i.range);
        let Some(words) = case.run(image) else { return };
        let padded = round_up(case.rows, tile.into());
        assert_eq!(words.len() as i64, case.matrices() * padded * i64::from(steps * STEP));
        let mut places = words.iter();
        for (matrix, first) in
            (0..case.matrices()).flat_map(|m| (0..padded).step_by(tile as usize).map(move |r| (m, r)))
        {
            for (step, half) in (0..i64::from(steps)).flat_map(|s| [(s, 0), (s, 1)]) {
                for (row, e) in (first..first + i64::from(tile)).flat_map(|r| (0..8).map(move |e| (r, e))) {
                    // Thread e / 2 of four has pairs of eight elements of its own: two for each of two steps.
                    let dealt = step / 2 * 32 + e / 2 * 8 + (step % 2 * 2 + half) * 2 + e % 2;
                    // Of 128 elements each of the four has 32, of which a block of eight comes after the other.
                    let pair = step % 2 * 2 + half;
                    let codes = step / 8 * 128 + e / 2 * 32 + step / 2 % 4 * 8 + pair + e % 2 * 4;
                    let k = match order {
                        // Codes are met by rows along K alone.
                        Order::Codes if case.strides[1] == 1 => codes,
                        Order::Dealt | Order::Codes => dealt,
                    };
                    let (got, wanted) = (places.next().copied(), case.at(matrix, row, k));
                    assert_eq!(got, Some(wanted), "matrix {matrix}, row {row}, k {k} of {:?}", case.strides);
                }
            }
        }
    }
}

#[test]
fn rows_of_k_are_those_of_the_operand() {
    for case in cases() {
        let found = std::cell::Cell::new(0);
        let rows = |enc: &mut CommandEncoder, side: &Side<'_>| {
            let o = side.rows_of_k(enc)?;
            found.set(o.rs);
            assert!(o.cs == 1 && (side.direct() || o.rs == round_up(case.k, 8)));
            Ok((o.ptr, if side.direct() { 0 } else { o.range.1 }))
        };
        let Some(words) = case.run(rows) else { return };
        let ld = found.get();
        for (i, &word) in words.iter().enumerate() {
            let (line, k) = (i as i64 / ld, i as i64 % ld);
            assert_eq!(word, case.at(line / case.rows, line % case.rows, k), "{:?} {line} {k}", case.strides);
        }
    }
}
