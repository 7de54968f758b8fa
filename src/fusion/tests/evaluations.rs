//! Evaluations on a GPU: which steps run as one, on made-up devices.

use super::super::device::MADE_UP;
use super::super::{Plan, Role, plan};
use super::*;
use crate::graph::levels::steps;
use crate::ops::fast::{MaskArg, Offset, Rotation, rms_norm, rope, scaled_dot_product_attention};
use crate::ops::quantized::quantized_matmul::Quantized;
use crate::ops::{add, multiply, quantized_matmul, slice_update, transpose};
use crate::vulkan::tune::Profile;
use crate::vulkan::tune::tests::devices;

/// What runs for some arrays, in order: names of the operations of a kernel, joined by `+`, those with results in
/// capitals.
pub(super) fn runs(roots: &[Array]) -> Vec<String> {
    let steps = steps(roots);
    let mut plan: Plan = plan(&steps, None);
    let name = |i: usize| steps[i].node.as_ref().map_or("", |n| n.primitive.name()).to_string();
    let one = |i: usize| match plan.role(i) {
        Role::Alone => Some(name(i)),
        Role::Member => None,
        Role::Place(join) => {
            let mut members = join.members.to_vec();
            members.sort_unstable();
            let part = |&m: &usize| match join.results.contains(&m) {
                true => name(m).to_uppercase(),
                false => name(m),
            };
            Some(members.iter().map(part).collect::<Vec<_>>().join("+"))
        }
    };
    (0..steps.len()).filter_map(one).collect()
}

/// Evaluated numbers.
pub(super) fn given(shape: &[i64]) -> Array {
    floats(shape, &numbers(shape.iter().product::<i64>() as usize))
}

/// A quantised matrix of 64 columns.
struct Matrix(Vec<Array>, i64);

impl Matrix {
    fn new(rows: i64, bits: i64) -> Matrix {
        let parts =
            ops::quantize(&given(&[rows, 64]), Some(32), Some(bits), "affine", None, stream()).unwrap();
        crate::eval::eval(&parts).unwrap();
        Matrix(parts, bits)
    }

    fn times(&self, x: &Array, s: Stream) -> Array {
        let q = Quantized {
            w: &self.0[0],
            scales: &self.0[1],
            biases: Some(&self.0[2]),
            transpose: true,
            group_size: Some(32),
            bits: Some(self.1),
            mode: "affine",
        };
        quantized_matmul(x, &q, s).unwrap()
    }
}

/// On each made-up device, with a stream of a GPU.
pub(super) fn on_devices(test: impl Fn(&Profile, Stream)) {
    for profile in devices::all() {
        let profile: &'static Profile = Box::leak(Box::new(profile));
        MADE_UP.set(Some(profile));
        test(profile, default_stream(Device::GPU));
        MADE_UP.set(None);
    }
}

#[test]
fn products_of_one_row() {
    let [a, b, c, d] = [64, 32, 32, 64].map(|rows| Matrix::new(rows, 4));
    let eight = Matrix::new(32, 8);
    on_devices(|p, s| {
        let row = given(&[1, 1, 64]);
        let two = [a.times(&row, s), b.times(&row, s)];
        assert_eq!(runs(&two), ["QUANTIZED_MATMUL+QUANTIZED_MATMUL"], "{}", p.name);
        let four = [&a, &b, &c, &d].map(|m| m.times(&row, s));
        assert_eq!(
            runs(&four),
            ["QUANTIZED_MATMUL+QUANTIZED_MATMUL+QUANTIZED_MATMUL", "quantized_matmul"],
            "no more than the push block holds: {}",
            p.name
        );
        let formats = [a.times(&row, s), eight.times(&row, s)];
        assert_eq!(runs(&formats).len(), 2, "codes of 4 and 8 bits");
        let rows = given(&[1, 2, 64]);
        assert_eq!(runs(&[a.times(&rows, s), b.times(&rows, s)]).len(), 2, "two rows");
        let others = [a.times(&row, s), b.times(&given(&[1, 1, 64]), s)];
        assert_eq!(runs(&others).len(), 2, "products of two rows each alone");
    });
}

/// The same elements in float16.
fn half(a: &Array) -> Array {
    let a = ops::astype(a, Dtype::F16, stream()).unwrap();
    crate::eval::eval(std::slice::from_ref(&a)).unwrap();
    a
}

/// Whether a device has the matrices that kernels of few rows need.
fn multiplies_few(p: &Profile) -> bool {
    let lanes = crate::vulkan::tune::matmul::fixed_subgroup(&p.features) == Some(32);
    lanes && p.features.coop_matrices.iter().any(|m| [m.m, m.n, m.k] == [16, 16, 16])
}

