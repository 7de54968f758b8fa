//! The shaders of joined products compile, with what comes before and after.

use super::*;
use crate::kernels::elementwise::table::find;
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::kernels::quantized::quant::Mode;
use crate::kernels::{Inst, Instr, Program, Src};
use crate::vulkan::kernels::quantized::steps;
use crate::vulkan::shader::compiler;
use crate::vulkan::tune::quantized::Ahead;
use crate::vulkan::tune::quantized::held::Held;
use crate::vulkan::tune::quantized::row::Row;
use crate::vulkan::tune::quantized::stream::Streamed;
use smallvec::smallvec;

/// A kernel of one matrix.
fn plain(format: Option<Format>, dtype: Dtype, layout: Layout) -> Key {
    let (k, lengths) = (256, [64, 0, 0]);
    Key {
        format,
        dtype,
        layout,
        norm: None,
        keep: false,
        k,
        lengths,
        after: None,
        picks: false,
        added: false,
        combined: 0,
        wide: false,
        masks: matches!(layout, Layout::Streamed(_)) && dtype == Dtype::BF16,
    }
}

/// A layout of qmm_stream for matrices of such lengths.
fn streamed(lengths: [u32; MATRICES]) -> Layout {
    let (threads, teams) = if lengths[2] > 0 { (32, 4) } else { (64, 1) };
    let rows = if lengths[0] == lengths[1] { 8 } else { 2 };
    Layout::Streamed(Streamed {
        threads,
        teams,
        rows,
        turns: 2,
        subgroup: 32,
        native: false,
        together: 1,
        neighbours: false,
    })
}

#[test]
fn sums_of_picks_compile() {
    for (mode, group, bits) in [(Mode::Affine, 64, 4), (Mode::Affine, 32, 3), (Mode::Nvfp4, 16, 4)] {
        let format = Format::new("test", mode, group, bits).unwrap();
        let add = Instr {
            op: Inst::Op(find("add").unwrap()),
            args: [Src::Input(0), Src::Input(1)].into_iter().collect(),
            dtype: Dtype::BF16,
        };
        let program =
            Program { inputs: smallvec![Dtype::BF16; 2], instrs: smallvec![add], outputs: smallvec![0] };
        let after = After { program, inputs: smallvec![Origin::Product(0), Origin::Array(0)] }.kept();
        for (threads, each, added, after) in
            [(8, 1, true, None), (32, 10, false, after), (16, 4, true, after)]
        {
            let combine = Combine { threads, rows: 4, teams: each.min(5), unit: 32 };
            let layout = Layout::Combine { combine, aligned: bits == 4 };
            let base = plain(Some(format), Dtype::BF16, layout);
            let key = Key { after, picks: true, added, combined: each, wide: each == 1, ..base };
            compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
        }
    }
}

