//! The runtime on whichever adapter is there; without one the tests say so and return.

mod held;
mod linger;
mod progress;

use std::sync::{Arc, Mutex, MutexGuard};

use super::report::profile;
use super::*;
use crate::bail;
use crate::core::device::new_stream;
use crate::core::{Device as CoreDevice, Error, Storage};
use crate::memory::{host_storage, stats};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The first GPU, and a lock because some tests use up memory or count allocations.
fn gpu() -> Option<(&'static Device, MutexGuard<'static, ()>)> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    if adapters().is_empty() {
        eprintln!("no Vulkan adapter: nothing tested");
        return None;
    }
    Some((device(0).expect("the first adapter opens"), guard))
}

/// dst[i] = a[i] + b[i], float32; modulo 1024 if asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Add {
    modulo: bool,
}

const ADD: Add = Add { modulo: false };

impl KernelKey for Add {
    fn name(&self) -> String {
        "test_add".into()
    }

    fn module(&self, _: &Features) -> Module {
        let text = "#version 460
            #extension GL_EXT_buffer_reference : require
            #extension GL_EXT_scalar_block_layout : require
            layout(local_size_x = 64) in;
            layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F { float v[]; };
            layout(push_constant, scalar) uniform Push { F a; F b; F dst; uint n; };
            layout(constant_id = 0) const uint MODULO = 0;
            void main() {
                uint i = gl_GlobalInvocationID.x;
                if (i >= n) return;
                float y = a.v[i] + b.v[i];
                dst.v[i] = MODULO != 0 && y >= float(MODULO) ? y - float(MODULO) : y;
            }";
        Module {
            source: Source::Text(text.into()),
            spec: vec![if self.modulo { 1024 } else { 0 }],
            ..Default::default()
        }
    }
}

fn add(enc: &mut CommandEncoder, a: u64, b: u64, dst: u64, n: usize) -> Result<()> {
    run(enc, &ADD, a, b, dst, n)
}

fn add_mod(enc: &mut CommandEncoder, a: u64, b: u64, dst: u64, n: usize) -> Result<()> {
    run(enc, &Add { modulo: true }, a, b, dst, n)
}

fn run(enc: &mut CommandEncoder, key: &Add, a: u64, b: u64, dst: u64, n: usize) -> Result<()> {
    let pipeline = enc.device().pipeline(key)?;
    let mut push = [0u8; 28];
    for (i, address) in [a, b, dst].into_iter().enumerate() {
        push[i * 8..i * 8 + 8].copy_from_slice(&address.to_ne_bytes());
    }
    push[24..].copy_from_slice(&(n as u32).to_ne_bytes());
    let bytes = 4 * n as u64;
    let groups = [(n as u32).div_ceil(64), 1, 1];
    enc.dispatch(&pipeline, &push, groups, &[(a, bytes), (b, bytes)], &[(dst, bytes)])
}

fn floats(values: &[f32]) -> Arc<Storage> {
    let s = host_storage(values.len() * 4).unwrap();
    let p = s.host_ptr().unwrap().cast::<f32>();
    // SAFETY: the storage holds that many floats and is not shared yet.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), p, values.len()) };
    s
}

fn read(s: &Storage) -> Vec<f32> {
    let p = s.host_ptr().unwrap().cast::<f32>();
    // SAFETY: the storage holds that many floats.
    unsafe { std::slice::from_raw_parts(p, s.nbytes() / 4) }.to_vec()
}

fn stream() -> Stream {
    new_stream(CoreDevice::GPU)
}

#[test]
fn a_kernel_adds() {
    let Some((device, _guard)) = gpu() else { return };
    eprintln!("{:#?}", device.device_info());
    let s = stream();
    let a = floats(&(0..1000).map(|i| i as f32).collect::<Vec<_>>());
    let b = floats(&[0.5; 1000]);
    let c = with_encoder(s, |enc| {
        let (a, b) = (enc.resident(&a)?, enc.resident(&b)?);
        let (c, address) = enc.output(4000)?;
        add(enc, a, b, address, 1000)?;
        Ok(c)
    })
    .unwrap();
    let expected: Vec<f32> = (0..1000).map(|i| i as f32 + 0.5).collect();
    assert_eq!(read(&c), expected);
    assert!(device.has_pipeline(&ADD));
}

