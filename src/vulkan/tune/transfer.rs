//! How bytes move between the host and a discrete GPU: in place, beside the kernels or among them, and in which pieces.
//! The sizes are those that were best for an H200 and its host. Called by `memory`.

/// Uploads up to this size are written by the host in place and need no command: into device memory where the host can
/// reach it, else into host memory that the device reads each time.
pub const DIRECT: usize = 64 << 10;
/// See [`DIRECT`].
pub const DIRECT_WITHOUT_BAR: usize = 1 << 10;
/// Copies of arrays up to this size ride on the stream that reads or wrote the bytes.
pub const SMALL: usize = 1 << 20;
/// Copies of a pipeline's batches up to this size ride on the stream of the kernels: a queue of their own costs more than
/// it hides.
pub const SMALL_BATCH: usize = 128 << 10;
/// Size of staging pieces.
pub const PIECE: usize = 32 << 20;
/// Staging pieces in use by one upload.
pub const PIECES: usize = 4;
/// Host copies are shared between threads in parts of at least this size.
pub const PART: usize = 256 << 10;
/// Most threads of one.
pub const THREADS: usize = 8;
/// Shared copies from here on go past the caches, which hold other things.
pub const STREAMED: usize = 8 << 20;
/// Arrays made from memory of the host go to the GPU at once from here on, where it has memory of its own: kept on the host first
/// they are copied twice (H100: 1 GiB of NumPy's 3 GB/s, most of it pages of the host that are touched for the first time).
pub const MADE: usize = 4 << 20;
/// Blocks from here on have memory of their own in processes that export it. Collectives of smaller arrays go through the host
/// as fast (two H100s: 180 us either way for 256 KiB).
pub const EXPORTED: u64 = 256 << 10;
/// Arrays from here on go from one GPU to another by CUDA, if that reaches both. Two H200s, by CUDA and through the host: 4 MiB
/// 100 and 510 us; 1 MiB 220 us through the host.
pub const PEER: usize = 256 << 10;
/// Size of the pieces in which arrays go from one GPU to another through staging memory of both.
pub const CROSSING_PIECE: usize = 8 << 20;
/// The places of memory of the host that two GPUs have between them, and what each of them holds.
pub const SHARED_PIECES: usize = 4;
/// See [`SHARED_PIECES`].
pub const SHARED_PIECE: usize = 8 << 20;
/// Pieces that are on their way down while one goes up.
pub const SHARED_AHEAD: usize = 2;

/// Bytes of the pieces in which an array of so many crosses that memory: of few pieces the first and the last are alone on their
/// bus.
pub fn shared_piece(bytes: usize) -> usize {
    (bytes / 16).next_multiple_of(1 << 20).min(SHARED_PIECE)
}

/// The same by CUDA, through memory of the second one. Two H200s: 64 MiB in pieces of 32 took 353 us, of which the last one's copy to
/// its place is a fifth.
pub const PEER_PIECE: usize = 16 << 20;
/// Pieces of these that are sent before the first of them is waited for.
pub const PEER_AHEAD: usize = 2;
/// Most bytes of the pieces in which arrays go between the GPUs of so many processes, through memory into which the copy engines of
/// the others write. Two H200s: an engine brings 16 MiB over in 46 us, 32 MiB in 87, and each piece takes 8 to 18 us beside that;
/// two engines side by side were slower, since both pieces came late. Each process has four of these for every other one, so
/// many of them have smaller ones.
pub fn bridge_piece(members: usize) -> usize {
    match members {
        0..=2 => 32 << 20,
        3..=4 => 16 << 20,
        _ => 8 << 20,
    }
}

/// Bytes of the pieces of an array of so many bytes, of which each may have `most`: of few pieces the first and the last are alone
/// while they are copied and added. all_sum of two H200s in pieces of 16 and 32 MiB: 64 MiB 297 and 292 us, 256 MiB 1041 and
/// 915.
pub fn piece_of(bytes: u64, most: usize) -> usize {
    if bytes <= 64 << 20 { most.min(16 << 20) } else { most }
}

/// What a GPU takes to change from Vulkan to CUDA and back, in nanoseconds, as two H100s and two H200s do (350 to 500 us).
const CHANGE: u64 = 350_000;
/// What an exchange takes beside its bytes, between four H200s.
const EXCHANGE: u64 = 55_000;
/// Bytes a nanosecond that the engines of a GPU bring to several others (three of them, all at once: 187), and that NCCL moves
/// of a ring's.
const SPREAD: u64 = 187;
/// See [`SPREAD`].
const RING: u64 = 350;

/// Bytes that a process sends of an array: to all others, or in two exchanges of parts.
fn sent(members: usize, bytes: u64) -> (u64, u64) {
    let others = members as u64 - 1;
    (others * bytes, 2 * others * bytes / members as u64)
}

/// Whether a sum is made in two exchanges, in which each process adds up a part that all get then, and not by each from the whole
/// arrays of all others.
pub fn in_parts(members: usize, bytes: u64) -> bool {
    let (whole, parts) = sent(members, bytes);
    members > 2 && whole / SPREAD > EXCHANGE + parts / SPREAD
}

/// Whether the sum of arrays of so many bytes goes by the engines, or by NCCL, whose ring is faster between many, but changes to
/// CUDA.
pub fn bridged(members: usize, bytes: u64) -> bool {
    let (whole, parts) = sent(members, bytes);
    let ours =
        if in_parts(members, bytes) { 2 * EXCHANGE + parts / SPREAD } else { EXCHANGE + whole / SPREAD };
    members == 2 || ours <= CHANGE + parts / RING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_many_go_in_parts_and_large_ones_by_a_ring() {
        const MIB: u64 = 1 << 20;
        assert!(bridged(2, 8 << 30) && !in_parts(2, 8 << 30));
        for (members, parts, ring) in
            [(3, 32 * MIB, 128 * MIB), (4, 8 * MIB, 96 * MIB), (8, 4 * MIB, 80 * MIB)]
        {
            assert!(!in_parts(members, MIB) && in_parts(members, parts), "{members}");
            assert!(bridged(members, 32 * MIB) && !bridged(members, ring), "{members}");
        }
    }
}
