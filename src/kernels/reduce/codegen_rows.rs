//! GLSL of a program over rows. The lanes that share a row hold its elements in registers from phase to phase, or
//! walk the row again for each phase where it is too long, computing anew what they need. Vectors of
//! `RowClass::width` elements are loaded and stored up to 16 bytes at a time.

use smallvec::SmallVec;

use super::row_program::{RowInst, RowProgram};
use super::table::{ReduceOp, RowFold};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::elementwise::codegen::{Access, Caps, head, value};
use crate::kernels::elementwise::codegen_types::{Ty, constant};
use crate::kernels::elementwise::program::{Inst, Src};

/// Layout class of a kernel over rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowClass {
    /// Access of each input: `Wide`, `Splat` or `Strided` (along the row, whose vectors have one element then).
    pub access: SmallVec<[Access; 6]>,
    /// Elements of a vector.
    pub width: u8,
    /// Vectors that a lane holds in registers; 0 walks the row again in each phase.
    pub in_registers: u8,
}

/// Vectors that a lane loads at once where the row is walked.
const UNROLL: u8 = 4;

/// How many arrays of the elements of a row live in registers from one phase to the next, at the most.
pub fn kept(p: &RowProgram) -> usize {
    let phases = p.phases();
    let last = phases.iter().copied().max().unwrap_or(0);
    let (first, end) = spans(p, &phases);
    (0..=last).map(|k| (0..first.len()).filter(|&v| first[v] <= k && k < end[v]).count()).max().unwrap_or(0)
}

/// First and last phase of each value over elements, inputs first; values of rows are in no phase.
fn spans(p: &RowProgram, phases: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (n, m) = (p.inputs.len(), p.instrs.len());
    let (mut first, mut end) = (vec![u8::MAX; n + m], vec![0; n + m]);
    for (r, i) in p.instrs.iter().enumerate() {
        let at = p.runs_in(r, phases);
        if !i.row {
            first[n + r] = at;
            end[n + r] = end[n + r].max(at);
        }
        for &s in &i.args {
            let v = match s {
                Src::Input(k) => k as usize,
                Src::Reg(k) => n + k as usize,
                Src::Const(..) => continue,
            };
            // A value of the row that an instruction of the row reads is no element.
            if !p.is_row(s) {
                first[v] = first[v].min(at);
                end[v] = end[v].max(at);
            }
        }
    }
    (first, end)
}

struct Rows<'a> {
    p: &'a RowProgram,
    class: &'a RowClass,
    text: String,
    phases: SmallVec<[u8; 16]>,
    first: Vec<u8>,
    end: Vec<u8>,
}

/// How rows fold by an operation.
fn fold_of(op: ReduceOp) -> Result<RowFold> {
    match op.row().fold {
        Some(fold) => Ok(fold),
        None => bail!(Runtime, "[rows] Rows are not folded by {}.", op.row().name),
    }
}

/// Word of a vector: how many bytes each has, and how many there are.
fn words(width: usize, size: usize) -> (usize, usize) {
    let bytes = width * size;
    let unit = bytes.min(16);
    (unit, bytes / unit)
}

fn word_type(unit: usize) -> &'static str {
    match unit {
        16 => "uvec4",
        8 => "uvec2",
        _ => "uint",
    }
}

