//! How the reader of PTX reads and writes memory.

use super::{Around, Instruction, LANES, Space, Warp, value};

/// The bytes that an instruction of a lane reads or writes.
pub(super) fn bytes<'a>(
    i: &Instruction,
    at: u64,
    n: usize,
    around: &'a mut Around,
    space: Space,
) -> &'a mut [u8] {
    match space {
        Space::Global => around.memory.find(at, n, &i.text),
        _ => {
            let at = at as u32 as usize;
            assert!(at.is_multiple_of(n) && at + n <= around.shared.len(), "{}: shared {at}", i.text);
            &mut around.shared[at..at + n]
        }
    }
}

pub(super) fn load(
    i: &Instruction,
    warp: &mut Warp,
    lane: usize,
    around: &mut Around,
    space: Space,
    width: usize,
) {
    let at = value(warp, i.from[0], lane, around).wrapping_add(i.offset);
    let n = width * i.to.len();
    let all: Vec<u8> = match space {
        Space::Param => around.params[at as usize..at as usize + n].to_vec(),
        _ => bytes(i, at, n, around, space).to_vec(),
    };
    for (k, part) in all.chunks(width).enumerate() {
        let mut eight = [0; 8];
        eight[..width].copy_from_slice(part);
        warp.values[i.to[k] * LANES + lane] = u64::from_le_bytes(eight);
    }
}

pub(super) fn store(
    i: &Instruction,
    warp: &mut Warp,
    lane: usize,
    around: &mut Around,
    space: Space,
    width: usize,
) {
    let at = value(warp, i.from[0], lane, around).wrapping_add(i.offset);
    let parts = &i.from[1..];
    let all: Vec<u8> =
        parts.iter().flat_map(|&o| value(warp, o, lane, around).to_le_bytes()[..width].to_vec()).collect();
    bytes(i, at, all.len(), around, space).copy_from_slice(&all);
}

/// Bytes of the device's memory to the workgroup's; fewer may be there than are written, with zeros behind.
pub(super) fn copy(i: &Instruction, warp: &Warp, lane: usize, around: &mut Around) {
    let all: Vec<u64> = i.from.iter().map(|&o| value(warp, o, lane, around)).collect();
    let (n, there) = (all[2] as usize, if all.len() > 4 { all[3] as usize } else { all[2] as usize });
    let mut data = vec![0; n];
    if there > 0 {
        let from = all[1].wrapping_add(all[all.len() - 1]);
        data[..there].copy_from_slice(around.memory.find(from, there, &i.text));
    }
    bytes(i, all[0].wrapping_add(i.offset), n, around, Space::Shared).copy_from_slice(&data);
}
