//! Codes of two, three, five and six bits: eight of them are as many bytes as a code has bits. A permutation of bytes and a mask make a pair of
//! elements of 16 bits, whose digits may be some places up. For chains and `wide_codes`.

/// How two codes of eight become the halves of a word.
pub struct Pair {
    /// Bytes that are taken, the first four bits for the first one.
    pub bytes: u32,
    /// Places that all goes down then.
    pub down: u32,
    pub mask: u32,
    /// Which codes they are, and how many places each is up.
    pub codes: [u32; 2],
    pub up: [u32; 2],
}

const fn of(bytes: u32, down: u32, mask: u32, codes: [u32; 2], up: [u32; 2]) -> Pair {
    Pair { bytes, down, mask, codes, up }
}

/// Six bits: of three bytes the first and the last code are those of the outer bytes, and the others of two bytes each.
const SIX: [Pair; 4] = [
    of(0x2210, 0, 0x00fc_003f, [0, 3], [0, 2]),
    of(0x2110, 4, 0x003f_00fc, [1, 2], [2, 0]),
    of(0x5543, 0, 0x00fc_003f, [4, 7], [0, 2]),
    of(0x5443, 4, 0x003f_00fc, [5, 6], [2, 0]),
];
const FIVE: [Pair; 4] = [
    of(0x2110, 0, 0x007c_001f, [0, 2], [0, 2]),
    of(0x2110, 5, 0x007c_001f, [1, 3], [0, 2]),
    of(0x4332, 4, 0x007c_001f, [4, 6], [0, 2]),
    of(0x4332, 9, 0x007c_001f, [5, 7], [0, 2]),
];
const THREE: [Pair; 4] = [
    of(0x2110, 0, 0x000e_0007, [0, 3], [0, 1]),
    of(0x2110, 0, 0x0070_0038, [1, 4], [3, 4]),
    of(0x2110, 6, 0x000e_0007, [2, 5], [0, 1]),
    of(0x2222, 0, 0x00e0_001c, [6, 7], [2, 5]),
];
const TWO: [Pair; 4] = [
    of(0x1100, 0, 0x0003_0003, [0, 4], [0, 0]),
    of(0x1100, 0, 0x000c_000c, [1, 5], [2, 2]),
    of(0x1100, 0, 0x0030_0030, [2, 6], [4, 4]),
    of(0x1100, 0, 0x00c0_00c0, [3, 7], [6, 6]),
];

/// Two halves of a word.
pub fn halves([low, high]: [u32; 2]) -> u32 {
    high << 16 | low
}

impl Pair {
    /// Which words of eight elements of 16 bits have those that meet its codes, and what permutes their bytes to a pair.
    pub fn elements(&self) -> ([u32; 2], u32) {
        let [a, b] = self.codes;
        let bytes = [2 * (a % 2), 2 * (a % 2) + 1, 4 + 2 * (b % 2), 5 + 2 * (b % 2)];
        ([a / 2, b / 2], bytes.iter().rev().fold(0, |all, byte| all << 4 | byte))
    }
}

/// Whether codes are of so many bits.
pub fn has(bits: u32) -> bool {
    [2, 3, 5, 6].contains(&bits)
}

/// The four pairs of eight of them.
pub fn pairs(bits: u32) -> &'static [Pair; 4] {
    match bits {
        2 => &TWO,
        3 => &THREE,
        5 => &FIVE,
        _ => &SIX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pairs are made of is where codes lie: each code once, in the eight lowest digits of a half.
    #[test]
    fn pairs_are_the_codes_that_they_say() {
        for (bits, pairs) in [(2, &TWO), (3, &THREE), (5, &FIVE), (6, &SIX)] {
            let mut all: Vec<u32> = pairs.iter().flat_map(|p| p.codes).collect();
            all.sort_unstable();
            assert_eq!(all, (0..8).collect::<Vec<u32>>());
            for pair in pairs {
                let byte_bits = |half: u32, bit: u32| {
                    let byte = pair.bytes >> (4 * (2 * half + bit / 8)) & 15;
                    8 * byte + bit % 8
                };
                for (half, (code, up)) in (0..2).zip(pair.codes.into_iter().zip(pair.up)) {
                    assert_eq!(pair.mask >> (16 * half) & 0xffff, ((1 << bits) - 1) << up);
                    assert!(up + bits <= 8);
                    for digit in 0..bits {
                        let bit = up + digit + pair.down;
                        assert!(bit < 16);
                        assert_eq!(byte_bits(half, bit), bits * code + digit, "{bits} {code}");
                    }
                }
            }
        }
    }
}
