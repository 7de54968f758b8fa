//! Every kernel compiles, and gives the host's results on every layout class.

use std::sync::Arc;

use super::*;
use crate::core::device::new_stream;
use crate::core::{Device as CoreDevice, Storage};
use crate::cpu;
use crate::kernels::elementwise::table::{OpId, TypeRule, table};
use crate::kernels::{HostView, Inst};
use crate::vulkan::device;
use crate::vulkan::{adapters, with_encoder};

const CAPS: Caps = Caps {
    int64: true,
    preserve_nan: true,
    preserve_denorm: true,
    round_even: true,
    fused_fma: false,
    half_convert: false,
    products_beside: false,
};

/// Those whose kernels rest on more of the device's own instructions.
const OWN: Caps = Caps { fused_fma: true, half_convert: true, ..CAPS };

/// Programs of every row and computation dtype that a GPU runs.
fn programs() -> Vec<Program> {
    let mut all = Vec::new();
    for (i, row) in table().iter().enumerate() {
        for d in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
            let mut inputs = vec![d; row.arity as usize];
            let Ok((t, out)) = row.types(&inputs) else { continue };
            if t != d {
                continue;
            }
            if row.rule == TypeRule::Select {
                inputs[0] = Dtype::Bool;
            }
            all.push(Program::single(OpId(i as u16), &inputs, out));
        }
    }
    for a in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
        for b in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
            all.push(Program::cast(a, b));
        }
    }
    all
}

fn class(p: &Program, access: Access, ndim: u8) -> Class {
    let n = p.inputs.len() + p.outputs.len();
    let sizes: Vec<usize> = p.inputs.iter().copied().chain(p.output_dtypes()).map(Dtype::size).collect();
    let width = if access == Access::Wide { codegen::vector_width(sizes.iter().copied()) } else { 1 };
    Class { access: SmallVec::from_elem(access, n), ndim, width, flat: false }
}

fn compiles(name: &str, text: String) {
    let module = Module { source: Source::Text(text), ..Default::default() };
    if let Err(e) = crate::vulkan::shader::compiler::check(name, &module) {
        panic!("{e}");
    }
}

#[test]
fn every_row_compiles_for_every_dtype() {
    for p in programs() {
        let name = format!("{} {:?}", p.name(), p.inputs);
        for caps in [CAPS, OWN] {
            compiles(&name, codegen::elementwise(&p, &class(&p, Access::Wide, 1), caps).unwrap());
        }
    }
}

#[test]
fn every_layout_class_compiles() {
    let pick = |p: &Program| matches!(p.name().as_str(), "add" | "select" | "equal" | "copy" | "cast");
    for p in programs().into_iter().filter(pick) {
        for access in [Access::Wide, Access::Unit, Access::Strided] {
            for ndim in [1, 3, 4] {
                let name = format!("{} {:?} {access:?} {ndim}", p.name(), p.inputs);
                compiles(&name, codegen::elementwise(&p, &class(&p, access, ndim), CAPS).unwrap());
            }
        }
        for ndim in [2, 3] {
            let mut flat = Class { flat: true, ndim, ..class(&p, Access::Wide, 1) };
            flat.access[p.inputs.len() - 1] = Access::Stepped;
            compiles(
                &format!("{} {:?} flat {ndim}", p.name(), p.inputs),
                codegen::elementwise(&p, &flat, CAPS).unwrap(),
            );
        }
        if p.is_cast() {
            compiles(&p.name(), codegen::transpose(&p, 64, CAPS).unwrap());
        }
    }
}

#[test]
fn copies_need_no_optional_feature() {
    let none = Caps::default();
    for d in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
        let p = Program::cast(d, d);
        codegen::elementwise(&p, &class(&p, Access::Wide, 1), none).unwrap();
    }
    let p = Program::cast(Dtype::I64, Dtype::F32);
    assert!(codegen::supported(&p, none).is_err() && codegen::supported(&p, CAPS).is_ok());
}

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// `n` elements of mixed magnitude, special values among them.
fn values(d: Dtype, n: usize, rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..n {
        let r = rng.next();
        let f = match i % 11 {
            0 => f32::from_bits(r as u32),
            1 => [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0, 0.5][r as usize % 8],
            2 => ((r % 41) as f32 - 20.0) * 0.5,
            _ => (r % 20_000) as f32 / 1000.0 - 10.0,
        };
        match d {
            Dtype::Bool => out.push((r & 1) as u8),
            Dtype::F32 => out.extend(f.to_ne_bytes()),
            Dtype::F16 => out.extend(half::f16::from_f32(f).to_bits().to_ne_bytes()),
            Dtype::BF16 => out.extend(half::bf16::from_f32(f).to_bits().to_ne_bytes()),
            Dtype::C64 => {
                out.extend(((r % 4001) as f32 / 1000.0 - 2.0).to_ne_bytes());
                out.extend((((r >> 20) % 4001) as f32 / 1000.0 - 2.0).to_ne_bytes());
            }
            _ => {
                let small = (r >> 8) as i64 % 9;
                let v = if i % 3 == 0 { r as i64 } else { small };
                out.extend_from_slice(&v.to_ne_bytes()[..d.size()]);
            }
        }
    }
    out
}