#[test]
fn products_of_few_rows() {
    let [a, b] = [(); 2].map(|()| {
        let w = half(&given(&[64, 64]));
        let parts = ops::quantize(&w, Some(32), Some(4), "affine", None, stream()).unwrap();
        crate::eval::eval(&parts).unwrap();
        Matrix(parts, 4)
    });
    let (weight, long) = (half(&given(&[64])), half(&given(&[33, 1, 64])));
    on_devices(|p, s| {
        let joins = |names: &[&'static str], apart: &[&'static str]| match multiplies_few(p) {
            true => names.to_vec(),
            false => apart.to_vec(),
        };
        for m in [2, 8, 32] {
            let rows = half(&given(&[m, 1, 64]));
            let norm = rms_norm(&rows, Some(&weight), 1e-5, s).unwrap();
            let two = [a.times(&norm, s), b.times(&norm, s)];
            drop(norm);
            let apart = ["rms_norm", "quantized_matmul", "quantized_matmul"];
            let both = ["rms_norm", "QUANTIZED_MATMUL+QUANTIZED_MATMUL"];
            assert_eq!(runs(&two), joins(&both, &apart), "{} {m}", p.name);
            let residual = add(&a.times(&rows, s), &rows, s).unwrap();
            let apart = ["quantized_matmul", "add"];
            assert_eq!(runs(&[residual]), joins(&["quantized_matmul+ADD"], &apart), "{} {m}", p.name);
            let gated = multiply(&a.times(&rows, s), &b.times(&rows, s), s).unwrap();
            let apart = ["quantized_matmul", "quantized_matmul", "multiply"];
            let unit = ["quantized_matmul+quantized_matmul+MULTIPLY"];
            assert_eq!(runs(&[gated]), joins(&unit, &apart), "{} {m}", p.name);
        }
        let tall = add(&a.times(&long, s), &long, s).unwrap();
        assert_eq!(runs(&[tall]), ["quantized_matmul", "add"], "more rows than columns: {}", p.name);
    });
}

/// x times the transposition of a matrix, as linear layers have it.
fn linear(x: &Array, matrix: &Array, s: Stream) -> Array {
    ops::matmul(x, &transpose(matrix, None, s).unwrap(), s).unwrap()
}

#[test]
fn dense_products_of_one_row() {
    let [a, b, weight] = [given(&[32, 64]), given(&[32, 64]), given(&[64])];
    on_devices(|p, s| {
        let row = given(&[1, 1, 64]);
        let norm = || rms_norm(&row, Some(&weight), 1e-5, s).unwrap();
        let quiet = |names: Vec<String>| -> Vec<String> {
            names.into_iter().filter(|n| !["transpose", "reshape"].contains(&n.as_str())).collect()
        };
        let x = norm();
        let two = [linear(&x, &a, s), linear(&x, &b, s)];
        drop(x);
        assert_eq!(
            quiet(runs(&two)),
            ["rms_norm+reshape+reshape+matmul+matmul+RESHAPE+RESHAPE"],
            "{}",
            p.name
        );
        let gated = multiply(&linear(&row, &a, s), &linear(&row, &b, s), s).unwrap();
        assert_eq!(quiet(runs(&[gated])), ["reshape+reshape+matmul+matmul+reshape+reshape+MULTIPLY"]);
        let residual = add(&linear(&norm(), &a, s), &given(&[1, 1, 32]), s).unwrap();
        assert_eq!(quiet(runs(&[residual])), ["rms_norm+reshape+matmul+reshape+ADD"]);
        assert_eq!(quiet(runs(&[linear(&row, &a, s)])), ["matmul"], "nothing to join it with");
        let rows = given(&[1, 2, 64]);
        assert_eq!(quiet(runs(&[linear(&rows, &a, s), linear(&rows, &b, s)])).len(), 2, "two rows");
        let odd = given(&[32, 63]);
        let narrow = given(&[1, 1, 63]);
        let odd = [linear(&narrow, &odd, s), linear(&narrow, &odd, s)];
        assert_eq!(quiet(runs(&odd)).len(), 2, "rows that begin within a chunk");
        let other = ops::matmul(&row, &given(&[64, 32]), s).unwrap();
        let plain = [other, ops::matmul(&row, &given(&[64, 32]), s).unwrap()];
        assert_eq!(quiet(runs(&plain)).len(), 2, "columns in a row");
        let held = linear(&row, &a, s);
        let both = [add(&held, &given(&[1, 1, 32]), s).unwrap(), held];
        assert_eq!(quiet(runs(&both)), ["matmul", "add"], "a product that is needed besides");
    });
}

