//! Packs shaders/ into the library as a table of (name, text), sorted by name. Kernels (.comp) go by their file's name
//! alone, whatever the folder; what they include (.glsl) goes by its path.

use std::collections::BTreeMap;
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
    let mut named = BTreeMap::new();
    for path in files {
        // INVARIANT: every path was found below root.
        let place = path.strip_prefix(&root).expect("below root").to_string_lossy().replace('\\', "/");
        let name = if place.ends_with(".comp") { place.rsplit('/').next().unwrap_or(&place) } else { &place };
        if let Some(other) = named.insert(name.to_string(), place.clone()) {
            panic!("two shaders are named {name}: one is shaders/{other}");
        }
    }
    // By the compiler's variable, not by a path: folders of builds are shared by checkouts in several places.
    let mut table = String::from("pub static SHADERS: &[(&str, &str)] = &[\n");
    for (name, place) in &named {
        let file = format!("/shaders/{place}");
        let _ =
            writeln!(table, "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?}))),");
    }
    table.push_str("];\n");
    // INVARIANT: OUT_DIR is writable during a build.
    std::fs::write(out, table).expect("OUT_DIR is writable");
}
