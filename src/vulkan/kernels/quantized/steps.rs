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
    Negative,
    Square,
    Sigmoid,
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
            ("negative", 1) => Function::Negative,
            ("square", 1) => Function::Square,
            ("sigmoid", 1) => Function::Sigmoid,
            _ => return None,
        })
    }

    /// Its lines, from registers of float32 to one; `free` are two more that may be written, and predicate p. The sigmoid is `h_sigmoid` of
    /// shaders/lib/math_half.glsl.
    pub fn put(self, o: &mut String, to: &str, args: [&str; 2], free: [&str; 2]) {
        const ONE: u32 = 1_f32.to_bits();
        const MINUS_LOG2_E: u32 = std::f32::consts::LOG2_E.to_bits() | 1 << 31;
        let ([a, b], [e0, e1]) = (args, free);
        match self {
            Function::Add => put(o, format_args!("add.rn.f32 {to},{a},{b};")),
            Function::Subtract => put(o, format_args!("sub.rn.f32 {to},{a},{b};")),
            Function::Multiply => put(o, format_args!("mul.rn.f32 {to},{a},{b};")),
            Function::Negative => put(o, format_args!("neg.f32 {to},{a};")),
            Function::Square => put(o, format_args!("mul.rn.f32 {to},{a},{a};")),
            Function::Copy => put(o, format_args!("mov.f32 {to},{a};")),
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

/// An operand.
fn from(p: &Program, origins: &[Origin], src: Src) -> Option<From> {
    Some(match src {
        Src::Input(i) => match *origins.get(usize::from(i))? {
            Origin::Product(k) => From::Product(k.into()),
            Origin::Array(k) => From::Array(k.into()),
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
    let number = |o: &Origin| if let Origin::Array(k) = *o { u32::from(k) + 1 } else { 0 };
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
pub fn store_pair(o: &mut String, steps: &[Step], arrays: u32, sides: &[u32]) {
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
        put(o, format_args!("ld.shared.v2.f32 {{y0,y1}},[at+{at}]; cvt.rn.bf16x2.f32 h{side},y1,y0;"));
    }
    follow(o, Dtype::BF16, steps, |i| format!("ar{i}"));
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
