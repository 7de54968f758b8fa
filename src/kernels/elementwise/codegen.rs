//! Turns a program and a layout class into GLSL. Pure: no device, no file. One generator serves eager ops,
//! fused expressions, casts and copies; an invocation computes a vector of `Class::width` elements along
//! the innermost axis, loading and storing up to 16 bytes at a time where operands allow it.

use std::fmt::Write;

use smallvec::SmallVec;

use super::codegen_types::{Ty, constant, convert, reg_type, wrap};
use super::program::{Inst, Instr, Program, Src};
use super::table::calls_library;
use crate::bail;
use crate::core::{Dtype, Result};

/// How an operand is reached along the innermost axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Contiguous, and every vector is aligned.
    Wide,
    /// The same element for the whole row.
    Splat,
    /// Contiguous without alignment.
    Unit,
    /// Any stride.
    Strided,
    /// By strides of all axes, in a kernel that counts through them (see [`Class::flat`]).
    Stepped,
}

/// Layout class of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Class {
    /// Access of each input, then of each output.
    pub access: SmallVec<[Access; 6]>,
    /// Number of collapsed axes; 4 stands for four and more.
    pub ndim: u8,
    /// Elements per invocation.
    pub width: u8,
    /// Whether vectors run on from row to row: the outputs are dense, and so are inputs but those that are `Stepped` or
    /// `Splat`. There are two or three axes then.
    pub flat: bool,
}

/// What generated code may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caps {
    /// 64-bit integers in shaders.
    pub int64: bool,
    /// SignedZeroInfNanPreserve for float32.
    pub preserve_nan: bool,
    /// DenormPreserve for float32.
    pub preserve_denorm: bool,
    /// RoundingModeRTE for float32.
    pub round_even: bool,
    /// `fma` rounds once, which the specification leaves open.
    pub fused_fma: bool,
    /// Conversions between float16 and float32 keep subnormal numbers and round to nearest even.
    pub half_convert: bool,
    /// Products of integers have units of their own beside those of sums and rotations.
    pub products_beside: bool,
}

impl Caps {
    /// What `lib/float_controls.glsl` and `lib/math.glsl` read.
    pub fn float_modes(self) -> impl Iterator<Item = &'static str> {
        let modes = [
            (self.preserve_nan, "PRESERVE_NAN"),
            (self.preserve_denorm, "PRESERVE_DENORM"),
            (self.round_even, "ROUND_EVEN"),
            (self.fused_fma, "FUSED_FMA"),
        ];
        modes.into_iter().filter(|m| m.0).map(|m| m.1)
    }
}

/// Invocations of a workgroup.
pub const GROUP: u32 = 256;
/// Edge of the tile of a transposed copy of so many elements with `size` bytes, with so much shared memory: wide
/// enough for whole lines of memory and for many loads in flight, as long as there are enough tiles.
pub fn transpose_tile(size: usize, elements: u64, shared: u32) -> u32 {
    if size <= 4 && elements >= 1 << 20 && shared >= 4 * 64 * 65 { 64 } else { 32 }
}

/// Elements per invocation for operands of these sizes that can be reached as `Wide`; 1 for none.
pub fn vector_width(sizes: impl Iterator<Item = usize> + Clone) -> u8 {
    match (sizes.clone().min(), sizes.max()) {
        (Some(1), Some(1)) => 16,
        (Some(s), _) => (16 / s).min(8) as u8,
        _ => 1,
    }
}

