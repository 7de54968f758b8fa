//! What follows a product in kernels in PTX: the functions that networks have there, step by step, each with its lines. Results are
//! rounded as kernels of their own would.

use smallvec::SmallVec;

use crate::core::Dtype;
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::kernels::{Inst, Instr, Program, Src};
use crate::vulkan::kernels::matmul::warpgroup::text::{kind, pair_by, put};
use crate::vulkan::kernels::quantized::units::place;

/// Where a step takes a number from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A product, by number.
    Product(u32),
    /// An array, by number.
    Array(u32),
    /// An earlier step.
    Step(u32),
    /// The bits of a float32 number.
    Number(u32),
}

/// What a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
    Negative,
    Square,
    Sigmoid,
    Tanh,
    Erf,
    Exp,
    Copy,
}

/// A step; its result is rounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub function: Function,
    /// As many as the function has.
    pub args: SmallVec<[From; 2]>,
}

impl Function {
    /// The function of an operation's name, with so many operands.
    fn of(name: &str, args: usize) -> Option<Function> {
        Some(match (name, args) {
            ("add", 2) => Function::Add,
            ("subtract", 2) => Function::Subtract,
            ("multiply", 2) => Function::Multiply,
            ("divide", 2) => Function::Divide,
            ("maximum", 2) => Function::Maximum,
            ("minimum", 2) => Function::Minimum,
            ("negative", 1) => Function::Negative,
            ("square", 1) => Function::Square,
            ("sigmoid", 1) => Function::Sigmoid,
            ("tanh", 1) => Function::Tanh,
            ("erf", 1) => Function::Erf,
            ("exp", 1) => Function::Exp,
            _ => return None,
        })
    }

    /// Its lines, from registers of float32 to one; `free` are two more that may be written, and predicate p. Those with a name of their own in
    /// shaders/lib/math_half.glsl (`h_sigmoid` and others) are those.
    pub fn put(self, o: &mut String, to: &str, args: [&str; 2], free: [&str; 2]) {
        // Of the tangent: what is near zero, and its coefficients there.
        const BOUND: u32 = 0.3_f32.to_bits();
        const MINUS_BOUND: u32 = (-0.3_f32).to_bits();
        const NEAR_3: u32 = (-0.333_155_48_f32).to_bits();
        const NEAR_5: u32 = 0.126_845_48_f32.to_bits();
        const MINUS_2: u32 = (-2_f32).to_bits();
        const LOG2_E: u32 = std::f32::consts::LOG2_E.to_bits();
        const TWO_LOG2_E: u32 = (2.0 * std::f32::consts::LOG2_E).to_bits();
        const MINUS_LOG2_E: u32 = std::f32::consts::LOG2_E.to_bits() | 1 << 31;
        let ([a, b], [e0, e1]) = (args, free);
        match self {
            Function::Add => put(o, format_args!("add.rn.f32 {to},{a},{b};")),
            Function::Subtract => put(o, format_args!("sub.rn.f32 {to},{a},{b};")),
            Function::Multiply => put(o, format_args!("mul.rn.f32 {to},{a},{b};")),
            Function::Divide => put(o, format_args!("div.rn.f32 {to},{a},{b};")),
            Function::Maximum => put(o, format_args!("max.NaN.f32 {to},{a},{b};")),
            Function::Minimum => put(o, format_args!("min.NaN.f32 {to},{a},{b};")),
            Function::Negative => put(o, format_args!("neg.f32 {to},{a};")),
            Function::Square => put(o, format_args!("mul.rn.f32 {to},{a},{a};")),
            Function::Exp => put(o, format_args!("mul.f32 {e0},{a},0f{LOG2_E:08X}; ex2.approx.f32 {to},{e0};")),
            Function::Erf => erf(o, to, a, [e0, e1]),
            Function::Copy => put(o, format_args!("mov.f32 {to},{a};")),
            Function::Tanh => put(
                o,
                format_args!(
                    "mul.f32 {e0},{a},{a}; fma.rn.f32 {e1},{e0},0f{NEAR_5:08X},0f{NEAR_3:08X}; fma.rn.f32 {e1},{e1},{e0},0f{ONE:08X}; mul.f32 {e1},{e1},{a};
abs.f32 {e0},{a}; mul.f32 {e0},{e0},0f{TWO_LOG2_E:08X}; ex2.approx.f32 {e0},{e0}; add.f32 {e0},{e0},0f{ONE:08X}; rcp.rn.f32 {e0},{e0}; fma.rn.f32 {e0},{e0},0f{MINUS_2:08X},0f{ONE:08X};
setp.lt.f32 p,{a},0f00000000;
@p neg.f32 {e0},{e0};
setp.lt.f32 p,{a},0f{BOUND:08X}; setp.gt.and.f32 p,{a},0f{MINUS_BOUND:08X},p; selp.f32 {to},{e1},{e0},p;"
                ),
            ),
            Function::Sigmoid => put(
                o,
                format_args!(
                    "abs.f32 {e0},{a}; mul.f32 {e0},{e0},0f{MINUS_LOG2_E:08X}; ex2.approx.f32 {e0},{e0}; add.f32 {e1},{e0},0f{ONE:08X}; rcp.rn.f32 {e1},{e1};
setp.lt.f32 p,{a},0f00000000; selp.f32 {e0},{e0},0f{ONE:08X},p; mul.f32 {to},{e0},{e1};"
                ),
            ),
        }
    }
}

