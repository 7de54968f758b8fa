//! Stable least-significant-digit radix sort of items by an integer, on one thread or on all.

use crate::cpu::runtime::pool::{self, SendPtr};

/// Sorts `a` by the low PASSES * DIGIT bits of its words; stable. `b` is scratch of the same length.
#[inline(always)]
fn passes<T: Copy, const PASSES: usize, const DIGIT: u32>(a: &mut [T], b: &mut [T], word: impl Fn(T) -> u64) {
    let n = a.len();
    assert!(n == b.len() && n > 0);
    let digit = |w: u64, p: usize| (w >> (p as u32 * DIGIT)) as usize & ((1 << DIGIT) - 1);
    let mut counts = vec![0u32; PASSES << DIGIT];
    for &x in a.iter() {
        let w = word(x);
        for p in 0..PASSES {
            // SAFETY: a digit is below 2^DIGIT and there are that many counts for each pass.
            unsafe { *counts.get_unchecked_mut((p << DIGIT) + digit(w, p)) += 1 };
        }
    }
    let (mut from, mut to) = (a.as_mut_ptr(), b.as_mut_ptr());
    let mut swapped = false;
    for p in 0..PASSES {
        let counts = &mut counts[p << DIGIT..(p + 1) << DIGIT];
        // A digit that all share needs no pass.
        // SAFETY: the buffers are not empty.
        if counts[digit(word(unsafe { *from }), p)] as usize == n {
            continue;
        }
        let mut at = 0;
        for c in counts.iter_mut() {
            at += std::mem::replace(c, at);
        }
        for i in 0..n {
            // SAFETY: both buffers have n elements; counts send each element to its own place in 0..n,
            // because they were counted over the same words.
            unsafe {
                let x = *from.add(i);
                let slot = counts.get_unchecked_mut(digit(word(x), p));
                *to.add(*slot as usize) = x;
                *slot += 1;
            }
        }
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    if swapped {
        a.copy_from_slice(b);
    }
}

/// Sorts `a` by the low `bits` bits of its words; stable. `b` is scratch of the same length.
pub(in crate::cpu) fn sort<T: Copy>(a: &mut [T], b: &mut [T], bits: u32, word: impl Fn(T) -> u64) {
    match (a.len(), bits) {
        (_, 8) => passes::<T, 1, 8>(a, b, word),
        (_, 16) => passes::<T, 2, 8>(a, b, word),
        (0..2048, 32) => passes::<T, 4, 8>(a, b, word),
        (_, 32) => passes::<T, 3, 11>(a, b, word),
        _ => passes::<T, 6, 11>(a, b, word),
    }
}

/// The same on all threads: each counts and then moves a stretch of its own.
pub(in crate::cpu) fn sort_in_parallel<T: Copy + Send + Sync>(
    a: &mut [T],
    b: &mut [T],
    bits: u32,
    word: impl Fn(T) -> u64 + Sync,
) {
    let n = a.len();
    assert!(n == b.len() && n > 0);
    let width = if bits <= 16 { 8 } else { 11 };
    let (parts, radix) = (pool::threads().min(64), 1usize << width);
    let stretch = n.div_ceil(parts);
    let mut counts = vec![0u32; parts * radix];
    let (mut from, mut to) = (SendPtr::new(a.as_mut_ptr()), SendPtr::new(b.as_mut_ptr()));
    let mut swapped = false;
    for shift in (0..bits).step_by(width) {
        let digit = |x: T| (word(x) >> shift) as usize & (radix - 1);
        let table = SendPtr::new(counts.as_mut_ptr());
        // SAFETY: part p has a row of its own in the table.
        let row = |p: usize| unsafe { std::slice::from_raw_parts_mut(table.get().add(p * radix), radix) };
        // SAFETY: stretches lie inside the buffer, which nobody writes in this pass.
        let part = |p: usize| unsafe {
            let start = n.min(p * stretch);
            std::slice::from_raw_parts(from.get().add(start), n.min(start + stretch) - start)
        };
        pool::parallel_chunks(parts, 1, |range| {
            for p in range {
                let counts = row(p);
                counts.fill(0);
                part(p).iter().for_each(|&x| counts[digit(x)] += 1);
            }
        });
        let first = digit(part(0)[0]);
        if (0..parts).map(|p| counts[p * radix + first] as usize).sum::<usize>() == n {
            continue;
        }
        let mut at = 0;
        for d in 0..radix {
            for p in 0..parts {
                at += std::mem::replace(&mut counts[p * radix + d], at);
            }
        }
        pool::parallel_chunks(parts, 1, |range| {
            for p in range {
                let slots = row(p);
                for &x in part(p) {
                    let slot = &mut slots[digit(x)];
                    // SAFETY: the table sends each element to a place of its own in 0..n.
                    unsafe { *to.get().add(*slot as usize) = x };
                    *slot += 1;
                }
            }
        });
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    if swapped {
        a.copy_from_slice(b);
    }
}
