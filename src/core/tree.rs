//! Facts for people and programs: a tree of named values that becomes a Python dict, or text of one line a leaf.

use std::fmt;

/// A value or a collection of them.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Tree {
    Bool(bool),
    Int(u64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Tree {
    /// A map from pairs.
    pub fn map<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Tree)>) -> Tree {
        Tree::Map(pairs.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// A list of numbers.
    pub fn numbers<N: Into<u64> + Copy>(list: &[N]) -> Tree {
        Tree::List(list.iter().map(|&n| Tree::Int(n.into())).collect())
    }

    fn lines(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let pad = 2 * depth;
        match self {
            Tree::Map(pairs) => pairs.iter().try_for_each(|(name, value)| match value {
                Tree::Map(inner) if inner.is_empty() => writeln!(f, "{:pad$}{name}: none", ""),
                Tree::List(inner) if inner.is_empty() => writeln!(f, "{:pad$}{name}: none", ""),
                Tree::Map(_) | Tree::List(_) => {
                    writeln!(f, "{:pad$}{name}:", "")?;
                    value.lines(f, depth + 1)
                }
                leaf => writeln!(f, "{:pad$}{name}: {leaf}", ""),
            }),
            Tree::List(items) => items.iter().try_for_each(|item| match item {
                Tree::Map(pairs) => {
                    let parts: Vec<String> = pairs.iter().map(|(k, v)| format!("{k} {v}")).collect();
                    writeln!(f, "{:pad$}{}", "", parts.join(", "))
                }
                leaf => writeln!(f, "{:pad$}{leaf}", ""),
            }),
            leaf => writeln!(f, "{:pad$}{leaf}", ""),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Bool(v) => write!(f, "{v}"),
            Tree::Int(v) => write!(f, "{v}"),
            Tree::Float(v) => write!(f, "{v:.4}"),
            Tree::Text(v) => f.write_str(v),
            Tree::List(_) | Tree::Map(_) => self.lines(f, 0),
        }
    }
}

impl From<u64> for Tree {
    fn from(v: u64) -> Tree {
        Tree::Int(v)
    }
}

impl From<u32> for Tree {
    fn from(v: u32) -> Tree {
        Tree::Int(v.into())
    }
}

impl From<bool> for Tree {
    fn from(v: bool) -> Tree {
        Tree::Bool(v)
    }
}

impl From<f64> for Tree {
    fn from(v: f64) -> Tree {
        Tree::Float(v)
    }
}

impl From<&str> for Tree {
    fn from(v: &str) -> Tree {
        Tree::Text(v.into())
    }
}

impl From<String> for Tree {
    fn from(v: String) -> Tree {
        Tree::Text(v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_line_for_each_leaf() {
        let inner = Tree::map([("rows", Tree::Int(3)), ("name", "x".into())]);
        let t = Tree::map([
            ("a", Tree::Int(1)),
            ("list", Tree::List(vec![inner])),
            ("none", Tree::map::<String>([])),
        ]);
        assert_eq!(t.to_string(), "a: 1\nlist:\n  rows 3, name x\nnone: none\n");
    }
}