/// Bits of one, and of minus one.
const ONE: u32 = 1_f32.to_bits();
const MINUS_ONE: u32 = (-1_f32).to_bits();

/// The error function, as `h_erf`: x times a polynomial in its square up to 0.9, one less a power of two of a polynomial beyond.
fn erf(o: &mut String, to: &str, a: &str, [e0, e1]: [&str; 2]) {
    const NEAR: [f32; 5] = [0.003_767_211_2, -0.025_886_07, 0.112_558_924, -0.376_098_04, 1.128_378_7];
    const FAR: [f32; 5] = [0.009_538_076, -0.095_378_51, -0.987_797_1, -1.583_679_9, -0.011_097_514];
    const BOUND: u32 = 0.9_f32.to_bits();
    const WHOLE: u32 = 4_f32.to_bits();
    let polynomial = |o: &mut String, of: [f32; 5], to: &str, x: &str| {
        put(o, format_args!("mov.b32 {to},0f{:08X};", of[0].to_bits()));
        of[1..].iter().for_each(|c| put(o, format_args!("fma.rn.f32 {to},{to},{x},0f{:08X};", c.to_bits())));
    };
    put(o, format_args!("{{\n.reg .f32 far;\nmul.f32 {e0},{a},{a};"));
    polynomial(o, NEAR, e1, e0);
    put(o, format_args!("mul.f32 {e1},{e1},{a}; abs.f32 {e0},{a}; min.f32 {e0},{e0},0f{WHOLE:08X};"));
    polynomial(o, FAR, "far", e0);
    put(
        o,
        format_args!(
            "ex2.approx.f32 far,far; fma.rn.f32 far,far,0f{MINUS_ONE:08X},0f{ONE:08X};
setp.lt.f32 p,{a},0f00000000;
@p neg.f32 far,far;
abs.f32 {e0},{a}; setp.gt.f32 p,{e0},0f{BOUND:08X}; selp.f32 {to},far,{e1},p;\n}}"
        ),
    );
}

/// An operand.
fn from(p: &Program, origins: &[Origin], src: Src) -> Option<From> {
    Some(match src {
        Src::Input(i) => match *origins.get(usize::from(i))? {
            Origin::Product(k) => From::Product(k.into()),
            Origin::Array(k) | Origin::Picked(k) => From::Array(k.into()),
        },
        Src::Reg(r) => From::Step(r.into()),
        Src::Const(bits, _) => From::Number(match p.dtype(src) {
            Dtype::BF16 => (bits as u32) << 16,
            Dtype::F16 => half::f16::from_bits(bits as u16).to_f32().to_bits(),
            Dtype::F32 => bits as u32,
            _ => return None,
        }),
    })
}