#[test]
fn ten_thousand_dependent_dispatches_run_in_order() {
    let Some((_, _guard)) = gpu() else { return };
    let s = stream();
    let x = floats(&[0.0; 333]);
    let one = floats(&[1.0; 333]);
    for _ in 0..10_000 {
        with_encoder(s, |enc| {
            let one = enc.resident(&one)?;
            let x = enc.overwrite(&x)?;
            add(enc, x, one, x, 333)
        })
        .unwrap();
    }
    assert_eq!(read(&x), [10_000.0; 333]);
}

#[test]
fn streams_order_their_cross_dependencies() {
    let Some((_, _guard)) = gpu() else { return };
    let streams = [stream(), stream(), stream()];
    let one = floats(&[1.0; 5000]);
    let mut x = floats(&[0.0; 5000]);
    for i in 0..600 {
        x = with_encoder(streams[i % 3], |enc| {
            let (a, b) = (enc.resident(&x)?, enc.resident(&one)?);
            let (y, address) = enc.output(20_000)?;
            add(enc, a, b, address, 5000)?;
            Ok(y)
        })
        .unwrap();
    }
    // A stream overwrites what another one has just read.
    let sums: Vec<Arc<Storage>> = (0..50)
        .map(|i| {
            let y = with_encoder(streams[1], |enc| {
                let (a, b) = (enc.resident(&x)?, enc.resident(&one)?);
                let (y, address) = enc.output(20_000)?;
                add(enc, a, b, address, 5000)?;
                Ok(y)
            })
            .unwrap();
            with_encoder(streams[if i % 2 == 0 { 0 } else { 2 }], |enc| {
                let b = enc.resident(&one)?;
                let x = enc.overwrite(&x)?;
                add(enc, x, b, x, 5000)
            })
            .unwrap();
            y
        })
        .collect();
    for (i, y) in sums.iter().enumerate() {
        assert_eq!(read(y), vec![601.0 + i as f32; 5000], "{i}");
    }
    for s in streams {
        synchronize(s).unwrap();
    }
}

#[test]
fn random_overlapping_accesses_give_the_sequential_result() {
    let Some((_, _guard)) = gpu() else { return };
    let s = stream();
    const N: usize = 6000;
    let mut seed = 7u64;
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    let mut model: Vec<f32> = (0..N).map(|i| (i % 17) as f32).collect();
    let x = floats(&model);
    for step in 0..1500 {
        let n = random(500) + 1;
        // Sources may not meet the destination inside one dispatch, but they meet those of others.
        let (a, b, dst) = (random(N / 2 - n), random(N / 2 - n), N / 2 + random(N / 2 - n));
        let (a, b, dst) = if step % 2 == 0 { (a, b, dst) } else { (N / 2 + a, N / 2 + b, dst - N / 2) };
        let sums: Vec<f32> = (0..n).map(|i| (model[a + i] + model[b + i]) % 1024.0).collect();
        model[dst..dst + n].copy_from_slice(&sums);
        with_encoder(s, |enc| {
            let x = enc.overwrite(&x)?;
            let at = |i: usize| x + 4 * i as u64;
            add_mod(enc, at(a), at(b), at(dst), n)
        })
        .unwrap();
    }
    assert_eq!(read(&x), model, "seed 7");
}

