//! Commands that a stream holds back, by a kernel that does for several of them.

use super::*;
use crate::vulkan::hal::held::{Chain, Launch};

/// dst[i] = a[i] + times * b[i]: `times` commands at once, as a chain of them; at most four.
struct Times {
    told: [u64; 3],
    n: u32,
    times: u32,
    fails: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TimesKey;

impl KernelKey for TimesKey {
    fn name(&self) -> String {
        "test_times".into()
    }

    fn module(&self, _: &Features) -> Module {
        let text = "#version 460
            #extension GL_EXT_buffer_reference : require
            #extension GL_EXT_scalar_block_layout : require
            layout(local_size_x = 64) in;
            layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F { float v[]; };
            layout(push_constant, scalar) uniform Push { F a; F b; F dst; uint n; uint times; };
            void main() {
                uint i = gl_GlobalInvocationID.x;
                if (i < n) dst.v[i] = a.v[i] + float(times) * b.v[i];
            }";
        Module { source: Source::Text(text.into()), ..Default::default() }
    }
}

impl Chain for Times {
    fn count(&self) -> usize {
        self.times as usize
    }

    fn launch(&self, device: &'static Device) -> Result<Launch> {
        if self.fails {
            bail!(Runtime, "[test] no kernel");
        }
        let numbers = u64::from(self.n) | u64::from(self.times) << 32;
        let push = self.told.into_iter().chain([numbers]).flat_map(u64::to_ne_bytes).collect();
        Ok(Launch {
            pipeline: device.pipeline(&TimesKey)?,
            push,
            groups: [self.n.div_ceil(64), 1, 1],
            late: None,
        })
    }

