//! Epilogues: what a compiled function computes on the results of a matrix product before they are stored, as a
//! function in GLSL that the product's kernel calls (shaders/matmul/epilogue.glsl). It gets sums in float32 and rounds
//! once, when the result is stored; casts that the program names round too.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::core::Dtype;
use crate::core::fork::Shared;
use crate::kernels::elementwise::codegen::{Caps, register};
use crate::kernels::elementwise::codegen_types::Ty;
use crate::kernels::elementwise::program::{Inst, Instr, Program};
use crate::kernels::elementwise::table::calls_library;

/// Most matrices that one row is multiplied by in one kernel; the push block holds so many.
pub const MATRICES: usize = 3;

/// How an array meets the elements of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spread {
    /// One for each element, row-major.
    Whole,
    /// One for each column.
    Columns,
    /// One for all.
    Single,
}

/// A program on the results of a product.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epilogue {
    /// What is computed; it has one output.
    pub program: Program,
    /// The input that is the product.
    pub product: u8,
    /// How the other inputs are read, in order.
    pub spread: SmallVec<[Spread; 4]>,
}

/// Arrays that an epilogue reads, instructions that it has, and library functions in the unit of `Row::code_size`:
/// a thread of the product's kernel computes up to 128 results without a loop.
const MAX_ARRAYS: usize = 4;
const MAX_INSTRS: usize = 24;
const MAX_CODE: usize = 4;

pub(crate) static EPILOGUES_KEPT: Shared<HashSet<&'static Epilogue>> = Shared::new(HashSet::new);
pub(crate) static AFTERS_KEPT: Shared<HashMap<After, Option<KeptAfter>>> = Shared::new(HashMap::new);

impl Epilogue {
    /// The same epilogue, kept for the life of the process, as the kernels that it is part of are.
    pub fn kept(self) -> &'static Epilogue {
        let mut all = EPILOGUES_KEPT.lock();
        match all.get(&self) {
            Some(&known) => known,
            None => {
                let new: &'static Epilogue = Box::leak(Box::new(self));
                all.insert(new);
                new
            }
        }
    }

    /// Dtype of the product.
    pub fn from(&self) -> Dtype {
        self.program.inputs[self.product as usize]
    }

    /// Dtype of the result.
    pub fn to(&self) -> Dtype {
        self.program.instrs[self.program.outputs[0] as usize].dtype
    }

    /// Inputs besides the product.
    fn arrays(&self) -> impl Iterator<Item = (usize, Spread)> + '_ {
        let inputs = (0..self.program.inputs.len()).filter(|&k| k != self.product as usize);
        inputs.zip(self.spread.iter().copied())
    }

    /// Bytes of an element of each array besides the product.
    pub fn array_sizes(&self) -> SmallVec<[usize; 4]> {
        self.arrays().map(|(k, _)| self.program.inputs[k].size()).collect()
    }

    /// Whether kernels can compute it. Every kernel of the family stores float32 and the product's own dtype.
    pub fn suits(&self) -> bool {
        let p = &self.program;
        let plain = |d: Dtype| d.size() <= 4;
        let half = |d: Dtype| matches!(d, Dtype::F16 | Dtype::BF16);
        let (from, to) = (self.from(), self.to());
        p.outputs.len() == 1
            && (from == Dtype::F32 || half(from))
            && (to == Dtype::F32 || to == from || from == Dtype::F32 && half(to))
            && p.dtypes().all(plain)
            && p.has_glsl()
            && p.instrs.len() <= MAX_INSTRS
            && self.spread.len() <= MAX_ARRAYS
            && p.code_size() <= MAX_CODE
    }

    /// Whether it reads no whole array and calls no function that takes longer than what a product does between two loads.
    pub fn is_light(&self) -> bool {
        let brief = |i: &Instr| match i.op {
            Inst::Op(op) => op.row().is_brief(self.program.compute_dtype(i)),
            Inst::Cast => true,
        };
        !self.spread.contains(&Spread::Whole) && self.program.instrs.iter().all(brief)
    }

    /// Macros for matmul/epilogue.glsl.
    pub fn defines(&self, caps: Caps) -> Vec<(String, String)> {
        let p = &self.program;
        let (mut globals, mut params, mut args, mut begin) = Default::default();
        let mut code = format!("float fused(float a{}, uint e, uint col FUSED_PARAMS) {{", self.product);
        let put = |text: &mut String, what: std::fmt::Arguments| {
            let _ = text.write_fmt(what);
        };
        for (slot, (k, spread)) in self.arrays().enumerate() {
            let (dtype, ty) = (p.inputs[k], Ty::new(p.inputs[k]));
            put(&mut globals, format_args!("uvec2 fused_{k}; "));
            put(&mut params, format_args!(", const in uvec2 fused_{k}"));
            put(&mut args, format_args!(", fused_{k}"));
            put(&mut begin, format_args!("fused_{k} = Fused(p.fused).at[{slot}]; "));
            if spread == Spread::Whole {
                let shift = ty.size().trailing_zeros();
                put(&mut begin, format_args!("fused_{k} = advance(fused_{k}, i, p.d_b, {shift}u); "));
            }
            let (words, at) = (["Bytes", "Halves", "Words"][ty.size() / 2], spread.index());
            let bits = format!("uint({words}(fused_{k}).v[{at}])");
            let one = match dtype {
                Dtype::F16 => format!("half_bits_to_float({bits})"),
                _ => ty.decode(&bits),
            };
            put(&mut code, format_args!(" const {} a{k} = {one};", ty.reg()));
        }
        code.push_str(&instructions(p, false));
        put(&mut code, format_args!(" return r{}; }}", p.outputs[0]));
        let out = match self.to() {
            Dtype::F32 => "0",
            Dtype::F16 => "1",
            _ => "2",
        };
        let math = calls_library(&code);
        let texts = [
            ("FUSED", String::new()),
            ("OUT", out.into()),
            ("FUSED_GLOBALS", globals),
            ("FUSED_PARAMS", params),
            ("FUSED_ARGS", args),
            ("FUSED_BEGIN", begin),
            ("FUSED_CODE", code),
        ];
        let flags = caps.float_modes().chain(math.then_some("FUSED_MATH")).map(|f| (f, String::new()));
        texts.into_iter().chain(flags).map(|(name, text)| (name.to_string(), text)).collect()
    }
}

