//! The small language in which the elementwise table states partial derivatives: the op's arguments
//! `a b c`, its output `y`, numbers, `+ - * /`, comparisons, and every table op as a function. Parsed once,
//! then interpreted into graph ops, so derivatives nest.

use std::collections::HashMap;

use super::{apply, astype};
use crate::bail;
use crate::core::fork::Shared;
use crate::core::{Array, Dtype, Error, Result, Stream};
use crate::kernels::elementwise::table::{OpId, find};
use crate::ops::support::scalar_f64;

/// A parsed derivative.
#[derive(Debug)]
pub enum Expr {
    /// A number; takes the dtype of what it meets.
    Num(f64),
    /// Index of an argument; 3 is the output.
    Arg(usize),
    /// A table op on subexpressions.
    Call(OpId, Vec<Expr>),
}

struct Parser<'a> {
    text: &'a [u8],
    pos: usize,
}

impl Parser<'_> {
    fn fail<T>(&self) -> Result<T> {
        let text = String::from_utf8_lossy(self.text);
        bail!(Runtime, "[partials] Cannot parse {text:?} at column {}.", self.pos)
    }

    fn peek(&mut self) -> u8 {
        while self.text.get(self.pos) == Some(&b' ') {
            self.pos += 1;
        }
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    fn eat(&mut self, token: &str) -> bool {
        self.peek();
        let hit = self.text[self.pos.min(self.text.len())..].starts_with(token.as_bytes());
        if hit {
            self.pos += token.len();
        }
        hit
    }

    fn call(&self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        match find(name) {
            Some(op) => Ok(Expr::Call(op, args)),
            None => bail!(Runtime, "[partials] Unknown op {name}."),
        }
    }

    fn comparison(&mut self) -> Result<Expr> {
        let left = self.sum()?;
        for (token, name) in [
            (">=", "greater_equal"),
            ("<=", "less_equal"),
            ("==", "equal"),
            ("!=", "not_equal"),
            (">", "greater"),
            ("<", "less"),
        ] {
            if self.eat(token) {
                let right = self.sum()?;
                return self.call(name, vec![left, right]);
            }
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            let name = match self.peek() {
                b'+' => "add",
                b'-' => "subtract",
                _ => return Ok(left),
            };
            self.pos += 1;
            let right = self.product()?;
            left = self.call(name, vec![left, right])?;
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.atom()?;
        loop {
            let name = match self.peek() {
                b'*' => "multiply",
                b'/' => "divide",
                _ => return Ok(left),
            };
            self.pos += 1;
            let right = self.atom()?;
            left = self.call(name, vec![left, right])?;
        }
    }

    fn atom(&mut self) -> Result<Expr> {
        match self.peek() {
            b'-' => {
                self.pos += 1;
                Ok(match self.atom()? {
                    Expr::Num(v) => Expr::Num(-v),
                    e => self.call("negative", vec![e])?,
                })
            }
            b'(' => {
                self.pos += 1;
                let e = self.comparison()?;
                if self.eat(")") { Ok(e) } else { self.fail() }
            }
            b'0'..=b'9' | b'.' => {
                let start = self.pos;
                while self.text.get(self.pos).is_some_and(|c| {
                    c.is_ascii_digit()
                        || matches!(c, b'.' | b'e')
                        || (*c == b'-' && self.text[self.pos - 1] == b'e')
                }) {
                    self.pos += 1;
                }
                let word = std::str::from_utf8(&self.text[start..self.pos]).unwrap_or("");
                word.parse().map(Expr::Num).or_else(|_| self.fail())
            }
            c if c.is_ascii_alphabetic() => {
                let start = self.pos;
                while self.text.get(self.pos).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_') {
                    self.pos += 1;
                }
                let name = String::from_utf8_lossy(&self.text[start..self.pos]).into_owned();
                if !self.eat("(") {
                    return match name.as_str() {
                        "a" => Ok(Expr::Arg(0)),
                        "b" => Ok(Expr::Arg(1)),
                        "c" => Ok(Expr::Arg(2)),
                        "y" => Ok(Expr::Arg(3)),
                        _ => self.fail(),
                    };
                }
                let mut args = Vec::new();
                while !self.eat(")") {
                    args.push(self.comparison()?);
                    if !self.eat(",") && self.peek() != b')' {
                        return self.fail();
                    }
                }
                self.call(&name, args)
            }
            _ => self.fail(),
        }
    }
}

