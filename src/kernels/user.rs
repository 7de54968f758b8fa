//! Kernels that users write: their arguments, and the GLSL around the body that they give. Pure text.
//!
//! A kernel gets one push constant block: the address of a table of addresses (8 bytes: inputs, outputs, then shape
//! and strides of each input) and the grid in threads (3 x 4 bytes). Prebuilt SPIR-V sees exactly that, and the
//! sides of the workgroup as specialisation constants 0, 1, 2; in GLSL the names of the arguments stand for what they are there.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use super::spirv::Spirv;
use crate::core::Dtype;
use crate::core::fork;

/// What runs.
#[derive(Debug, Clone)]
pub enum Code {
    /// The body of `main`.
    Glsl(String),
    /// A module with entry point `main`.
    Spirv(Spirv),
}

/// Texts that a kernel keeps; calls with more forms have theirs made each time.
const KEPT: usize = 32;

/// What decides the text of a call: dtypes and ranks of inputs, dtypes of outputs, macros, and whether the grid is
/// ragged.
#[derive(Debug, PartialEq)]
struct Form {
    inputs: Vec<(Dtype, usize)>,
    outputs: Vec<Dtype>,
    templates: Vec<(String, Template)>,
    ragged: bool,
}

/// A kernel as it was defined.
#[derive(Debug)]
pub struct UserKernel {
    /// For messages and profiles.
    pub name: String,
    /// Names of the inputs in the code.
    pub inputs: Vec<String>,
    /// Names of the outputs in the code.
    pub outputs: Vec<String>,
    /// The code.
    pub code: Code,
    /// GLSL that goes before `main`.
    pub header: String,
    /// Whether inputs are made contiguous first.
    pub contiguous: bool,
    texts: Mutex<Vec<(Form, Arc<str>)>>,
}

/// A macro of one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Template {
    /// An element type.
    Type(Dtype),
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

/// Threads of a call, and of a workgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Threads in each direction.
    pub grid: [u32; 3],
    /// Threads of a workgroup in each direction.
    pub group: [u32; 3],
}

impl Launch {
    /// Workgroups in each direction.
    pub fn groups(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i].div_ceil(self.group[i]))
    }

    /// Whether some threads of the last workgroups lie outside the grid.
    pub fn ragged(&self) -> bool {
        (0..3).any(|i| !self.grid[i].is_multiple_of(self.group[i]))
    }
}

/// GLSL type of an element in memory; bfloat16 and complex numbers have none of their own.
fn element(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool | Dtype::U8 => "uint8_t",
        Dtype::U16 | Dtype::BF16 => "uint16_t",
        Dtype::U32 => "uint",
        Dtype::U64 => "uint64_t",
        Dtype::I8 => "int8_t",
        Dtype::I16 => "int16_t",
        Dtype::I32 => "int",
        Dtype::I64 => "int64_t",
        Dtype::F16 => "float16_t",
        Dtype::F32 => "float",
        Dtype::F64 => "double",
        Dtype::C64 => "vec2",
    }
}

const PRELUDE: &str = "#version 460
#extension GL_GOOGLE_cpp_style_line_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_control_flow_attributes : enable
#extension GL_EXT_shader_atomic_int64 : enable
#extension GL_EXT_shader_atomic_float : enable
#extension GL_KHR_shader_subgroup_basic : enable
#extension GL_KHR_shader_subgroup_arithmetic : enable
#extension GL_KHR_shader_subgroup_ballot : enable
#extension GL_KHR_shader_subgroup_shuffle : enable
#extension GL_KHR_shader_subgroup_vote : enable
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer MlxTable { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer MlxInts { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer MlxLongs { int64_t v[]; };
layout(push_constant, scalar) uniform MlxPush { MlxTable mlx_table; uvec3 mlx_grid; };
#define threads_per_grid mlx_grid
#define thread_position_in_grid gl_GlobalInvocationID
#define thread_position_in_threadgroup gl_LocalInvocationID
#define thread_index_in_threadgroup gl_LocalInvocationIndex
#define threadgroup_position_in_grid gl_WorkGroupID
#define threads_per_threadgroup gl_WorkGroupSize
// Macros, because arithmetic on 16-bit integers is not everywhere.
#define bfloat16_to_float(x) uintBitsToFloat(uint(x) << 16)
#define float_to_bfloat16(x) uint16_t(mlx_bfloat16(x))
uint mlx_bfloat16(float x) {
    uint u = floatBitsToUint(x);
    bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    return nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
";

/// `text` with other words for some names, except for members (after a point) and in comments.
fn renamed(text: &str, names: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    let mut member = false;
    while let Some(c) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |i| i + 4)
        } else if word(c) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let (token, after) = rest.split_at(len);
        let known = names.iter().find(|(name, _)| !member && name == token);
        out.push_str(known.map_or(token, |(_, new)| new));
        if !token.trim().is_empty() && !token.starts_with("//") && !token.starts_with("/*") {
            member = token == ".";
        }
        rest = after;
    }
    out
}

