//! What lanes compute of float64 and of signed numbers, and what is approximate, as the reader of PTX has it.

use half::f16;

use super::{Pure, bits, float};

fn double(x: u64) -> f64 {
    f64::from_bits(x)
}

/// One of two numbers, or none where one of them is none.
fn nan_or(a: f32, b: f32, of: fn(f32, f32) -> f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { of(a, b) }
}

pub(super) fn pure(name: &str) -> Option<Pure> {
    Some(match name {
        "cvt.f64.f32" => |a| f64::from(float(a[0])).to_bits(),
        "cvt.rn.f32.f64" => |a| bits(double(a[0]) as f32),
        "cvt.rni.f64.f64" => |a| double(a[0]).round_ties_even().to_bits(),
        "cvt.rni.s64.f64" => |a| double(a[0]).round_ties_even() as i64 as u64,
        "mul.f64" => |a| (double(a[0]) * double(a[1])).to_bits(),
        "fma.rn.f64" => |a| double(a[0]).mul_add(double(a[1]), double(a[2])).to_bits(),
        "cvt.f32.f16" => |a| bits(f16::from_bits(a[0] as u16).to_f32()),
        "cvt.rn.f16.f32" => |a| f16::from_f32(float(a[0])).to_bits().into(),
        "cvt.rn.f16x2.f32" => |a| {
            let half = |x: u64| u64::from(f16::from_f32(float(x)).to_bits());
            half(a[0]) << 16 | half(a[1])
        },
        "fma.rn.f16x2" => |a| {
            let of = |x: u64, s: u64| f16::from_bits((x >> s) as u16).to_f64();
            let part = |s: u64| {
                u64::from(f16::from_f64(of(a[0], s).mul_add(of(a[1], s), of(a[2], s))).to_bits()) << s
            };
            part(0) | part(16)
        },
        "mul.rn.f16x2" => |a| {
            let of = |x: u64, s: u64| f16::from_bits((x >> s) as u16).to_f64();
            let part = |s: u64| u64::from(f16::from_f64(of(a[0], s) * of(a[1], s)).to_bits()) << s;
            part(0) | part(16)
        },
        "cvt.rni.f32.f32" => |a| bits(float(a[0]).round_ties_even()),
        "cvt.u32.u64" => |a| a[0] & 0xffff_ffff,
        "cvt.rn.f32.s32" => |a| bits(a[0] as u32 as i32 as f32),
        "mad.wide.s32" => |a| {
            (i64::from(a[0] as u32 as i32) * i64::from(a[1] as u32 as i32)).wrapping_add(a[2] as i64) as u64
        },
        "ex2.approx.ftz.f32" => |a| {
            let x = float(a[0]).exp2();
            bits(if x < f32::MIN_POSITIVE { 0.0 } else { x })
        },
        "sqrt.approx.f32" => |a| bits(float(a[0]).sqrt()),
        "rcp.approx.f32" => |a| bits(1.0 / float(a[0])),
        "max.NaN.f32" => |a| bits(nan_or(float(a[0]), float(a[1]), f32::max)),
        "min.NaN.f32" => |a| bits(nan_or(float(a[0]), float(a[1]), f32::min)),
        "setp.ne.u64" => |a| u64::from(a[0] != a[1]),
        "setp.eq.u64" => |a| u64::from(a[0] == a[1]),
        "setp.eq.f32" => |a| u64::from(float(a[0]) == float(a[1])),
        "setp.gt.and.f32" => |a| u64::from(float(a[0]) > float(a[1])) & a[2],
        _ => return None,
    })
}
