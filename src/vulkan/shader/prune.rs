//! Leaves out the functions of library files that a kernel does not reach. The compiler takes its time over all
//! that it is given: over lib/math.glsl ten times as long as over a kernel that calls one function of it.
//!
//! Files are cut at functions that begin in the first column; anything else in them (macros, types, constants,
//! what is not understood) stays. A function stays if its name stands in text that stays, comments apart, so
//! what is left out is never missed. Line numbers do not change.

use std::collections::{HashMap, HashSet};

/// Text of a file, in order; with the name of the function that it defines, if it is one.
type Piece<'a> = (Option<&'a str>, &'a str);

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code).trim_end()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|l| code(l).split(|c| !is_word(c))).filter(|w| !w.is_empty())
}

/// The name in `type name(`, the beginning of a function.
fn function(line: &str) -> Option<&str> {
    let (kind, rest) = line.split_once(' ')?;
    let (name, _) = rest.split_once('(')?;
    let word =
        |s: &str| s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && s.chars().all(is_word);
    (word(kind) && word(name)).then_some(name)
}

/// Bytes of the function or prototype at the beginning of `text`, if it is written as they usually are.
fn length(text: &str) -> Option<usize> {
    let (mut at, mut depth, mut choices, mut body) = (0, 0i32, 0i32, false);
    for line in text.split_inclusive('\n') {
        let code = code(line);
        let directive = code.trim_start().strip_prefix('#').map(str::trim_start);
        match directive {
            Some(d) if d.starts_with("if") => choices += 1,
            Some(d) if d.starts_with("endif") => choices -= 1,
            Some(d) if d.starts_with("el") && choices == 0 => return None,
            Some(_) => {}
            None if at > 0 && code.starts_with(is_word) => return None,
            None => {
                body |= code.contains('{');
                depth += code.matches('{').count() as i32 - code.matches('}').count() as i32;
            }
        }
        at += line.len();
        if choices < 0 || depth < 0 {
            return None;
        }
        if directive.is_none() && depth == 0 && (body || code.ends_with(';')) {
            return (choices == 0).then_some(at);
        }
    }
    None
}

fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut continued = false;
    while !text.is_empty() {
        let line = text.find('\n').map_or(text.len(), |i| i + 1);
        let (name, n) = match function(&text[..line]).filter(|_| !continued) {
            // Nothing behind a function that is not understood can be told apart.
            Some(name) => length(text).map_or((None, text.len()), |n| (Some(name), n)),
            None => (None, line),
        };
        let (piece, rest) = text.split_at(n);
        continued = piece.trim_end().ends_with('\\');
        out.push((name, piece));
        text = rest;
    }
    out
}

/// The files (name, text) without the functions that nothing reaches from `roots`.
pub(in crate::vulkan) fn prune<'a>(
    roots: impl Iterator<Item = &'a str>,
    files: &[(&'a str, &'a str)],
) -> HashMap<&'a str, String> {
    let cut: Vec<(&str, Vec<Piece>)> = files.iter().map(|&(name, text)| (name, pieces(text))).collect();
    let mut functions: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut todo: Vec<&str> = roots.collect();
    for &(name, text) in cut.iter().flat_map(|(_, pieces)| pieces) {
        match name {
            Some(name) => functions.entry(name).or_default().push(text),
            None => todo.push(text),
        }
    }
    let mut used: HashSet<&str> = HashSet::new();
    while let Some(text) = todo.pop() {
        for word in words(text) {
            if let Some((&name, bodies)) = functions.get_key_value(word)
                && used.insert(name)
            {
                todo.extend(bodies);
            }
        }
    }
    let kept = |&(name, text): &Piece| match name {
        Some(name) if !used.contains(name) => "\n".repeat(text.matches('\n').count()),
        _ => text.to_string(),
    };
    cut.iter().map(|(name, pieces)| (*name, pieces.iter().map(kept).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "// f calls h.
float f(float x) { return g(x); }
float g(float x) {
#ifdef A
  return 1.0;
#else
  if (x > 0.0) { return 2.0; }
  return i(x);  // not h(x)
#endif
}
float h(float x);
#define MACRO(x) \\
float j(float x) { return k(x); }
float k(float x) { return x; }
float h(float x) { return k(x); }
const float c = 1.0;
";

    fn kept(root: &str, file: &str) -> String {
        prune([root].into_iter(), &[("file", file)])["file"].clone()
    }

    #[test]
    fn what_is_reached_stays_in_its_lines() {
        let text = kept("void main() { f(1.0); } // h", FILE);
        assert_eq!(text.lines().count(), FILE.lines().count());
        let same = |from: usize, to: usize| {
            let lines = |t: &str| t.lines().skip(from).take(to - from).map(str::to_owned).collect::<Vec<_>>();
            lines(&text) == lines(FILE)
        };
        assert!(same(0, 10) && same(11, 14) && same(15, 16), "{text}");
        assert!(!text.contains("float h"), "{text}");
        let text = kept("h", FILE);
        assert!(text.matches("float h").count() == 2 && !text.contains("float g"), "{text}");
    }

    #[test]
    fn what_is_not_understood_stays() {
        for odd in ["#ifdef A\n  {\n#else\n  {{\n#endif\n  }\n}\n", "#else\n}\n", "  {\n"] {
            let file = format!("float f(float x) {{\n{odd}float g(float x) {{ return x; }}\n");
            assert_eq!(kept("none", &file), file);
        }
    }

    #[test]
    fn most_of_the_math_library_goes() {
        let file = crate::vulkan::shader::compiler::packed("lib/math.glsl").unwrap();
        let text = kept("m_tanh(x)", file);
        assert!(text.contains("float m_tanh(") && text.contains("float m_exp("));
        assert!(
            text.trim().len() > 100 && text.split_whitespace().count() < file.split_whitespace().count() / 3
        );
        let all = pieces(file);
        assert!(all.iter().filter(|p| p.0.is_some()).count() > 70);
        assert_eq!(all.iter().map(|p| p.1).collect::<String>(), file);
    }
}