impl UserKernel {
    /// A kernel of `code` with these names.
    pub fn new(
        name: String,
        inputs: Vec<String>,
        outputs: Vec<String>,
        code: Code,
        header: String,
        contiguous: bool,
    ) -> UserKernel {
        UserKernel { name, inputs, outputs, code, header, contiguous, texts: Mutex::default() }
    }

    /// The whole GLSL of one call. Inputs are given by dtype and rank, where rank 0 is a plain value.
    pub fn glsl(
        &self,
        body: &str,
        inputs: Vec<(Dtype, usize)>,
        outputs: Vec<Dtype>,
        templates: &[(String, Template)],
        launch: &Launch,
    ) -> Arc<str> {
        let form = Form { inputs, outputs, templates: templates.to_vec(), ragged: launch.ragged() };
        let mut texts = fork::lock(&self.texts);
        if let Some((_, text)) = texts.iter().find(|t| t.0 == form) {
            return text.clone();
        }
        let text: Arc<str> = self.write(body, &form.inputs, &form.outputs, templates, launch).into();
        if texts.len() < KEPT {
            texts.push((form, text.clone()));
        }
        text
    }

    fn write(
        &self,
        body: &str,
        inputs: &[(Dtype, usize)],
        outputs: &[Dtype],
        templates: &[(String, Template)],
        launch: &Launch,
    ) -> String {
        let mut text = String::from(PRELUDE);
        // Writing to a string does not fail.
        let mut line = |args: std::fmt::Arguments| {
            let _ = text.write_fmt(format_args!("{args}\n"));
        };
        for (name, value) in templates {
            match value {
                Template::Type(d) => line(format_args!("#define {name} {}", element(*d))),
                Template::Int(v) => line(format_args!("#define {name} ({v})")),
                Template::Bool(v) => line(format_args!("#define {name} {v}")),
            }
        }
        let all = inputs.iter().map(|i| (i.0, i.1 == 0, " readonly"));
        let all = all.chain(outputs.iter().map(|&d| (d, false, "")));
        for (i, (d, _, access)) in all.clone().enumerate() {
            let (size, kind) = (d.size(), element(d));
            line(format_args!(
                "layout(buffer_reference, scalar, buffer_reference_align = {size}){access} buffer MlxArg{i} {{ {kind} \
                 v[]; }};"
            ));
        }
        if !self.header.is_empty() {
            line(format_args!("#line 1 \"header\"\n{}", self.header));
        }
        line(format_args!("void main() {{"));
        let mut names: Vec<(String, String)> = Vec::new();
        for (i, (name, (_, scalar, _))) in self.inputs.iter().chain(&self.outputs).zip(all).enumerate() {
            line(format_args!("MlxArg{i} mlx_arg{i} = MlxArg{i}(mlx_table.v[{i}]);"));
            names.push((name.clone(), format!("mlx_arg{i}.v{}", if scalar { "[0]" } else { "" })));
        }
        let n = self.inputs.len() + self.outputs.len();
        for (i, (name, (_, rank))) in self.inputs.iter().zip(inputs).enumerate() {
            names.push((format!("{name}_ndim"), rank.to_string()));
            names.push((format!("{name}_shape"), format!("MlxInts(mlx_table.v[{}]).v", n + 2 * i)));
            names.push((format!("{name}_strides"), format!("MlxLongs(mlx_table.v[{}]).v", n + 2 * i + 1)));
        }
        if launch.ragged() {
            line(format_args!("if (any(greaterThanEqual(gl_GlobalInvocationID, mlx_grid))) return;"));
        }
        line(format_args!("#line 1 \"source\"\n{}\n}}", renamed(body, &names)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_outside_of_members_and_comments_are_renamed() {
        let names = [("x".to_string(), "A".to_string()), ("x_shape".to_string(), "S".to_string())];
        let text = "x[p.x] = x1 + x_shape[0] * p . x; // x\n/* x */ 2*x";
        assert_eq!(renamed(text, &names), "A[p.x] = x1 + S[0] * p . x; // x\n/* x */ 2*A");
    }
}
