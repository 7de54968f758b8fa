//! Products of matrices of a warp and of a warpgroup, and barriers in memory, as the reader of PTX runs them.

use super::{
    Around, GONE, Instruction, Kind, LANES, Operand, Reader, Space, Warp, bits, bytes, float, of_bf16, value,
};

/// What is done at a barrier in memory: how many it awaits, how many came, and how often all did.
#[derive(Clone, Copy)]
pub(super) enum Arrivals {
    Ready,
    Arrive,
    Over,
}

impl Arrivals {
    /// What an instruction does, and which of its operands is the barrier.
    pub(super) fn of(name: &str) -> (Arrivals, usize) {
        match name.split('.').nth(1) {
            Some("init") => (Arrivals::Ready, 0),
            Some("try_wait") => (Arrivals::Over, 1),
            _ => (Arrivals::Arrive, 1),
        }
    }
}

/// What lanes find together: the votes of those who say so, or the greatest word.
pub(super) fn together(of_warp: &str) -> fn(u64, usize, u64) -> u64 {
    match of_warp {
        "vote" => |all, lane, v| all | (v & 1) << lane,
        _ => |all, _, v| all.max(v & 0xffff_ffff),
    }
}

/// A barrier of warps, by its number and threads.
pub(super) fn barrier(reader: &Reader, parts: &[Vec<String>]) -> Kind {
    let threads = parts.get(1).map(|p| p[0].parse::<usize>().expect("a number"));
    Kind::Barrier(reader.operand(&parts[0][0]), threads.map(|n| n / LANES))
}

/// Lets those go on whose barrier all have reached.
pub(super) fn release(warps: &mut [Warp]) {
    let left = warps.iter().filter(|w| w.at[0] != GONE).count();
    for number in 0..16 {
        let at = |w: &Warp| w.waits.is_some_and(|b| b.0 == number);
        let came = warps.iter().filter(|w| at(w)).count();
        let awaited = warps.iter().find(|w| at(w)).and_then(|w| w.waits?.1).unwrap_or(left);
        if came > 0 && came >= awaited {
            warps.iter_mut().filter(|w| at(w)).for_each(|w| w.waits = None);
        }
    }
}

/// Whose word a shuffle gives a lane, by its own number and another; `segment` says within how many lanes.
pub(super) fn other_lane(name: &str, segment: &str) -> fn(usize, usize) -> Option<usize> {
    match (name, segment) {
        ("shfl.sync.bfly.b32", _) => |lane, by| Some(lane ^ by),
        ("shfl.sync.up.b32", _) => |lane, by| lane.checked_sub(by),
        ("shfl.sync.idx.b32", "0x1c1f") => |lane, from| Some(lane & !3 | from),
        ("shfl.sync.idx.b32", _) => |_, from| Some(from),
        _ => panic!("{name} is not known"),
    }
}

/// A lane readies a barrier, arrives at it, or asks whether the phase of a parity is over.
pub(super) fn arrive(i: &Instruction, warp: &mut Warp, lane: usize, around: &mut Around, what: Arrivals) {
    let at = value(warp, i.from[0], lane, around).wrapping_add(i.offset);
    let told = i.from.get(1).map_or(0, |&o| value(warp, o, lane, around));
    let state = bytes(i, at, 8, around, Space::Shared);
    match what {
        Arrivals::Ready => state.copy_from_slice(&(told & 0xffff).to_le_bytes()),
        Arrivals::Arrive => {
            let [awaited, came] = [0, 2].map(|k| u16::from_le_bytes([state[k], state[k + 1]]));
            let all = came + 1 == awaited;
            state[2..4].copy_from_slice(&(if all { 0 } else { came + 1 }).to_le_bytes());
            state[4] = state[4].wrapping_add(all.into());
        }
        Arrivals::Over => {
            let over = u64::from(state[4] & 1) != told & 1;
            warp.values[i.to[0] * LANES + lane] = over.into();
        }
    }
}

/// What a warp multiplies: elements of 16 bits, sixteen of K, or four of float32 whose last bits do not count.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Elements {
    Bf16,
    F16,
    Tf32,
}

impl Elements {
    pub(super) fn of(name: &str) -> Elements {
        match name {
            _ if name.contains(".f16.f16") => Elements::F16,
            _ if name.contains(".m16n8k4.") => Elements::Tf32,
            _ => Elements::Bf16,
        }
    }

    fn number(self, v: u64) -> f64 {
        match self {
            Elements::Bf16 => of_bf16(v).into(),
            Elements::F16 => half::f16::from_bits(v as u16).into(),
            Elements::Tf32 => {
                assert!(v & 0x1fff == 0 || f32::from_bits(v as u32).is_nan(), "digits that would be lost");
                float(v).into()
            }
        }
    }
}