fn storage(bytes: &[u8]) -> Arc<Storage> {
    let s = crate::memory::host_storage(bytes.len().max(1)).unwrap();
    // SAFETY: the storage was just made with that many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), s.host_ptr().unwrap(), bytes.len()) };
    s
}

/// Largest distance in ULP of float32 (relative steps for complex numbers), or bits for other types.
fn distance(d: Dtype, a: &[u8], b: &[u8]) -> f64 {
    let f = |x: &[u8]| f32::from_ne_bytes([x[0], x[1], x[2], x[3]]);
    let ulp = |x: f32, y: f32| -> f64 {
        if x.is_nan() || y.is_nan() {
            return if x.is_nan() && y.is_nan() { 0.0 } else { 1e9 };
        }
        let key =
            |v: f32| if v < 0.0 { -i64::from(v.to_bits() & 0x7fff_ffff) } else { i64::from(v.to_bits()) };
        (key(x) - key(y)).abs() as f64
    };
    match d {
        Dtype::F32 => ulp(f(a), f(b)),
        Dtype::F16 => {
            let h = |x: &[u8]| half::f16::from_bits(u16::from_ne_bytes([x[0], x[1]])).to_f32();
            ulp(h(a), h(b)) / 8192.0
        }
        Dtype::BF16 => {
            let h = |x: &[u8]| half::bf16::from_bits(u16::from_ne_bytes([x[0], x[1]])).to_f32();
            ulp(h(a), h(b)) / 65536.0
        }
        Dtype::C64 => {
            let z = |x: &[u8]| num_complex::Complex32::new(f(&x[..4]), f(&x[4..]));
            let (x, y) = (z(a), z(b));
            if x.is_nan() || y.is_nan() || !x.is_finite() || !y.is_finite() {
                return 0.0;
            }
            f64::from((x - y).norm() / (x.norm().max(y.norm()) * f32::EPSILON / 2.0).max(1e-30))
        }
        _ => (a != b) as u8 as f64 * 1e9,
    }
}

/// Views over fresh storages: shape, strides and first element of each input, then of the output.
fn agree(p: &Program, shape: &[i64], layouts: &[(Vec<i64>, i64)], limit: f64, seed: u64) {
    let Some(n_elems) = shape.iter().copied().reduce(|a, b| a * b) else { return };
    let mut rng = Rng(seed);
    let stream = new_stream(CoreDevice::GPU);
    let dtypes: Vec<Dtype> = p.inputs.iter().copied().chain(p.output_dtypes()).collect();
    let out = p.inputs.len();
    let span = |(s, o): &(Vec<i64>, i64)| {
        Layout { shape: shape.into(), strides: s.as_slice().into(), offset: *o }.span().unwrap_or((0, 0)).1
            as usize
            + 1
    };
    let data: Vec<Vec<u8>> = dtypes.iter().zip(layouts).map(|(&d, l)| values(d, span(l), &mut rng)).collect();
    let mut host = data.clone();
    let views: Vec<HostView> = (0..dtypes.len())
        .map(|k| {
            // SAFETY: the offset lies inside the data.
            let ptr = unsafe { host[k].as_mut_ptr().add(layouts[k].1 as usize * dtypes[k].size()) };
            HostView { ptr, dtype: dtypes[k], shape: shape.into(), strides: layouts[k].0.as_slice().into() }
        })
        .collect();
    cpu::elementwise::run(p, &views[..out], &views[out..]).unwrap();
    let storages: Vec<Arc<Storage>> = data.iter().map(|d| storage(d)).collect();
    with_encoder(stream, |enc| {
        let mut dv = Vec::new();
        for k in 0..dtypes.len() {
            let base = if k < out { enc.resident(&storages[k])? } else { enc.overwrite(&storages[k])? };
            let ptr = base + layouts[k].1 as u64 * dtypes[k].size() as u64;
            dv.push(DeviceView {
                ptr,
                dtype: dtypes[k],
                shape: shape.into(),
                strides: layouts[k].0.as_slice().into(),
            });
        }
        run(enc, p, &dv[..out], &dv[out..])
    })
    .unwrap();
    crate::vulkan::synchronize(stream).unwrap();
    for k in out..dtypes.len() {
        let size = dtypes[k].size();
        let got = storages[k].host_ptr().unwrap();
        for i in 0..host[k].len() / size {
            // SAFETY: the storage holds as many elements as the host copy.
            let g = unsafe { std::slice::from_raw_parts(got.add(i * size), size) };
            let h = &host[k][i * size..(i + 1) * size];
            let dist = distance(dtypes[k], g, h);
            let at = |k: usize| {
                &data[k][(i.min(data[k].len() / dtypes[k].size() - 1)) * dtypes[k].size()..]
                    [..dtypes[k].size()]
            };
            assert!(
                dist <= limit,
                "{} {:?} {shape:?} {layouts:?}: element {i} of {n_elems}: gpu {g:x?} cpu {h:x?}, {dist}; a {:x?} b {:x?}",
                p.name(),
                p.inputs,
                at(0),
                at(out - 1),
            );
        }
    }
}