/// The instructions of a program with one output, whose inputs are variables `a0`, `a1`, ...; the output is the variable
/// of its register. With `each`, the results of all of them are rounded, else those of casts in between.
fn instructions(p: &Program, each: bool) -> String {
    let mut code = String::new();
    for (r, i) in p.instrs.iter().enumerate() {
        let round = each || i.op == Inst::Cast && r != p.outputs[0] as usize;
        // INVARIANT: `suits` found an expression for each instruction.
        code = code + " " + &register(p, r, i, round).unwrap_or_default();
    }
    code
}

/// Where a program that follows products gets an input from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A product, by number.
    Product(u8),
    /// An array with an element for each result, by number.
    Array(u8),
    /// An array with a row for each of the matrices that are picked from, by number: a result takes an element of its matrix's.
    Picked(u8),
}

/// A program on the results of one product or of several of one shape, all of one dtype.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct After {
    /// What is computed; it has one output.
    pub program: Program,
    /// Of the program's inputs.
    pub inputs: SmallVec<[Origin; 4]>,
}

/// One that is kept for the life of the process, as the kernels that it is part of are; known by its address.
#[derive(Debug, Clone, Copy)]
pub struct KeptAfter(&'static After);

impl std::ops::Deref for KeptAfter {
    type Target = After;
    fn deref(&self) -> &After {
        self.0
    }
}

impl PartialEq for KeptAfter {
    fn eq(&self, other: &KeptAfter) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for KeptAfter {}

impl Hash for KeptAfter {
    fn hash<H: Hasher>(&self, h: &mut H) {
        std::ptr::from_ref(self.0).hash(h);
    }
}

impl After {
    /// Whether it reads what belongs to picked matrices.
    pub fn picks(&self) -> bool {
        self.inputs.iter().any(|o| matches!(o, Origin::Picked(_)))
    }

    /// The same, kept; none if kernels cannot compute it.
    pub fn kept(self) -> Option<KeptAfter> {
        thread_local! {
            /// The last ones that this thread asked for: a model has few, and to compare one costs a tenth of finding it.
            static LAST: Cell<[Option<KeptAfter>; 4]> = const { Cell::new([None; 4]) };
        }
        let last = LAST.get();
        if let Some(&known) = last.iter().flatten().find(|k| *k.0 == self) {
            return Some(known);
        }
        let mut all = AFTERS_KEPT.lock();
        let kept = match all.get(&self) {
            Some(&known) => known,
            None => {
                let kept = self.suits().then(|| KeptAfter(Box::leak(Box::new(self.clone()))));
                all.insert(self, kept);
                kept
            }
        };
        if kept.is_some() {
            LAST.set([kept, last[0], last[1], last[2]]);
        }
        kept
    }

    /// Whether kernels can compute it.
    fn suits(&self) -> bool {
        let dtype = self.program.inputs[0];
        let spread = SmallVec::from_elem(Spread::Whole, self.inputs.len() - 1);
        let same = |d: Dtype| d == dtype;
        self.program.inputs.iter().copied().chain(self.program.output_dtypes()).all(same)
            && self.program.outputs.len() == 1
            && Epilogue { program: self.program.clone(), product: 0, spread }.suits()
    }

    /// A function in GLSL, which rounds as a kernel of its own does, of the results of the products, rounded, and the
    /// place of the element; arrays lie at `p.d[1]` and the following, rows of picked matrices where `picked_place` of
    /// shaders/quantized/qmm.glsl says.
    pub fn function(&self, name: &str) -> String {
        let products = self.inputs.iter().filter(|o| matches!(o, Origin::Product(_))).count();
        let params: String = (0..products).map(|i| format!("float p{i}, ")).collect();
        let mut code = format!("float {name}({params}uint e) {{");
        for (k, origin) in self.inputs.iter().enumerate() {
            let _ = match origin {
                Origin::Product(i) => write!(code, " const float a{k} = p{i};"),
                Origin::Array(i) => write!(code, " const float a{k} = load_element(p.d[{}], e);", i + 1),
                Origin::Picked(i) => {
                    write!(code, " const float a{k} = load_element(p.d[{}], picked_place(e));", i + 1)
                }
            };
        }
        code + &instructions(&self.program, self.program.instrs.len() > 1)
            + &format!(" return r{}; }}", self.program.outputs[0])
    }
}

impl Spread {
    /// The position in GLSL.
    fn index(self) -> &'static str {
        match self {
            Spread::Whole => "e",
            Spread::Columns => "col",
            Spread::Single => "0",
        }
    }
}
