//! Documentation of the elementwise functions: the row's own text, and the sections that follow from its operands,
//! its type rule and its derivatives. `elementwise` attaches it to the functions, whose stubs are made from it.

use crate::kernels::elementwise::table::{Row, TypeRule};

/// Docs are read in terminals: paragraphs are broken at this width.
const WIDTH: usize = 100;

/// One paragraph, broken at spaces; lines after the first begin with `indent` more spaces than `first`.
fn wrap(text: &str, first: usize, indent: usize) -> String {
    let mut lines = vec![" ".repeat(first)];
    for word in text.split(' ') {
        // INVARIANT: there is always a last line.
        let line = lines.last_mut().expect("lines begin with one");
        if line.len() + word.len() >= WIDTH && !line.trim().is_empty() {
            lines.push(" ".repeat(first + indent) + word);
        } else {
            if !line.trim().is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// What a row takes, behind "any shape".
fn accepted(rule: TypeRule) -> &'static str {
    match rule {
        TypeRule::Same | TypeRule::Bool | TypeRule::Predicate | TypeRule::Real | TypeRule::Select => {
            "every dtype"
        }
        TypeRule::NotBool => "every dtype but bool",
        TypeRule::NotComplex => "every dtype but complex64",
        TypeRule::Float => "every dtype, integers and bool in float32",
        TypeRule::FloatNotComplex => "every dtype but complex64, integers and bool in float32",
        TypeRule::Logical => "every dtype, where what is not zero counts as true",
        TypeRule::IntOnly => "integers or bool",
        TypeRule::Shift => "integers, and bool, which counts as uint8",
        TypeRule::ToFloat8 => "real floating dtypes",
        TypeRule::FromFloat8 => "uint8",
    }
}

/// The dtype of the result; `common` names the dtype that the operands have or are promoted to.
fn result(rule: TypeRule, common: &str) -> String {
    match rule {
        TypeRule::Same | TypeRule::NotBool | TypeRule::NotComplex | TypeRule::IntOnly | TypeRule::Select => {
            common.to_string()
        }
        TypeRule::Float | TypeRule::FloatNotComplex => format!("{common}, or float32 for integers and bool"),
        TypeRule::Bool | TypeRule::Predicate | TypeRule::Logical => "bool".to_string(),
        TypeRule::Real => format!("{common}, or float32 for complex64"),
        TypeRule::Shift => format!("{common}, or uint8 for bool"),
        TypeRule::ToFloat8 => "uint8".to_string(),
        TypeRule::FromFloat8 => "float32".to_string(),
    }
}

/// Derivatives in the words of the public functions.
fn derivatives(row: &Row) -> Option<String> {
    let public = |text: &str| text.replace("select(", "where(");
    let result = if row.partials.iter().any(|p| p.contains('y')) { ", where `y` is the result" } else { "" };
    match row.partials {
        // A conjugate or a real part has no derivative in the complex plane.
        ["1"] => None,
        [a] => Some(format!("Derivative: `{}`{result}.", public(a))),
        [a, b] => Some(format!("Derivatives: `{}` by `a`, `{}` by `b`{result}.", public(a), public(b))),
        _ if matches!(row.rule, TypeRule::Same | TypeRule::NotComplex | TypeRule::Real) => {
            Some("Its derivative counts as zero.".to_string())
        }
        _ => None,
    }
}

fn errors(row: &Row) -> Vec<String> {
    let mut list = Vec::new();
    let operand = if row.arity == 1 { "`a` is" } else { "an operand is" };
    // What takes arrays only raises TypeError, as everywhere.
    let mut value = match row.numbers {
        true => vec![format!("{operand} neither an array nor a number")],
        false => Vec::new(),
    };
    match row.rule {
        TypeRule::NotBool => value.push(format!("{operand} bool")),
        TypeRule::NotComplex | TypeRule::FloatNotComplex => value.push(format!("{operand} complex")),
        TypeRule::IntOnly | TypeRule::Shift if row.arity == 1 => {
            value.push("`a` is floating or complex".into())
        }
        TypeRule::IntOnly | TypeRule::Shift => {
            list.push("RuntimeError: if an operand is floating or complex.".to_string());
        }
        TypeRule::Same
        | TypeRule::Float
        | TypeRule::Bool
        | TypeRule::Predicate
        | TypeRule::Logical
        | TypeRule::Real
        | TypeRule::Select
        | TypeRule::ToFloat8
        | TypeRule::FromFloat8 => {}
    }
    if row.arity == 2 {
        value.push("the shapes do not broadcast".into());
    }
    if let Some(last) = value.pop() {
        let text = if value.is_empty() { last } else { format!("{} or {last}", value.join(", ")) };
        list.insert(0, format!("ValueError: if {text}."));
    }
    list
}

/// A doctest in the form that the rest of the documentation has.
fn example(text: &str) -> String {
    match text.split_once('\n') {
        Some((input, output)) => format!(">>> {input}\n{output}"),
        None => format!(">>> {text}"),
    }
}

/// The documentation of a row of one or two operands under one of its names.
pub fn text(row: &Row, name: &str) -> String {
    let mut about = row.doc.to_string();
    if name != row.name {
        about += &format!(" Another name of `{}`.", row.name);
    } else if let [alias] = row.aliases {
        about += &format!(" Also called `{alias}`.");
    }
    let mut parts: Vec<String> = about.split('\n').map(|p| wrap(p, 0, 0)).collect();
    parts.extend(derivatives(row).map(|d| wrap(&d, 0, 0)));
    let takes = accepted(row.rule);
    let mut sections = String::from("Args:\n");
    let mut item = |text: String| {
        sections.push_str(&wrap(&text, 4, 4));
        sections.push('\n');
    };
    let kind = if row.numbers { "array | number" } else { "array" };
    let (shape, common) = if row.arity == 1 {
        item(format!("a ({kind}): Elements of any shape: {takes}."));
        ("the shape of `a`", "that of `a`")
    } else {
        item(format!(
            "a ({kind}): The first operand: {takes}. A Python number adapts to the dtype of the other operand."
        ));
        item(format!("b ({kind}): The second operand, whose shape broadcasts with that of `a`."));
        ("the broadcast shape", "the promoted dtype of both (see `result_type`)")
    };
    sections.push_str("\nReturns:\n");
    let mut item = |text: String| {
        sections.push_str(&wrap(&text, 4, 4));
        sections.push('\n');
    };
    item(format!("array: One element for each, in {shape}. Its dtype is {}.", result(row.rule, common)));
    let raised = errors(row);
    if !raised.is_empty() {
        sections.push_str("\nRaises:\n");
        for line in raised {
            sections.push_str(&wrap(&line, 4, 4));
            sections.push('\n');
        }
    }
    parts.push(sections.trim_end().to_string());
    parts.push(example(row.example));
    parts.join("\n\n")
}
