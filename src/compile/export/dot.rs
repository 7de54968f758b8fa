//! The graph of arrays that are not evaluated yet, as text for graphviz: arrays are ellipses, primitives boxes with
//! MLX's names for them.

use std::collections::HashMap;
use std::fmt::Write;

use super::described::{Met, Request, describe};
use crate::core::{Array, Result};

/// `scatter_add` as `ScatterAdd`: how MLX writes names of primitives.
pub fn class_name(name: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        letters.next().map_or_else(String::new, |c| c.to_uppercase().chain(letters).collect::<String>())
    };
    name.split('_').map(capital).collect()
}

/// The `n`-th name, from 1 on: A, B, .. Z, AA, AB, ..
pub fn letters(mut n: usize) -> String {
    let mut reversed = Vec::new();
    while n > 0 {
        reversed.push(b'A' + ((n - 1) % 26) as u8);
        n = (n - 1) / 26;
    }
    reversed.iter().rev().map(|&b| b as char).collect()
}

/// Names of values; a value without one gets the next letters.
struct Namer(HashMap<usize, String>);

impl Namer {
    /// The name of a value, as a quoted identifier.
    fn name(&mut self, value: usize) -> String {
        let n = self.0.len() + 1;
        let name = self.0.entry(value).or_insert_with(|| letters(n));
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    }
}

/// The graph that `outputs` are computed from, in the DOT language. Arrays without a name get letters.
///
/// # Errors
/// Those of [`describe`].
pub fn dot(outputs: &[Array], names: &[(String, Array)]) -> Result<String> {
    let graph = describe(&Request { inputs: &[], outputs, notes: &[], shapeless: false, simplify: false })?;
    let named = names.iter().filter_map(|(n, a)| graph.known.get(&a.id()).map(|&v| (v, n.clone())));
    let mut names = Namer(named.collect());
    let mut text = String::from("digraph {\n");
    let mut line = |s: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{s}");
    };
    for met in &graph.order {
        let at = match *met {
            Met::Constant(v) => {
                line(format!("{{ rank=source; {}; }}", names.name(v)));
                continue;
            }
            Met::Operation(at) => at,
        };
        let (op, number) = (&graph.operations[at], at + 1);
        line(format!("{{ {number} [label =\"{}\", shape=rectangle]; }}", op.label));
        for &i in &op.inputs {
            line(format!("{} -> {number}", names.name(i)));
        }
        for &o in &op.outputs {
            let rank = if graph.outputs.contains(&o) { "rank=sink; " } else { "" };
            let name = names.name(o);
            line(format!("{{ {rank}{name}; }}"));
            line(format!("{number} -> {name}"));
        }
    }
    text.push_str("}\n");
    Ok(text)
}