    fn any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Adds `b` to x by a command that is held back, or that joins one.
fn hold(s: Stream, x: &Arc<Storage>, b: &Arc<Storage>, fails: bool) {
    with_encoder(s, |enc| {
        let n = (x.nbytes() / 4) as u32;
        let (b, x) = (enc.resident(b)?, enc.overwrite(x)?);
        let (reads, writes) = ([(x, 4 * u64::from(n)), (b, 4 * u64::from(n))], [(x, 4 * u64::from(n))]);
        let fits = |c: &Times| c.told == [x, b, x] && c.times < 4;
        if enc.extend(&reads, &writes, fits, |c| c.times += 1)? {
            return Ok(());
        }
        enc.hold(Box::new(Times { told: [x, b, x], n, times: 1, fails }), &reads, &writes)
    })
    .unwrap();
}

#[test]
fn commands_that_are_held_back_are_one_until_another_comes() {
    let Some((device, _guard)) = gpu() else { return };
    let (s, x, one) = (stream(), floats(&[0.0; 500]), floats(&[1.0; 500]));
    let hits = || device.pipeline(&TimesKey).unwrap().hits.load(std::sync::atomic::Ordering::Relaxed);
    let before = hits();
    (0..6).for_each(|_| hold(s, &x, &one, false));
    assert_eq!(hits() - before, 1, "the fifth came behind the first four");
    with_encoder(s, |enc| {
        let one = enc.resident(&one)?;
        let x = enc.overwrite(&x)?;
        add(enc, x, one, x, 500)
    })
    .unwrap();
    assert_eq!(hits() - before, 2);
    hold(s, &x, &one, false);
    flush(s).unwrap();
    assert_eq!(hits() - before, 3, "the end of a batch records it");
    hold(s, &x, &one, false);
    assert_eq!(read(&x), [9.0; 500]);
    assert_eq!(hits() - before, 4);
}

#[test]
fn who_wants_a_batch_waits_for_the_end_of_a_chain() {
    let Some((device, _guard)) = gpu() else { return };
    let (s, x, one) = (stream(), floats(&[0.0; 500]), floats(&[1.0; 500]));
    let hits = || device.pipeline(&TimesKey).unwrap().hits.load(std::sync::atomic::Ordering::Relaxed);
    let (before, state) = (hits(), StreamState::of(s).unwrap());
    let waits = |in_front: usize| {
        let open = state.open_value();
        let wanted = std::thread::spawn(move || flush(s));
        // The thread is in the middle of its wait, which ends with the chain or by itself.
        for _ in 0..in_front {
            hold(s, &x, &one, false);
        }
        while !wanted.is_finished() {
            hold(s, &x, &one, false);
        }
        wanted.join().unwrap().unwrap();
        assert!(state.open_value() > open);
    };
    let recording = recording(s);
    for _ in 0..20 {
        hold(s, &x, &one, false);
        waits(1);
    }
    // This thread does not wait for itself.
    hold(s, &x, &one, false);
    let open = state.open_value();
    flush(s).unwrap();
    assert_eq!(state.open_value(), open + 1);
    drop(recording);
    hold(s, &x, &one, false);
    std::thread::spawn(move || flush(s)).join().unwrap().unwrap();
    let sum = read(&x)[0];
    assert!(sum >= 42.0 && read(&x) == [sum; 500]);
    // Four commands a kernel, but for a few that something else ended.
    assert!(hits() - before <= sum as u64 / 4 + 30, "{} kernels for {sum} commands", hits() - before);
}

#[test]
fn copies_of_other_bytes_come_before_a_chain() {
    let Some((device, _guard)) = gpu() else { return };
    if device.features().unified {
        eprintln!("the host sees all memory: nothing is copied, and little is tested");
    }
    let (s, x, one) = (stream(), floats(&[0.0; 500]), floats(&[1.0; 500]));
    let (y, z) = (floats(&[3.0; 700]), floats(&[5.0; 700]));
    let hits = || device.pipeline(&TimesKey).unwrap().hits.load(std::sync::atomic::Ordering::Relaxed);
    let state = StreamState::of(s).unwrap();
    let copy = |from: &Arc<Storage>, to: &Arc<Storage>| {
        let blocks = with_encoder(s, |enc| {
            enc.overwrite(from)?;
            enc.overwrite(to)?;
            Ok([from.device_block(0).unwrap(), to.device_block(0).unwrap()])
        });
        let blocks = blocks.unwrap();
        let [from, to] = blocks.each_ref().map(|b| b.as_any().downcast_ref::<memory::Block>().unwrap());
        memory::transfer::record(state, (from, 0), (to, 0), 2000, false).unwrap();
    };
    let before = hits();
    hold(s, &x, &one, false);
    copy(&y, &z);
    hold(s, &x, &one, false);
    assert_eq!(hits(), before, "nothing of the chain is recorded yet");
    copy(&x, &y);
    assert_eq!(hits() - before, 1, "what a chain writes is copied behind it");
    hold(s, &x, &one, false);
    copy(&z, &x);
    assert_eq!(hits() - before, 2, "and overwritten behind it");
    hold(s, &x, &one, false);
    assert_eq!(read(&z)[..500], [3.0; 500]);
    assert_eq!(read(&y)[..500], [2.0; 500]);
    assert_eq!(read(&x), [4.0; 500]);
}

#[test]
fn chains_of_streams_take_turns() {
    let Some((_, _guard)) = gpu() else { return };
    let streams = [stream(), stream(), stream()];
    let one = floats(&[1.0; 500]);
    let all: Vec<_> = streams.iter().map(|_| floats(&[0.0; 500])).collect();
    let shared = floats(&[0.0; 500]);
    for _ in 0..40 {
        for (&s, x) in streams.iter().zip(&all) {
            (0..3).for_each(|_| hold(s, x, &one, false));
            hold(s, &shared, &one, false);
        }
    }
    all.iter().for_each(|x| assert_eq!(read(x), [120.0; 500]));
    assert_eq!(read(&shared), [120.0; 500]);
}

#[test]
fn what_a_chain_without_a_kernel_would_have_written_is_an_error() {
    let Some((_, _guard)) = gpu() else { return };
    let (s, x, one) = (stream(), floats(&[0.0; 500]), floats(&[1.0; 500]));
    hold(s, &x, &one, true);
    assert!(flush(s).unwrap_err().to_string().contains("no kernel"));
    assert!(x.host_ptr().is_err());
    let y = floats(&[1.0; 500]);
    hold(s, &y, &one, false);
    assert_eq!(read(&y), [2.0; 500], "the stream goes on");
}