#[test]
fn dense_products_of_few_rows() {
    let [a, b] = [(); 2].map(|()| half(&given(&[32, 1024])));
    let [weight, long, tall] = [&[1024][..], &[8, 1, 1024], &[33, 1, 1024]].map(|s| half(&given(s)));
    let (wide, x) = (half(&given(&[32, 8192])), half(&given(&[8, 8192])));
    on_devices(|p, s| {
        let quiet = |names: Vec<String>| -> Vec<String> {
            let names = names.into_iter().map(|n| n.replace("reshape+", ""));
            names.filter(|n| !["transpose", "reshape"].contains(&n.as_str())).collect()
        };
        let norm = rms_norm(&long, Some(&weight), 1e-5, s).unwrap();
        let two = [linear(&norm, &a, s), linear(&norm, &b, s)];
        drop(norm);
        let two = quiet(runs(&two));
        let residual = add(&linear(&long, &a, s), &half(&given(&[8, 1, 32])), s).unwrap();
        let residual = quiet(runs(&[residual]));
        match multiplies_few(p) {
            true => {
                assert_eq!(two, ["rms_norm+matmul+matmul+RESHAPE+RESHAPE"], "{}", p.name);
                assert_eq!(residual, ["matmul+ADD"], "{}", p.name);
            }
            false => {
                assert_eq!(two, ["rms_norm", "matmul", "matmul"], "{}", p.name);
                assert_eq!(residual, ["matmul", "add"], "{}", p.name);
            }
        }
        let sum = add(&linear(&tall, &a, s), &half(&given(&[33, 1, 32])), s).unwrap();
        assert_eq!(quiet(runs(&[sum])), ["matmul", "add"], "more rows than matrices have: {}", p.name);
        let product = linear(&x, &wide, s);
        let sum = quiet(runs(&[add(&product, &product, s).unwrap()]));
        assert_eq!(sum, ["matmul", "add"], "somebody holds the product");
    });
}

#[test]
fn what_comes_before_and_after_a_product() {
    let (a, b, weight) = (Matrix::new(64, 4), Matrix::new(64, 4), given(&[64]));
    on_devices(|_, s| {
        let row = given(&[1, 1, 64]);
        let norm = || rms_norm(&row, Some(&weight), 1e-5, s).unwrap();
        let alone = a.times(&norm(), s);
        assert_eq!(runs(&[alone]), ["rms_norm+QUANTIZED_MATMUL"]);
        let held = norm();
        let product = a.times(&held, s);
        assert_eq!(runs(&[product]), ["RMS_NORM+QUANTIZED_MATMUL"], "somebody holds the row");
        let others = [a.times(&held, s), ops::exp(&held, s).unwrap()];
        drop(held);
        assert_eq!(runs(&others), ["RMS_NORM+QUANTIZED_MATMUL", "exp"], "somebody else reads the row");

        let residual = add(&a.times(&row, s), &row, s).unwrap();
        assert_eq!(runs(&[residual]), ["quantized_matmul+ADD"]);
        let product = a.times(&row, s);
        let sum = add(&product, &row, s).unwrap();
        assert_eq!(runs(&[sum]), ["quantized_matmul", "add"], "somebody holds the product");
        drop(product);

        let x = norm();
        let gated = multiply(&a.times(&x, s), &b.times(&x, s), s).unwrap();
        drop(x);
        assert_eq!(runs(&[gated]), ["rms_norm+quantized_matmul+quantized_matmul+MULTIPLY"]);

        let x = norm();
        let sum = add(&a.times(&x, s), &x, s).unwrap();
        drop(x);
        let apart = ["rms_norm", "quantized_matmul+ADD"];
        assert_eq!(runs(&[sum]), apart, "a sum of one workgroup would read what another stores");
        let x = norm();
        let sum = add(&multiply(&a.times(&x, s), &b.times(&x, s), s).unwrap(), &x, s).unwrap();
        drop(x);
        let apart = ["rms_norm", "quantized_matmul+quantized_matmul+multiply+ADD"];
        assert_eq!(runs(&[sum]), apart, "a sum of the unit");
    });
}

