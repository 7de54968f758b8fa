//! Throughput of the hand-written kernels, printed as a table. Not part of the usual tests:
//! `cargo test --release -- --ignored --nocapture throughput`, on an idle GPU.

use std::time::Instant;

use super::{gather, random, reduce, softmax, sort, synchronize, with_encoder};
use crate::core::layout::size_of;
use crate::core::{Device, Dtype, Layout, Result, device};
use crate::kernels::{ArgReduceOp, DeviceView, ReduceOp};

/// Times `f(source, output)` on arrays of random bits and prints the rate over `bytes` moved.
fn time(
    name: &str,
    src: (Dtype, &[i64]),
    dst: (Dtype, &[i64]),
    f: impl Fn(&mut super::CommandEncoder, &DeviceView, &DeviceView) -> Result<()>,
) {
    let stream = device::default_stream(Device::GPU);
    let bytes = size_of(src.1) * src.0.size();
    let input = with_encoder(stream, |enc| {
        let (storage, address) = enc.output(bytes)?;
        let (key, at) = enc.output(8)?;
        enc.fill((at, 8), 7)?;
        let keys = DeviceView::new(at, Dtype::U32, &Layout::contiguous(&[2]));
        let out = DeviceView::new(address, Dtype::U32, &Layout::contiguous(&[(bytes / 4) as i64]));
        random::bits(enc, &keys, &out)?;
        if name.contains("softmax") || name.contains("logsumexp") {
            // Bytes 0x3f: plain values, so that no exponential takes a short cut.
            enc.fill((address, bytes as u64), 0x3f3f3f3f)?;
        }
        drop(key);
        Ok(storage)
    })
    .unwrap();
    let run = |n: u32| {
        for _ in 0..n {
            let out = with_encoder(stream, |enc| {
                let s = DeviceView::new(enc.resident(&input)?, src.0, &Layout::contiguous(src.1));
                let (storage, address) = enc.output(size_of(dst.1) * dst.0.size())?;
                f(enc, &s, &DeviceView::new(address, dst.0, &Layout::contiguous(dst.1)))?;
                Ok(storage)
            })
            .unwrap();
            drop(out);
        }
        synchronize(stream).unwrap();
    };
    run(20);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        run(60);
        best = best.min(start.elapsed().as_secs_f64() / 60.0);
    }
    let moved = bytes + size_of(dst.1) * dst.0.size();
    println!("{name:<40} {:9.4} ms {:8.0} GB/s", best * 1e3, moved as f64 / best / 1e9);
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    use Dtype::*;
    if super::adapters().is_empty() {
        return;
    }
    // A software device gets smaller arrays: there the table only shows that everything runs.
    let k: i64 = if super::device(0).unwrap().features().software { 64 } else { 1 };
    let sum = |axes: &'static [usize]| {
        move |e: &mut super::CommandEncoder, s: &DeviceView, d: &DeviceView| {
            reduce::reduce(e, ReduceOp::Sum, s, axes, d)
        }
    };
    time("sum all f32 2^26", (F32, &[(1 << 26) / k]), (F32, &[]), sum(&[0]));
    time("sum all bf16 2^27", (BF16, &[(1 << 27) / k]), (BF16, &[]), sum(&[0]));
    time("sum all i8 2^28", (I8, &[(1 << 28) / k]), (I32, &[]), sum(&[0]));
    time("sum rows f32 8192 x 8192", (F32, &[8192 / k, 8192]), (F32, &[8192 / k]), sum(&[1]));
    time("sum rows f32 2^20 x 64", (F32, &[(1 << 20) / k, 64]), (F32, &[(1 << 20) / k]), sum(&[1]));
    time("sum rows f32 2^23 x 8", (F32, &[(1 << 23) / k, 8]), (F32, &[(1 << 23) / k]), sum(&[1]));
    time("sum columns f32 8192 x 8192", (F32, &[8192 / k, 8192]), (F32, &[8192]), sum(&[0]));
    time("sum columns f32 2^22 x 16", (F32, &[(1 << 22) / k, 16]), (F32, &[16]), sum(&[0]));
    time("sum columns bf16 8192 x 8192", (BF16, &[8192 / k, 8192]), (BF16, &[8192]), sum(&[0]));
    time("sum middle f32 64 x 1024 x 1024", (F32, &[64, 1024 / k, 1024]), (F32, &[64, 1024]), sum(&[1]));
    time("sum outer and inner f32 256 x 512 x 512", (F32, &[256 / k, 512, 512]), (F32, &[512]), sum(&[0, 2]));
    time("max all f32 2^26", (F32, &[(1 << 26) / k]), (F32, &[]), |e, s, d| {
        reduce::reduce(e, ReduceOp::Max, s, &[0], d)
    });
    time("argmax f32 16 x 4M", (F32, &[16, (1 << 22) / k]), (U32, &[16]), |e, s, d| {
        reduce::arg_reduce(e, ArgReduceOp::Max, s, 1, d)
    });
    time("argmax f32 columns 8192 x 8192", (F32, &[8192 / k, 8192]), (U32, &[8192]), |e, s, d| {
        reduce::arg_reduce(e, ArgReduceOp::Max, s, 0, d)
    });
    for (name, d, rows, n) in [
        ("softmax f32 16384 x 4096", F32, 16384, 4096),
        ("softmax f32 8192 x 8192", F32, 8192, 8192),
        ("softmax bf16 16384 x 4096", BF16, 16384, 4096),
        ("softmax f32 65536 x 1024", F32, 65536, 1024),
        ("softmax f32 1M x 64", F32, 1 << 20, 64),
        ("softmax f32 512 x 131072", F32, 512, 131072),
        ("softmax f32 64 x 131072", F32, 64, 131072),
    ] {
        let rows = rows / k;
        time(name, (d, &[rows, n]), (d, &[rows, n]), softmax::softmax);
    }
    time("logsumexp f32 16384 x 4096", (F32, &[16384 / k, 4096]), (F32, &[16384 / k]), softmax::logsumexp);
    time("random bits u32 2^26", (U32, &[2]), (U32, &[(1 << 26) / k]), random::bits);
    let rows = 65536 / k;
    let index = crate::memory::host_storage(rows as usize * 4).unwrap();
    for i in 0..rows as usize {
        let value = (i as u32).wrapping_mul(2_654_435_761) % rows as u32;
        // SAFETY: the storage is fresh and holds `rows` words.
        unsafe { index.host_ptr_mut().unwrap().cast::<u32>().add(i).write(value) };
    }
    time("take rows of 1024 f32", (F32, &[rows, 1024]), (F32, &[rows, 1024]), |e, s, d| {
        let i = DeviceView::new(e.resident(&index)?, U32, &Layout::contiguous(&[rows]));
        gather::take(e, s, &i, 0, d)
    });
    time("sort f32 4096 x 4096", (F32, &[4096 / k, 4096]), (F32, &[4096 / k, 4096]), |e, s, d| {
        sort::sort(e, s, 1, d)
    });
    time("sort f32 16384 x 1024", (F32, &[16384 / k, 1024]), (F32, &[16384 / k, 1024]), |e, s, d| {
        sort::sort(e, s, 1, d)
    });
    time("argsort f32 4096 x 4096", (F32, &[4096 / k, 4096]), (U32, &[4096 / k, 4096]), |e, s, d| {
        sort::argsort(e, s, 1, d)
    });
    time("sort f32 16 x 2^20", (F32, &[16, (1 << 20) / k]), (F32, &[16, (1 << 20) / k]), |e, s, d| {
        sort::sort(e, s, 1, d)
    });
}
