//! How GLSL spells a dtype: in memory, in registers, constants of it, and conversions between them. Called by `codegen`.

use super::codegen::Caps;
use crate::core::Dtype;

/// GLSL side of a dtype; `raw` moves bits without looking at them.
pub(in crate::kernels) struct Ty {
    pub(super) dtype: Dtype,
    pub(super) raw: bool,
}

impl Ty {
    /// A dtype whose values are looked at.
    pub(in crate::kernels) fn new(dtype: Dtype) -> Ty {
        Ty { dtype, raw: false }
    }

    pub(in crate::kernels) fn size(&self) -> usize {
        self.dtype.size()
    }

    /// Type of a value in registers.
    pub(in crate::kernels) fn reg(&self) -> &'static str {
        match (self.raw, self.size()) {
            (true, 8) => return "uvec2",
            (true, _) => return "uint",
            _ => {}
        }
        reg_type(self.dtype)
    }

    /// A register value from memory bits: `bits` is a uint, or a uvec2 for 8-byte elements.
    pub(in crate::kernels) fn decode(&self, bits: &str) -> String {
        if self.raw {
            return bits.to_string();
        }
        match self.dtype {
            Dtype::Bool => format!("({bits}) != 0u"),
            Dtype::I8 => format!("bitfieldExtract(int({bits}), 0, 8)"),
            Dtype::I16 => format!("bitfieldExtract(int({bits}), 0, 16)"),
            Dtype::U8 | Dtype::U16 | Dtype::U32 => bits.to_string(),
            Dtype::I32 => format!("int({bits})"),
            Dtype::F16 => format!("f16_decode({bits})"),
            Dtype::BF16 => format!("uintBitsToFloat(({bits}) << 16)"),
            Dtype::F32 => format!("uintBitsToFloat({bits})"),
            Dtype::U64 => format!("packUint2x32({bits})"),
            Dtype::I64 => format!("int64_t(packUint2x32({bits}))"),
            Dtype::F64 | Dtype::C64 => format!("uintBitsToFloat({bits})"),
        }
    }

    /// Memory bits of a register value, without bits above the element's.
    pub(in crate::kernels) fn encode(&self, v: &str) -> String {
        if self.raw {
            return v.to_string();
        }
        match self.dtype {
            Dtype::Bool => format!("uint({v})"),
            Dtype::U8 => format!("({v} & 0xffu)"),
            Dtype::U16 => format!("({v} & 0xffffu)"),
            Dtype::I8 => format!("(uint({v}) & 0xffu)"),
            Dtype::I16 => format!("(uint({v}) & 0xffffu)"),
            Dtype::U32 => v.to_string(),
            Dtype::I32 => format!("uint({v})"),
            Dtype::F16 => format!("f16_encode({v})"),
            Dtype::BF16 => format!("bf16_encode({v})"),
            Dtype::F32 => format!("floatBitsToUint({v})"),
            Dtype::U64 => format!("unpackUint2x32({v})"),
            Dtype::I64 => format!("unpackUint2x32(uint64_t({v}))"),
            Dtype::F64 | Dtype::C64 => format!("floatBitsToUint({v})"),
        }
    }

    /// Whether two elements of a word are converted together.
    pub(in crate::kernels) fn pairs(&self, caps: Caps) -> bool {
        match self.dtype {
            Dtype::F16 => caps.half_convert && !self.raw,
            Dtype::BF16 => !self.raw,
            _ => false,
        }
    }

    /// Variables `{name}_e0`, ... of the 16-bit floats in `words`. A NaN among them is kept as it is by other code.
    pub(super) fn decode_pairs(&self, name: &str, words: &[String]) -> String {
        let list: Vec<String> = (0..2 * words.len()).map(|e| format!("{name}_e{e}")).collect();
        let mut text = format!("    float {};\n", list.join(", "));
        let put = |form: &dyn Fn(&str) -> [String; 2]| {
            let each = words.iter().enumerate().map(|(w, word)| {
                let [lo, hi] = form(word);
                format!("{name}_e{} = {lo}; {name}_e{} = {hi};", 2 * w, 2 * w + 1)
            });
            each.collect::<Vec<_>>().join(" ")
        };
        let bf16 = |w: &str| {
            [format!("{w} << 16"), format!("{w} & 0xffff0000u")].map(|b| format!("uintBitsToFloat({b})"))
        };
        if self.dtype == Dtype::BF16 {
            text.push_str(&format!("    {}\n", put(&bf16)));
            return text;
        }
        let quick = |w: &str| ["x", "y"].map(|c| format!("unpackHalf2x16({w}).{c}"));
        let exact =
            |w: &str| [format!("{w} & 0xffffu"), format!("{w} >> 16")].map(|h| format!("f16_decode({h})"));
        let nan: Vec<String> = words.iter().map(|w| format!("(({w} & 0x7fff7fffu) + 0x03ff03ffu)")).collect();
        text.push_str(&format!(
            "    if ((({}) & 0x80008000u) == 0u) {{ {} }}\n    else {{ {} }}\n",
            nan.join(" | "),
            put(&quick),
            put(&exact)
        ));
        text
    }

    /// Puts the 16-bit floats `{name}_0`, ... into `words`. The sum tells whether one may be NaN, which other code keeps
    /// as it is.
    pub(in crate::kernels) fn encode_pairs(&self, name: &str, words: &[String]) -> String {
        let sums: Vec<String> =
            (0..words.len()).map(|w| format!("({name}_{} + {name}_{})", 2 * w, 2 * w + 1)).collect();
        let put = |form: &dyn Fn(String, String) -> String| {
            let each = words.iter().enumerate().map(|(w, word)| {
                format!("{word} = {};", form(format!("{name}_{}", 2 * w), format!("{name}_{}", 2 * w + 1)))
            });
            each.collect::<Vec<_>>().join(" ")
        };
        let (quick, exact) = match self.dtype {
            Dtype::F16 => (
                put(&|lo, hi| format!("packHalf2x16(vec2({lo}, {hi}))")),
                put(&|lo, hi| format!("f16_encode({lo}) | f16_encode({hi}) << 16")),
            ),
            _ => (
                put(&|lo, hi| format!("bf16_pair({lo}, {hi})")),
                put(&|lo, hi| format!("bf16_encode({lo}) | bf16_encode({hi}) << 16")),
            ),
        };
        format!(
            "    if ((floatBitsToUint({}) & 0x7fffffffu) <= 0x7f800000u) {{ {quick} }}\n    else {{ {exact} }}\n",
            sums.join(" + ")
        )
    }

    /// Memory bits as an element to be stored.
    pub(in crate::kernels) fn element(&self, bits: &str) -> String {
        match self.size() {
            1 => format!("uint8_t({bits})"),
            2 => format!("uint16_t({bits})"),
            _ => bits.to_string(),
        }
    }
}

