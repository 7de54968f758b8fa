//! Tests of the texts; a card runs them in python/tests/test_quantized_stream.py.

use smallvec::smallvec;

use super::*;
use crate::kernels::elementwise::program::{Inst, Instr, Program, Src};
use crate::kernels::elementwise::table::find;
use crate::kernels::matmul::epilogue::{After, Origin};
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
    assert_eq!(after::steps(Dtype::BF16, &unit("erf", Dtype::BF16)), None);
    let mut sum = unit("sigmoid", Dtype::BF16);
    sum.program.instrs[1].args[1] = Src::Const(0x3f80, Dtype::BF16);
    assert!(after::steps(Dtype::BF16, &sum).unwrap().contains("mul.rn.f32 r1,r0,0f3F800000;"));
    sum.inputs = smallvec![Origin::Product(0), Origin::Array(0)];
    assert_eq!(arrays(&sum), 1);
}