impl Rows<'_> {
    fn line(&mut self, s: impl AsRef<str>) {
        self.text.push_str(s.as_ref());
        self.text.push('\n');
    }

    fn in_registers(&self) -> bool {
        self.class.in_registers > 0
    }

    fn input(&self, k: usize) -> Ty {
        Ty::new(self.p.inputs[k].0)
    }

    fn output(&self, o: usize) -> Ty {
        Ty::new(self.p.instrs[self.p.outputs[o] as usize].dtype)
    }

    /// Whether a value (inputs first) is kept in registers from one phase to another.
    fn keeps(&self, v: usize) -> bool {
        self.in_registers() && self.first[v] < self.end[v] && self.first[v] != u8::MAX
    }

    /// Whether an input is read element by element.
    fn by_element(&self, k: usize) -> bool {
        self.class.access[k] != Access::Splat
    }

    /// Name of an operand inside a phase, at element `e` of vector `j`.
    fn name(&self, s: Src, phase: u8, e: usize) -> String {
        let n = self.p.inputs.len();
        let (v, own) = match s {
            Src::Const(bits, d) => return constant(bits, d),
            Src::Input(k) => (k as usize, format!("a{k}")),
            Src::Reg(r) => (n + r as usize, format!("r{r}")),
        };
        let element = !self.p.is_row(s) && !matches!(s, Src::Input(k) if !self.by_element(k as usize));
        if element && self.keeps(v) && self.first[v] < phase {
            let width = self.class.width;
            return format!("k{v}[j * {width}u + {e}u]");
        }
        own
    }

    /// `r7 = ...` for an instruction that is no fold.
    fn assign(&mut self, r: usize, phase: u8, e: usize) -> Result<()> {
        let i = &self.p.instrs[r];
        let RowInst::Each(op) = i.op else { return Ok(()) };
        let compute = self.p.compute_dtype(i);
        let args: SmallVec<[String; 3]> = i.args.iter().map(|&s| self.name(s, phase, e)).collect();
        let expr = match self.divides_by_row(r) {
            true => format!("row_div({}, {}, inv{r})", args[0], args[1]),
            // What leaves the kernel is rounded when it is stored.
            false => value(op, compute, i.dtype, &args, i.row || op == Inst::Cast)?,
        };
        let precise = if i.dtype.is_inexact() { "precise " } else { "" };
        let ty = Ty::new(i.dtype).reg();
        self.line(format!("  {precise}{ty} r{r} = {expr};"));
        Ok(())
    }

    /// Whether an instruction divides the elements by a number of the row, whose reciprocal they share.
    fn divides_by_row(&self, r: usize) -> bool {
        let i = &self.p.instrs[r];
        let by_row = |s: &Src| !matches!(s, Src::Const(..)) && self.p.is_row(*s);
        let divide = matches!(i.op, RowInst::Each(Inst::Op(op)) if op.row().divides);
        divide && !i.row && i.dtype.is_float() && by_row(&i.args[1])
    }

    /// Whether the vectors of an output are rounded to bfloat16 together.
    fn packs(&self, o: usize) -> bool {
        self.class.width == 8 && self.p.instrs[self.p.outputs[o] as usize].dtype == Dtype::BF16
    }

    /// Inputs that are loaded by element in a phase.
    fn loads(&self, phase: u8, needed: &[bool]) -> Vec<usize> {
        let used = |k: usize| {
            let reads = |r: usize| self.p.instrs[r].args.contains(&Src::Input(k as u8)) && needed[r];
            (0..self.p.instrs.len()).any(reads)
        };
        (0..self.p.inputs.len())
            .filter(|&k| !self.p.inputs[k].1 && self.by_element(k))
            .filter(|&k| used(k) && (!self.in_registers() || self.first[k] == phase))
            .collect()
    }

    /// Bits of element `e` of input `k`, from the words that were loaded.
    fn element(&self, k: usize, e: usize) -> String {
        let (t, width) = (self.input(k), self.class.width as usize);
        let (unit, _) = words(width, t.size());
        let byte = e * t.size();
        let word = |byte: usize| {
            let base = format!("x{k}_w{}[j]", byte / unit);
            match unit {
                16 | 8 => format!("{base}.{}", ["x", "y", "z", "w"][byte % unit / 4]),
                _ => base,
            }
        };
        match t.size() {
            2 if width > 1 && self.p.inputs[k].0 == Dtype::F16 => {
                format!("unpackHalf2x16({}).{}", word(byte), ["x", "y"][e % 2])
            }
            2 if width > 1 && self.p.inputs[k].0 == Dtype::BF16 => {
                let form = ["{} << 16", "{} & 0xffff0000u"][e % 2];
                format!("uintBitsToFloat({})", form.replace("{}", &word(byte)))
            }
            8 if width == 1 => t.decode(&format!("x{k}_w0[j]")),
            8 => t.decode(&format!("uvec2({}, {})", word(byte), word(byte + 4))),
            4 => t.decode(&word(byte)),
            s if width == 1 => t.decode(&format!("bitfieldExtract(x{k}_w0[j], 0, {})", 8 * s)),
            s => t.decode(&format!("bitfieldExtract({}, {}, {})", word(byte), 8 * (byte % 4), 8 * s)),
        }
    }

    /// Which instructions run in a walk over the row.
    fn needed(&self, phase: u8) -> Vec<bool> {
        let p = self.p;
        match self.in_registers() {
            true => (0..p.instrs.len())
                .map(|r| {
                    let i = &p.instrs[r];
                    let fold = matches!(i.op, RowInst::Fold(_));
                    (fold || !i.row) && p.runs_in(r, &self.phases) == phase
                })
                .collect(),
            false => p.needs(phase, &self.phases),
        }
    }

    /// Fetches vectors of inputs, a block of them at once.
    fn fetch(&mut self, loads: &[usize], base: &str, block: u8) {
        let width = self.class.width as usize;
        for &k in loads {
            let (unit, count) = words(width, self.input(k).size());
            for w in 0..count {
                self.line(format!("  {} x{k}_w{w}[{block}];", word_type(unit)));
            }
        }
        self.line(format!("  [[unroll]] for (uint j = 0u; j < {block}u; ++j) {{"));
        self.line(format!("    const uint i = min({base} + j * TPR, vectors - 1u);"));
        for &k in loads {
            let (unit, count) = words(width, self.input(k).size());
            for w in 0..count {
                let at = match self.class.access[k] {
                    Access::Wide => format!("in{k} + {unit}ul * (uint64_t(i) * {count}ul + {w}ul)"),
                    Access::Splat | Access::Unit | Access::Strided | Access::Stepped => {
                        format!("in{k} + uint64_t(int64_t(i) * in{k}_s)")
                    }
                };
                self.line(format!("    x{k}_w{w}[j] = {}(W{unit}({at}).v);", word_type(unit)));
            }
        }
        self.line("  }");
    }

    /// The instructions of a phase on element `e` of a vector: what is read, what it becomes, what is kept and folded.
    fn element_steps(&mut self, phase: u8, e: usize, needed: &[bool], loads: &[usize]) -> Result<()> {
        let (p, width) = (self.p, self.class.width as usize);
        let n_in = p.inputs.len();
        for &k in loads {
            let (t, bits) = (self.input(k), self.element(k, e));
            self.line(format!("  const {} a{k} = {bits};", t.reg()));
            if self.keeps(k) {
                self.line(format!("  k{k}[j * {width}u + {e}u] = a{k};"));
            }
        }
        for r in 0..p.instrs.len() {
            if !needed[r] {
                continue;
            }
            if let RowInst::Fold(op) = p.instrs[r].op {
                let x = self.name(p.instrs[r].args[0], phase, e);
                self.line(format!("  {}", RowFold::text(fold_of(op)?.step, r, &x)));
                continue;
            }
            self.assign(r, phase, e)?;
            if self.keeps(n_in + r) {
                self.line(format!("  k{}[j * {width}u + {e}u] = r{r};", n_in + r));
            }
        }
        Ok(())
    }

    /// Puts element `e` of output `o` into the words of its vector.
    fn put(&mut self, o: usize, e: usize) {
        let (p, t) = (self.p, self.output(o));
        let (unit, _) = words(self.class.width as usize, t.size());
        if self.packs(o) {
            self.line(format!("  f{o}[{e}] = r{};", p.outputs[o]));
            return;
        }
        let bits = t.encode(&format!("r{}", p.outputs[o]));
        let byte = e * t.size();
        let word = |byte: usize| match unit {
            16 | 8 => format!("y{o}_w{}.{}", byte / unit, ["x", "y", "z", "w"][byte % unit / 4]),
            _ => format!("y{o}_w{}", byte / unit),
        };
        self.line(match t.size() {
            8 => format!("  {{ uvec2 b = {bits}; {} = b.x; {} = b.y; }}", word(byte), word(byte + 4)),
            4 => format!("  {} = {bits};", word(byte)),
            _ => format!("  {} |= {bits} << {};", word(byte), 8 * (byte % 4)),
        });
    }

    /// Stores the vectors of outputs.
    fn store(&mut self, stored: &[usize]) {
        let width = self.class.width as usize;
        self.line("  if (live) {");
        for &o in stored {
            if self.packs(o) {
                self.line(format!("  y{o}_w0 = row_bf16(f{o});"));
            }
            let (unit, count) = words(width, self.output(o).size());
            for w in 0..count {
                let v = match unit {
                    1 => format!("uint8_t(y{o}_w{w})"),
                    2 => format!("uint16_t(y{o}_w{w})"),
                    _ => format!("y{o}_w{w}"),
                };
                let at = format!("out{o} + {unit}ul * (uint64_t(i) * {count}ul + {w}ul)");
                self.line(format!("  W{unit}({at}).v = {v};"));
            }
        }
        self.line("  }");
    }

    /// One walk over the row: loads, instructions, stores, and the folds of each lane.
    fn phase(&mut self, phase: u8, base: &str, block: u8) -> Result<()> {
        let (p, width) = (self.p, self.class.width as usize);
        let needed = self.needed(phase);
        let stored: Vec<usize> = (0..p.outputs.len())
            .filter(|&o| {
                let r = p.outputs[o] as usize;
                !p.instrs[r].row && self.phases[r] == phase
            })
            .collect();
        let loads = self.loads(phase, &needed);
        self.fetch(&loads, base, block);
        self.line(format!("  [[unroll]] for (uint j = 0u; j < {block}u; ++j) {{"));
        self.line(format!("    const uint i = {base} + j * TPR;"));
        self.line("    if (i < vectors) {");
        for &o in &stored {
            let (unit, count) = words(width, self.output(o).size());
            for w in 0..count {
                self.line(format!("  {0} y{o}_w{w} = {0}(0);", word_type(unit)));
            }
            if self.packs(o) {
                self.line(format!("  float f{o}[8];"));
            }
        }
        for e in 0..width {
            self.line("  {");
            self.element_steps(phase, e, &needed, &loads)?;
            for &o in &stored {
                self.put(o, e);
            }
            self.line("  }");
        }
        if !stored.is_empty() {
            self.store(&stored);
        }
        self.line("    }\n  }");
        Ok(())
    }

    /// Declarations and the beginning of `main`: which row, and the addresses of its operands.
    fn begin(&mut self) {
        let (p, class) = (self.p, self.class);
        let (n_in, n_out, width) = (p.inputs.len(), p.outputs.len(), class.width);
        for (b, t) in [(1, "uint8_t"), (2, "uint16_t"), (4, "uint"), (8, "uvec2"), (16, "uvec4")] {
            self.line(format!(
                "layout(buffer_reference, scalar, buffer_reference_align = {b}) buffer W{b} {{ {t} v; }};"
            ));
        }
        self.line("layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Params { int64_t v[]; };");
        self.line("layout(local_size_x_id = 0) in;");
        self.line("layout(constant_id = 0) const uint WG = 256u;");
        self.line("layout(constant_id = 1) const uint TPR = 256u;");
        if (0..p.instrs.len()).any(|r| self.divides_by_row(r)) {
            self.line("#define ROW_DIV 1");
        }
        self.line("#include \"lib/row.glsl\"");
        let names = (0..n_in).map(|k| format!("in{k}")).chain((0..n_out).map(|o| format!("out{o}")));
        let members: String = names.map(|n| format!("uint64_t {n}; ")).collect();
        self.line(format!(
            "layout(push_constant, scalar) uniform Push {{ {members}uint64_t params; uint rows, n, nk; }} pc;"
        ));
        self.line("void main() {");
        self.line("  const uint lane = row_lane(), t = lane % TPR;");
        self.line("  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;");
        self.line("  const uint own = group * (WG / TPR) + lane / TPR;");
        self.line("  const bool live = own < pc.rows;");
        self.line("  const uint row = min(own, pc.rows - 1u);");
        self.line(format!("  const uint vectors = pc.n / {width}u;"));
        self.line("  Params q = Params(pc.params);");
        for k in 0..n_in {
            self.line(format!("  uint64_t in{k} = pc.in{k};"));
            if class.access[k] == Access::Strided {
                self.line(format!("  const int64_t in{k}_s = q.v[pc.nk * {}u + {k}u];", n_in + 1));
            }
        }
        self.line("  uint rest = row;");
        self.line("  for (uint d = pc.nk; d > 0u; --d) {");
        self.line("    const uint len = uint(q.v[d - 1u]), next = rest / len;");
        self.line("    const int64_t at = int64_t(rest - next * len);");
        self.line("    rest = next;");
        for k in 0..n_in {
            self.line(format!("    in{k} += uint64_t(at * q.v[pc.nk * {}u + d - 1u]);", k + 1));
        }
        self.line("  }");
        for (o, &r) in p.outputs.iter().enumerate() {
            let i = &p.instrs[r as usize];
            let size = i.dtype.size();
            let per_row = if i.row { "1ul" } else { "uint64_t(pc.n)" };
            self.line(format!("  const uint64_t out{o} = pc.out{o} + uint64_t(row) * {per_row} * {size}ul;"));
        }
    }

    /// Inputs of one number for a row, and room for what is kept of a row between its walks.
    fn registers(&mut self) {
        let (p, class) = (self.p, self.class);
        let n_in = p.inputs.len();
        for k in 0..n_in {
            let t = self.input(k);
            if class.access[k] == Access::Splat {
                let bits = format!("W{}(in{k}).v", t.size());
                let bits = t.decode(&if t.size() < 4 { format!("uint({bits})") } else { bits });
                self.line(format!("  const {} a{k} = {bits};", t.reg()));
            }
        }
        if class.in_registers > 0 {
            for v in 0..n_in + p.instrs.len() {
                let splat = v < n_in && !self.by_element(v);
                if self.keeps(v) && !splat {
                    let dtype = if v < n_in { p.inputs[v].0 } else { p.instrs[v - n_in].dtype };
                    let (ty, count) =
                        (Ty::new(dtype).reg(), u32::from(class.in_registers) * u32::from(class.width));
                    self.line(format!("  {ty} k{v}[{count}];"));
                }
            }
        }
    }

    /// A phase: numbers of the row, a walk over its elements, and what the folds of all lanes come to.
    fn whole_phase(&mut self, phase: u8) -> Result<()> {
        let (p, class) = (self.p, self.class);
        for r in 0..p.instrs.len() {
            let i = &p.instrs[r];
            if i.row && self.phases[r] == phase && matches!(i.op, RowInst::Each(_)) {
                self.assign(r, phase, 0)?;
            }
        }
        for r in 0..p.instrs.len() {
            if self.phases[r] == phase && self.divides_by_row(r) {
                let by = self.name(p.instrs[r].args[1], phase, 0);
                self.line(format!("  const float inv{r} = row_inverse({by});"));
            }
        }
        let folds: Vec<(usize, ReduceOp)> = (0..p.instrs.len())
            .filter_map(|r| match p.instrs[r].op {
                RowInst::Fold(op) if self.phases[r] == phase + 1 => Some((r, op)),
                RowInst::Fold(_) | RowInst::Each(_) => None,
            })
            .collect();
        for &(r, op) in &folds {
            self.line(format!("  {}", RowFold::text(fold_of(op)?.start, r, "")));
        }
        let anything = (0..p.instrs.len()).any(|r| {
            let i = &p.instrs[r];
            (!i.row || matches!(i.op, RowInst::Fold(_))) && p.runs_in(r, &self.phases) == phase
        });
        if anything && class.in_registers > 0 {
            self.line("  {");
            self.phase(phase, "t", class.in_registers)?;
            self.line("  }");
        } else if anything {
            self.line(format!("  for (uint from = t; from < vectors; from += {UNROLL}u * TPR) {{"));
            self.phase(phase, "from", UNROLL)?;
            self.line("  }");
        }
        for &(r, op) in &folds {
            let total = RowFold::text(fold_of(op)?.close, r, "");
            let total = match p.instrs[r].dtype {
                Dtype::F16 => format!("f16_round({total})"),
                Dtype::BF16 => format!("bf16_round({total})"),
                _ => total,
            };
            self.line(format!("  const float r{r} = {total};"));
        }
        Ok(())
    }
}