/// The beginning of a kernel that touches these dtypes and evaluates these expressions. `int64`: 64-bit integers
/// are used besides.
pub(in crate::kernels) fn head(dtypes: &[Dtype], glsl: &[&str], caps: Caps, int64: bool) -> String {
    let mut text = String::from("#version 460\n");
    let mut line = |s: &str| {
        text.push_str(s);
        text.push('\n');
    };
    for e in [
        "GL_EXT_buffer_reference",
        "GL_EXT_buffer_reference_uvec2",
        "GL_EXT_scalar_block_layout",
        "GL_EXT_control_flow_attributes",
        "GL_EXT_shader_8bit_storage",
        "GL_EXT_shader_16bit_storage",
        "GL_GOOGLE_include_directive",
    ] {
        line(&format!("#extension {e} : require"));
    }
    if int64 || dtypes.iter().any(|d| matches!(d, Dtype::I64 | Dtype::U64)) {
        line("#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require");
        line("#define HAS_INT64 1");
    }
    if dtypes.iter().any(|d| d.is_inexact()) {
        caps.float_modes().for_each(|name| line(&format!("#define {name} 1")));
        line("#include \"lib/float_controls.glsl\"");
        if caps.half_convert {
            line("#define HALF_CONVERT 1");
        }
    }
    line("#include \"lib/types.glsl\"");
    let uses = |prefix: &str| glsl.iter().any(|e| e.contains(prefix));
    if uses("c_") || glsl.iter().any(|e| calls_library(e)) {
        line("#include \"lib/math.glsl\"");
    }
    if uses("c_") {
        line("#include \"lib/complex.glsl\"");
    }
    text
}

/// An instruction over operands in registers; `round`: results of half precision are rounded.
pub(in crate::kernels) fn value(
    op: Inst,
    compute: Dtype,
    out: Dtype,
    args: &[String],
    round: bool,
) -> Result<String> {
    let expr = match op {
        Inst::Cast => convert(&args[0], compute, out),
        Inst::Op(op) => {
            let row = op.row();
            let Some(e) = row.glsl(compute) else {
                bail!(Type, "[{}] Not supported for {compute}.", row.name);
            };
            let mut e = e.replace("$T", reg_type(compute));
            for (place, arg) in ["$a", "$b", "$c"].iter().zip(args) {
                e = e.replace(place, arg);
            }
            if out == compute { wrap(&e, compute) } else { e }
        }
    };
    Ok(match out {
        Dtype::F16 if round => format!("f16_round({expr})"),
        Dtype::BF16 if round => format!("bf16_round({expr})"),
        _ => expr,
    })
}

/// The variable of an instruction, `r0`, `r1`, ..., with its value; inputs are variables `a0`, `a1`, ....
pub(in crate::kernels) fn register(p: &Program, r: usize, i: &Instr, round: bool) -> Result<String> {
    let name = |s: &Src| match *s {
        Src::Input(k) => format!("a{k}"),
        Src::Reg(r) => format!("r{r}"),
        Src::Const(bits, d) => constant(bits, d),
    };
    let args: SmallVec<[String; 3]> = i.args.iter().map(name).collect();
    let expr = value(i.op, p.compute_dtype(i), i.dtype, &args, round && p.rounds(i))?;
    let precise = if i.dtype.is_inexact() { "precise " } else { "" };
    Ok(format!("{precise}{} r{r} = {expr};", reg_type(i.dtype)))
}

pub(super) struct Gen {
    pub(super) text: String,
    ins: Vec<Ty>,
    outs: Vec<Ty>,
    caps: Caps,
}

/// Checks that a program can run on a device at all.
fn check(p: &Program, caps: Caps) -> Result<bool> {
    let raw = p.is_cast() && p.inputs[0] == p.instrs[0].dtype;
    if p.dtypes().any(|d| d == Dtype::F64) {
        bail!(Value, "[{}] float64 is not supported on the GPU.", p.name());
    }
    if !raw && !caps.int64 && p.dtypes().any(|d| matches!(d, Dtype::I64 | Dtype::U64)) {
        bail!(Value, "[{}] This GPU has no 64-bit integers.", p.name());
    }
    Ok(raw)
}

impl Gen {
    fn new(p: &Program, caps: Caps) -> Result<Gen> {
        let raw = check(p, caps)?;
        let ty = |dtype: Dtype| Ty { dtype, raw };
        let mut g = Gen {
            text: String::new(),
            ins: p.inputs.iter().map(|&d| ty(d)).collect(),
            outs: p.output_dtypes().map(ty).collect(),
            caps,
        };
        let dtypes: Vec<Dtype> = if raw { Vec::new() } else { p.dtypes().collect() };
        let glsl = |i: &Instr| match i.op {
            Inst::Op(op) => op.row().glsl(p.compute_dtype(i)),
            Inst::Cast => None,
        };
        let glsl: Vec<&str> = p.instrs.iter().filter_map(glsl).collect();
        g.text = head(&dtypes, &glsl, caps, false);
        if raw {
            let t = g.ins[0].reg();
            let _ = writeln!(g.text, "void compute({t} a0, out {t} y0) {{ y0 = a0; }}");
        } else {
            g.compute(p)?;
        }
        Ok(g)
    }

