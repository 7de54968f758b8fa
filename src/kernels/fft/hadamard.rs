//! Hadamard matrices: those of order 2^k follow from H_2n = [H H; H -H], three more are given by their rows
//! (N. J. A. Sloane, A Library of Hadamard Matrices), and the matrix of order m * 2^k is the Kronecker product
//! of both.

/// A length m * 2^k, and which way round the matrix of order m is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// 1, 12, 20 or 28.
    pub m: u32,
    /// Exponent of the power of two.
    pub k: u32,
    /// Whether rows and columns are exchanged.
    pub transposed: bool,
}

impl Order {
    /// The order of a length, if it has one.
    pub fn of(n: i64) -> Option<Order> {
        let odd = n >> n.trailing_zeros().min(62);
        let m = match odd {
            1 => 1,
            3 => 12,
            5 => 20,
            7 => 28,
            _ => return None,
        };
        (n > 0 && n % m == 0).then(|| Order { m: m as u32, k: (n / m).trailing_zeros(), transposed: false })
    }

    /// The transposed matrix.
    pub fn transposed(self) -> Order {
        Order { transposed: !self.transposed, ..self }
    }

    /// Rows of the matrix of order m: bit i is set where element i is -1.
    pub fn rows(self) -> Vec<u32> {
        let rows: &[u32] = match self.m {
            12 => &H12,
            20 => &H20,
            28 => &H28,
            _ => &[0],
        };
        if !self.transposed {
            return rows.to_vec();
        }
        let column = |j: usize| rows.iter().enumerate().map(|(i, r)| (r >> j & 1) << i).sum();
        (0..rows.len()).map(column).collect()
    }
}

const H12: [u32; 12] = [0x002, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba, 0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a];

const H20: [u32; 20] = [
    0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2, 0x8d764, 0x1aee8, 0x359f0, 0x0fa53,
    0x174a7, 0x26d4e, 0x45e9c, 0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36,
];

const H28: [u32; 28] = [
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43, 0x6acbe87,
    0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0x0ff66ca, 0x1decd95, 0x39ddb2a,
    0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6,
    0x7e7a94c,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_one_of_four_numbers_times_a_power_of_two() {
        let found: Vec<i64> = (-3..60).filter(|&n| Order::of(n).is_some()).collect();
        assert_eq!(found, [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56]);
        let o = Order::of(28 << 10).unwrap();
        assert_eq!((o.m, o.k), (28, 10));
    }

    #[test]
    fn rows_are_orthogonal_and_so_are_columns() {
        for n in [12, 20, 28] {
            for o in [Order::of(n).unwrap(), Order::of(n).unwrap().transposed()] {
                let rows = o.rows();
                assert_eq!(rows.len(), n as usize);
                for (i, a) in rows.iter().enumerate() {
                    for b in &rows[..i] {
                        assert_eq!(2 * (a ^ b).count_ones(), n as u32, "{n}");
                    }
                }
            }
        }
    }
}
