//! That blocks cover a convolution once: against its definition, position by position.

use super::*;
use crate::core::Layout;

#[test]
fn blocks_share_neither_outputs_nor_kernel_elements() {
    let axis = ConvAxis { stride: 1, low: 1, dilation: 1, input_dilation: 2 };
    let conv = Conv { axes: [axis, axis].into_iter().collect(), groups: 1, flip: true };
    let view = |shape: &[i64]| View::new(0u64, crate::core::Dtype::F32, &Layout::contiguous(shape));
    let b = blocks(&conv, &view(&[1, 4, 4, 2]), &view(&[2, 3, 3, 2]), &view(&[1, 7, 7, 2]));
    assert_eq!(b.list.len(), 4);
    assert!(!b.output_gaps && !b.kernel_gaps);
    assert_eq!(b.list.iter().map(|b| b.y.size()).sum::<usize>(), 98);
    assert_eq!(b.list.iter().map(|b| b.w.size()).sum::<usize>(), 36);
}

#[test]
fn phases_reach_what_the_definition_reaches() {
    for code in 0..4000i64 {
        let pick = |d: i64, n: i64| code / d % n;
        let a = ConvAxis {
            stride: 1 + pick(1, 4),
            low: pick(4, 7) - 3,
            dilation: 1 + pick(28, 3),
            input_dilation: 1 + pick(84, 5),
        };
        let (flip, kernel, outputs, input) = (pick(420, 2) == 1, pick(3, 5), 1 + pick(7, 9), 1 + pick(5, 6));
        let mut want = Vec::new();
        for o in 0..outputs {
            for k in 0..kernel {
                let at = o * a.stride - a.low + if flip { kernel - 1 - k } else { k } * a.dilation;
                if at % a.input_dilation == 0 && (0..input).contains(&(at / a.input_dilation)) {
                    want.push((o, k, at / a.input_dilation));
                }
            }
        }
        let mut got = Vec::new();
        for p in phases(&a, flip, kernel, outputs) {
            for o in 0..p.outputs.count {
                for k in 0..p.kernel.count {
                    let at = o * p.axis.stride - p.axis.low + k * p.axis.dilation;
                    assert!(p.kernel.count > 0);
                    if (0..input).contains(&at) {
                        let o = p.outputs.start + o * p.outputs.step;
                        got.push((o, p.kernel.start + k * p.kernel.step, at));
                    }
                }
            }
        }
        got.sort_unstable();
        assert_eq!(got, want, "{a:?} flip {flip} kernel {kernel} outputs {outputs} input {input}");
    }
}
