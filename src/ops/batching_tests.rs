//! The vmap rules of primitives that are not compositions, held against a loop over the items.

use super::*;
use crate::core::device::new_stream;
use crate::core::{Array, Device, Dtype, Result, Stream};
use crate::transforms::eval;

type Function<'a> = &'a dyn Fn(&[Array], Stream) -> Result<Array>;

/// Numbers that differ everywhere, small enough for exact sums.
fn numbers(shape: &[i64], dtype: Dtype, below: i64, s: Stream) -> Array {
    let n: i64 = shape.iter().product();
    let flat = arange(0.0, n as f64, 1.0, Dtype::I32, s).unwrap();
    let mixed = remainder(
        &multiply(&flat, &scalar_i64(7, Dtype::I32).unwrap(), s).unwrap(),
        &scalar_i64(below, Dtype::I32).unwrap(),
        s,
    );
    astype(&reshape(&mixed.unwrap(), shape, s).unwrap(), dtype, s).unwrap()
}

fn values(a: &Array) -> Vec<f32> {
    let s = new_stream(Device::CPU);
    let whole = contiguous(&astype(a, Dtype::F32, s).unwrap(), false, s).unwrap();
    eval(std::slice::from_ref(&whole)).unwrap();
    let p = whole.host_ptr().unwrap().cast::<f32>();
    // SAFETY: a contiguous evaluated array of that many float32.
    (0..whole.size()).map(|i| unsafe { *p.add(i) }).collect()
}

/// Item `i` of a batched input.
fn item(x: &Array, axis: Option<usize>, i: i64, s: Stream) -> Array {
    let Some(ax) = axis else { return x.clone() };
    unstack(x, ax as i64, s).unwrap()[i as usize].clone()
}

/// `f` must be one primitive on its inputs as they are.
fn check(f: Function, inputs: &[Array], axes: &[Option<usize>], n: i64) {
    let s = new_stream(Device::CPU);
    let items =
        |i: i64| -> Vec<Array> { inputs.iter().zip(axes).map(|(x, &ax)| item(x, ax, i, s)).collect() };
    let one = f(&items(0), s).unwrap();
    let node = one.node().unwrap();
    let (outs, out_axes) = node.primitive.vmap(inputs, axes, s).unwrap();
    for i in 0..n {
        let got = item(&outs[0], out_axes[0], i, s);
        let want = f(&items(i), s).unwrap();
        assert_eq!(got.shape(), want.shape(), "{} {axes:?}", node.primitive.name());
        assert_eq!(values(&got), values(&want), "{} {axes:?} item {i}", node.primitive.name());
    }
}

/// Every choice of batched inputs, with the batch on every axis in turn; no input twice the same.
fn check_all(f: Function, shapes: &[(&[i64], Dtype, i64)]) {
    let s = new_stream(Device::CPU);
    const N: i64 = 3;
    for chosen in 1..1 << shapes.len() {
        for turn in 0..3 {
            let (mut inputs, mut axes) = (Vec::new(), Vec::new());
            for (i, &(shape, dtype, below)) in shapes.iter().enumerate() {
                let batched = chosen >> i & 1 == 1;
                let axis = (turn + i) % (shape.len() + 1);
                let mut full = shape.to_vec();
                if batched {
                    full.insert(axis, N);
                }
                inputs.push(numbers(&full, dtype, below, s));
                axes.push(batched.then_some(axis));
            }
            check(f, &inputs, &axes, N);
        }
    }
}

#[test]
fn products_by_index() {
    let (f, u, i) = (Dtype::F32, Dtype::U32, Dtype::I32);
    let rhs: Function = &|x, s| gather_mm(&x[0], &x[1], None, Some(&x[2]), false, s);
    check_all(rhs, &[(&[4, 1, 5], f, 11), (&[3, 5, 2], f, 13), (&[4], u, 3)]);
    let lhs: Function = &|x, s| gather_mm(&x[0], &x[1], Some(&x[2]), None, false, s);
    check_all(lhs, &[(&[3, 2, 5], f, 11), (&[2, 2, 5, 2], f, 13), (&[2, 2], i, 3)]);
    let both: Function = &|x, s| gather_mm(&x[0], &x[1], Some(&x[2]), Some(&x[3]), false, s);
    check_all(both, &[(&[3, 2, 4], f, 11), (&[2, 4, 3], f, 13), (&[5], i, 3), (&[5], u, 2)]);
}

#[test]
fn negative_indices_stay_inside_their_item() {
    let s = new_stream(Device::CPU);
    let rhs: Function = &|x, s| gather_mm(&x[0], &x[1], None, Some(&x[2]), false, s);
    let index = negative(
        &add(&numbers(&[3, 4], Dtype::I32, 3, s), &scalar_i64(1, Dtype::I32).unwrap(), s).unwrap(),
        s,
    );
    let inputs =
        [numbers(&[4, 1, 5], Dtype::F32, 11, s), numbers(&[3, 3, 5, 2], Dtype::F32, 13, s), index.unwrap()];
    check(rhs, &inputs, &[None, Some(0), Some(0)], 3);
}

#[test]
fn products_by_segment() {
    let f: Function = &|x, s| segmented_mm(&x[0], &x[1], &x[2], s);
    let shapes: [(&[i64], Dtype, i64); 3] =
        [(&[2, 6], Dtype::F32, 11), (&[6, 4], Dtype::F32, 13), (&[3, 2], Dtype::I32, 9)];
    check_all(f, &shapes);
    check_all(f, &[(&[2, 0], Dtype::F32, 11), (&[0, 4], Dtype::F32, 13), (&[3, 2], Dtype::U32, 9)]);
}

#[test]
fn transforms_and_diagonals() {
    let h: Function = &|x, s| hadamard_transform(&x[0], Some(1.0), s);
    check_all(h, &[(&[2, 12], Dtype::F32, 11)]);
    let d: Function = &|x, s| diagonal(&x[0], 1, 2, 0, s);
    check_all(d, &[(&[4, 2, 3], Dtype::F32, 11)]);
    let tied: Function = &|x, _| Ok(depends(&x[..1], &x[1..]).remove(0));
    check_all(tied, &[(&[4, 2], Dtype::F32, 11), (&[3], Dtype::I32, 5)]);
}
