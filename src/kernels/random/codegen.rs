//! Turns a program whose first input is a random draw into GLSL: one kernel makes the words, finishes them and computes
//! what follows. As in shaders/random/random.comp a lane runs four neighbouring counters of one key and stores the two
//! runs of four elements that they yield. Pure; called by the kernels of `vulkan::kernels::random`.

use std::fmt::Write;

use smallvec::SmallVec;

use super::draw::Draw;
use crate::core::Result;
use crate::kernels::Program;
use crate::kernels::elementwise::codegen::{Caps, GROUP, function};
use crate::kernels::elementwise::codegen_types::Ty;

/// Elements that a lane stores one behind the other.
const RUN: usize = 4;

/// How an input besides the draw is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operand {
    /// One element for all.
    Single,
    /// Element by element, row-major.
    Whole,
    /// By strides over the axes of the result.
    Strided,
}

/// Buffer types by size of element, and by words of a run.
const BUFFERS: &str = "
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer M1 { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer M2 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer M4 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer M8 { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer M16 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Params { int v[]; };
";

/// Where element `e` of a strided input lies, counted from its lowest element: `at` is where its strides begin.
const PLACE: &str = "
int place(uint e, uint at) {
  Params q = Params(pc.dims);
  int o = q.v[at + pc.axes];
  for (int d = int(pc.axes) - 1; d >= 0; d--) {
    const uint len = uint(q.v[d]), next = e / len;
    o += int(e - next * len) * q.v[at + d];
    e = next;
  }
  return o;
}
";

/// Both runs of a lane.
const MAIN: &str = "
void main() {
  const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  const uint id = group * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
  if (id >= pc.lanes) return;
  const uvec2 key = uvec2(M4(pc.key0).v[0], M4(pc.key1).v[0]);
  const uint c = 4u * id, half_n = pc.n / 2u, counters = pc.n - half_n;
  uvec4 lo, hi;
  [[unroll]] for (uint j = 0u; j < 4u; ++j) {
    const uint a = c + j;
    const uvec2 r = threefry(key, uvec2(a, a >= half_n ? 0u : a + counters));
    lo[j] = finish(r.x);
    hi[j] = finish(r.y);
  }
";

/// Variables `b0` to `b3` with the bits of the elements `y_0` to `y_3`.
fn bits(out: &Ty, caps: Caps) -> String {
    if out.pairs(caps) {
        let words = ["w0", "w1"].map(String::from);
        let put = out.encode_pairs("y", &words);
        let list = "b0 = w0 & 0xffffu, b1 = w0 >> 16, b2 = w1 & 0xffffu, b3 = w1 >> 16";
        return format!("  uint w0, w1;\n{put}  const uint {list};\n");
    }
    let memory = if out.size() == 8 { "uvec2" } else { "uint" };
    let one = |j: usize| format!("  const {memory} b{j} = {};\n", out.encode(&format!("y_{j}")));
    (0..RUN).map(one).collect()
}

/// The stores of a run whose elements are the variables `b0` to `b3`.
fn stores(out: &Ty) -> String {
    let size = out.size();
    let wide = match size {
        1 => "M4(pc.dst).v[first / 4u] = b0 | b1 << 8 | b2 << 16 | b3 << 24;",
        2 => "M8(pc.dst).v[first / 4u] = uvec2(b0 | b1 << 16, b2 | b3 << 16);",
        4 => "M16(pc.dst).v[first / 4u] = uvec4(b0, b1, b2, b3);",
        _ => "M16(pc.dst).v[first / 2u] = uvec4(b0, b1); M16(pc.dst).v[first / 2u + 1u] = uvec4(b2, b3);",
    };
    let mut text = format!("  if (count >= 4u && (first & 3u) == 0u) {{ {wide} return; }}\n");
    for j in 0..RUN {
        let element = out.element(&format!("b{j}"));
        let _ = writeln!(text, "  if (count > {j}u) M{size}(pc.dst).v[first + {j}u] = {element};");
    }
    text
}

/// The kernel of a program with one output. Push constants: addresses of the key's two words, of the result, of the
/// parameters and of each input besides the draw, then how many elements, lanes and axes. Parameters: the lengths of the
/// axes, then for each strided input its strides and where its first element lies, from its lowest one.
pub fn drawn(p: &Program, draw: Draw, operands: &[Operand], caps: Caps) -> Result<String> {
    let mut text = function(p, caps)?;
    let (word, out) = (Ty::new(p.inputs[0]), Ty::new(p.instrs[p.outputs[0] as usize].dtype));
    let reads: SmallVec<[(usize, Ty, Operand); 4]> =
        operands.iter().enumerate().map(|(k, &s)| (k + 1, Ty::new(p.inputs[k + 1]), s)).collect();
    let addresses: String = reads.iter().map(|r| format!(", in{}", r.0)).collect();
    let _ = writeln!(text, "#define FINISH {}", draw as u32);
    if caps.products_beside {
        text += "#define SUMS_BY_PRODUCTS\n";
    }
    text += "#include \"random/threefry.glsl\"\n#include \"random/finish.glsl\"\n";
    text += BUFFERS;
    let _ = writeln!(
        text,
        "layout(local_size_x = {GROUP}) in;
layout(push_constant, scalar) uniform Push {{ uvec2 key0, key1, dst, dims{addresses}; uint n, lanes, axes; }} pc;"
    );
    if operands.contains(&Operand::Strided) {
        text += PLACE;
    }
    let load = |k: usize, t: &Ty, at: &str| {
        let m = format!("M{}(pc.in{k}).v[{at}]", t.size());
        t.decode(&if t.size() < 4 { format!("uint({m})") } else { m })
    };
    let single = |r: &&(usize, Ty, Operand)| r.2 == Operand::Single;
    let numbers: SmallVec<[&(usize, Ty, Operand); 4]> = reads.iter().filter(single).collect();
    let params: String = numbers.iter().map(|(k, t, _)| format!(", {} s{k}", t.reg())).collect();
    let _ = writeln!(text, "void run(uint first, uint count, uvec4 w{params}) {{");
    for j in 0..RUN {
        let mut args = vec![word.decode(&format!("w[{j}]"))];
        let mut strided = 0;
        for (k, t, how) in &reads {
            // Behind the last element the last one is read once more.
            let e = format!("min(first + {j}u, pc.n - 1u)");
            args.push(match how {
                Operand::Single => format!("s{k}"),
                Operand::Whole => load(*k, t, &e),
                Operand::Strided => {
                    strided += 1;
                    load(*k, t, &format!("place({e}, pc.axes + {}u * (pc.axes + 1u))", strided - 1))
                }
            });
        }
        args.push(format!("y_{j}"));
        let _ = writeln!(text, "  {} y_{j};\n  compute({});", out.reg(), args.join(", "));
    }
    text += &bits(&out, caps);
    text += &stores(&out);
    text += "}\n";
    text += MAIN;
    for (k, t, _) in &numbers {
        let _ = writeln!(text, "  const {} s{k} = {};", t.reg(), load(*k, t, "0"));
    }
    let given: String = numbers.iter().map(|r| format!(", s{}", r.0)).collect();
    let _ = writeln!(text, "  run(c, counters - c, lo{given});");
    let _ = writeln!(text, "  if (c < half_n) run(c + counters, half_n - c, hi{given});\n}}");
    Ok(text)
}