#[test]
fn bytes_survive_the_round_trip_at_odd_sizes() {
    let Some((device, _guard)) = gpu() else { return };
    let s = stream();
    for n in [1usize, 3, 4, 255, 4097, 65_535, 65_537, (1 << 20) + 1, (70 << 20) + 5] {
        let src = host_storage(n).unwrap();
        let p = src.host_ptr().unwrap();
        for i in 0..n {
            // SAFETY: i < n.
            unsafe { *p.add(i) = (i * 31 + i / 256) as u8 };
        }
        // An upload, and a read by the device's own copy of the bytes.
        with_encoder(s, |enc| enc.resident(&src)).unwrap();
        let block = src.device_block(0).expect("uploaded");
        let mut back = vec![0u8; n];
        // SAFETY: n bytes.
        unsafe { block.download(back.as_mut_ptr(), n) }.unwrap();
        assert!((0..n).all(|i| back[i] == (i * 31 + i / 256) as u8), "{n} bytes");
        assert_eq!((device.id(), device.index()), (block.device(), block.gpu()));
        // The same after the host copy is gone.
        with_encoder(s, |enc| enc.overwrite(&src)).unwrap();
        let p = src.host_ptr().unwrap();
        // SAFETY: i < n.
        assert!((0..n).all(|i| unsafe { *p.add(i) } == (i * 31 + i / 256) as u8), "{n} bytes again");
    }
}

#[test]
fn fill_sets_exactly_the_range() {
    let Some((_, _guard)) = gpu() else { return };
    let s = stream();
    for (start, n) in [(0u64, 1u64), (4, 7), (8, 1024), (0, 100_003)] {
        let total = (start + n + 9).next_multiple_of(4);
        let x = with_encoder(s, |enc| {
            let (x, address) = enc.output(total as usize)?;
            enc.fill((address, total), 0)?;
            enc.fill((address + start, n), 0x4433_2211)?;
            Ok(x)
        })
        .unwrap();
        let p = x.host_ptr().unwrap();
        for i in 0..total {
            let inside = i >= start && i < start + n;
            let expected = if inside { 0x11 * ((i - start) % 4 + 1) as u8 } else { 0 };
            // SAFETY: i < total.
            assert_eq!(unsafe { *p.add(i as usize) }, expected, "byte {i} of {start}+{n}");
        }
    }
}

#[test]
fn a_steady_loop_allocates_nothing() {
    let Some((device, _guard)) = gpu() else { return };
    let s = stream();
    let one = floats(&[1.0; 10_000]);
    let mut x = floats(&[0.0; 10_000]);
    let mut step = |n: usize| {
        for _ in 0..n {
            x = with_encoder(s, |enc| {
                let (a, b) = (enc.resident(&x)?, enc.resident(&one)?);
                let (y, address) = enc.output(40_000)?;
                let scratch = enc.temp(40_000)?;
                add(enc, a, b, scratch, 10_000)?;
                add(enc, scratch, b, address, 10_000)?;
                Ok(y)
            })
            .unwrap();
        }
        synchronize(s).unwrap();
    };
    step(20);
    let mut steps = 20;
    // Tests of kernels run beside this one and allocate too: a stretch without them shows it.
    let steady = (0..400).any(|_| {
        let before = (device.driver_allocations(), stats::active());
        step(50);
        steps += 50;
        (device.driver_allocations(), stats::active()) == before
    });
    assert!(steady, "no stretch of 50 steps without an allocation");
    assert_eq!(read(&x)[9_999], (2 * steps) as f32);
}

#[test]
fn out_of_memory_leaves_the_device_usable() {
    let Some((device, _guard)) = gpu() else { return };
    let s = stream();
    let too_much = device.features().max_buffer as usize + 1;
    let message = match device.alloc(too_much) {
        Err(e @ Error::OutOfMemory { .. }) => e.to_string(),
        other => panic!("expected an error, got {:?}", other.map(|_| ())),
    };
    assert!(message.contains(&too_much.to_string()), "{message}");
    let mut held = Vec::new();
    if device.features().software {
        // The budget ends the loop; the memory is never touched, so it costs the machine nothing.
        let step = (device.features().max_buffer / 2) as usize;
        let failed = (0..1000).find_map(|_| match device.alloc(step) {
            Ok(b) => {
                held.push(b);
                None
            }
            Err(e) => Some(e),
        });
        assert!(matches!(failed, Some(Error::OutOfMemory { .. })), "{failed:?}");
    }
    drop(held);
    let a = floats(&[2.0; 70]);
    let c = with_encoder(s, |enc| {
        let a = enc.resident(&a)?;
        let (c, address) = enc.output(280)?;
        add(enc, a, a, address, 70)?;
        Ok(c)
    })
    .unwrap();
    assert_eq!(read(&c), [4.0; 70]);
    drop(c);
    stats::clear_cache(stats::When::Now);
}