#[test]
fn biases_of_products_of_one_row() {
    let [a, b, c] = [64, 32, 32].map(|rows| Matrix::new(rows, 4));
    let (weight, biases) = (given(&[64]), [64, 32, 32].map(|n| given(&[n])));
    on_devices(|_, s| {
        let row = given(&[1, 1, 64]);
        let with = |m: &Matrix, x: &Array, b: &Array| {
            let product = m.times(x, s);
            add(&product, b, s).unwrap()
        };
        let three = |x: &Array| [(&a, 0), (&b, 1), (&c, 2)].map(|(m, i)| with(m, x, &biases[i]));
        assert_eq!(runs(&three(&row)), ["quantized_matmul+quantized_matmul+quantized_matmul+ADD+ADD+ADD"]);
        let norm = rms_norm(&row, Some(&weight), 1e-5, s).unwrap();
        let all = three(&norm);
        drop(norm);
        let joined = ["rms_norm+quantized_matmul+quantized_matmul+quantized_matmul+ADD+ADD+ADD"];
        assert_eq!(runs(&all), joined);
        let held = rms_norm(&row, Some(&weight), 1e-5, s).unwrap();
        let stored = joined[0].replacen("rms_norm", "RMS_NORM", 1);
        assert_eq!(runs(&three(&held)), [stored], "somebody holds the row");
        // One of them is none.
        let some = [with(&a, &row, &biases[0]), b.times(&row, s)];
        assert_eq!(runs(&some), ["QUANTIZED_MATMUL+QUANTIZED_MATMUL", "add"]);
        // What is added to one of them is another one of them, or its sum.
        let [a1, b1, c1] = [&b, &c, &Matrix::new(32, 4)].map(|m| m.times(&row, s));
        let first = add(&a1, &biases[1], s).unwrap();
        let all = [add(&b1, &first, s).unwrap(), add(&c1, &biases[2], s).unwrap(), first];
        drop((a1, b1, c1));
        assert_eq!(runs(&all)[0], "QUANTIZED_MATMUL+QUANTIZED_MATMUL+QUANTIZED_MATMUL");
        let [a1, b1, c1] = [&b, &c, &Matrix::new(32, 4)].map(|m| m.times(&row, s));
        let all = [add(&b1, &a1, s).unwrap(), add(&c1, &biases[2], s).unwrap()];
        drop((a1, b1, c1));
        assert_eq!(runs(&all)[0], "QUANTIZED_MATMUL+QUANTIZED_MATMUL+QUANTIZED_MATMUL");
        // One matrix: with what its result is added to.
        let sum = {
            let o = with(&a, &row, &biases[0]);
            add(&row, &o, s).unwrap()
        };
        assert_eq!(runs(&[sum]), ["quantized_matmul+add+ADD"]);
        let rows = given(&[1, 2, 64]);
        assert_eq!(runs(&[with(&a, &rows, &biases[0])]), ["quantized_matmul", "add"], "two rows");
    });
}

#[test]
fn normalised_rows_that_are_added() {
    let weight = given(&[64]);
    on_devices(|_, s| {
        let (x, y) = (given(&[3, 64]), given(&[3, 64]));
        let norm = || rms_norm(&x, Some(&weight), 1e-5, s).unwrap();
        // What becomes of rows that nobody else holds.
        let behind = |f: &dyn Fn(&Array) -> Array| {
            let sum = f(&norm());
            runs(&[sum])
        };
        assert_eq!(behind(&|n| add(&y, n, s).unwrap()), ["rms_norm+ADD"]);
        assert_eq!(behind(&|n| add(n, &y, s).unwrap()), ["rms_norm+ADD"]);
        assert_eq!(behind(&|n| add(n, &weight, s).unwrap()), ["rms_norm", "add"], "another shape");
        assert_eq!(behind(&|n| multiply(n, &y, s).unwrap()), ["rms_norm", "multiply"]);
        assert_eq!(behind(&|n| add(n, n, s).unwrap()), ["rms_norm", "add"]);
        let held = norm();
        let sum = add(&held, &y, s).unwrap();
        assert_eq!(runs(&[sum]), ["rms_norm", "add"], "somebody holds the rows");
        // The other array is made behind the rows.
        let late = |n: &Array| {
            let e = ops::exp(&y, s).unwrap();
            let twice = ops::exp(&e, s).unwrap();
            add(n, &twice, s).unwrap()
        };
        assert_eq!(behind(&late), ["exp", "exp", "rms_norm+ADD"]);
    });
}