/// Parses one partial derivative.
pub fn parse(text: &str) -> Result<Expr> {
    let mut p = Parser { text: text.as_bytes(), pos: 0 };
    let e = p.comparison()?;
    if p.peek() == 0 { Ok(e) } else { p.fail() }
}

pub(crate) static PARSED: Shared<HashMap<&'static str, &'static Expr>> = Shared::new(HashMap::new);

/// The parsed form of a table string; parsed on first use and kept for the life of the process.
pub fn parsed(text: &'static str) -> Result<&'static Expr> {
    let mut map = PARSED.lock();
    if let Some(e) = map.get(text) {
        return Ok(e);
    }
    let e: &'static Expr = Box::leak(Box::new(parse(text)?));
    map.insert(text, e);
    Ok(e)
}

enum Value {
    Num(f64),
    Arr(Array),
}

fn number(v: f64, like: Dtype) -> Result<Array> {
    let whole = v.fract() == 0.0;
    let dtype = if like == Dtype::Bool || (like.is_integer() && !whole) { Dtype::F32 } else { like };
    scalar_f64(v, dtype)
}

fn eval(e: &Expr, args: &[Array], y: &Array, s: Stream) -> Result<Value> {
    Ok(match e {
        Expr::Num(v) => Value::Num(*v),
        Expr::Arg(3) => Value::Arr(y.clone()),
        Expr::Arg(i) => Value::Arr(args.get(*i).cloned().ok_or_else(|| {
            Error::Runtime(format!("[partials] Argument {i} of {} does not exist.", args.len()))
        })?),
        Expr::Call(op, subs) => {
            let mut vals = Vec::with_capacity(subs.len());
            for sub in subs {
                vals.push(eval(sub, args, y, s)?);
            }
            let like = vals
                .iter()
                .filter_map(|v| match v {
                    Value::Arr(a) if a.dtype() != Dtype::Bool || subs.len() < 3 => Some(a.dtype()),
                    _ => None,
                })
                .next()
                .unwrap_or(y.dtype());
            let mut arrays = Vec::with_capacity(vals.len());
            for v in vals {
                arrays.push(match v {
                    Value::Arr(a) => a,
                    Value::Num(n) => number(n, like)?,
                });
            }
            Value::Arr(apply(*op, &arrays.iter().collect::<Vec<_>>(), s)?)
        }
    })
}

/// `weight * conj(partial)`: what an operand gets from the cotangent `weight`.
pub fn adjoint(
    text: &'static str,
    weight: &Array,
    args: &[Array],
    y: &Array,
    s: Stream,
) -> Result<Option<Array>> {
    if y.dtype() != Dtype::C64 {
        return weighted(text, weight, args, y, s);
    }
    match weighted(text, &crate::ops::conjugate(weight, s)?, args, y, s)? {
        Some(g) => crate::ops::conjugate(&g, s).map(Some),
        None => Ok(None),
    }
}

/// `weight * partial`, built from graph ops, in the dtype of `weight`.
pub fn weighted(
    text: &'static str,
    weight: &Array,
    args: &[Array],
    y: &Array,
    s: Stream,
) -> Result<Option<Array>> {
    let doubled;
    let (expr, weight) = match parsed(text)? {
        // Twice the weight: twice what it multiplies may be too large for half precision.
        Expr::Call(op, of) if op.row().name == "multiply" && matches!(of[0], Expr::Num(2.0)) => {
            doubled = crate::ops::multiply(weight, &number(2.0, weight.dtype())?, s)?;
            (&of[1], &doubled)
        }
        expr => (expr, weight),
    };
    Ok(match expr {
        Expr::Num(v) if *v == 0.0 => None,
        Expr::Num(v) if *v == 1.0 => Some(weight.clone()),
        _ => match eval(expr, args, y, s)? {
            Value::Num(-1.0) => Some(crate::ops::negative(weight, s)?),
            Value::Num(v) => Some(crate::ops::multiply(weight, &number(v, weight.dtype())?, s)?),
            Value::Arr(p) => {
                let p = if p.dtype() == Dtype::Bool { astype(&p, weight.dtype(), s)? } else { p };
                Some(crate::ops::multiply(weight, &p, s)?)
            }
        },
    })
}
