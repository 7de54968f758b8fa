//! Tests of the texts; a card runs them in python/tests/test_quantized_stream.py.

use smallvec::smallvec;

use super::*;
use crate::kernels::elementwise::program::{Inst, Instr, Program, Src};
use crate::kernels::elementwise::table::find;
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::kernels::quantized::quant::Mode;
use crate::vulkan::kernels::quantized::qmm_joined::Matrix;
use crate::vulkan::kernels::quantized::trial::{
    Chance, Quantised, added, bytes, normalised, read, rounded, same,
};
use crate::vulkan::kernels::tests::ptx::{Memory, Program as Reader};
use crate::vulkan::tune::quantized::stream::SUMS;

const ONE: Walk = Walk {
    dtype: Dtype::BF16,
    group: 64,
    k: 4096,
    threads: 128,
    teams: 1,
    rows: 8,
    together: 4,
    matrices: 1,
    pair: false,
    norm: false,
    keep: false,
    after: None,
};

fn op(name: &str, args: &[Src], dtype: Dtype) -> Instr {
    Instr { op: Inst::Op(find(name).unwrap()), args: args.into(), dtype }
}

/// What follows two products: `name` of the first, times the second.
fn unit(name: &str, dtype: Dtype) -> After {
    let instrs =
        smallvec![op(name, &[Src::Input(0)], dtype), op("multiply", &[Src::Reg(0), Src::Input(1)], dtype)];
    let program = Program { inputs: smallvec![dtype; 2], instrs, outputs: smallvec![1] };
    After { program, inputs: smallvec![Origin::Product(0), Origin::Product(1)] }
}

#[test]
fn registers_and_labels_are_declared_once_and_used() {
    let gated = after::steps(Dtype::BF16, &unit("sigmoid", Dtype::BF16)).unwrap();
    let forms = [
        (ONE, ""),
        (Walk { matrices: 2, pair: true, norm: true, after: Some(0), ..ONE }, &gated[..]),
        (Walk { matrices: 3, norm: true, keep: true, ..ONE }, ""),
        (Walk { k: 12288, threads: 384, rows: 4, after: Some(2), ..ONE }, "add.rn.f32 y0,a0,a1;"),
        (
            Walk {
                dtype: Dtype::F16,
                group: 32,
                k: 1056,
                threads: 64,
                teams: 2,
                rows: 2,
                matrices: 3,
                ..ONE
            },
            "",
        ),
    ];
    for (walk, steps) in forms {
        let text = walk.text(steps);
        let labels: Vec<&str> = text.lines().filter_map(|l| l.strip_suffix(':')).collect();
        for label in &labels {
            assert_eq!(labels.iter().filter(|l| l == &label).count(), 1, "{label}");
        }
        for target in text.lines().filter_map(|l| l.split_once("bra ")).map(|(_, t)| t.trim_end_matches(';'))
        {
            assert!(labels.contains(&target), "{target} of {walk:?}");
        }
        // Each row of codes is asked for twice: before the loop, and in it.
        assert_eq!(text.matches("v4.b32 {c").count() as u32, 2 * walk.rows);
        assert!(text.contains(&format!(".maxntid {},1,1", walk.threads * walk.teams)));
        assert!(text.contains(&format!("sums[{SUMS}]")));
    }
}

#[test]
fn what_follows_is_known_by_name_and_dtype() {
    assert!(after::steps(Dtype::F16, &unit("sigmoid", Dtype::F16)).unwrap().contains("ex2.approx"));
    assert_eq!(after::steps(Dtype::F16, &unit("sigmoid", Dtype::BF16)), None);
    assert_eq!(after::steps(Dtype::BF16, &unit("sin", Dtype::BF16)), None);
    assert!(after::steps(Dtype::BF16, &unit("erf", Dtype::BF16)).unwrap().contains("ex2.approx"));
    let mut sum = unit("sigmoid", Dtype::BF16);
    sum.program.instrs[1].args[1] = Src::Const(0x3f80, Dtype::BF16);
    assert!(after::steps(Dtype::BF16, &sum).unwrap().contains("mul.rn.f32 r1,r0,0f3F800000;"));
    sum.inputs = smallvec![Origin::Product(0), Origin::Array(0)];
    assert_eq!(arrays(&sum), 1);
}

/// One matrix with what is added to it, three of a normalised row that is kept, and two at once with a gated unit, against float64:
/// teams of one warp and of several, rows that end inside a warp, workgroups that go round and that have neighbours.
#[test]
fn texts_compute_what_products_are() {
    for (k, group, threads, teams, rows, groups) in
        [(1024, 64, 32, 4, 8, 3), (1056, 32, 64, 2, 4, 2), (2176, 128, 96, 1, 2, 2), (4096, 64, 128, 1, 8, 2)]
    {
        let (mut c, mut m) = (Chance(7), Memory::default());
        let all = [44, 44, 13].map(|n| Quantised::new(&mut c, &mut m, [n, k, group]));
        let matrices = all.each_ref().map(|q| Matrix { rows: q.matrix.rows, parts: q.matrix.parts });
        let [x, w, res] =
            [(k, 1.0, 0.0), (k, 0.1, 1.0), (44, 1.0, 0.0)].map(|(n, s, mid)| c.numbers(n, s, mid));
        let [px, pw, pres] = [&x, &w, &res].map(|v| m.place(bytes(v)));
        let results = [44, 44, 13].map(|n| m.place(vec![0; 2 * n]));
        let kept = m.place(vec![0; 2 * k]);
        let format = Format::new("test", Mode::Affine, group as i64, 4).unwrap();
        let row = Joined::alone(Some(format), Dtype::BF16, [1, k as i64], px, &matrices, &results);
        let run = |m: &mut Memory, j: &Joined, neighbours: bool| {
            let (rows, turns, subgroup, native, together) = (rows, 8, 32, true, 1);
            let s = Streamed { threads, teams, rows, turns, subgroup, native, together, neighbours };
            let (key, args) = told(j, format, &s, [j.units(s.span(j.pair())), groups]);
            let Source::Ptx { text, .. } = key.module(&Features::default()).source else { panic!("no PTX") };
            Reader::read(&text).run(m, args.bytes(), groups as usize);
        };
        let one = [results[0], pres];
        run(&mut m, &Joined { matrices: &matrices[..1], after: Some(added()), results: &one, ..row }, false);
        let sum = all[0].times(&x).iter().zip(&res).map(|(a, b)| a + b).collect();
        same("a residual", &read(&m, results[0]), &rounded(sum));
        run(&mut m, &Joined { norm: Some((pw, 1e-6)), kept: Some(kept), ..row }, true);
        let normal = read(&m, kept);
        same("a normalised row", &normal, &normalised(&x, &w));
        for (q, at) in all.iter().zip(results) {
            same("several", &read(&m, at), &q.times(&normal));
        }
        let after = unit("sigmoid", Dtype::BF16).kept();
        run(&mut m, &Joined { matrices: &matrices[..2], after, results: &results[1..2], ..row }, false);
        let gates = rounded(all[0].times(&x).iter().map(|g| 1.0 / (1.0 + (-g).exp())).collect());
        let gated = gates.iter().zip(all[1].times(&x)).map(|(g, u)| g * u).collect();
        same("a gated unit", &read(&m, results[1]), &rounded(gated));
    }
}