    pub(super) fn line(&mut self, s: impl AsRef<str>) {
        self.text.push_str(s.as_ref());
        self.text.push('\n');
    }

    /// The scalar function `compute(inputs.., out outputs..)`.
    fn compute(&mut self, p: &Program) -> Result<()> {
        let mut args: Vec<String> =
            self.ins.iter().enumerate().map(|(i, t)| format!("{} a{i}", t.reg())).collect();
        args.extend(self.outs.iter().enumerate().map(|(i, t)| format!("out {} y{i}", t.reg())));
        self.line(format!("void compute({}) {{", args.join(", ")));
        for (r, i) in p.instrs.iter().enumerate() {
            // What is stored is rounded then.
            let line = register(p, r, i, p.instrs.len() > 1 && !p.only_stored(r))?;
            self.line(format!("  {line}"));
        }
        for (o, r) in p.outputs.iter().enumerate() {
            self.line(format!("  y{o} = r{r};"));
        }
        self.line("}");
        Ok(())
    }

    /// Buffer types for the operands: `M<size>` by element, `W<bytes>` by vector.
    fn buffers(&mut self, class: Option<&Class>) {
        let mut sizes: Vec<usize> = self.ins.iter().chain(&self.outs).map(Ty::size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for s in sizes {
            let t = match s {
                1 => "uint8_t",
                2 => "uint16_t",
                4 => "uint",
                _ => "uvec2",
            };
            self.line(format!(
                "layout(buffer_reference, scalar, buffer_reference_align = {s}) buffer M{s} {{ {t} v[]; }};"
            ));
        }
        if class.is_some() {
            for (b, t) in [(2, "uint16_t"), (4, "uint"), (8, "uvec2"), (16, "uvec4")] {
                self.line(format!(
                    "layout(buffer_reference, scalar, buffer_reference_align = {b}) buffer W{b} {{ {t} v[]; }};"
                ));
            }
            self.line("layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Params { int v[]; };");
        }
    }

    fn operands(&self) -> impl Iterator<Item = (String, &Ty, bool)> {
        let ins = self.ins.iter().enumerate().map(|(i, t)| (format!("in{i}"), t, false));
        ins.chain(self.outs.iter().enumerate().map(|(i, t)| (format!("out{i}"), t, true)))
    }

    /// Words of a vector held in variables `{name}_w0..`, of `unit` bytes each.
    fn word(name: &str, unit: usize, byte: usize) -> String {
        let (vector, component) = (byte / unit, (byte % unit) / 4);
        match unit {
            16 | 8 => format!("{name}_w{vector}.{}", ["x", "y", "z", "w"][component]),
            _ => format!("{name}_w{vector}"),
        }
    }

    /// The words that vectors of an operand are read from or put together in.
    fn vector_words(&mut self, name: &str, ty: (usize, bool), width: usize) {
        let (size, out) = ty;
        let bytes = width * size;
        let unit = bytes.min(16);
        let t = ["uint", "uvec2", "uvec4"][unit.trailing_zeros().saturating_sub(2) as usize];
        let per = unit / size;
        let mut lines = String::new();
        for w in 0..bytes / unit {
            let init = match (out, unit) {
                (true, _) => format!("{t}(0)"),
                (false, _) => format!("{t}(W{unit}(pc.{name}).v[{name}_v + {w}])"),
            };
            if w == 0 {
                let _ = writeln!(lines, "    const int {name}_v = int(uint({name}_o + col) / {per}u);");
            }
            let _ = writeln!(lines, "    {t} {name}_w{w} = {init};");
        }
        self.text.push_str(&lines);
    }

    /// Element `e` of a vector of input `k`.
    fn vector_load(k: usize, t: &Ty, width: usize, e: usize) -> String {
        let unit = (width * t.size()).min(16);
        let byte = e * t.size();
        let word = Self::word(&format!("in{k}"), unit, byte);
        let sub = 8 * (byte % 4);
        match t.size() {
            1 | 2 => t.decode(&format!("bitfieldExtract({word}, {sub}, {})", 8 * t.size())),
            4 => t.decode(&word),
            _ => {
                let next = Self::word(&format!("in{k}"), unit, byte + 4);
                t.decode(&format!("uvec2({word}, {next})"))
            }
        }
    }

    /// Puts the bits `v` of element `e` into a vector of output `o`.
    fn vector_store(o: usize, t: &Ty, width: usize, e: usize, v: &str) -> String {
        let unit = (width * t.size()).min(16);
        let byte = e * t.size();
        let word = Self::word(&format!("out{o}"), unit, byte);
        match t.size() {
            1 | 2 => format!("    {word} |= {v} << {};\n", 8 * (byte % 4)),
            4 => format!("    {word} = {v};\n"),
            _ => {
                let next = Self::word(&format!("out{o}"), unit, byte + 4);
                format!("    {{ uvec2 b = {v}; {word} = b.x; {next} = b.y; }}\n")
            }
        }
    }

    /// The words of a vector whose 16-bit floats are converted together.
    fn pairs(&self, name: &str, t: &Ty, width: usize) -> Option<Vec<String>> {
        let together = t.pairs(self.caps);
        let words = || (0..width / 2).map(|w| Self::word(name, (2 * width).min(16), 4 * w)).collect();
        together.then(words)
    }

    /// Reads the words of inputs, and begins those of outputs.
    fn vectors_begin(&mut self, class: &Class, names: &[(String, bool)]) {
        let (width, n_in) = (class.width as usize, self.ins.len());
        for (k, (name, out)) in names.iter().enumerate() {
            if class.access[k] != Access::Wide {
                continue;
            }
            let ty = if *out { &self.outs[k - n_in] } else { &self.ins[k] };
            self.vector_words(name, (ty.size(), *out), width);
            if !out && let Some(words) = self.pairs(name, &self.ins[k], width) {
                let lines = self.ins[k].decode_pairs(name, &words);
                self.text.push_str(&lines);
            }
        }
    }

    fn vector_path(&mut self, class: &Class) {
        let width = class.width as usize;
        let names: Vec<(String, bool)> = self.operands().map(|(n, _, out)| (n, out)).collect();
        let n_in = self.ins.len();
        self.vectors_begin(class, &names);
        for e in 0..width {
            let mut args: Vec<String> = Vec::new();
            for (k, t) in self.ins.iter().enumerate() {
                args.push(match class.access[k] {
                    Access::Wide if self.pairs("", t, width).is_some() => format!("in{k}_e{e}"),
                    Access::Wide => Self::vector_load(k, t, width, e),
                    a => Self::element_load(k, t, a, &format!("col + {e}")),
                });
            }
            let outs: Vec<String> = (0..self.outs.len()).map(|o| format!("y{o}_{e}")).collect();
            let mut lines = String::new();
            for (o, t) in self.outs.iter().enumerate() {
                let _ = writeln!(lines, "    {} y{o}_{e};", t.reg());
            }
            let _ = writeln!(lines, "    compute({});", [args, outs].concat().join(", "));
            for (o, t) in self.outs.iter().enumerate() {
                let v = t.encode(&format!("y{o}_{e}"));
                lines.push_str(&match class.access[n_in + o] {
                    Access::Wide if self.pairs("", t, width).is_some() => continue,
                    Access::Wide => Self::vector_store(o, t, width, e, &v),
                    a => Self::element_store(o, t, a, &format!("col + {e}"), &v),
                });
            }
            if e + 1 < width {
                lines.push_str(&self.step(class));
            }
            self.text.push_str(&lines);
        }
        let mut lines = String::new();
        for (o, t) in self.outs.iter().enumerate() {
            if class.access[n_in + o] == Access::Wide {
                if let Some(words) = self.pairs(&format!("out{o}"), t, width) {
                    lines.push_str(&t.encode_pairs(&format!("y{o}"), &words));
                }
                let bytes = width * t.size();
                let unit = bytes.min(16);
                for w in 0..bytes / unit {
                    let v = if unit == 2 { format!("uint16_t(out{o}_w{w})") } else { format!("out{o}_w{w}") };
                    let _ = writeln!(lines, "    W{unit}(pc.out{o}).v[out{o}_v + {w}] = {v};");
                }
            }
        }
        self.text.push_str(&lines);
    }

    /// The column of an invocation, and where its row begins in each operand.
    fn places(&mut self, class: &Class, names: &[String]) {
        if class.flat {
            return self.flat_places(class, names);
        }
        let width = class.width;
        let general = class.ndim > 1;
        if general {
            self.line("  uint row = id / pc.per_row;");
            self.line(format!("  const int col = int((id - row * pc.per_row) * {width}u);"));
        } else {
            self.line(format!("  const int col = int(id * {width}u);"));
        }
        let needs_params = general || class.access.contains(&Access::Strided);
        if needs_params {
            self.line("  Params q = Params(pc.params);");
        }
        let outer = match class.ndim {
            4 => "int(pc.ndim) - 1".to_string(),
            n => format!("{}", n - 1),
        };
        for (k, name) in names.iter().enumerate() {
            let at = format!("{outer} + {k} * ({outer} + 2)");
            if needs_params {
                self.line(format!("  int {name}_o = q.v[{at}];"));
            } else {
                self.line(format!("  const int {name}_o = 0;"));
            }
            if class.access[k] == Access::Strided {
                self.line(format!("  const int {name}_s = q.v[{at} + 1];"));
            }
        }
        if general {
            self.line(format!("  for (int d = {outer} - 1; d >= 0; d--) {{"));
            self.line("    const uint len = uint(q.v[d]), next = row / len;");
            self.line("    const int i = int(row - next * len);");
            self.line("    row = next;");
            for (k, name) in names.iter().enumerate() {
                self.line(format!("    {name}_o += i * q.v[{outer} + {k} * ({outer} + 2) + 2 + d];"));
            }
            self.line("  }");
        }
    }

    fn index(name: &str, a: Access, pos: &str) -> String {
        match a {
            Access::Splat => format!("{name}_o"),
            Access::Strided => format!("{name}_o + ({pos}) * {name}_s"),
            Access::Stepped => format!("{name}_p"),
            _ => format!("{name}_o + {pos}"),
        }
    }

    fn element_load(k: usize, t: &Ty, a: Access, pos: &str) -> String {
        if a == Access::Splat {
            return format!("in{k}_c");
        }
        let at = Self::index(&format!("in{k}"), a, pos);
        Self::raw_load(k, t, &at)
    }

    fn raw_load(k: usize, t: &Ty, at: &str) -> String {
        let m = format!("M{}(pc.in{k}).v[{at}]", t.size());
        t.decode(&if t.size() < 4 { format!("uint({m})") } else { m })
    }

    fn element_store(o: usize, t: &Ty, a: Access, pos: &str, bits: &str) -> String {
        let at = Self::index(&format!("out{o}"), a, pos);
        format!("    M{}(pc.out{o}).v[{at}] = {};\n", t.size(), t.element(bits))
    }

    /// What invocation `id` does, and the end.
    fn elements(mut self, class: &Class) -> String {
        let n_in = self.ins.len();
        let names: Vec<String> = self.operands().map(|o| o.0).collect();
        let width = class.width as usize;
        self.places(class, &names);
        for k in 0..n_in {
            if class.access[k] == Access::Splat {
                let load = Gen::raw_load(k, &self.ins[k], &format!("in{k}_o"));
                let t = self.ins[k].reg();
                self.line(format!("  const {t} in{k}_c = {load};"));
            }
        }
        if width > 1 {
            self.line(format!("  if (col + {width} <= int(pc.inner)) {{"));
            self.vector_path(class);
            self.line("    return;");
            self.line("  }");
        }
        self.line(if width > 1 {
            "  for (int e = col; e < int(pc.inner); e++) {"
        } else {
            "  { const int e = col;"
        });
        let args: Vec<String> =
            (0..n_in).map(|k| Gen::element_load(k, &self.ins[k], class.access[k], "e")).collect();
        let mut lines = String::new();
        for (o, t) in self.outs.iter().enumerate() {
            let _ = writeln!(lines, "    {} y{o};", t.reg());
        }
        let outs: Vec<String> = (0..self.outs.len()).map(|o| format!("y{o}")).collect();
        let _ = writeln!(lines, "    compute({});", [args, outs].concat().join(", "));
        for (o, t) in self.outs.iter().enumerate() {
            let bits = t.encode(&format!("y{o}"));
            lines.push_str(&Gen::element_store(o, t, class.access[n_in + o], "e", &bits));
        }
        lines.push_str(&self.step(class));
        self.text.push_str(&lines);
        self.line("  }");
        self.line("}");
        self.text
    }
}

/// A kernel of a program over operands of one layout class. Push constants: an address (8 bytes) of each
/// input, each output and the parameters, then four uints: length of a row, vectors of a row, vectors
/// altogether, invocations of one grid row, and the number of axes. Parameters: the lengths of all axes but
/// the last, then for each operand its first element's position, the stride of the last axis, and the
/// strides of the others; of a flat kernel the lengths of all axes but the first, then the strides of each operand.
pub fn elementwise(p: &Program, class: &Class, caps: Caps) -> Result<String> {
    let mut g = Gen::new(p, caps)?;
    g.buffers(Some(class));
    g.line(format!("layout(local_size_x = {GROUP}) in;"));
    let members: String = g.operands().map(|o| format!("uvec2 {}; ", o.0)).collect();
    g.line(format!(
        "layout(push_constant, scalar) uniform Push {{ {members}uvec2 params; uint inner, per_row, total, grid_row, ndim; }} pc;"
    ));
    g.line("void main() {");
    g.line("  const uint id = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * pc.grid_row;");
    g.line("  if (id >= pc.total) return;");
    Ok(g.elements(class))
}

/// The same over many lists of operands of one length without gaps, the grid's rows: a table has the addresses of each. Push constants:
/// address of the table, elements of a list, invocations that have some.
pub fn tabled(p: &Program, class: &Class, caps: Caps) -> Result<String> {
    let mut g = Gen::new(p, caps)?;
    g.buffers(Some(class));
    let names: Vec<String> = g.operands().map(|o| o.0).collect();
    g.line(format!("layout(local_size_x = {GROUP}) in;"));
    g.line(
        "layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Table { uvec2 v[]; };",
    );
    g.line("layout(push_constant, scalar) uniform Push { uvec2 table; uint inner, total; } told;");
    g.line(format!("struct Operands {{ uvec2 {}; uint inner; }};", names.join(", ")));
    g.line("void main() {");
    g.line("  const uint id = gl_GlobalInvocationID.x;");
    g.line("  if (id >= told.total) return;");
    g.line("  Operands pc;");
    for (k, name) in names.iter().enumerate() {
        g.line(format!("  pc.{name} = Table(told.table).v[gl_WorkGroupID.y * {}u + {k}u];", names.len()));
    }
    g.line("  pc.inner = told.inner;");
    Ok(g.elements(class))
}

/// A copy or cast of matrices whose input is contiguous down the columns, through a tile in shared memory; all
/// loads of a thread are on their way before the first one is needed. Push constants: addresses of input and
/// output, then ints: rows, columns, input stride of a column, output stride of a row, and the batch strides of
/// input and output. The grid is column tiles x row tiles x batches.
pub fn transpose(p: &Program, tile: u32, caps: Caps) -> Result<String> {
    let mut g = Gen::new(p, caps)?;
    g.buffers(None);
    let (i, o) = (&g.ins[0], &g.outs[0]);
    let shared = if o.size() == 8 { "uvec2" } else { "uint" };
    let step = GROUP / tile;
    let each = tile / step;
    let body = format!(
        "layout(local_size_x = {tile}, local_size_y = {step}) in;
layout(push_constant, scalar) uniform Push {{ uvec2 in0, out0; int rows, cols, in_col, out_row, in_batch, out_batch; }} pc;
shared {shared} tile[{tile}][{tile} + 1];
void main() {{
  const int batch = int(gl_WorkGroupID.z), x = int(gl_LocalInvocationID.x), y0 = int(gl_LocalInvocationID.y);
  const int r0 = int(gl_WorkGroupID.y) * {tile}, c0 = int(gl_WorkGroupID.x) * {tile};
  const int r = min(r0 + x, pc.rows - 1);
  {shared} e[{each}];
  [[unroll]] for (int k = 0; k < {each}; ++k) {{
    const int c = min(c0 + y0 + k * {step}, pc.cols - 1);
    {} v;
    compute({}, v);
    e[k] = {};
  }}
  [[unroll]] for (int k = 0; k < {each}; ++k) tile[y0 + k * {step}][x] = e[k];
  barrier();
  [[unroll]] for (int k = 0; k < {each}; ++k) {{
    const int y = y0 + k * {step};
    if (r0 + y < pc.rows && c0 + x < pc.cols)
      M{}(pc.out0).v[batch * pc.out_batch + (r0 + y) * pc.out_row + c0 + x] = {};
  }}
}}",
        o.reg(),
        Gen::raw_load(0, i, "batch * pc.in_batch + c * pc.in_col + r"),
        o.encode("v"),
        o.size(),
        o.element("tile[x][y]"),
    );
    g.line(body);
    Ok(g.text)
}

/// Fills a contiguous array with `start + i * step`. Push constants: address, count, invocations of one
/// grid row, then start and step as values of the dtype (64 bits each), and the first index.
pub fn arange(dtype: Dtype, caps: Caps) -> Result<String> {
    let mut g = Gen::new(&Program::cast(dtype, dtype), caps)?;
    let t = Ty { dtype, raw: false };
    if dtype == Dtype::F64 || dtype == Dtype::C64 || dtype == Dtype::Bool {
        bail!(Type, "[arange] Not supported for {dtype} on the GPU.");
    }
    if t.size() == 8 {
        if !caps.int64 {
            bail!(Value, "[arange] This GPU has no 64-bit integers.");
        }
        g.text = g.text.replacen(
            "#include",
            "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n#define HAS_INT64 1\n#include",
            1,
        );
    }
    g.buffers(None);
    let r = t.reg();
    let first = if t.size() == 8 { "pc.start" } else { "pc.start.x" };
    let step = if t.size() == 8 { "pc.step" } else { "pc.step.x" };
    let value = match dtype {
        Dtype::F16 => "f16_round(first + f16_round(f16_round(float(i)) * step))",
        Dtype::BF16 => "bf16_round(first + bf16_round(bf16_round(float(i)) * step))",
        Dtype::F32 => "first + float(i) * step",
        _ => "first + REG(i) * step",
    };
    g.line(format!(
        "layout(local_size_x = {GROUP}) in;
layout(push_constant, scalar) uniform Push {{ uvec2 out0; uint count, grid_row; uvec2 start, step; uint index; }} pc;
void main() {{
  const uint id = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * pc.grid_row;
  if (id >= pc.count) return;
  const uint i = id + pc.index;
  const {r} first = {}, step = {};
  precise {r} v = {};
  M{}(pc.out0).v[id] = {};
}}",
        t.decode(first),
        t.decode(step),
        value.replace("REG", r),
        t.size(),
        t.element(&t.encode("v")),
    ));
    Ok(g.text)
}

/// The beginning of a kernel of another family, with the program as a function `compute(inputs.., out outputs..)`.
pub(in crate::kernels) fn function(p: &Program, caps: Caps) -> Result<String> {
    Ok(Gen::new(p, caps)?.text)
}

/// Whether a device with these capabilities can run the program, else the error that says why not.
pub fn supported(p: &Program, caps: Caps) -> Result<()> {
    check(p, caps)?;
    for i in &p.instrs {
        if let Inst::Op(op) = i.op {
            let dtype = p.compute_dtype(i);
            if op.row().glsl(dtype).is_none() {
                bail!(Type, "[{}] Not supported for {dtype}.", op.row().name);
            }
        }
    }
    Ok(())
}
