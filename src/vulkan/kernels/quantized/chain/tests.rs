use super::*;
use crate::core::Dtype;
use crate::kernels::elementwise::table::find;
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::kernels::quantized::quant::{Format, Mode};
use crate::kernels::{Inst, Instr, Program, Src};
use crate::vulkan::kernels::quantized::qmm_joined::Matrix;
use smallvec::smallvec;

fn addition() -> KeptAfter {
    let add = Instr {
        op: Inst::Op(find("add").unwrap()),
        args: [Src::Input(0), Src::Input(1)].into_iter().collect(),
        dtype: Dtype::BF16,
    };
    let program =
        Program { inputs: smallvec![Dtype::BF16; 2], instrs: smallvec![add], outputs: smallvec![0] };
    After { program, inputs: smallvec![Origin::Product(0), Origin::Array(0)] }.kept().unwrap()
}

const ROWS: i64 = 64;
const BYTES: u64 = 2 * ROWS as u64;

/// A product of a row at `x` by a square matrix, stored at `results[0]`; the array in `results[1]`, if any, is added.
fn product<'a>(x: u64, matrices: &'a [Matrix], results: &'a [u64]) -> Joined<'a> {
    Joined {
        format: Some(Format::new("test", Mode::Affine, 64, 4).unwrap()),
        dtype: Dtype::BF16,
        m: 1,
        k: ROWS,
        x,
        norm: None,
        kept: None,
        matrices,
        after: (results.len() > 1).then(addition),
        results,
        picks: None,
        combined: None,
    }
}

/// A chain of one product of the row at 0x1000, stored at 0x2000.
fn begun(matrices: &[Matrix]) -> Chained {
    let mut chain = Chained {
        stages: SmallVec::new(),
        made: SmallVec::new(),
        afters: SmallVec::new(),
        group: 64,
        workgroups: 132,
        words: (0x10_0000, 7),
        reads: SmallVec::new(),
        writes: SmallVec::new(),
    };
    let j = product(0x1000, matrices, &[0x2000]);
    let stage = Stage { x: 0x1000, results: [0x2000, 0, 0], ..Stage::default() };
    chain.push(&j, stage, &[(0x1000, BYTES)], &[(0x2000, BYTES)]);
    chain
}

/// Adds a product of the row at `x` with these results, which reads `more` besides.
fn adds(chain: &mut Chained, matrices: &[Matrix], x: u64, results: &[u64], more: &[Range]) -> bool {
    let j = product(x, matrices, results);
    let mut stage = Stage { x, ..Stage::default() };
    stage.results[..results.len()].copy_from_slice(results);
    let mut reads: Vec<Range> = vec![(x, BYTES)];
    reads.extend(results[1..].iter().map(|&a| (a, BYTES)));
    reads.extend(more);
    chain.add(&j, &stage, &reads, &[(results[0], BYTES)])
}

#[test]
fn products_follow_whose_row_is_the_last_result() {
    let matrices = [Matrix { rows: ROWS, parts: [0x9000, 0xa000, 0xb000] }];
    let m = &matrices;
    let mut chain = begun(m);
    assert!(!adds(&mut chain, m, 0x1000, &[0x3000], &[]), "a row from elsewhere");
    assert!(!adds(&mut chain, m, 0x2000, &[0x3000], &[(0x2000 + BYTES - 2, 4)]), "another use of a result");
    assert!(!adds(&mut chain, m, 0x2000, &[0x1000], &[]), "memory that another product reads");
    assert!(adds(&mut chain, m, 0x2000, &[0x3000], &[(0x9000, 4096)]));
    // What is stored as words, and what reads them.
    assert_eq!((chain.stages[0].words, chain.stages[0].tag), (0x10_0000, 7));
    assert_eq!((chain.stages[1].x, chain.stages[1].x_tag), (0x10_0000, 7));
    assert_eq!((chain.stages[1].words, chain.stages[1].tag), (0, 0));
    // The first result is added to the third one, in its place.
    assert!(adds(&mut chain, m, 0x3000, &[0x2000, 0x2000], &[]));
    assert_eq!((chain.stages[2].results[1], chain.stages[2].array_tags[0]), (0x10_0000, 7));
    assert_eq!(chain.stages[2].x_tag, 8);
    assert_eq!(chain.stages[2].flags >> 16, 1);
    assert!(adds(&mut chain, m, 0x2000, &[0x4000], &[]), "the later of two results in one place");
    assert!(!adds(&mut chain, m, 0x4000, &[0x5000], &[]), "there is no room for a fifth");
    assert_eq!(chain.count(), 4);
}

#[test]
fn an_array_from_elsewhere_is_read_as_it_is() {
    let matrices = [Matrix { rows: ROWS, parts: [0x9000, 0xa000, 0xb000] }];
    let mut chain = begun(&matrices);
    assert!(adds(&mut chain, &matrices, 0x2000, &[0x6000, 0x6000], &[]), "stored over what is added");
    assert_eq!((chain.stages[1].results[1], chain.stages[1].array_tags[0]), (0x6000, 0));
    let mut chain = begun(&matrices);
    assert!(!adds(&mut chain, &matrices, 0x2000, &[0x6000, 0x2000 + BYTES / 2], &[]), "half of a result");
}

/// Every branch has its one label, for each group and for rows that end inside a batch.
#[test]
fn texts_are_whole() {
    for group in [32, 64, 128] {
        for ragged in [false, true] {
            let key = Key { chain: text::Chain { group, ragged }, afters: smallvec![addition()] };
            let Source::Ptx { text, .. } = key.module(&Features::default()).source else { panic!("no PTX") };
            let words: Vec<&str> = text.split_whitespace().collect();
            for pair in words.windows(2).filter(|w| w[0] == "bra") {
                let label = format!("{}:", pair[1].trim_end_matches(';'));
                assert_eq!(words.iter().filter(|w| **w == label).count(), 1, "{label}");
            }
            assert!(text.contains("add.rn.f32"));
        }
    }
}
