//! The file of MLX_VK_PROFILE: numbers of another device, features to hide and limits to lower, so that choices and
//! kernels run as they would there. A line is `name = value`, `hide = name, name` or a comment (`#`); docs/tuning.md
//! lists the names. What it hides is neither reported nor enabled; it never adds what a device lacks.

use std::sync::OnceLock;

use crate::core::env::{Values, Variable};
use crate::core::{Error, Result};

pub static PROFILE: Variable = Variable::new(
    "MLX_VK_PROFILE",
    "none",
    Values::Text("file"),
    "Numbers of another device, features to hide and limits to lower: choices and kernels are those of such a \
         device; see tuning.md",
);

/// What a profile file may hide.
pub(in crate::vulkan) const HIDEABLE: &[&str] = &[
    "atomic_float",
    "atomic_int64",
    "binary_import",
    "bfloat16",
    "cooperative_matrix",
    "cooperative_matrix2",
    "copy_queue",
    "device_local_host_visible",
    "float16",
    "float64",
    "float_controls",
    "host_cached",
    "host_query_reset",
    "int16",
    "int64",
    "int8",
    "int_dot_product",
    "maintenance4",
    "memory_budget",
    "memory_model",
    "push_constant16",
    "push_constant8",
    "size_control",
    "sparse_binding",
    "spirv16",
    "storage16",
    "storage8",
    "subgroup_arithmetic",
    "subgroup_ballot",
    "subgroup_extended_types",
    "subgroup_shuffle",
    "timestamps",
    "unified",
];

/// A number of a profile file, and the least and the most that it may be.
struct Field {
    name: &'static str,
    low: u64,
    high: u64,
    set: fn(&mut Settings, u64),
}

const FIELDS: &[Field] = &[
    Field { name: "units", low: 1, high: 1 << 16, set: |s, n| s.units = Some(n as u32) },
    Field { name: "bandwidth", low: 1, high: 1 << 20, set: |s, n| s.bandwidth = Some(n as u32) },
    Field { name: "dependent_ns", low: 1, high: 1 << 30, set: |s, n| s.dependent_ns = Some(n as u32) },
    Field { name: "matrices", low: 0, high: 1 << 16, set: |s, n| s.matrices = Some(n as u32) },
    Field {
        name: "shared_memory",
        low: 1 << 14,
        high: 1 << 24,
        set: |s, n| s.shared_memory = Some(n as u32),
    },
    Field { name: "workgroup_invocations", low: 64, high: 4096, set: |s, n| s.invocations = Some(n as u32) },
    Field { name: "push_constants", low: 128, high: 256, set: |s, n| s.push_constants = Some(n as u32) },
    Field {
        name: "workgroups",
        low: 65_535,
        high: u32::MAX as u64,
        set: |s, n| s.workgroups = Some(n as u32),
    },
    Field { name: "max_buffer", low: 1 << 20, high: 1 << 50, set: |s, n| s.max_buffer = Some(n) },
    Field { name: "queues", low: 1, high: 64, set: |s, n| s.queues = Some(n as u32) },
];

/// What a profile file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Name of the device.
    pub name: Option<String>,
    /// Multiprocessors or compute units.
    pub units: Option<u32>,
    /// Bytes a nanosecond that its memory moves.
    pub bandwidth: Option<u32>,
    /// Nanoseconds of a small command that waits for the one before it.
    pub dependent_ns: Option<u32>,
    /// As in [`super::Profile`].
    pub matrices: Option<u32>,
    /// Most bytes of shared memory.
    pub shared_memory: Option<u32>,
    /// Most invocations of a workgroup.
    pub invocations: Option<u32>,
    /// Most bytes of push constants.
    pub push_constants: Option<u32>,
    /// Most workgroups in each dimension of a grid.
    pub workgroups: Option<u32>,
    /// Most bytes of an allocation.
    pub max_buffer: Option<u64>,
    /// Most compute queues.
    pub queues: Option<u32>,
    hidden: Vec<&'static str>,
}

impl Settings {
    /// Whether the file hides a feature, one of [`HIDEABLE`].
    pub(in crate::vulkan) fn hides(&self, name: &str) -> bool {
        debug_assert!(HIDEABLE.contains(&name), "{name}");
        self.hidden.contains(&name)
    }