#[test]
fn two_steps_behind_a_product() {
    let (a, b, weight) = (Matrix::new(64, 4), Matrix::new(64, 4), given(&[64]));
    on_devices(|_, s| {
        let row = given(&[1, 1, 64]);
        let number = |v: f64| floats(&[], &[v]);
        let scaled = |v: f64| multiply(&a.times(&row, s), &number(v), s).unwrap();
        let product = scaled(0.5);
        let sum = add(&row, &product, s).unwrap();
        drop(product);
        assert_eq!(runs(&[sum]), ["quantized_matmul+multiply+ADD"]);
        let product = scaled(0.5);
        let both = [add(&row, &product, s).unwrap(), ops::exp(&product, s).unwrap()];
        drop(product);
        assert_eq!(runs(&both), ["quantized_matmul+MULTIPLY", "add", "exp"], "somebody else reads between");

        let x = rms_norm(&row, Some(&weight), 1e-5, s).unwrap();
        let (gate, up) = (ops::exp(&a.times(&x, s), s).unwrap(), b.times(&x, s));
        let gated = multiply(&gate, &up, s).unwrap();
        drop((x, gate, up));
        assert_eq!(runs(&[gated]), ["rms_norm+quantized_matmul+quantized_matmul+exp+MULTIPLY"]);
        let (gate, up) = (a.times(&row, s), ops::exp(&b.times(&row, s), s).unwrap());
        let gated = multiply(&gate, &up, s).unwrap();
        drop((gate, up));
        assert_eq!(runs(&[gated]), ["quantized_matmul+quantized_matmul+exp+MULTIPLY"], "of the second one");

        // Numbers that always are others get no kernels of their own.
        let all: Vec<_> = (0..40).map(|i| runs(&[scaled(100.0 + f64::from(i))])).collect();
        assert_eq!(all[39], ["quantized_matmul", "multiply"]);
        assert_eq!(runs(&[scaled(100.0)]), ["quantized_matmul+MULTIPLY"]);
    });
}

fn turn(x: &Array, base: f32, s: Stream) -> Array {
    let how = Rotation { dims: 64, traditional: false, base: Some(base), scale: 1.0 };
    rope(x, how, Offset::Fixed(3), None, s).unwrap()
}

#[test]
fn rotations_of_queries_and_keys() {
    let weight = given(&[64]);
    on_devices(|_, s| {
        let (q, k) = (given(&[1, 4, 1, 64]), given(&[1, 2, 1, 64]));
        assert_eq!(runs(&[turn(&q, 1e4, s), turn(&k, 1e4, s)]), ["ROPE+ROPE"]);
        assert_eq!(runs(&[turn(&q, 1e4, s), turn(&k, 1e6, s)]), ["rope", "rope"], "other angles");
        let wide = given(&[1, 4, 1, 1024]);
        let how = Rotation { dims: 1024, traditional: false, base: Some(1e4), scale: 1.0 };
        let turned = |x: &Array| rope(x, how, Offset::Fixed(0), None, s).unwrap();
        assert_eq!(runs(&[turned(&wide), turned(&given(&[1, 4, 1, 1024]))]), ["rope", "rope"], "long rows");

        let normalised = |heads: i64| {
            let x = rms_norm(&given(&[1, 1, heads, 64]), Some(&weight), 1e-5, s).unwrap();
            transpose(&x, Some(&[0, 2, 1, 3]), s).unwrap()
        };
        let both = [turn(&normalised(4), 1e4, s), turn(&normalised(2), 1e4, s)];
        assert_eq!(runs(&both), ["rms_norm+rms_norm+transpose+transpose+ROPE+ROPE"]);
    });
}

#[test]
fn rotations_into_caches() {
    on_devices(|_, s| {
        let (q, k, v) = (given(&[1, 4, 1, 64]), given(&[1, 2, 1, 64]), given(&[1, 2, 1, 64]));
        let [keys, vals] = [given(&[1, 2, 8, 64]), given(&[1, 2, 8, 64])];
        let put = |cache: &Array, x: &Array| {
            slice_update(cache, x, &[0, 0, 3, 0], &[1, 2, 4, 64], &[1; 4], s).unwrap()
        };
        let turned = turn(&k, 1e4, s);
        let roots = [turn(&q, 1e4, s), put(&keys, &turned), put(&vals, &v)];
        drop(turned);
        assert_eq!(runs(&roots), ["ROPE+rope+SLICE_UPDATE+SLICE_UPDATE"]);
    });
}