/// The steps of a program on elements of a dtype, if all are known; the last one is the result.
pub fn steps(dtype: Dtype, after: &After) -> Option<SmallVec<[Step; 4]>> {
    let p = &after.program;
    if p.inputs.iter().any(|&d| d != dtype) || usize::from(p.outputs[0]) + 1 != p.instrs.len() {
        return None;
    }
    let step = |i: &Instr| {
        let args: Option<SmallVec<[From; 2]>> = i.args.iter().map(|&a| from(p, &after.inputs, a)).collect();
        let function = match i.op {
            Inst::Op(op) => Function::of(op.row().name, i.args.len())?,
            Inst::Cast => Function::Copy,
        };
        let same = i.dtype == dtype && p.compute_dtype(i) == dtype;
        Some(Step { function, args: args.filter(|_| same)? })
    };
    p.instrs.iter().map(step).collect()
}

/// Arrays up to the last one that is read after a product.
pub fn arrays(after: &After) -> u32 {
    let number = |o: &Origin| match *o {
        Origin::Array(k) | Origin::Picked(k) => u32::from(k) + 1,
        Origin::Product(_) => 0,
    };
    after.inputs.iter().map(number).max().unwrap_or(0)
}

/// The pair of elements in register `from` as float32: tmp is written for bfloat16, hl and hh of 16 bits for float16.
pub fn widen(o: &mut String, dtype: Dtype, to: [&str; 2], from: &str) {
    pair_by(o, dtype, to, from, "tmp", ["hl", "hh"]);
}

/// Follows steps on two results beside each other, as elements in `h0` and `h1` of each side and in the registers that `array` names:
/// the result in `pk`. Registers h2 and on, e0 to e5 of float32, tmp and predicate p may be written.
pub fn follow(o: &mut String, dtype: Dtype, steps: &[Step], array: impl Fn(u32) -> String) {
    if steps.is_empty() {
        return put(o, format_args!("mov.b32 pk,h0;"));
    }
    for (i, step) in steps.iter().enumerate() {
        for (k, &from) in step.args.iter().enumerate() {
            let to = [format!("e{}", 2 * k), format!("e{}", 2 * k + 1)];
            let name = match from {
                From::Product(side) => format!("h{side}"),
                From::Array(i) => array(i),
                From::Step(i) => format!("h{}", 2 + i),
                From::Number(bits) => {
                    put(o, format_args!("mov.b32 {},0f{bits:08X}; mov.b32 {},0f{bits:08X};", to[0], to[1]));
                    continue;
                }
            };
            widen(o, dtype, [&to[0], &to[1]], &name);
        }
        for [a, b] in [["e0", "e2"], ["e1", "e3"]] {
            step.function.put(o, a, [a, b], ["e4", "e5"]);
        }
        let to = if i + 1 == steps.len() { "pk".into() } else { format!("h{}", 2 + i) };
        put(o, format_args!("cvt.rn.{}x2.f32 {to},e1,e0;", kind(dtype)));
    }
}

/// Takes two sums beside each other from shared memory, those of each side so many bytes behind `at`, follows steps on them and stores
/// the result: arrays and results lie `m` bytes behind their first, these behind `da`.
pub fn store_pair(o: &mut String, dtype: Dtype, steps: &[Step], arrays: u32, sides: &[u32]) {
    for a in 0..arrays {
        put(
            o,
            format_args!(
                "ld.param.u64 l,[args+{}]; add.u64 l,l,m; ld.global.cg.b32 ar{a},[l];",
                place(3, a + 1)
            ),
        );
    }
    for (side, at) in sides.iter().enumerate() {
        put(
            o,
            format_args!("ld.shared.v2.f32 {{y0,y1}},[at+{at}]; cvt.rn.{}x2.f32 h{side},y1,y0;", kind(dtype)),
        );
    }
    follow(o, dtype, steps, |i| format!("ar{i}"));
    put(o, format_args!("add.u64 l,da,m; st.global.b32 [l],pk;"));
}