    /// What a text says.
    ///
    /// # Errors
    /// The line, the name in it and what was expected there.
    fn parse(text: &str) -> std::result::Result<Settings, String> {
        let mut s = Settings::default();
        let mut seen: Vec<&str> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |what: String| format!("line {}: {what}", i + 1);
            let Some((name, value)) = line.split_once('=').map(|(n, v)| (n.trim(), v.trim())) else {
                return Err(wrong(format!("expected `name = value`, got `{line}`")));
            };
            if name != "hide" && seen.contains(&name) {
                return Err(wrong(format!("{name} is set twice")));
            }
            seen.push(name);
            match FIELDS.iter().find(|f| f.name == name) {
                Some(f) => {
                    match value.replace('_', "").parse::<u64>().ok().filter(|n| (f.low..=f.high).contains(n))
                    {
                        Some(n) => (f.set)(&mut s, n),
                        None => {
                            let (low, high) = (f.low, f.high);
                            return Err(wrong(format!(
                                "{name} = {value}, expected a whole number from {low} to {high}"
                            )));
                        }
                    }
                }
                None if name == "name" => s.name = Some(value.into()),
                None if name == "hide" => {
                    for feature in value.split(',').map(str::trim) {
                        match HIDEABLE.iter().find(|&&h| h == feature) {
                            Some(h) => s.hidden.push(h),
                            None => {
                                let known = HIDEABLE.join(", ");
                                return Err(wrong(format!("hide = {feature}, expected some of {known}")));
                            }
                        }
                    }
                }
                None => {
                    let known: Vec<&str> = FIELDS.iter().map(|f| f.name).collect();
                    let known = known.join(", ");
                    return Err(wrong(format!("{name} is no setting, expected name, hide, {known}")));
                }
            }
        }
        Ok(s)
    }
}

/// The file of MLX_VK_PROFILE, if there is one.
///
/// # Errors
/// Value error that names the file, the line and the setting.
pub(in crate::vulkan) fn settings() -> Result<Option<&'static Settings>> {
    static FOUND: OnceLock<Result<Option<Settings>>> = OnceLock::new();
    let read = || {
        let Some(path) = PROFILE.text() else { return Ok(None) };
        let shown = path.to_string_lossy();
        let fail = |what: String| Error::Value(format!("[MLX_VK_PROFILE] {shown}: {what}."));
        let text = std::fs::read_to_string(&path).map_err(|e| fail(e.to_string()))?;
        Settings::parse(&text).map(Some).map_err(fail)
    };
    match FOUND.get_or_init(read) {
        Ok(s) => Ok(s.as_ref()),
        Err(e) => Err(e.clone()),
    }
}

/// Whether the file of MLX_VK_PROFILE hides a feature; nothing is hidden by a bad one, with which no device opens.
pub(in crate::vulkan) fn hides(name: &str) -> bool {
    settings().ok().flatten().is_some_and(|s| s.hides(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_line_by_line() {
        let text = "# a small GPU\nname = Small One\nunits = 8\nbandwidth=60\n\nhide = float16, int8 # no halves\n\
                    hide = timestamps\nshared_memory = 16_384\nqueues = 1\n";
        let s = Settings::parse(text).unwrap();
        let numbers = (s.units, s.bandwidth, s.dependent_ns, s.shared_memory, s.queues);
        assert_eq!(numbers, (Some(8), Some(60), None, Some(16384), Some(1)));
        assert_eq!(s.name.as_deref(), Some("Small One"));
        assert!(s.hides("float16") && s.hides("int8") && s.hides("timestamps") && !s.hides("int16"));
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
    }

    #[test]
    fn mistakes_name_the_line_and_the_setting() {
        for (text, told) in [
            ("units", "line 1: expected `name = value`, got `units`"),
            ("\nunits = many", "line 2: units = many, expected a whole number from 1 to 65536"),
            ("units = 0", "line 1: units = 0, expected a whole number from 1 to 65536"),
            (
                "shared_memory = 100",
                "line 1: shared_memory = 100, expected a whole number from 16384 to 16777216",
            ),
            ("units = 1\n# x\nunits = 2", "line 3: units is set twice"),
            ("hide = float16, floats", "line 1: hide = floats, expected some of atomic_float, "),
            ("speed = 3", "line 1: speed is no setting, expected name, hide, units, bandwidth, "),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