/// Whether a device with these capabilities can run the program, else the error that says why not.
pub fn supported(p: &RowProgram, caps: Caps) -> Result<()> {
    if p.dtypes().any(|d| d == Dtype::F64) {
        bail!(Value, "[{}] float64 is not supported on the GPU.", p.name());
    }
    if !caps.int64 {
        bail!(Value, "[{}] This GPU has no 64-bit integers.", p.name());
    }
    for i in &p.instrs {
        if let RowInst::Each(Inst::Op(op)) = i.op {
            let dtype = p.compute_dtype(i);
            if op.row().glsl(dtype).is_none() {
                bail!(Type, "[{}] Not supported for {dtype}.", op.row().name);
            }
        }
    }
    Ok(())
}

/// A kernel of a program over rows. Specialisation constants: lanes of a workgroup, and of a row. Push constants:
/// an address (8 bytes) of each input, each output and the parameters, then three uints: rows, elements of a row,
/// axes of the rows. Parameters (64 bits each): lengths of these axes, then for each input its byte strides along
/// them, then for each input its byte stride along the row. Outputs are row-major.
pub fn rows(p: &RowProgram, class: &RowClass, caps: Caps) -> Result<String> {
    supported(p, caps)?;
    let phases = p.phases();
    let (first, end) = spans(p, &phases);
    let dtypes: Vec<Dtype> = p.dtypes().collect();
    let glsl: Vec<&str> = p
        .instrs
        .iter()
        .filter_map(|i| match i.op {
            RowInst::Each(Inst::Op(op)) => op.row().glsl(p.compute_dtype(i)),
            RowInst::Each(_) | RowInst::Fold(_) => None,
        })
        .collect();
    let mut g = Rows { p, class, text: head(&dtypes, &glsl, caps, true), phases, first, end };
    g.begin();
    g.registers();
    let last = g.phases.iter().copied().max().unwrap_or(0);
    for phase in 0..=last {
        g.whole_phase(phase)?;
    }
    g.line("  if (live && t == 0u) {");
    for (o, &r) in p.outputs.iter().enumerate() {
        if p.instrs[r as usize].row {
            let t = g.output(o);
            let bits = t.element(&t.encode(&format!("r{r}")));
            g.line(format!("    W{}(out{o}).v = {bits};", t.size()));
        }
    }
    g.line("  }\n}");
    Ok(g.text)
}