#[test]
fn threads_share_streams_and_read_each_others_results() {
    let Some((_, _guard)) = gpu() else { return };
    let streams = [stream(), stream()];
    let one = floats(&[1.0; 2000]);
    let shared: Mutex<Arc<Storage>> = Mutex::new(floats(&[0.0; 2000]));
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (shared, one) = (&shared, &one);
            scope.spawn(move || {
                for i in 0..100 {
                    let input = shared.lock().unwrap().clone();
                    let y = with_encoder(streams[(t + i) % 2], |enc| {
                        let (a, b) = (enc.resident(&input)?, enc.resident(one)?);
                        let (y, address) = enc.output(8000)?;
                        let scratch = enc.temp(8000)?;
                        add(enc, a, b, scratch, 2000)?;
                        add(enc, scratch, b, address, 2000)?;
                        Ok(y)
                    })
                    .unwrap();
                    *shared.lock().unwrap() = y.clone();
                    if i % 3 == t % 3 {
                        let (before, after) = (read(&input), read(&y));
                        assert!(before.iter().zip(&after).all(|(b, a)| *a == b + 2.0));
                    }
                }
            });
        }
    });
    let last = read(&shared.lock().unwrap());
    assert!(last.iter().all(|v| *v == last[0] && *v >= 200.0));
}

#[test]
fn parameters_stay_intact_until_they_are_read() {
    let Some((_, _guard)) = gpu() else { return };
    let s = stream();
    let results: Vec<Arc<Storage>> = (0..300)
        .map(|i| {
            with_encoder(s, |enc| {
                let values: Vec<u8> = (0..1024).flat_map(|j| ((i * 1024 + j) as f32).to_ne_bytes()).collect();
                let (a, b) = (enc.params(&values)?, enc.params(&[0u8; 4096])?);
                assert!(a % 16 == 0 && b % 16 == 0);
                let (y, address) = enc.output(4096)?;
                add(enc, a, b, address, 1024)?;
                Ok(y)
            })
            .unwrap()
        })
        .collect();
    for (i, y) in results.iter().enumerate() {
        assert!(read(y).iter().enumerate().all(|(j, v)| *v == (i * 1024 + j) as f32), "{i}");
    }
}

#[test]
fn failures_are_errors_with_names() {
    let Some((device, _guard)) = gpu() else { return };
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Broken;
    impl KernelKey for Broken {
        fn name(&self) -> String {
            "broken_kernel".into()
        }
        fn module(&self, _: &Features) -> Module {
            Module { source: Source::File("missing.comp"), ..Default::default() }
        }
    }
    let text = |r: Result<Arc<Pipeline>>| r.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(text(device.built(&Broken)).contains("broken_kernel"));
    assert!(super::device(99).is_err());
    assert!(synchronize(new_stream(CoreDevice::CPU)).is_err());
    let s = stream();
    let pipeline = device.pipeline(&ADD).unwrap();
    let e = with_encoder(s, |enc| enc.dispatch(&pipeline, &[0; 132], [1, 1, 1], &[], &[])).unwrap_err();
    assert!(e.to_string().contains("test_add"), "{e}");
    let e = with_encoder(s, |_| -> Result<()> { bail!(Value, "mine") }).unwrap_err();
    assert_eq!(e.to_string(), "mine");
    let nested = with_encoder(s, |_| Ok(with_encoder(s, |_| Ok(())).is_err())).unwrap();
    assert!(nested, "entering a stream twice is an error");
    with_encoder(s, |_| with_encoder(stream(), |_| Ok(()))).unwrap();
    synchronize(s).unwrap();
}

