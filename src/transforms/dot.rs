//! The graph of arrays that are not evaluated yet, as text for graphviz: arrays are ellipses, primitives boxes.

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use super::order::{IdMap, IdSet, postorder};
use crate::core::Array;

/// `scatter_add` as `ScatterAdd`: how MLX writes names of primitives.
pub fn class_name(name: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect::<String>())
    };
    name.split('_').map(capital).collect()
}

/// Names for arrays: A, B, .. Z, AA, AB, ..
#[derive(Default)]
pub struct Namer {
    names: IdMap<String>,
}

impl Namer {
    /// Gives an array a name of the caller's.
    pub fn set(&mut self, a: &Array, name: String) {
        self.names.insert(a.id(), name);
    }

    /// The name of an array; a new one if it has none.
    pub fn name(&mut self, a: &Array) -> &str {
        let n = self.names.len() + 1;
        self.names.entry(a.id()).or_insert_with(|| letters(n))
    }
}

/// The `n`-th name, from 1 on.
pub fn letters(mut n: usize) -> String {
    let mut reversed = Vec::new();
    while n > 0 {
        reversed.push(b'A' + ((n - 1) % 26) as u8);
        n = (n - 1) / 26;
    }
    reversed.iter().rev().map(|&b| b as char).collect()
}

/// A quoted identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The graph that `outputs` are computed from, in the DOT language. Arrays without a name get letters.
pub fn dot(outputs: &[Array], mut names: Namer) -> String {
    let wanted: IdSet = outputs.iter().map(Array::id).collect();
    let mut drawn: HashSet<usize> = HashSet::new();
    let mut text = String::from("digraph {\n");
    let mut line = |s: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{s}");
    };
    for array in postorder(outputs, |_| false) {
        let Some(node) = array.node() else {
            line(format!("{{ rank=source; {}; }}", quoted(names.name(&array))));
            continue;
        };
        if !drawn.insert(Arc::as_ptr(&node) as usize) {
            continue;
        }
        let number = drawn.len();
        let label = quoted(&class_name(node.primitive.name()));
        line(format!("{{ {number} [label={label}, shape=rectangle]; }}"));
        for i in &node.inputs {
            line(format!("{} -> {number}", quoted(names.name(i))));
        }
        for o in array.outputs_of(&node) {
            let rank = if wanted.contains(&o.id()) { "rank=sink; " } else { "" };
            let name = quoted(names.name(&o));
            line(format!("{{ {rank}{name}; }}"));
            line(format!("{number} -> {name}"));
        }
    }
    text.push_str("}\n");
    text
}