#[test]
fn rotations_of_one_position_up_to_attention() {
    on_devices(|p, s| {
        // The result, and both caches.
        let layer = |queries: i64, begin: i64, hold: &mut Vec<Array>| {
            let rows = |heads: i64| given(&[1, heads, queries, 64]);
            let put = |x: &Array| {
                let stop = [1, 2, 3 + queries, 64];
                slice_update(&given(&[1, 2, 8, 64]), x, &[0, 0, 3, 0], &stop, &[1; 4], s).unwrap()
            };
            let (q, keys, values) = (turn(&rows(4), 1e4, s), put(&turn(&rows(2), 1e4, s)), put(&rows(2)));
            let part =
                |a: &Array| ops::slice(a, &[0, 0, begin, 0], &[1, 2, 3 + queries, 64], &[1; 4], s).unwrap();
            let parts = [part(&keys), part(&values)];
            let y = scaled_dot_product_attention([&q, &parts[0], &parts[1]], 0.5, MaskArg::None, None, s)
                .unwrap();
            hold.push(q);
            hold.extend(parts);
            [y, keys, values]
        };
        let joined = "ROPE+rope+SLICE_UPDATE+SLICE_UPDATE";
        let mut held = Vec::new();
        let roots = layer(1, 0, &mut held);
        held.clear();
        assert_eq!(
            runs(&roots),
            ["rope+rope+SLICE_UPDATE+SLICE_UPDATE+slice+slice+SCALED_DOT_PRODUCT_ATTENTION"],
            "{}",
            p.name
        );
        for (what, queries, begin, holds) in [
            ("two queries", 2, 0, false),
            ("a part behind the first key", 1, 1, false),
            ("others look", 1, 0, true),
        ] {
            let mut held = Vec::new();
            let roots = layer(queries, begin, &mut held);
            if !holds {
                held.clear();
            }
            assert!(runs(&roots).contains(&joined.to_string()), "{what}: {:?}", runs(&roots));
        }
    });
}

/// Quantised matrices.
fn experts(shape: &[i64]) -> Vec<Array> {
    let parts = ops::quantize(&given(shape), Some(32), Some(4), "affine", None, stream()).unwrap();
    crate::eval::eval(&parts).unwrap();
    parts
}

/// Products of rows with those of them that are picked.
fn by(w: &[Array], x: &Array, picks: &Array, s: Stream) -> Array {
    let q = Quantized {
        w: &w[0],
        scales: &w[1],
        biases: Some(&w[2]),
        transpose: true,
        group_size: Some(32),
        bits: Some(4),
        mode: "affine",
    };
    ops::gather_qmm(x, &q, None, Some(picks), None, false, s).unwrap()
}

#[test]
fn products_of_picked_experts() {
    let (a, b) = (experts(&[6, 32, 64]), experts(&[6, 32, 64]));
    let picks = ops::astype(&given(&[4]), Dtype::U32, stream()).unwrap();
    let others = ops::astype(&given(&[4]), Dtype::U32, stream()).unwrap();
    crate::eval::eval(&[picks.clone(), others.clone()]).unwrap();
    on_devices(|_, s| {
        let x = given(&[1, 1, 64]);
        let gated = multiply(&by(&a, &x, &picks, s), &by(&b, &x, &picks, s), s).unwrap();
        assert_eq!(runs(&[gated]), ["gather_qmm+gather_qmm+MULTIPLY"]);
        let each = given(&[4, 1, 64]);
        assert_eq!(runs(&[by(&a, &each, &picks, s), by(&b, &each, &picks, s)]), ["GATHER_QMM+GATHER_QMM"]);
        let apart = [by(&a, &x, &picks, s), by(&b, &x, &others, s)];
        assert_eq!(runs(&apart), ["gather_qmm", "gather_qmm"], "other experts");
        let rows = given(&[1, 2, 64]);
        let apart = [by(&a, &rows, &picks, s), by(&b, &rows, &picks, s)];
        assert_eq!(runs(&apart), ["gather_qmm", "gather_qmm"], "two rows each");
    });
}

/// What picked experts of tokens give, weighed and added up, and the residual.
fn layer(w: &[Vec<Array>; 3], x: &Array, picks: &Array, scores: &Array, sort: bool, s: Stream) -> Array {
    let (tokens, each) = (picks.dim(0), picks.dim(1));
    let mut rows = ops::expand_dims(x, &[-2, -3], s).unwrap();
    let (mut chosen, mut back) = (picks.clone(), None);
    if sort {
        let flat = ops::reshape(picks, &[-1], s).unwrap();
        let order = ops::argsort(&flat, Some(0), s).unwrap();
        let token = ops::floor_divide(&order, &ops::scalar_i64(each, order.dtype()).unwrap(), s).unwrap();
        back = Some(ops::argsort(&order, Some(0), s).unwrap());
        let flat_rows = ops::reshape(&rows, &[tokens, 1, 64], s).unwrap();
        rows = ops::take(&flat_rows, &token, Some(0), s).unwrap();
        chosen = ops::take(&flat, &order, Some(0), s).unwrap();
    }
    let unit = multiply(&by(&w[0], &rows, &chosen, s), &by(&w[1], &rows, &chosen, s), s).unwrap();
    let mut y = by(&w[2], &unit, &chosen, s);
    if let Some(back) = back {
        y = ops::take(&y, &back, Some(0), s).unwrap();
    }
    let y = ops::reshape(&y, &[tokens, each, 64], s).unwrap();
    let y = multiply(&y, &ops::expand_dims(scores, &[-1], s).unwrap(), s).unwrap();
    add(x, &ops::sum(&y, Some(&[-2]), false, s).unwrap(), s).unwrap()
}

