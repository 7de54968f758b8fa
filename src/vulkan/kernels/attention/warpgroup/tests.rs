//! The texts of kernels, and where their arguments lie.

use std::collections::HashSet;
use std::mem::offset_of;

use super::keys::{self, Keys};
use super::mask::Mask;
use super::program::Program;
use super::queries::{self, Queries};
use super::rows::Sizes;
use crate::core::Dtype;

/// Every text that a device may be given.
fn texts() -> Vec<String> {
    let mut all = Vec::new();
    for (dtype, causal) in [Dtype::F16, Dtype::BF16].into_iter().flat_map(|d| [(d, false), (d, true)]) {
        for (features, keys) in [(64, 64), (64, 32), (128, 48), (128, 32)] {
            all.push(Queries { dtype, features, causal, keys }.text());
        }
        for (features, queries) in [(64, 64), (64, 32), (128, 32)] {
            all.push(Keys { dtype, features, causal, queries }.text());
        }
    }
    let mask = |added, pairs| Mask { added, pairs };
    let masks = [(false, false), (false, true), (true, false), (true, true)].map(|(a, p)| Some(mask(a, p)));
    for (mask, dtype) in masks.into_iter().chain([None]).flat_map(|m| [(m, Dtype::F16), (m, Dtype::BF16)]) {
        for (features, causal) in [(64, false), (128, false), (128, true)] {
            if mask.is_none() || !causal {
                all.push(Program { dtype, features, causal, mask }.text());
            }
        }
    }
    all
}

#[test]
fn texts_keep_to_shared_memory_and_jump_to_labels_that_are_there() {
    for text in texts() {
        let labels: Vec<&str> = text.lines().filter_map(|l| l.strip_suffix(':')).collect();
        let once: HashSet<&str> = labels.iter().copied().collect();
        assert_eq!(once.len(), labels.len());
        let jumps = text.split("bra ").skip(1).map(|rest| rest.split(';').next().unwrap());
        assert!(jumps.collect::<HashSet<_>>().is_subset(&once));
        assert!(text.is_ascii() && text.matches('{').count() == text.matches('}').count());
        let number = |before: &str| -> u32 {
            let rest = text.split(before).nth(1).unwrap();
            rest.split(']').next().unwrap().parse().unwrap()
        };
        let (bytes, stages) = (number("pieces["), number(".b64 full["));
        assert!(bytes + 16 * stages <= 48 << 10);
    }
}

#[test]
fn arguments_lie_where_the_texts_read_them() {
    use queries::Args;
    let places = [offset_of!(Args, keys), offset_of!(Args, dq), offset_of!(Args, extents)];
    assert_eq!(places, [24, 40, 48]);
    let steps = [offset_of!(Args, key_matrix), offset_of!(Args, q_steps), offset_of!(Args, cot_steps)];
    assert_eq!(steps, [64, 80, 104]);
    let numbers = [
        offset_of!(Args, sizes),
        offset_of!(Args, sizes) + offset_of!(Sizes, units),
        offset_of!(Args, padded),
    ];
    assert_eq!(numbers, [128, 156, 164]);
}

#[test]
fn arguments_of_keys_lie_where_the_texts_read_them() {
    use keys::Args;
    let places = [offset_of!(Args, queries), offset_of!(Args, dk), offset_of!(Args, pairs)];
    assert_eq!(places, [16, 32, 48]);
    let steps = [offset_of!(Args, query_matrix), offset_of!(Args, k_steps), offset_of!(Args, v_steps)];
    assert_eq!(steps, [56, 72, 96]);
    let numbers = [
        offset_of!(Args, sizes),
        offset_of!(Args, sizes) + offset_of!(Sizes, units),
        offset_of!(Args, padded),
    ];
    assert_eq!(numbers, [120, 148, 156]);
}
