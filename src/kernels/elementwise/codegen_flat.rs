//! Kernels whose vectors run on from row to row, so that rows of any length are loaded and stored by the vector: operands
//! with less than all elements (a row, a column, rows with gaps) are reached element by element, by counters of the axes
//! that are set by one division and then count on. Called by `codegen`.

use std::fmt::Write;

use super::codegen::{Access, Class, Gen};

impl Gen {
    /// The first element of an invocation: its place on each axis, and where it lies in each operand.
    pub(super) fn flat_places(&mut self, class: &Class, names: &[String]) {
        let (n, width) = (class.ndim as usize, class.width);
        self.line(format!("  const int col = int(id * {width}u);"));
        self.line("  Params q = Params(pc.params);");
        for d in 1..n {
            self.line(format!("  const int len{d} = q.v[{}];", d - 1));
        }
        self.line("  uint rest = uint(col);");
        for d in (1..n).rev() {
            self.line(format!("  const uint next{d} = rest / uint(len{d});"));
            self.line(format!("  int at{d} = int(rest - next{d} * uint(len{d}));"));
            self.line(format!("  rest = next{d};"));
        }
        self.line("  int at0 = int(rest);");
        for (k, name) in names.iter().enumerate() {
            self.line(format!("  const int {name}_o = 0;"));
            if class.access[k] != Access::Stepped {
                continue;
            }
            let stride = |d: usize| format!("q.v[{}]", n - 1 + k * n + d);
            for d in 0..n {
                self.line(format!("  const int {name}_s{d} = {};", stride(d)));
            }
            let place: Vec<String> = (0..n).map(|d| format!("at{d} * {name}_s{d}")).collect();
            self.line(format!("  int {name}_p = {};", place.join(" + ")));
            // From the last element of an axis to the first one of the next place on the axis before it.
            for d in 0..n - 1 {
                let back: String = (d + 1..n).map(|e| format!(" - (len{e} - 1) * {name}_s{e}")).collect();
                self.line(format!("  const int {name}_j{d} = {name}_s{d}{back};"));
            }
        }
    }

    /// On to the next element.
    pub(super) fn step(&self, class: &Class) -> String {
        let mut text = String::new();
        if !class.flat {
            return text;
        }
        let stepped: Vec<usize> =
            (0..class.access.len()).filter(|&k| class.access[k] == Access::Stepped).collect();
        let last = class.ndim as usize - 1;
        let moved = |by: &str| stepped.iter().map(|k| format!("in{k}_p += in{k}_{by}; ")).collect::<String>();
        let _ = write!(text, "    if (++at{last} == len{last}) {{ at{last} = 0; ");
        match last {
            1 => text.push_str(&moved("j0")),
            _ => {
                let _ = write!(
                    text,
                    "if (++at1 == len1) {{ at1 = 0; {}}} else {{ {}}} ",
                    moved("j0"),
                    moved("j1")
                );
            }
        }
        let _ = writeln!(text, "}} else {{ {}}}", moved(&format!("s{last}")));
        text
    }
}