#[test]
fn sums_of_picked_experts() {
    let w = [[24, 32, 64], [24, 32, 64], [24, 64, 32]].map(|shape| experts(&shape));
    let picks = |tokens: i64| {
        let picks = ops::astype(&given(&[tokens, 4]), Dtype::U32, stream()).unwrap();
        crate::eval::eval(std::slice::from_ref(&picks)).unwrap();
        picks
    };
    on_devices(|_, s| {
        let kernels = |tokens: i64, sort: bool| {
            let (x, scores) = (given(&[tokens, 64]), given(&[tokens, 4]));
            let out = layer(&w, &x, &picks(tokens), &scores, sort, s);
            let views = ["reshape", "expand_dims", "broadcast_to", "broadcast"];
            let mut all = runs(&[out]);
            all.retain(|k| !views.contains(&k.as_str()));
            all
        };
        for tokens in [1, 3] {
            let all = kernels(tokens, false);
            assert_eq!(all.len(), 2, "{all:?}");
            assert!(all[1].starts_with("gather_qmm+") && all[1].ends_with("multiply+sum+ADD"), "{all:?}");
        }
        let all = kernels(16, true);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("argsort") && all[0].ends_with("multiply+sum+ADD"), "{all:?}");
    });
}

#[test]
fn random_draws() {
    on_devices(|_, s| {
        let key = ops::random::key(3).unwrap();
        let [low, high] = [given(&[]), given(&[5])];
        let draw = || ops::random::uniform(&low, &high, &[4, 5], Dtype::F32, Some(&key), s).unwrap();
        assert_eq!(runs(&[draw()]), ["subtract", "random_bits+multiply+ADD"]);
        let other = ops::add(&draw(), &given(&[3, 4, 5]), s).unwrap();
        assert_eq!(runs(&[other]).len(), 3, "another shape");
        let held = draw();
        let both = [ops::exp(&held, s).unwrap(), held];
        assert_eq!(runs(&both), ["subtract", "random_bits+multiply+ADD", "exp"], "read besides");
    });
}

/// A step gives all outputs of its node their values, not only the one by which the walk came there first.
#[test]
fn second_outputs_are_there_before_they_are_read() {
    on_devices(|_, s| {
        let (key, value) = (ops::random::key(3).unwrap(), given(&[]));
        let parts = || {
            let deep = ops::exp(&ops::exp(&given(&[4, 64]), s).unwrap(), s).unwrap();
            ops::quantize(&deep, Some(32), Some(4), "affine", None, s).unwrap()
        };
        let [low, high] = [given(&[]), given(&[])];
        let (made, draw) = (parts(), ops::random::uniform(&low, &high, &[4, 2], Dtype::F32, Some(&key), s));
        let drawn = ops::add(&draw.unwrap(), &made[1], s).unwrap();
        let order = ["exp", "exp", "contiguous", "quantize", "random_bits+multiply+add+ADD"];
        assert_eq!(runs(&[made[0].clone(), drawn]), order);
        let made = parts();
        let padded = ops::pad(&made[1], &[(1, 1), (0, 2)], ops::PadMode::Constant, &value, s).unwrap();
        let order = ["exp", "exp", "contiguous", "quantize", "full+SLICE_UPDATE"];
        assert_eq!(runs(&[made[0].clone(), padded]), order);
    });
}

#[test]
fn rows_less_their_log_sum_exp() {
    on_devices(|_, s| {
        let [x, y] = [given(&[4, 5]), given(&[4, 5])];
        let sum = |a: &Array, keep| ops::logsumexp(a, Some(&[-1]), keep, s).unwrap();
        let less = |a: &Array, by: Array| ops::subtract(a, &by, s).unwrap();
        assert_eq!(runs(&[less(&x, sum(&x, true))]), ["logsumexp+SUBTRACT"]);
        assert_eq!(runs(&[less(&y, sum(&x, true))]).len(), 2, "other rows");
        let turned = |by: Array| less(&by, x.clone());
        assert_eq!(runs(&[turned(sum(&x, true))]).len(), 2, "the other way round");
        let held = sum(&x, true);
        assert_eq!(runs(&[less(&x, held.clone())]).len(), 2, "somebody holds the sum");
        let square = given(&[5, 5]);
        assert_eq!(runs(&[less(&square, sum(&square, false))]).len(), 2, "of other elements");
    });
}