#[test]
fn a_batch_without_its_kernel_fails_its_readers() {
    let Some((device, _guard)) = gpu() else { return };
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Broken;
    impl KernelKey for Broken {
        fn name(&self) -> String {
            "broken_late".into()
        }
        fn module(&self, _: &Features) -> Module {
            let text = "#version 460\nvoid main() { nonsense }\n";
            Module { source: Source::Text(text.into()), ..Default::default() }
        }
    }
    let s = stream();
    let (a, one) = (floats(&[1.0; 100]), floats(&[1.0; 100]));
    let made = with_encoder(s, |enc| {
        let (a, one) = (enc.resident(&a)?, enc.resident(&one)?);
        let (x, address) = enc.output(400)?;
        let (y, sum) = enc.output(400)?;
        let pipeline = enc.device().pipeline(&Broken)?;
        enc.dispatch(&pipeline, &[], [1, 1, 1], &[], &[(address, 400)])?;
        add(enc, a, one, sum, 100)?;
        Ok((x, y))
    });
    let named = |e: Error| assert!(e.to_string().contains("broken_late"), "{e}");
    match made {
        Ok((x, y)) => {
            for _ in 0..2 {
                named(x.host_ptr().unwrap_err());
                named(y.host_ptr().unwrap_err());
            }
            named(with_encoder(s, |enc| enc.resident(&x)).unwrap_err());
        }
        // Without threads the kernel is compiled at once.
        Err(e) => named(e),
    }
    named(device.pipeline(&Broken).err().unwrap());
    let sum = with_encoder(s, |enc| {
        let (a, one) = (enc.resident(&a)?, enc.resident(&one)?);
        let (x, address) = enc.output(400)?;
        add(enc, a, one, address, 100)?;
        Ok(x)
    });
    assert_eq!(read(&sum.unwrap()), [2.0; 100]);
}

#[test]
fn commands_behind_a_new_kernel_run_in_order() {
    let Some((_, _guard)) = gpu() else { return };
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Scale(u32);
    impl KernelKey for Scale {
        fn name(&self) -> String {
            format!("test_scale_{}", self.0)
        }
        fn module(&self, _: &Features) -> Module {
            let text = format!(
                "#version 460
                #extension GL_EXT_buffer_reference : require
                #extension GL_EXT_scalar_block_layout : require
                layout(local_size_x = 64) in;
                layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F {{ float v[]; }};
                layout(push_constant, scalar) uniform Push {{ F x; }};
                void main() {{
                    uint i = gl_GlobalInvocationID.x;
                    x.v[i] = x.v[i] * 2.0 + {}.0;
                }}",
                self.0
            );
            Module { source: Source::Text(text), ..Default::default() }
        }
    }
    let s = stream();
    let x = floats(&[0.0; 64]);
    let mut expected = 0.0f32;
    let copies: Vec<Arc<Storage>> = (0..10)
        .map(|i| {
            expected = expected * 2.0 + i as f32;
            with_encoder(s, |enc| {
                let address = enc.overwrite(&x)?;
                let pipeline = enc.device().pipeline(&Scale(i))?;
                let all = [(address, 256)];
                enc.dispatch(&pipeline, &address.to_ne_bytes(), [1, 1, 1], &all, &all)?;
                let (copy, to) = enc.output(256)?;
                enc.fill((to, 256), i)?;
                Ok(copy)
            })
            .unwrap()
        })
        .collect();
    assert_eq!(read(&x), [expected; 64]);
    for (i, copy) in copies.iter().enumerate() {
        assert_eq!(read(copy), [f32::from_bits(i as u32); 64]);
    }
}