fn have_gpu() -> bool {
    if adapters().is_empty() || device(0).is_err() {
        eprintln!("no Vulkan adapter: nothing tested");
        return false;
    }
    true
}

#[test]
fn every_row_agrees_with_the_host() {
    if !have_gpu() {
        return;
    }
    for p in programs() {
        let inexact = p.dtypes().any(|d| d.is_inexact());
        let complex = p.dtypes().any(|d| d == Dtype::C64);
        let limit = if complex {
            4000.0
        } else if inexact {
            2.0
        } else {
            0.0
        };
        let n = p.inputs.len() + 1;
        agree(&p, &[1031], &vec![(vec![1], 0); n], limit, 0x9e3779b97f4a7c15);
    }
}

#[test]
fn layouts_agree_with_the_host() {
    if !have_gpu() {
        return;
    }
    let pick = |p: &Program| match p.instrs[0].op {
        Inst::Cast => {
            p.instrs[0].dtype == Dtype::F32 || p.inputs[0] == p.instrs[0].dtype || p.inputs[0] == Dtype::F32
        }
        Inst::Op(op) => matches!(op.row().name, "subtract" | "select") && p.instrs[0].dtype.size() != 1,
    };
    let cases: &[(&[i64], &[i64], i64, &[i64], i64)] = &[
        (&[33], &[1], 1, &[1], 0),
        (&[64], &[-1], 63, &[1], 0),
        (&[64], &[2], 0, &[3], 1),
        (&[7, 64], &[0, 1], 0, &[64, 1], 0),
        (&[7, 64], &[1, 0], 0, &[64, 1], 0),
        (&[50, 33], &[0, 1], 0, &[33, 1], 0),
        (&[50, 33], &[1, 0], 1, &[33, 1], 0),
        (&[400, 3], &[0, 1], 1, &[3, 1], 0),
        (&[50, 33], &[40, 1], 3, &[33, 1], 0),
        (&[3, 20, 31], &[31, 0, 1], 0, &[620, 31, 1], 0),
        (&[3, 20, 31], &[0, 1, 0], 0, &[620, 31, 1], 0),
        (&[5, 2, 3], &[6, 0, 1], 0, &[6, 3, 1], 0),
        (&[40, 65], &[1, 40], 0, &[65, 1], 0),
        (&[3, 40, 65], &[2600, 1, 40], 0, &[2600, 65, 1], 0),
        (&[40, 3, 65], &[1, 2600, 40], 0, &[195, 65, 1], 0),
        (&[4, 6, 32], &[192, -32, 1], 160, &[200, 33, 1], 3),
        (&[3, 4, 5, 6, 7], &[7, 21, 84, 1, 420], 0, &[840, 210, 42, 7, 1], 0),
    ];
    for p in programs().into_iter().filter(pick) {
        for &(shape, s, o, so, oo) in cases {
            let n = p.inputs.len();
            let mut l = vec![(s.to_vec(), o); n];
            if n > 1 {
                l[1] = (layout::row_major(shape).to_vec(), 1);
            }
            l.push((so.to_vec(), oo));
            agree(&p, shape, &l, 0.0, 0x2545f4914f6cdd1d);
        }
    }
}

#[test]
fn ranges_agree_with_the_host() {
    if !have_gpu() {
        return;
    }
    for d in Dtype::ALL.into_iter().filter(|d| !matches!(d, Dtype::Bool | Dtype::F64 | Dtype::C64)) {
        let n = 1000;
        let mut host = vec![0u8; n * d.size()];
        let shape: Shape = smallvec::smallvec![n as i64];
        let v = HostView {
            ptr: host.as_mut_ptr(),
            dtype: d,
            shape: shape.clone(),
            strides: smallvec::smallvec![1],
        };
        cpu::elementwise::arange(3.0, 2.0, &v).unwrap();
        let s = storage(&vec![0u8; n * d.size()]);
        let stream = new_stream(CoreDevice::GPU);
        with_encoder(stream, |enc| {
            let ptr = enc.overwrite(&s)?;
            arange(
                enc,
                3.0,
                2.0,
                &DeviceView { ptr, dtype: d, shape: shape.clone(), strides: smallvec::smallvec![1] },
            )
        })
        .unwrap();
        crate::vulkan::synchronize(stream).unwrap();
        // SAFETY: the storage holds that many bytes.
        let got = unsafe { std::slice::from_raw_parts(s.host_ptr().unwrap(), host.len()) };
        assert_eq!(got, host.as_slice(), "{d}");
    }
}