#[test]
fn a_row_less_its_log_sum_exp_over_all_axes() {
    on_devices(|_, s| {
        let less = |x: &Array, axes: Option<&[i64]>| {
            ops::subtract(x, &ops::logsumexp(x, axes, true, s).unwrap(), s).unwrap()
        };
        assert_eq!(runs(&[less(&given(&[1, 5]), None)]), ["logsumexp+SUBTRACT"]);
        assert_eq!(runs(&[less(&given(&[2, 1, 5]), Some(&[1, 2]))]), ["logsumexp+SUBTRACT"]);
        assert_eq!(runs(&[less(&given(&[2, 5]), None)]).len(), 2, "several rows are one sum");
    });
}

#[test]
fn rows_of_quantised_tables() {
    let (table, other) = (Matrix::new(8, 4), Matrix::new(8, 4));
    let index = ops::astype(&given(&[1, 3]), Dtype::I32, stream()).unwrap();
    crate::eval::eval(std::slice::from_ref(&index)).unwrap();
    on_devices(|_, s| {
        let take = |a: &Array, by: &Array| ops::take(a, by, Some(0), s).unwrap();
        let taken = |t: &Matrix| t.0.iter().map(|a| take(a, &index)).collect::<Vec<_>>();
        let values = |p: Vec<Array>| {
            ops::dequantize(&p[0], &p[1], Some(&p[2]), Some(32), Some(4), "affine", None, None, s).unwrap()
        };
        let joined = ["gather+gather+gather+contiguous+contiguous+contiguous+DEQUANTIZE"];
        assert_eq!(runs(&[values(taken(&table))]), joined);
        assert_eq!(runs(&[values(taken(&table)), values(taken(&other))]), [joined[0]; 2]);
        let held = taken(&table);
        assert_eq!(runs(&[values(held.clone()), held[1].clone()]).len(), 7, "somebody reads the scales");
        let back = ops::negative(&index, s).unwrap();
        let mut mixed = taken(&table);
        mixed[1] = take(&table.0[1], &back);
        assert_eq!(runs(&[values(mixed)]).len(), 8, "other rows of scales");
        let made: Vec<Array> = table.0.iter().map(|a| ops::view::copy(a, s).unwrap()).collect();
        let rows: Vec<Array> = made.iter().map(|a| take(a, &index)).collect();
        assert_eq!(runs(&[values(rows)]).len(), 10, "tables that are not there yet");
        assert_eq!(runs(&[values(table.0.clone())]).len(), 4, "whole tables");
    });
}

#[test]
fn filled_arrays_that_get_other_numbers() {
    on_devices(|_, s| {
        let (x, value) = (given(&[2, 3]), given(&[]));
        let pad = || ops::pad(&x, &[(1, 1), (0, 2)], ops::PadMode::Constant, &value, s).unwrap();
        assert_eq!(runs(&[pad()]), ["full+SLICE_UPDATE"]);
        let filled = || ops::full(&[4, 6], &value, None, s).unwrap();
        let within = |a: Array, step| slice_update(&a, &x, &[0, 0], &[2, 3 * step], &[1, step], s).unwrap();
        assert_eq!(runs(&[within(filled(), 1)]), ["full+SLICE_UPDATE"]);
        assert_eq!(runs(&[within(filled(), 2)]).len(), 2, "every second element");
        let held = filled();
        assert_eq!(runs(&[within(held.clone(), 1)]).len(), 2, "somebody holds what is filled");
    });
}

#[test]
fn steps_of_one_kind_over_not_many_elements() {
    on_devices(|_, s| {
        let (lengths, one) = ((0..6).map(|_| given(&[3])).collect::<Vec<_>>(), given(&[]));
        let longer = |a: &Array| add(a, &one, s).unwrap();
        let all: Vec<Array> = lengths.iter().map(longer).collect();
        assert_eq!(runs(&all), ["ADD+ADD+ADD+ADD+ADD+ADD"]);
        assert_eq!(runs(&all[..3]).len(), 3, "too few");
        // Another kind, other lengths, and what is made here.
        let mut mixed = all.clone();
        mixed.extend([multiply(&lengths[0], &one, s).unwrap(), longer(&given(&[2])), longer(&all[0])]);
        assert_eq!(runs(&mixed).len(), 4);
        for (size, commands) in [(65, 1), (1 << 14, 1), ((1 << 14) + 1, 6)] {
            let weights: Vec<Array> = (0..6).map(|_| longer(&given(&[size]))).collect();
            assert_eq!(runs(&weights).len(), commands);
        }
    });
}

#[test]
fn nothing_is_joined_on_a_cpu() {
    let [a, b] = [64, 32].map(|rows| Matrix::new(rows, 4));
    let row = given(&[1, 1, 64]);
    assert_eq!(runs(&[a.times(&row, stream()), b.times(&row, stream())]).len(), 2);
}
