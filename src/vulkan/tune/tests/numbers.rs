//! Which numbers stand in kernels' hosts and in `memory`: those that follow from how a shader is written, from a format or
//! from 32-bit offsets, and bounds of caches. What decides a variant, a tile or a part by its speed belongs to `tune`.

use std::path::Path;

/// File, name, and what the number follows from.
const FACTS: &[(&str, &str, &str)] = &[
    ("kernels/attention/rope.rs", "KEPT", "a bound of a cache on the host"),
    ("kernels/bridge.rs", "APART", "numbers of a trial"),
    ("kernels/bridge.rs", "AWAIT", "bridge_meet.comp has the same"),
    ("kernels/bridge.rs", "FLAG", "bridge_meet.comp is written for it"),
    ("kernels/bridge.rs", "IN", "pieces that may lie there while others write"),
    ("kernels/bridge.rs", "OUT", "pieces that may lie there while they are sent"),
    ("kernels/bridge.rs", "POST", "bridge_meet.comp has the same"),
    ("kernels/bridge.rs", "SEEN", "numbers that bridge_meet.comp stores"),
    ("kernels/bridge.rs", "TRIED", "numbers of a trial"),
    ("kernels/matmul/parts.rs", "GROUP", "parts.glsl is written for it"),
    ("kernels/matmul/parts.rs", "GROUP_WORDS", "parts.glsl is written for it"),
    ("kernels/conv/depthwise.rs", "RUN", "conv_depthwise.comp is written for it"),
    ("kernels/conv/mod.rs", "FAR", "offsets of 32 bits"),
    ("kernels/conv/mod.rs", "FIXED", "the order of conv.glsl's numbers"),
    ("kernels/conv/winograd.rs", "PLACES", "the algorithm's"),
    ("kernels/conv/winograd.rs", "TILE", "the algorithm's"),
    ("kernels/elem.rs", "PUSH_ROOM", "room of a block on the host"),
    ("kernels/elem.rs", "WG", "a workgroup that every device has"),
    ("kernels/elementwise/mod.rs", "SPAN", "offsets of 32 bits"),
    ("kernels/fft/mod.rs", "TABLES_MAX", "a bound of a cache"),
    ("kernels/index/join.rs", "MAX_AXES", "axes whose loops the shader unrolls"),
    ("kernels/index/mask.rs", "BLOCK", "the shader is written for it"),
    ("kernels/matmul/fragment_probe.rs", "LANES", "what is probed"),
    ("kernels/matmul/low_rank.rs", "CHUNK", "the program is written for it"),
    ("kernels/matmul/low_rank.rs", "GROUP", "the program is written for it"),
    ("kernels/matmul/low_rank.rs", "THREADS", "the program is written for it"),
    ("kernels/matmul/kernel.rs", "MAX_SPECIAL", "a bound of a cache"),
    ("kernels/attention/mod.rs", "PARTS_AT_ONCE", "the shader is written for it"),
    ("kernels/attention/newest.rs", "ARGUMENTS", "the layout of push constants"),
    ("kernels/attention/token.rs", "ARGUMENTS", "the layout of push constants"),
    ("kernels/attention/token.rs", "FEATURES", "the shader is written for it"),
    ("kernels/attention/token.rs", "TURNS_ARGUMENTS", "the layout of push constants"),
    ("kernels/matmul/kernel.rs", "PUSH_BYTES", "the layout of push constants"),
    ("kernels/matmul/problem.rs", "REACH", "offsets of 32 bits"),
    ("kernels/measure.rs", "BYTES", "more than caches hold"),
    ("kernels/measure.rs", "LONG_NS", "longer than it takes to submit"),
    ("kernels/measure.rs", "IDLE_NS", "longer than any idle device takes"),
    ("kernels/attention/several/front.rs", "LANES", "lanes of a warp"),
    ("kernels/attention/several/ready.rs", "SUMMED", "the order of norm.comp"),
    ("kernels/quantized/chain/front.rs", "BYTES", "the longest row and tune's FRONT_LEFT"),
    ("kernels/quantized/chain/mixed.rs", "DIGITS", "KINDS"),
    ("kernels/quantized/chain/mixed.rs", "KINDS", "bits of flags"),
    ("kernels/quantized/chain/mixed.rs", "PLACE", "bits of flags"),
    ("kernels/quantized/chain/mod.rs", "NEVER", "the largest number"),
    ("kernels/quantized/chain/mod.rs", "PAIR", "a bit of arguments"),
    ("kernels/quantized/chain/mod.rs", "PRODUCTS", "STAGES and WORDS"),
    ("kernels/quantized/chain/mod.rs", "STAGES", "the layout of arguments"),
    ("kernels/quantized/chain/mod.rs", "WORDS", "the longest row"),
    ("kernels/quantized/chain/picked/text.rs", "ANY", "bits of flags"),
    ("kernels/quantized/chain/picked/text.rs", "COLUMNS", "bits of flags"),
    ("kernels/quantized/chain/picked/text.rs", "ROWS", "bits of flags"),
    ("kernels/quantized/chain/picked/text.rs", "SAME", "bits of flags"),
    ("kernels/quantized/chain/summed/mod.rs", "AGAIN", "bits of flags"),
    ("kernels/quantized/chain/summed/mod.rs", "SUMMED", "bits of flags"),
    ("kernels/sort/choice/text.rs", "LANES", "lanes of a warp"),
    ("kernels/quantized/chain/row.rs", "FEW", "the longest row"),
    ("kernels/quantized/chain/codes.rs", "OCTETS", "bits of codes"),
    ("kernels/quantized/steps.rs", "MINUS_ONE", "bits of a number"),
    ("kernels/quantized/steps.rs", "ONE", "bits of a number"),
    ("kernels/quantized/chain/text.rs", "PARTS", "the program is written for it"),
    ("kernels/quantized/chain/codes.rs", "HIGH", "bits of codes"),
    ("kernels/quantized/chain/codes.rs", "LOW", "bits of codes"),
    ("kernels/quantized/wide_codes/join.rs", "AHEAD", "registers that the program has for them"),
    ("kernels/quantized/wide_codes/odd.rs", "SCALE", "what undoes the power of two of codes"),
    ("kernels/quantized/wide_codes/odd.rs", "UP", "the range of bfloat16"),
    ("kernels/quantized/wide_codes/text.rs", "BATCHES", "how loads are awaited"),
    ("kernels/quantized/wide_codes/text.rs", "FACTORS", "the factors of a batch"),
    ("kernels/quantized/wide_codes/text.rs", "STEPS", "the depth of matrix units"),
    ("kernels/quantized/wide_codes/text.rs", "THREADS", "the warps of a workgroup"),
    ("kernels/quantized/wide/text.rs", "HELD", "the layout of matrix units' operands"),
    ("kernels/quantized/wide/text.rs", "ROW", "the span and the size of elements"),
    ("kernels/quantized/wide/text.rs", "CHUNKS", "the bytes of a row of a span"),
    ("kernels/attention/several/text.rs", "LINE", "bytes that a prefetch brings"),
    ("kernels/quantized/few_picked/join.rs", "THREADS", "results of a unit"),
    ("kernels/quantized/few_rows/formats/mod.rs", "CHUNKS", "the layout of a piece"),
    ("kernels/quantized/few_rows/mod.rs", "ARRAYS", "registers that the program has for them"),
    ("kernels/quantized/few_rows/mod.rs", "MOST", "registers that the program has for them"),
    ("kernels/quantized/few_rows/biases.rs", "PART", "digits of tf32"),
    ("kernels/quantized/push.rs", "PUSH_BYTES", "the layout of push constants"),
    ("kernels/quantized/quant.rs", "PIECE", "offsets of 32 bits"),
    ("kernels/quantized/stream/after.rs", "ARRAYS", "registers that the text has"),
    ("kernels/quantized/subnormal_probe.rs", "CODES", "what is probed"),
    ("kernels/quantized/subnormal_probe.rs", "PLACES", "what is probed"),
    ("kernels/quantized/subnormal_probe.rs", "UP", "what is probed"),
    ("kernels/attention/warpgroup/mask.rs", "LOW", "shaders/attention/attention.glsl"),
    ("kernels/attention/warpgroup/mask.rs", "LOWEST", "the lowest finite number"),
    ("kernels/attention/warpgroup/mask.rs", "PAIRS", "the layout of matrix units' results"),
    ("kernels/attention/warpgroup/program.rs", "ARGS", "the layout of arguments"),
    ("kernels/attention/warpgroup/keys.rs", "ARGS", "the layout of arguments"),
    ("kernels/attention/warpgroup/keys.rs", "ROWS", "the program is written for it"),
    ("kernels/attention/warpgroup/keys.rs", "THREADS", "the program is written for it"),
    ("kernels/attention/warpgroup/queries.rs", "ARGS", "the layout of arguments"),
    ("kernels/attention/warpgroup/queries.rs", "ROWS", "the program is written for it"),
    ("kernels/attention/warpgroup/queries.rs", "THREADS", "the program is written for it"),
    ("kernels/attention/warpgroup/rows.rs", "SHARED", "what such a program may have"),
    ("kernels/matmul/warpgroup/program.rs", "PRODUCT", "the layout of arguments"),
    ("kernels/attention/warpgroup/program.rs", "KEYS", "the program is written for it"),
    ("kernels/attention/warpgroup/program.rs", "ROWS", "the program is written for it"),
    ("kernels/attention/warpgroup/program.rs", "THREADS", "the program is written for it"),
    ("kernels/matmul/warpgroup/input.rs", "BEHIND", "the program is written for it"),
    ("kernels/matmul/warpgroup/input.rs", "CHUNK", "16 bytes of elements"),
    ("kernels/matmul/warpgroup/input.rs", "INPUT", "the layout of arguments"),
    ("kernels/matmul/warpgroup/program.rs", "ARGS", "the layout of arguments"),
    ("kernels/matmul/warpgroup/program.rs", "BLOCKS", "the program is written for it"),
    ("kernels/matmul/warpgroup/program.rs", "DEPTH", "the program is written for it"),
    ("kernels/matmul/warpgroup/program.rs", "ROWS", "the program is written for it"),
    ("kernels/matmul/warpgroup/program.rs", "STEP", "the program is written for it"),
    ("kernels/matmul/warpgroup/taps.rs", "OUTSIDE", "less than any coordinate"),
    ("kernels/tests/ptx.rs", "GONE", "the largest number"),
    ("kernels/tests/ptx.rs", "LANES", "lanes of a warp"),
    ("kernels/tests/ptx.rs", "TURN", "any number ends"),
    ("kernels/user.rs", "MOST", "offsets of 32 bits"),
    ("memory/mod.rs", "KINDS", "kinds of memory"),
    ("memory/mod.rs", "LARGE", "classes of the allocator"),
    ("memory/mod.rs", "LARGE_STEP", "classes of the allocator"),
    ("memory/mod.rs", "MIN_CLASS", "the alignment of every block"),
    ("memory/mod.rs", "STAGING_KEPT", "a bound of a cache"),
    ("memory/pieces.rs", "SLICE_NS", "how often a wait looks up"),
];

/// Names of the integer constants at the top of a file.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let at = line.find("const ").filter(|&at| at == 0 || line.starts_with("pub"))?;
        let (name, rest) = line[at + "const ".len()..].split_once(": ")?;
        let kind = rest.split_once(" =")?.0;
        ["u32", "u64", "i64", "usize"].contains(&kind).then_some(name)
    })
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if !path.to_string_lossy().ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn numbers_of_hosts_are_facts_and_no_policy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vulkan");
    let mut all = Vec::new();
    files(&root.join("kernels"), &mut all);
    files(&root.join("memory"), &mut all);
    let mut found: Vec<(String, String)> = Vec::new();
    for path in all {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&path).unwrap();
        found.extend(numbers(&text).map(|n| (name.clone(), n.to_string())));
    }
    found.sort();
    let mut known: Vec<(String, String)> = FACTS.iter().map(|f| (f.0.into(), f.1.into())).collect();
    known.sort();
    let new: Vec<_> = found.iter().filter(|f| !known.contains(f)).collect();
    let gone: Vec<_> = known.iter().filter(|f| !found.contains(f)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "move these to tune/ or say in FACTS what they follow from: {new:?}; these are no longer there: {gone:?}"
    );
}
