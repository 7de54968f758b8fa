//! Packs shaders/ into the library as a table of (name, text).

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "comp" || e == "glsl") {
            found.push(path);
        }
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shaders");
    // INVARIANT: cargo sets both variables for build scripts.
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo")).join("shaders");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo")).join("shaders.rs");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut table = String::from("pub static SHADERS: &[(&str, &str)] = &[\n");
    for path in &files {
        // INVARIANT: every path was found below root.
        let name = path.strip_prefix(&root).expect("below root").to_string_lossy().replace('\\', "/");
        let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", path.to_string_lossy());
    }
    table.push_str("];\n");
    // INVARIANT: OUT_DIR is writable during a build.
    std::fs::write(out, table).expect("OUT_DIR is writable");
}
