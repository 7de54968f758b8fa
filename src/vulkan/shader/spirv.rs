//! Modules that users bring or write, before a driver sees them: drivers trust what they are given. SPIRV-Tools, which
//! the shader compiler contains, says whether a module is valid; the tables here whether this device runs it.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::bail;
use crate::core::Result;
use crate::kernels::spirv::Spirv;

#[repr(C)]
struct Binary {
    code: *const u32,
    words: usize,
}

/// The start of `spv_diagnostic_t`.
#[repr(C)]
struct Diagnostic {
    line: usize,
    column: usize,
    index: usize,
    error: *const c_char,
}

// Part of SPIRV-Tools (libspirv.h), linked with the shader compiler.
unsafe extern "C" {
    fn spvParseTargetEnv(name: *const c_char, env: *mut c_int) -> bool;
    fn spvContextCreate(env: c_int) -> *mut c_void;
    fn spvContextDestroy(context: *mut c_void);
    fn spvValidatorOptionsCreate() -> *mut c_void;
    fn spvValidatorOptionsDestroy(options: *mut c_void);
    fn spvValidatorOptionsSetScalarBlockLayout(options: *mut c_void, on: bool);
    fn spvValidateWithOptions(
        context: *const c_void,
        options: *const c_void,
        binary: *const Binary,
        diagnostic: *mut *mut Diagnostic,
    ) -> c_int;
    fn spvDiagnosticDestroy(diagnostic: *mut Diagnostic);
}

/// Whether the module follows the rules of SPIR-V and Vulkan.
///
/// # Errors
/// Value error with what is wrong, and at which instruction.
pub fn validate(module: &Spirv) -> Result<()> {
    let name = if module.version.1 > 5 { c"vulkan1.3" } else { c"vulkan1.2" };
    // SAFETY: the calls are used as libspirv.h says; words and diagnostic live through them, and each object that is
    // made is destroyed once.
    let reason = unsafe {
        let mut env = 0;
        if !spvParseTargetEnv(name.as_ptr(), &raw mut env) {
            bail!(Runtime, "[vulkan] The SPIR-V validator does not know {name:?}.");
        }
        let (context, options) = (spvContextCreate(env), spvValidatorOptionsCreate());
        spvValidatorOptionsSetScalarBlockLayout(options, true);
        let binary = Binary { code: module.words.as_ptr(), words: module.words.len() };
        let mut diagnostic: *mut Diagnostic = ptr::null_mut();
        let code = spvValidateWithOptions(context, options, &raw const binary, &raw mut diagnostic);
        let text = (!diagnostic.is_null()).then(|| {
            let d = &*diagnostic;
            let error = if d.error.is_null() { c"" } else { CStr::from_ptr(d.error) };
            format!("{} (instruction {})", error.to_string_lossy().trim(), d.index)
        });
        spvDiagnosticDestroy(diagnostic);
        spvValidatorOptionsDestroy(options);
        spvContextDestroy(context);
        (code != 0).then(|| text.unwrap_or_else(|| format!("error {code}")))
    };
    match reason {
        Some(reason) => bail!(Value, "[vulkan_kernel] The SPIR-V module is not valid: {reason}."),
        None => Ok(()),
    }
}
