//! What follows a product of a row, as PTX.

use super::text::rounded;
use crate::core::Dtype;
use crate::kernels::matmul::epilogue::After;
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::kernels::quantized::steps::{self, From};

/// Most arrays: the registers of their elements.
const ARRAYS: u32 = 2;

/// The register, or number, of an operand.
fn name(from: From) -> String {
    match from {
        From::Product(k) => format!("y{k}"),
        From::Array(k) => format!("a{k}"),
        From::Step(r) => format!("r{r}"),
        From::Number(bits) => format!("0f{bits:08X}"),
    }
}

/// What follows as PTX, if it is known.
pub fn steps(dtype: Dtype, after: &After) -> Option<String> {
    let all = steps::steps(dtype, after).filter(|_| steps::arrays(after) <= ARRAYS)?;
    let mut o = String::new();
    put(&mut o, format_args!(".reg .f32 r<{}>,e0,e1;", all.len()));
    for (i, step) in all.iter().enumerate() {
        let args: Vec<String> = step.args.iter().map(|&a| name(a)).collect();
        let (first, to) = (&args[0], format!("r{i}"));
        step.function.put(&mut o, &to, [first, args.get(1).unwrap_or(first)], ["e0", "e1"]);
        rounded(dtype, &mut o, &to);
    }
    put(&mut o, format_args!("mov.f32 y0,r{};", all.len() - 1));
    Some(o)
}