/// Lays sums of 16 rows by eights of columns, as a lane of matrix units has them in `tot`, in shared memory column by column, `column` floats
/// apart, from where `tmp` says.
pub fn lay_sums(o: &mut String, tiles: u32, column: u32) {
    for i in 0..4 * tiles {
        let of = i / 4 * 8 + i % 2;
        put(o, format_args!("st.shared.f32 [tmp+{}],tot{i};", 4 * (of * column + i / 2 % 2 * 8)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::kernels::matmul::warpgroup::text::head;
    use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};

    /// Every function over pairs of numbers, among them those where tanh changes its way, infinities and what is no number.
    #[test]
    fn functions_compute_what_they_are_called() {
        type Of = fn(f64, f64) -> f64;
        // The series where it converges.
        let erf = |a: f64, _: f64| {
            if a.abs() > 5.0 || a.is_nan() {
                return if a.is_nan() { a } else { a.signum() };
            }
            let (mut sum, mut term) = (a, a);
            for n in 1..120 {
                term *= -a * a / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            sum * std::f64::consts::FRAC_2_SQRT_PI
        };
        let all: [(&str, usize, Of); 11] = [
            ("add", 2, |a, b| a + b),
            ("subtract", 2, |a, b| a - b),
            ("multiply", 2, |a, b| a * b),
            ("divide", 2, |a, b| a / b),
            ("maximum", 2, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }),
            ("minimum", 2, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }),
            ("square", 1, |a, _| a * a),
            ("sigmoid", 1, |a, _| 1.0 / (1.0 + (-a).exp())),
            ("tanh", 1, |a, _| a.tanh()),
            ("erf", 1, erf),
            // Beyond the largest number.
            ("exp", 1, |a, _| f64::from(a.exp() as f32)),
        ];
        let some = [0.0, 1e-8, -0.01, 0.29, 0.31, -0.2999, -1.0, 4.5, -30.0, 200.0, f32::INFINITY, f32::NAN];
        let pairs: Vec<[f32; 2]> = some.iter().flat_map(|&a| [0.5, -3.0, f32::NAN].map(|b| [a, b])).collect();
        for (name, args, of) in all {
            let mut o = head("sm_90", 16, [64, 1]);
            put(
                &mut o,
                format_args!(
                    ".reg .pred p;
.reg .b32 tid;
.reg .f32 a,b,y,e0,e1;
.reg .b64 d;
mov.u32 tid,%tid.x; ld.param.u64 d,[args]; mad.wide.u32 d,tid,8,d; ld.global.v2.f32 {{a,b}},[d];"
                ),
            );
            Function::of(name, args).unwrap().put(&mut o, "y", ["a", "b"], ["e0", "e1"]);
            put(
                &mut o,
                format_args!(
                    "ld.param.u64 d,[args+8]; mad.wide.u32 d,tid,4,d; st.global.f32 [d],y;\nret;\n}}"
                ),
            );
            let mut m = Memory::default();
            let padded = pairs.iter().copied().chain(std::iter::repeat_n([0.0; 2], 64 - pairs.len()));
            let from = m.place(padded.flatten().flat_map(f32::to_le_bytes).collect());
            let to = m.place(vec![0; 4 * 64]);
            Reader::read(&o).run(&mut m, &[from, to].map(u64::to_le_bytes).concat(), 1);
            for (got, [a, b]) in m.bytes(to).chunks(4).zip(&pairs) {
                let got = f64::from(f32::from_le_bytes(got.try_into().unwrap()));
                let want = of(f64::from(*a), f64::from(*b));
                let near = (got - want).abs() <= 2e-5 * want.abs() + 1e-30;
                assert!(near || got == want || got.is_nan() && want.is_nan(), "{name} {a} {b}: {got} {want}");
            }
        }
    }
}
