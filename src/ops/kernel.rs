//! Kernels that users write in GLSL or SPIR-V, as nodes of the graph. They have no derivative and no batched form;
//! `custom_function` gives them some.

use std::sync::Arc;

use crate::bail;
use crate::core::layout::checked_size;
use crate::core::{Array, Dtype, Param, Primitive, Result, Shape, Stored, Stream};
use crate::kernels::user::{Code, Launch, Template, UserKernel};
use crate::on_gpu;
use crate::ops::support::*;
use crate::ops::{contiguous, view};
use crate::params;

const OP: &str = "vulkan_kernel";

struct Custom {
    name: Arc<str>,
    program: Program,
    launch: Launch,
    init: Option<f64>,
}

#[derive(Clone)]
enum Program {
    Glsl(Arc<str>),
    Spirv(Arc<[u32]>),
}

impl Primitive for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Value, "[{OP}] Only supports the GPU.")
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            use crate::vulkan::kernels::user;
            let from = inputs.iter().map(|a| dev_in(enc, a)).collect::<Result<Vec<_>>>()?;
            let to = outputs.iter().map(|a| dev_out(enc, a)).collect::<Result<Vec<_>>>()?;
            let program = match &self.program {
                Program::Glsl(text) => user::Program::Glsl(text.clone()),
                Program::Spirv(words) => user::Program::Spirv(words.clone()),
            };
            user::run(enc, &self.name, &program, &from, &to, &self.launch, self.init)
        })
    }
}

/// A kernel in Metal's language: it can be described and written to a file, but nothing here runs it.
struct Foreign {
    name: String,
    source: String,
    launch: [[i64; 3]; 2],
}

/// Name of the primitive of kernels for other backends.
const FOREIGN: &str = "custom_kernel";

impl Primitive for Foreign {
    fn name(&self) -> &str {
        FOREIGN
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.name.as_str(), self.source.as_str(), &self.launch[0][..], &self.launch[1][..]]
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[metal_kernel] No Metal back-end.")
    }

    fn eval_gpu(&self, _: Stream, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[metal_kernel] No Metal back-end.")
    }
}

/// The outputs of a Metal kernel, which fail when they are evaluated. `launch`: the grid and the threadgroup.
///
/// # Errors
/// Value error for CPU streams.
pub fn metal_kernel(
    (name, source): (&str, &str),
    inputs: Vec<Array>,
    outputs: Vec<(Shape, Dtype)>,
    launch: [[i64; 3]; 2],
    s: Stream,
) -> Result<Vec<Array>> {
    if !s.device.is_gpu() {
        bail!(Value, "[metal_kernel] Only supports the GPU.");
    }
    let primitive = Foreign { name: name.into(), source: source.into(), launch };
    Array::lazy_many(outputs, Arc::new(primitive), inputs, s)
}

/// A stored Metal kernel.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let list = |i: usize| c.steps(i, 3).map(|v| [v[0], v[1], v[2]]);
    let (name, source) = (c.text(0)?, c.text(1)?);
    let primitive = Foreign { name: name.into(), source: source.into(), launch: [list(2)?, list(3)?] };
    Array::lazy_many(c.specs.to_vec(), Arc::new(primitive), c.inputs.to_vec(), c.stream)
}

fn identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether the names can stand in GLSL, each for one thing.
///
/// # Errors
/// Value error if not.
pub fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = Vec::new();
    for name in names {
        if !identifier(name) || seen.contains(&name) {
            bail!(Value, "[{OP}] Expected names that differ and are identifiers, got '{name}'.");
        }
        seen.push(name);
    }
    Ok(())
}

/// A finished module of SPIR-V as code of a kernel.
///
/// # Errors
/// Value error for what is no valid module with a compute entry point `main`.
pub fn spirv(bytes: &[u8]) -> Result<Code> {
    match crate::kernels::spirv::read(bytes, crate::kernels::spirv::PUSH_BYTES) {
        Ok(module) => {
            #[cfg(feature = "vulkan")]
            crate::vulkan::shader::spirv::validate(&module)?;
            Ok(Code::Spirv(module))
        }
        Err(reason) => bail!(Value, "[{OP}] The SPIR-V module cannot be used: {reason}."),
    }
}

