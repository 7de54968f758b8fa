//! Random bits against known ones and against Threefry on the host.

use super::*;
use crate::vulkan::kernels::random;

/// Threefry-2x32, 20 rounds.
fn threefry(key: [u32; 2], count: [u32; 2]) -> [u32; 2] {
    let ks = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let (mut a, mut b) = (count[0].wrapping_add(ks[0]), count[1].wrapping_add(ks[1]));
    for i in 0..5u32 {
        for r in [[13, 15, 26, 6], [17, 29, 16, 24]][i as usize % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(r) ^ a;
        }
        a = a.wrapping_add(ks[(i as usize + 1) % 3]);
        b = b.wrapping_add(ks[(i as usize + 2) % 3]).wrapping_add(i + 1);
    }
    [a, b]
}

fn expected_bits(key: [u32; 2], bytes: usize) -> Vec<u8> {
    let words = bytes.div_ceil(4);
    let (half, odd) = (words / 2, words % 2);
    let mut w = vec![0u32; words];
    for c in 0..half + odd {
        let last = c == half;
        let r = threefry(key, [c as u32, if last { 0 } else { (c + half + odd) as u32 }]);
        w[c] = r[0];
        if !last {
            w[c + half + odd] = r[1];
        }
    }
    w.iter().flat_map(|w| w.to_le_bytes()).take(bytes).collect()
}

#[test]
fn random_bits_are_those_of_mlx() {
    if !have_gpu() {
        return;
    }
    // mx.random.split(mx.random.key(7), 3) of MLX 0.32.
    let known = [0x107b9334u32, 0x33609431, 0x71979c42, 0x61dcd604, 0xace8297e, 0x539bb5ac];
    let key = Host::new(Dtype::U32, 2, Layout::contiguous(&[2]), |i| ([0.0, 7.0][i], 0.0));
    let got = gpu(Dtype::U32, &[3, 2], |enc, out| {
        let k = key.view(enc)?;
        random::bits(enc, &k, out)
    });
    assert_eq!(got.iter().map(|v| v.0 as u32).collect::<Vec<_>>(), known);
    for num in [1i64, 3] {
        let keys = Host::new(Dtype::U32, 2 * num as usize + 1, layout(&[num, 2], &[1, num], 1), |i| {
            ((i * 2654435761 % 4294967296) as f64, 0.0)
        });
        for d in [Dtype::U8, Dtype::U16, Dtype::U32] {
            for n in [1i64, 2, 3, 4, 5, 7, 16, 31, 33, 64, 1000, 4096, 4099] {
                let got = gpu(d, &[num, n], |enc, out| {
                    let k = keys.view(enc)?;
                    random::bits(enc, &k, out)
                });
                let mut want = Vec::new();
                for k in 0..num {
                    let key = [keys.at(&[k, 0]).0 as u32, keys.at(&[k, 1]).0 as u32];
                    let bytes = expected_bits(key, n as usize * d.size());
                    want.extend(bytes.chunks(d.size()).map(|b| decode(d, b)));
                }
                assert_eq!(got, want, "{num} keys, {n} x {d}");
            }
        }
    }
}