#[cfg(unix)]
#[test]
fn a_forked_child_gets_an_error() {
    let Some((_, _guard)) = gpu() else { return };
    let s = stream();
    let x = floats(&[1.0; 8]);
    with_encoder(s, |enc| enc.resident(&x)).unwrap();
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }
    // SAFETY: the child calls only code that returns at the fork check, and leaves by _exit.
    unsafe {
        let pid = fork();
        if pid == 0 {
            let fails = |r: Result<()>| matches!(r, Err(Error::Runtime(m)) if m.contains("before fork"));
            let ok = fails(with_encoder(s, |_| Ok(())))
                && fails(synchronize(s))
                && fails(super::device(0).map(|_| ()))
                && fails(x.device_block(0).map_or(Ok(()), |b| b.wait_written()));
            drop(x);
            _exit(if ok { 0 } else { 1 });
        }
        let mut status = -1;
        assert_eq!(waitpid(pid, &mut status, 0), pid);
        assert_eq!(status, 0);
    }
    with_encoder(s, |enc| enc.resident(&x)).unwrap();
    synchronize(s).unwrap();
}

#[test]
fn the_end_of_the_process_finds_work_done_and_caches_written() {
    let Some((device, _guard)) = gpu() else { return };
    let s = stream();
    let x = floats(&[1.0; 50_000]);
    for _ in 0..20 {
        with_encoder(s, |enc| {
            let x = enc.overwrite(&x)?;
            add(enc, x, x, x, 50_000)
        })
        .unwrap();
    }
    flush(s).unwrap();
    finish(std::time::Instant::now() + std::time::Duration::from_secs(20));
    let block = x.device_block(0).unwrap();
    let before = std::time::Instant::now();
    block.wait_written().unwrap();
    assert!(before.elapsed().as_millis() < 100);
    assert_eq!(read(&x)[49_999], 1_048_576.0);
    if let Some(loaded) = device.blob.reread() {
        assert!(loaded, "the pipeline cache on disk fits the device");
    }
}

#[test]
fn a_profile_counts_and_times_every_dispatch() {
    let Some((device, _guard)) = gpu() else { return };
    let s = stream();
    let x = floats(&[1.0; 10_000]);
    with_encoder(s, |enc| enc.resident(&x)).unwrap();
    synchronize(s).unwrap();
    let run = |n: usize| {
        for _ in 0..n {
            with_encoder(s, |enc| {
                let x = enc.overwrite(&x)?;
                enc.describe(5.0, &[3, 4]);
                add(enc, x, x, x, 10_000)
            })
            .unwrap();
        }
    };
    use crate::core::trace;
    let spans = trace::start();
    let outer = profile::start(false);
    run(3);
    let inner_spans = trace::start();
    let inner = profile::start(true);
    run(700);
    let seen = profile::stop(&inner, false).unwrap();
    trace::stop(inner_spans);
    let all = profile::stop(&outer, true).unwrap();
    let spans = trace::stop(spans);
    let ours = |r: &profile::Report| -> Vec<profile::Sample> {
        r.samples.iter().filter(|s| s.kernel == "test_add").cloned().collect()
    };
    assert_eq!((ours(&seen).len(), ours(&all).len()), (700, 703));
    assert!(spans.iter().any(|s| s.kind == "submit"));
    for s in ours(&seen) {
        assert_eq!((s.bytes, s.flops, &s.dims[..]), (3 * 40_000, 5.0, &[3u64, 4][..]));
        assert!(s.barrier);
        assert_eq!(s.times.is_some(), device.timestamps());
    }
    let times: Vec<[f64; 2]> = ours(&all).iter().filter_map(|s| s.times).collect();
    assert!(times.iter().all(|t| t[0] <= t[1]) && times.windows(2).all(|w| w[0][1] <= w[1][0]));
    run(1);
    let spans = trace::start();
    let nothing = profile::start(false);
    assert!(ours(&profile::stop(&nothing, true).unwrap()).is_empty());
    trace::stop(spans);
}
