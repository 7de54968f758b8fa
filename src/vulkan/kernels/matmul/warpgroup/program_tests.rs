//! Tests of `program`.

use std::collections::HashSet;

use super::super::after::Addend;
use super::*;

/// How tiles are written, and what may come before.
fn stores() -> impl Iterator<Item = (Store, After)> + Clone {
    let sums = [Store::SumRows, Store::SumColumns].map(|store| (store, After::default()));
    let addends = [Addend::None, Addend::Row, Addend::Matrix];
    let after = [false, true].into_iter().flat_map(move |j| addends.map(|a| (j, a)));
    let after = after.map(|(joined, addend)| After { joined, addend });
    let elements = after.flat_map(|after| [Store::Rows, Store::Columns].map(|store| (store, after)));
    elements.chain(sums)
}

fn all() -> impl Iterator<Item = Program> {
    let dtypes = [Dtype::F16, Dtype::BF16];
    let rights =
        [Right::Image, Right::Across, Right::Runs, Right::Input(1), Right::Input(2), Right::Input(3)];
    let of = move |dtype, right, columns| {
        let inputs = [1, 2, 3].map(Left::Input);
        let lefts = [Left::Values, Left::Codes(32), Left::Codes(64)].into_iter().chain(inputs);
        let plain = !matches!(right, Right::Image | Right::Across);
        stores().filter(move |s| !plain || s.1 == After::default()).flat_map(move |(store, after)| {
            let takes = move |left: &Left| !matches!(left, Left::Input(_)) || after == After::default();
            let make = move |left| Program { dtype, columns, left, right, store, after };
            lefts.clone().filter(takes).map(make)
        })
    };
    let of = move |dtype, right| [64, 128, 192, 256].into_iter().flat_map(move |n| of(dtype, right, n));
    dtypes.into_iter().flat_map(move |dtype| rights.into_iter().flat_map(move |right| of(dtype, right)))
}

#[test]
fn programs_keep_to_shared_memory_and_jump_to_labels_that_are_there() {
    for program in all() {
        let text = program.text();
        assert!(program.stages() >= 2);
        assert!(program.stages() * (program.piece() + 16) <= 48 << 10);
        let labels: HashSet<&str> = text.lines().filter_map(|l| l.strip_suffix(':')).collect();
        let jumps = text.split("bra ").skip(1).map(|rest| rest.split(';').next().unwrap());
        assert!(jumps.collect::<HashSet<_>>().is_subset(&labels), "{program:?}");
        assert_eq!(text.matches("wgmma.mma_async").count() as u32, DEPTH / STEP);
        assert!(text.is_ascii() && text.matches('{').count() == text.matches('}').count());
    }
}

#[test]
fn arguments_lie_where_the_text_reads_them() {
    use std::mem::offset_of;
    let places =
        [offset_of!(Args, left), offset_of!(Args, right), offset_of!(Args, out), offset_of!(Args, image)];
    assert_eq!(places, [0, 8, 16, 24]);
    assert_eq!([offset_of!(Args, left_step), offset_of!(Args, scale_step)], [48, 56]);
    let sizes =
        [offset_of!(Args, rows), offset_of!(Args, columns), offset_of!(Args, k), offset_of!(Args, lda)];
    assert_eq!(sizes, [64, 68, 72, 76]);
    let steps = [offset_of!(Args, ldd), offset_of!(Args, steps), offset_of!(Args, all_steps)];
    assert_eq!(steps, [80, 84, 88]);
    let order = [offset_of!(Args, tiles), offset_of!(Args, together), offset_of!(Args, nb0)];
    assert_eq!(order, [92, 100, 104]);
    let batch = [offset_of!(Args, left_batch), offset_of!(Args, right_batch), offset_of!(Args, out_batch)];
    assert_eq!(batch, [108, 116, 124]);
    assert_eq!([offset_of!(Args, ldb), offset_of!(Args, after)], [128, 136]);
}
