//! What follows a product of a row in its kernel, as PTX: the functions that networks have there. Each result is rounded as a kernel of
//! its own would.

use super::text::rounded;
use crate::core::Dtype;
use crate::kernels::elementwise::program::{Inst, Instr, Program, Src};
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::vulkan::kernels::matmul::warpgroup::text::put;

/// Most arrays: the registers of their elements.
const ARRAYS: u32 = 2;

/// The number of an operand: a register, or the bits of a constant.
fn operand(p: &Program, origins: &[Origin], src: Src) -> Option<String> {
    Some(match src {
        Src::Input(i) => match origins.get(usize::from(i))? {
            Origin::Product(k) => format!("y{k}"),
            Origin::Array(k) => format!("a{k}"),
        },
        Src::Reg(r) => format!("r{r}"),
        Src::Const(bits, _) => match p.dtype(src) {
            Dtype::BF16 => format!("0f{:08X}", (bits as u32) << 16),
            Dtype::F16 => format!("0f{:08X}", half::f16::from_bits(bits as u16).to_f32().to_bits()),
            Dtype::F32 => format!("0f{:08X}", bits as u32),
            _ => return None,
        },
    })
}

/// The instruction's function of its operands into `to`, in float32; `e0` and `e1` are free.
fn function(name: &str, to: &str, args: &[String]) -> Option<String> {
    const LOG2_E: u32 = std::f32::consts::LOG2_E.to_bits();
    let (a, b) = (args.first()?, args.get(1));
    Some(match (name, b) {
        ("add", Some(b)) => format!("add.rn.f32 {to},{a},{b};"),
        ("subtract", Some(b)) => format!("sub.rn.f32 {to},{a},{b};"),
        ("multiply", Some(b)) => format!("mul.rn.f32 {to},{a},{b};"),
        ("negative", None) => format!("neg.f32 {to},{a};"),
        ("square", None) => format!("mul.rn.f32 {to},{a},{a};"),
        ("sigmoid", None) => format!(
            "abs.f32 e0,{a}; mul.f32 e0,e0,0f{:08X}; ex2.approx.f32 e0,e0; add.f32 e1,e0,0f3F800000; rcp.rn.f32 e1,e1;
setp.lt.f32 p,{a},0f00000000; selp.f32 e0,e0,0f3F800000,p; mul.f32 {to},e0,e1;",
            LOG2_E | 1 << 31
        ),
        _ => return None,
    })
}

/// One instruction, rounded.
fn step(dtype: Dtype, o: &mut String, p: &Program, i: &Instr, origins: &[Origin], to: usize) -> Option<()> {
    let args: Option<Vec<String>> = i.args.iter().map(|&a| operand(p, origins, a)).collect();
    let (args, to) = (args?, format!("r{to}"));
    if i.dtype != dtype || p.compute_dtype(i) != dtype {
        return None;
    }
    let line = match i.op {
        Inst::Op(op) => function(op.row().name, &to, &args)?,
        Inst::Cast => format!("mov.f32 {to},{};", args.first()?),
    };
    put(o, format_args!("{line}"));
    rounded(dtype, o, &to);
    Some(())
}

/// Arrays that are read after a product.
pub fn arrays(after: &After) -> u32 {
    after.inputs.iter().filter(|o| matches!(o, Origin::Array(_))).count() as u32
}

/// What follows as PTX, if it is known.
pub fn steps(dtype: Dtype, after: &After) -> Option<String> {
    let p = &after.program;
    if arrays(after) > ARRAYS || p.outputs.len() != 1 || p.inputs.iter().any(|&d| d != dtype) {
        return None;
    }
    let mut steps = String::new();
    put(&mut steps, format_args!(".reg .f32 r<{}>,e0,e1;", p.instrs.len()));
    for (to, i) in p.instrs.iter().enumerate() {
        step(dtype, &mut steps, p, i, &after.inputs, to)?;
    }
    put(&mut steps, format_args!("mov.f32 y0,r{};", p.outputs[0]));
    Some(steps)
}