pub(super) fn reg_type(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "bool",
        Dtype::U8 | Dtype::U16 | Dtype::U32 => "uint",
        Dtype::I8 | Dtype::I16 | Dtype::I32 => "int",
        Dtype::U64 => "uint64_t",
        Dtype::I64 => "int64_t",
        Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => "float",
        Dtype::C64 => "vec2",
    }
}

/// The value `v` of `from` as a register of `to`.
pub(super) fn convert(v: &str, from: Dtype, to: Dtype) -> String {
    use Dtype::*;
    if from == to {
        return v.to_string();
    }
    let t = reg_type(to);
    // By its bits: a device may take subnormal numbers for zero.
    let float = |v: &str| match to {
        Bool => format!("(floatBitsToUint({v}) & 0x7fffffffu) != 0u"),
        U8 | U16 => format!("uint(f_to_i32({v}))"),
        I8 | I16 | I32 => format!("f_to_i32({v})"),
        U32 => format!("f_to_u32({v})"),
        U64 => format!("f_to_u64({v})"),
        I64 => format!("f_to_i64({v})"),
        C64 => format!("vec2({v}, 0.0)"),
        _ => v.to_string(),
    };
    let wide = match from {
        C64 if to == Bool => {
            format!("((floatBitsToUint({v}.x) | floatBitsToUint({v}.y)) & 0x7fffffffu) != 0u")
        }
        C64 => float(&format!("{v}.x")),
        f if f.is_float() => float(v),
        _ if to == Bool => format!("{v} != {}(0)", reg_type(from)),
        _ if to == C64 => format!("vec2(float({v}), 0.0)"),
        _ => format!("{t}({v})"),
    };
    wrap(&wide, to)
}

/// Keeps a result inside its narrow integer type.
pub(super) fn wrap(v: &str, d: Dtype) -> String {
    match d {
        Dtype::U8 => format!("(({v}) & 0xffu)"),
        Dtype::U16 => format!("(({v}) & 0xffffu)"),
        Dtype::I8 => format!("bitfieldExtract({v}, 0, 8)"),
        Dtype::I16 => format!("bitfieldExtract({v}, 0, 16)"),
        _ => v.to_string(),
    }
}

pub(in crate::kernels) fn constant(bits: u64, d: Dtype) -> String {
    let f32_text = |b: u32| format!("uintBitsToFloat({b:#010x}u)");
    match d {
        Dtype::Bool => format!("{}", bits & 0xff != 0),
        Dtype::U8 => format!("{}u", bits as u8),
        Dtype::U16 => format!("{}u", bits as u16),
        Dtype::U32 => format!("{}u", bits as u32),
        Dtype::I8 => format!("int({:#x}u)", bits as i8 as i32 as u32),
        Dtype::I16 => format!("int({:#x}u)", bits as i16 as i32 as u32),
        Dtype::I32 => format!("int({:#x}u)", bits as u32),
        Dtype::U64 => format!("packUint2x32(uvec2({:#x}u, {:#x}u))", bits as u32, (bits >> 32) as u32),
        Dtype::I64 => {
            format!("int64_t(packUint2x32(uvec2({:#x}u, {:#x}u)))", bits as u32, (bits >> 32) as u32)
        }
        Dtype::F16 => f32_text(half::f16::from_bits(bits as u16).to_f32_const().to_bits()),
        Dtype::BF16 => f32_text(u32::from(bits as u16) << 16),
        Dtype::F32 | Dtype::F64 => f32_text(bits as u32),
        Dtype::C64 => format!("vec2({}, {})", f32_text(bits as u32), f32_text((bits >> 32) as u32)),
    }
}
