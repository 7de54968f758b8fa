//! All environment variables of the library, for docs/environment.md, and what is wrong with those that are set: values
//! that make no sense, and names that begin like ours and nobody reads. Each variable is a static of its owner.

use pyo3::prelude::*;

use crate::core::env::{self, Values, Variable};
use crate::{compile, cpu, distributed, eval};

static TEST_DEVICE: Variable = Variable::new(
    "MLX_TEST_DEVICE",
    "cpu",
    Values::Word(&["cpu", "gpu"]),
    "Device that the tests run on; the library does not read it",
);

/// Those of neither groups nor a GPU backend.
const VARIABLES: &[&Variable] = &[
    &super::device::DEFAULT_DEVICE,
    &super::vulkan::STATS,
    &eval::RECORDER,
    &crate::python::transforms::pipeline::CHUNK,
    &cpu::runtime::pool::CPU_THREADS,
    &compile::DISABLE_COMPILE,
    &TEST_DEVICE,
];

#[cfg(feature = "vulkan")]
use crate::vulkan::environment as gpu;

/// A build without a GPU backend.
#[cfg(not(feature = "vulkan"))]
mod gpu {
    use crate::core::env::{KernelVariant, Variable};
    pub const VARIABLES: &[&Variable] = &[];
    pub const VARIANTS: &[&KernelVariant] = &[];
    pub fn unknown(_: &[String]) -> Vec<&str> {
        Vec::new()
    }
    pub fn set_disabled(_: &[String]) -> crate::core::Result<Vec<&'static str>> {
        Ok(Vec::new())
    }
}

fn variables() -> impl Iterator<Item = &'static &'static Variable> {
    VARIABLES.iter().chain(distributed::VARIABLES).chain(gpu::VARIABLES)
}

/// The variables of the environment that the library reads: name, default, values, effect; and the kernel variants
/// that MLX_VK_DISABLE knows with what runs instead. docs/environment.md is written from it.
#[pyfunction]
pub fn _environment() -> (Vec<[String; 4]>, Vec<(&'static str, &'static str)>) {
    let row = |v: &&Variable| [v.name.into(), v.default.into(), v.values.show(), v.effect.into()];
    (variables().map(row).collect(), gpu::VARIANTS.iter().map(|v| (v.name, v.instead)).collect())
}

/// Takes these kernel variants out of every choice, in place of those of MLX_VK_DISABLE; returns those before.
#[pyfunction]
pub fn _set_disabled(py: Python<'_>, names: Vec<String>) -> PyResult<Vec<&'static str>> {
    py.detach(eval::settle)?;
    Ok(gpu::set_disabled(&names)?)
}

/// What is wrong with the environment, in sentences.
fn problems() -> Vec<String> {
    let mut list: Vec<String> = variables().filter_map(|v| v.problem()).collect();
    for (key, text) in std::env::vars_os() {
        let key = key.to_string_lossy();
        let ours = cfg!(feature = "vulkan") && key.starts_with("MLX_VK_");
        if ours && !text.to_string_lossy().trim().is_empty() && variables().all(|v| v.name != key) {
            list.push(format!(
                "[environment] {key} is no variable of this library; docs/environment.md lists them."
            ));
        }
    }
    for name in gpu::unknown(&env::disabled_names()) {
        list.push(format!(
            "[environment] MLX_VK_DISABLE={name} names no kernel variant; docs/environment.md lists them."
        ));
    }
    list.sort();
    list
}

/// Tells what is wrong with the environment as Python warnings.
pub fn warn_of_problems(py: Python<'_>) -> PyResult<()> {
    env::taken_over();
    let category = py.get_type::<pyo3::exceptions::PyRuntimeWarning>();
    for text in problems() {
        let text = std::ffi::CString::new(text.replace('\0', " "))?;
        PyErr::warn(py, &category, &text, 1)?;
    }
    Ok(())
}
