//! Elementwise steps around a choice from rows, as parts of its kernel (shaders/sort/select.comp): what makes keys and numbers of the
//! elements of a row, and what becomes of the chosen numbers. `fusion::routers` finds them.

use std::fmt::Write;

use smallvec::SmallVec;

use crate::core::Dtype;
use crate::kernels::elementwise::codegen::register;
use crate::kernels::elementwise::program::{Program, Src};
use crate::kernels::matmul::epilogue::Spread;

/// Arrays that the steps read beside the rows: the push block holds so many.
pub const MAX_OTHERS: usize = 4;
/// Instructions of one of the programs, and library functions in the unit of `Row::code_size`.
const MAX_INSTRS: usize = 16;
const MAX_CODE: usize = 8;

/// Steps before a choice and behind it; further inputs of their programs are other arrays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Around {
    /// The key and the number, in this order, of an element of the row, which is the first input.
    pub before: Option<Program>,
    /// What becomes of a chosen number, the first input, with the sum of all of them, the second.
    pub behind: Option<Program>,
    /// How the other arrays are read, those of `before` first: by the column of the element, or one number for all.
    pub others: SmallVec<[Spread; MAX_OTHERS]>,
}

/// Whether a kernel can have a program as a part.
pub fn suits(p: &Program) -> bool {
    p.dtypes().all(|d| matches!(d, Dtype::F32 | Dtype::F16 | Dtype::BF16))
        && p.instrs.len() <= MAX_INSTRS
        && p.has_glsl()
        && p.code_size() <= MAX_CODE
}

/// Whether an instruction of a program reads one of its inputs.
fn reads(p: &Program, input: u8) -> bool {
    p.instrs.iter().any(|i| i.args.contains(&Src::Input(input)))
}

impl Around {
    /// Dtypes of an element of the row, of its key and of its number, where steps come before.
    pub fn row(&self) -> Option<[Dtype; 3]> {
        let p = self.before.as_ref()?;
        let [key, number] = [0, 1].map(|o| p.instrs[p.outputs[o] as usize].dtype);
        Some([p.inputs[0], key, number])
    }

    /// The code of a program, of which the first `own` inputs are parameters, the others arrays from number `first` on.
    fn code(&self, p: &Program, own: usize, first: usize) -> String {
        let mut code = String::new();
        for (k, &dtype) in p.inputs.iter().enumerate().skip(own).filter(|(k, _)| reads(p, *k as u8)) {
            let slot = first + k - own;
            let (size, raw) = (dtype.size(), if dtype.size() == 2 { "Raw2" } else { "Raw4" });
            // Without suffixes of 64 bits: macros are read before the extension that has them.
            let at = match self.others[slot] {
                Spread::Single => String::new(),
                Spread::Columns | Spread::Whole => format!(" + uint64_t(col) * {size}u"),
            };
            let bits = format!("uint({raw}(others[{slot}]{at}).v)");
            let one = match dtype {
                Dtype::F16 => format!("f16_decode({bits})"),
                Dtype::BF16 => format!("dec_bf16({bits})"),
                _ => format!("dec_f32({bits})"),
            };
            let _ = write!(code, " const float a{k} = {one};");
        }
        for (r, i) in p.instrs.iter().enumerate() {
            // INVARIANT: `suits` found an expression for each instruction.
            code = code + " " + &register(p, r, i, true).unwrap_or_default();
        }
        code
    }

    /// Macros for the shader.
    pub fn defines(&self) -> Vec<(String, String)> {
        let mut all = vec![("AROUND".to_string(), "1".to_string())];
        let mut put = |name: &str, text: String| all.push((name.to_string(), text));
        if !self.others.is_empty() {
            put("OTHERS", self.others.len().to_string());
        }
        let mut first = 0;
        if let Some(p) = &self.before {
            let [key, number] = [p.outputs[0], p.outputs[1]];
            put("BEFORE", format!("{} key = r{key}; number = r{number};", self.code(p, 1, 0)));
            first = p.inputs.len() - 1;
        }
        if let Some(p) = &self.behind {
            put("BEHIND", format!("{} return r{};", self.code(p, 2, first), p.outputs[0]));
            if reads(p, 1) {
                put("SUMS", "1".into());
            }
        }
        all
    }
}