/// Two numbers of a lane.
fn two(e: Elements, o: Operand, warp: &Warp, lane: usize, around: &Around) -> (f64, f64) {
    let v = value(warp, o, lane, around);
    (e.number(v), e.number(v >> 16))
}

/// The left side of a product, 16 rows of a warp by 16 of K, in the first four registers.
fn left(e: Elements, i: &Instruction, warp: &Warp, around: &Around) -> [[f64; 16]; 16] {
    let mut a = [[0.0; 16]; 16];
    for lane in 0..LANES {
        let (g, t) = (lane / 4, lane % 4);
        for (o, (row, col)) in [(0, 0), (8, 0), (0, 8), (8, 8)].into_iter().enumerate() {
            (a[g + row][2 * t + col], a[g + row][2 * t + col + 1]) = two(e, i.from[o], warp, lane, around);
        }
    }
    a
}

/// The rows of a warp of wgmma.m64k16 whose right side lies in shared memory without a swizzle: of each half of K eight columns'
/// 16 bytes lie together.
pub(super) fn of_warpgroup(i: &Instruction, warp: &mut Warp, around: &mut Around) {
    let (e, told) = (Elements::of(&i.text), value(warp, i.from[4], 0, around));
    let field = |shift: u32| (told >> shift & 0x3fff) << 4;
    let [at, half, eight] = [0, 16, 32].map(field);
    let right = |k: u64, n: u64, around: &mut Around| {
        let place = at + k / 8 * half + n / 8 * eight + n % 8 * 16 + k % 8 * 2;
        let two = bytes(i, place, 2, around, Space::Shared);
        e.number(u16::from_le_bytes([two[0], two[1]]).into())
    };
    let columns = i.to.len() as u64 * 2;
    let b: Vec<Vec<f64>> = (0..columns).map(|n| (0..16).map(|k| right(k, n, around)).collect()).collect();
    let a = left(e, i, warp, around);
    for (k, &to) in i.to.iter().enumerate() {
        for lane in 0..LANES {
            let (row, col) = (lane / 4 + k % 4 / 2 * 8, k / 4 * 8 + lane % 4 * 2 + k % 2);
            let sum: f64 = a[row].iter().zip(&b[col]).map(|(a, b)| a * b).sum();
            let c = f64::from(float(warp.values[to * LANES + lane]));
            warp.values[to * LANES + lane] = bits((sum + c) as f32);
        }
    }
}

/// Eight rows of eight elements of 16 bits, two of a lane, with rows and columns exchanged.
pub(super) fn transpose(i: &Instruction, warp: &mut Warp, around: &Around) {
    let all: Vec<u64> = (0..LANES).map(|lane| value(warp, i.from[0], lane, around)).collect();
    let element = |row: usize, col: usize| all[4 * row + col / 2] >> (16 * (col % 2)) & 0xffff;
    for lane in 0..LANES {
        let (g, t) = (lane / 4, lane % 4);
        warp.values[i.to[0] * LANES + lane] = element(2 * t + 1, g) << 16 | element(2 * t, g);
    }
}

/// Sides of mma.m16n8k4: one number of a lane for eight rows and for eight columns.
fn short(i: &Instruction, warp: &Warp, around: &Around) -> ([[f64; 16]; 16], [[f64; 8]; 16]) {
    let (mut a, mut b) = ([[0.0; 16]; 16], [[0.0; 8]; 16]);
    for lane in 0..LANES {
        let (g, t) = (lane / 4, lane % 4);
        let of = |o: usize| Elements::Tf32.number(value(warp, i.from[o], lane, around));
        (a[g][t], a[g + 8][t], b[t][g]) = (of(0), of(1), of(2));
    }
    (a, b)
}

/// mma of 16 rows by 8 columns: sums in float64, rounded once.
pub(super) fn of_warp(e: Elements, i: &Instruction, warp: &mut Warp, around: &mut Around) {
    let (a, b, sums) = if e == Elements::Tf32 {
        let (a, b) = short(i, warp, around);
        (a, b, 3)
    } else {
        let (a, mut b) = (left(e, i, warp, around), [[0.0; 8]; 16]);
        for lane in 0..LANES {
            let (g, t) = (lane / 4, lane % 4);
            for (o, row) in [(4, 0), (5, 8)] {
                (b[2 * t + row][g], b[2 * t + row + 1][g]) = two(e, i.from[o], warp, lane, around);
            }
        }
        (a, b, 6)
    };
    for lane in 0..LANES {
        let (g, t) = (lane / 4, lane % 4);
        for k in 0..4 {
            let (row, col) = (g + k / 2 * 8, 2 * t + k % 2);
            let sum: f64 = (0..16).map(|e| a[row][e] * b[e][col]).sum();
            let c = f64::from(float(value(warp, i.from[sums + k], lane, around)));
            warp.values[i.to[k] * LANES + lane] = bits((sum + c) as f32);
        }
    }
}