#[test]
fn every_format_compiles_with_what_comes_before_and_after() {
    let affine = [2, 3, 4, 8].map(|bits| (Mode::Affine, 64, bits));
    let (sigmoid, multiply) = (find("sigmoid").unwrap(), find("multiply").unwrap());
    for (mode, group, bits) in
        affine.into_iter().chain([(Mode::Mxfp4, 32, 4), (Mode::Mxfp8, 32, 8), (Mode::Nvfp4, 16, 4)])
    {
        let format = Format::new("test", mode, group, bits).unwrap();
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let instr = |op, args: &[Src]| Instr { op: Inst::Op(op), args: args.into(), dtype };
            let program = Program {
                inputs: smallvec![dtype; 2],
                instrs: smallvec![
                    instr(sigmoid, &[Src::Input(0)]),
                    instr(multiply, &[Src::Reg(0), Src::Input(1)]),
                ],
                outputs: smallvec![1],
            };
            for (lengths, from) in [
                ([64, 32, 16], None),
                ([64, 0, 0], Some(Origin::Array(0))),
                ([64, 64, 0], Some(Origin::Product(1))),
            ] {
                let after = from.and_then(|f| {
                    After { program: program.clone(), inputs: smallvec![Origin::Product(0), f] }.kept()
                });
                assert_eq!(after.is_some(), from.is_some());
                let rows = Layout::Rows { threads: 32, rows: 2, unit: 32, aligned: true };
                let row = |plain| Layout::Row(Row { parts: 4, beside: 2, width: 2048, plain });
                let held = |splits, plain| {
                    let (subgroups, cols, turn, buffers) = (2, 8 * splits, 4, 3 - splits);
                    Layout::Held(Held { subgroups, cols, width: 8, turn, splits, buffers, plain })
                };
                let four = bits == 4 && mode == Mode::Affine && dtype != Dtype::F32;
                let tiles = if lengths[0] == lengths[1] { 2 } else { 1 };
                let coop = |sides, plain| {
                    let (subgroups, stretch, cols, ahead) = (4, 1, 16, Ahead::Codes);
                    let vectors = cols * sides;
                    Coop { subgroups, tiles, stretch, cols, sides, vectors, ahead, plain }
                };
                // One of them for each way to join: they take long to compile.
                let coop = match lengths {
                    [_, 0, 0] => coop(1, false),
                    [_, _, 0] => coop(2, false),
                    _ => coop(2, true),
                };
                let held = match lengths {
                    [_, 0, 0] => held(1, false),
                    [_, _, 0] => held(2, false),
                    _ => held(1, true),
                };
                if dtype != Dtype::F32 && group >= 32 {
                    let layout = Layout::Coop { coop, aligned: true, factors: false };
                    let key = Key { lengths, after, ..plain(Some(format), dtype, layout) };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
                if dtype != Dtype::F32 && group >= 32 && lengths[2] == 0 {
                    let (stretch, ahead) = (2 / tiles, Ahead::Codes);
                    let (subgroups, cols, sides, vectors, plain_) = (4, 8, 1, 8, tiles == 1);
                    let coop = Coop { subgroups, tiles, stretch, cols, sides, vectors, ahead, plain: plain_ };
                    let factors = stretch == 2 && format.affine();
                    let layout = Layout::Coop { coop, aligned: true, factors };
                    let key = Key { lengths, after, picks: true, ..plain(Some(format), dtype, layout) };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
                let layouts = [rows, row(false), row(true), held, streamed(lengths)];
                for layout in layouts.into_iter().take(if four { 5 } else { 1 }) {
                    let picks = lengths[2] == 0 && matches!(layout, Layout::Rows { .. });
                    for picks in if picks { vec![false, true] } else { vec![false] } {
                        let joins = matches!(layout, Layout::Held(_));
                        let norm = (after.is_none() && !picks && !joins).then_some(0);
                        let keep = norm.is_some();
                        let base = plain(Some(format), dtype, layout);
                        let key = Key { norm, keep, lengths, after, picks, ..base };
                        compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn dense_rows_compile_with_what_comes_before_and_after() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        let multiply = Instr {
            op: Inst::Op(find("multiply").unwrap()),
            args: [Src::Input(0), Src::Input(1)].into_iter().collect(),
            dtype,
        };
        let program =
            Program { inputs: smallvec![dtype; 2], instrs: smallvec![multiply], outputs: smallvec![0] };
        for (lengths, from) in [
            ([64, 32, 16], None),
            ([64, 0, 0], Some(Origin::Array(0))),
            ([64, 64, 0], Some(Origin::Product(1))),
        ] {
            let after = from.and_then(|f| {
                After { program: program.clone(), inputs: smallvec![Origin::Product(0), f] }.kept()
            });
            let one = [(None, false), (Some(0), true), (Some(0), false)].map(|(norm, staged)| {
                let layout = JoinedRows { threads: 64, rows: 2, unroll: 2 };
                (norm, Layout::Dense { layout, staged })
            });
            let few = [(1, 8, false), (2, 24, false), (1, 16, true)].map(|(splits, width, plain)| {
                let (subgroups, cols, turn, buffers) = (2, 8 * splits, 4, 3 - splits);
                let held = Held { subgroups, cols, width, turn, splits, buffers, plain };
                ((splits == 1).then_some(0), Layout::Held(held))
            });
            let few = few.into_iter().filter(|_| dtype != Dtype::F32);
            for (norm, layout) in one.into_iter().chain(few) {
                let keep = matches!(layout, Layout::Dense { staged: true, .. });
                let added = after.is_none() && matches!(layout, Layout::Dense { .. });
                for added in if added { vec![false, true] } else { vec![false] } {
                    let key = Key { norm, keep, lengths, after, added, ..plain(None, dtype, layout) };
                    compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}

/// A gated unit of two products and of what is added to them, a row for each of their matrices.
fn biased_unit(dtype: Dtype) -> After {
    let instr = |name, args: &[Src]| Instr { op: Inst::Op(find(name).unwrap()), args: args.into(), dtype };
    let program = Program {
        inputs: smallvec![dtype; 4],
        instrs: smallvec![
            instr("add", &[Src::Input(0), Src::Input(1)]),
            instr("add", &[Src::Input(2), Src::Input(3)]),
            instr("sigmoid", &[Src::Reg(0)]),
            instr("multiply", &[Src::Reg(2), Src::Reg(1)]),
        ],
        outputs: smallvec![3],
    };
    let (p, b) = ([0, 1].map(Origin::Product), [0, 1].map(Origin::Picked));
    After { program, inputs: smallvec![p[0], b[0], p[1], b[1]] }
}

#[test]
fn what_belongs_to_picked_matrices_compiles() {
    for (mode, group, bits) in [(Mode::Mxfp4, 32, 4), (Mode::Affine, 64, 8)] {
        let format = Format::new("test", mode, group, bits).unwrap();
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let after = biased_unit(dtype).kept();
            assert!(after.is_some_and(|a| a.picks()));
            let rows = Layout::Rows { threads: 16, rows: 2, unit: 32, aligned: true };
            let (subgroups, tiles, stretch, cols, sides, vectors) = (2, 2, 1, 8, 1, 8);
            let coop =
                Coop { subgroups, tiles, stretch, cols, sides, vectors, ahead: Ahead::All, plain: bits == 8 };
            let grouped = Layout::Coop { coop, aligned: true, factors: false };
            for layout in [rows, grouped].into_iter().take(if dtype == Dtype::F32 { 1 } else { 2 }) {
                let base = plain(Some(format), dtype, layout);
                let key = Key { lengths: [64, 64, 0], after, picks: true, ..base };
                compiler::check(&key.name(), &key.module(&Features::default())).unwrap();
            }
        }
    }
}

/// They have no lines for it: shaders take such products.
#[test]
fn texts_know_rows_of_picked_matrices() {
    for dtype in [Dtype::F16, Dtype::BF16] {
        let unit = biased_unit(dtype);
        assert!(steps::steps(dtype, &unit).is_some() && stream::knows(dtype, unit.clone().kept()));
        assert!(unit.picks() && steps::arrays(&unit) == 2);
    }
}