/// One call of a kernel.
pub struct Call<'a> {
    /// Inputs in the order of their names.
    pub inputs: &'a [Array],
    /// Shape and dtype of each output.
    pub outputs: Vec<(Shape, Dtype)>,
    /// Threads.
    pub launch: Launch,
    /// Macros.
    pub templates: &'a [(String, Template)],
    /// What outputs hold before the kernel runs.
    pub init: Option<f64>,
    /// Called with the GLSL of the call.
    pub show: &'a mut dyn FnMut(&str) -> Result<()>,
}

/// The outputs of a kernel.
///
/// # Errors
/// Value error for CPU streams and arguments that do not match the definition. Code that does not compile is a
/// runtime error when the outputs are evaluated.
pub fn user_kernel(kernel: &UserKernel, call: Call, s: Stream) -> Result<Vec<Array>> {
    let name = &kernel.name;
    if !s.device.is_gpu() {
        bail!(Value, "[{OP}] Only supports the GPU.");
    }
    let counts = [
        ("inputs", kernel.inputs.len(), call.inputs.len()),
        ("outputs", kernel.outputs.len(), call.outputs.len()),
    ];
    for (what, expected, got) in counts {
        if expected != got {
            bail!(Value, "[{OP}] {name}: expected {expected} {what}, got {got}.");
        }
    }
    if call.launch.grid.contains(&0) || call.launch.group.contains(&0) {
        let Launch { grid, group } = call.launch;
        bail!(Value, "[{OP}] {name}: grid and threadgroup must be positive, got {grid:?} and {group:?}.");
    }
    for (shape, dtype) in &call.outputs {
        checked_size(OP, shape, dtype.size())?;
        if *dtype == Dtype::F64 {
            bail!(Value, "[{OP}] float64 is not supported on the GPU; use a CPU stream.");
        }
    }
    refuse_f64(OP, call.inputs, s)?;
    if let Some(a) = call.inputs.iter().find(|a| a.shape().iter().any(|&d| d > i64::from(i32::MAX))) {
        bail!(
            Value,
            "[{OP}] {name}: kernels are told sizes as int32, got an input of shape {:?}.",
            a.shape()
        );
    }
    let types = call.templates.iter().any(|t| matches!(t.1, Template::Type(Dtype::F64)));
    if types {
        bail!(Value, "[{OP}] float64 is not supported on the GPU.");
    }
    check_names(call.templates.iter().map(|t| t.0.as_str()))?;
    let program = match &kernel.code {
        Code::Spirv(module) => {
            if let Some(size) = module.local_size.filter(|&size| size != call.launch.group) {
                bail!(
                    Value,
                    "[{OP}] {name}: the SPIR-V module is made for threadgroups of {size:?}, got {:?}.",
                    call.launch.group
                );
            }
            Program::Spirv(module.words.clone())
        }
        Code::Glsl(body) => {
            let inputs = call.inputs.iter().map(|a| (a.dtype(), a.ndim())).collect();
            let outputs = call.outputs.iter().map(|o| o.1).collect();
            let text = kernel.glsl(body, inputs, outputs, call.templates, &call.launch);
            (call.show)(&text)?;
            Program::Glsl(text)
        }
    };
    let inputs = call.inputs.iter().map(|a| match kernel.contiguous {
        true => contiguous(a, false, s),
        false => Ok(a.clone()),
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let custom = Custom { name: name.as_str().into(), program, launch: call.launch, init: call.init };
    // Kernels write bools as bytes, and any but 0 stands for true.
    let written = |dtype| if dtype == Dtype::Bool { Dtype::U8 } else { dtype };
    let specs = call.outputs.iter().map(|(shape, dtype)| (shape.clone(), written(*dtype))).collect();
    let outputs = Array::lazy_many(specs, Arc::new(custom), inputs, s)?.into_iter().zip(call.outputs);
    outputs.map(|(a, (_, dtype))| view(&a, dtype, s)).collect()
}
