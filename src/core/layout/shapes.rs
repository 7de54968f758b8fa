//! Shapes by themselves: how they broadcast and collapse, axes and sizes that callers give, and how messages show them.

use smallvec::SmallVec;

use super::{LARGEST_ELEMENT, MOST_AXES, Shape, Strides};
use crate::bail;
use crate::core::error::{Error, Result};

/// Shape that two shapes broadcast to, or an error in `op`'s name.
pub fn broadcast_shapes(op: &str, a: &[i64], b: &[i64]) -> Result<Shape> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut out: Shape = long.into();
    let skip = long.len() - short.len();
    for (i, &d) in short.iter().enumerate() {
        let o = &mut out[skip + i];
        if *o == 1 {
            *o = d;
        } else if d != 1 && d != *o {
            bail!(Value, "[{op}] Shapes {} and {} cannot be broadcast.", show(a), show(b));
        }
    }
    // Small operands can name more elements than there are addresses.
    checked_size(op, &out, LARGEST_ELEMENT)?;
    Ok(out)
}

/// Strides of a layout read through the (wider) broadcast shape; new and repeated axes get stride 0.
pub fn broadcast_strides(shape: &[i64], strides: &[i64], to: &[i64]) -> Strides {
    let skip = to.len() - shape.len();
    let mut out: Strides = SmallVec::from_elem(0, to.len());
    for i in 0..shape.len() {
        out[skip + i] = if shape[i] == 1 { 0 } else { strides[i] };
    }
    out
}

/// Collapses neighbouring axes that every operand walks without a seam, and drops axes of length 1.
/// Returns the collapsed shape and the strides of each operand over it.
pub fn collapse(shape: &[i64], strides: &[&[i64]]) -> (Shape, Vec<Strides>) {
    let mut out_shape = Shape::new();
    let mut out: Vec<Strides> = vec![Strides::new(); strides.len()];
    for ax in 0..shape.len() {
        if shape[ax] == 1 {
            continue;
        }
        let joins = !out_shape.is_empty()
            && strides.iter().zip(&out).all(|(s, o)| o[o.len() - 1] == s[ax] * shape[ax]);
        if joins {
            let n = out_shape.len();
            out_shape[n - 1] *= shape[ax];
            for (s, o) in strides.iter().zip(&mut out) {
                o[n - 1] = s[ax];
            }
        } else {
            out_shape.push(shape[ax]);
            for (s, o) in strides.iter().zip(&mut out) {
                o.push(s[ax]);
            }
        }
    }
    (out_shape, out)
}

/// `(2,3)`, as MLX prints shapes in messages.
pub fn show(shape: &[i64]) -> String {
    let mut dims: Vec<String> = shown(shape).iter().map(|d| d.to_string()).collect();
    if shape.len() > dims.len() {
        dims.push("...".into());
    }
    format!("({})", dims.join(","))
}

/// As much of a list of axes or dimensions as a message shows.
pub fn shown(list: &[i64]) -> &[i64] {
    &list[..list.len().min(MOST_AXES)]
}

/// Axis in `0..ndim` of a possibly negative one.
pub fn normalize_axis(op: &str, axis: i64, ndim: usize) -> Result<usize> {
    let n = ndim as i64;
    if axis < -n || axis >= n {
        bail!(Index, "[{op}] Invalid axis {axis} for array with {ndim} dimensions.");
    }
    Ok(if axis < 0 { axis + n } else { axis } as usize)
}

/// Element count of a shape, or an error when it has too many axes, when a dimension is negative or wider than 32 bits,
/// or when the bytes that its axes reach overflow. Empty axes hide nothing: strides are products of the others, and a reduction or a slice
/// leaves those behind.
#[inline]
pub fn checked_size(op: &str, shape: &[i64], itemsize: usize) -> Result<usize> {
    match plain_size(shape, itemsize) {
        Some(count) => Ok(count),
        None => doubtful_size(op, shape, itemsize),
    }
}

/// The same where nothing is near a limit, as for nearly every shape.
#[inline]
fn plain_size(shape: &[i64], itemsize: usize) -> Option<usize> {
    const NEAR: u64 = 1 << 31;
    let (mut count, mut reach) = (1u64, itemsize as u64);
    for &d in shape {
        // Negative ones are beyond it too.
        if d as u64 >= NEAR || reach >= NEAR {
            return None;
        }
        count *= d as u64;
        reach *= d.max(1) as u64;
    }
    (shape.len() <= MOST_AXES && reach < isize::MAX as u64).then_some(count as usize)
}

#[cold]
fn doubtful_size(op: &str, shape: &[i64], itemsize: usize) -> Result<usize> {
    if shape.len() > MOST_AXES {
        bail!(Value, "[{op}] Arrays have at most {MOST_AXES} axes, got {}.", shape.len());
    }
    let (mut count, mut reach) = (1usize, itemsize);
    for &d in shape {
        if d < 0 {
            bail!(Value, "[{op}] Negative dimensions not allowed, got shape {}.", show(shape));
        }
        if d > i64::from(i32::MAX) {
            return Err(dimension_overflow(&format!("[{op}] "), d));
        }
        count = count.wrapping_mul(d as usize);
        reach = match reach.checked_mul(d.max(1) as usize) {
            Some(reach) if reach < isize::MAX as usize => reach,
            _ => bail!(Value, "[{op}] Shape {} overflows the address space.", show(shape)),
        };
    }
    Ok(count)
}

/// The error for a dimension that 32 bits do not hold. `prefix` names the op.
pub fn dimension_overflow(prefix: &str, d: impl std::fmt::Display) -> Error {
    Error::Overflow(format!(
        "{prefix}Shape dimension {d} is outside the supported range [-2147483648, 2147483647]. MLX currently uses \
         32-bit integers for shape dimensions."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_axes_hide_no_overflow() {
        assert_eq!(checked_size("t", &[0, 1 << 30], 8).unwrap(), 0);
        assert_eq!(checked_size("t", &[3, 0, 5], 8).unwrap(), 0);
        assert_eq!(checked_size("t", &[2, 3], 8).unwrap(), 6);
        for shape in [&[0, 1 << 30, 1 << 30, 16][..], &[1 << 30, 1 << 30, 16, 0], &[1 << 30, 1 << 30]] {
            assert!(matches!(checked_size("t", shape, 8), Err(Error::Value(_))), "{shape:?}");
        }
        assert!(matches!(checked_size("t", &[0, 1 << 31], 1), Err(Error::Overflow(_))));
        assert!(matches!(checked_size("t", &[0, -1], 1), Err(Error::Value(_))));
    }

    #[test]
    fn broadcasting_is_symmetric_and_has_one_as_its_neutral_element() {
        let shapes: [&[i64]; 7] = [&[], &[1], &[3], &[1, 3], &[2, 1], &[2, 3], &[0, 1]];
        for a in shapes {
            assert_eq!(broadcast_shapes("t", a, a).unwrap().as_slice(), a);
            assert_eq!(broadcast_shapes("t", a, &[]).unwrap().as_slice(), a);
            for b in shapes {
                let (one, other) = (broadcast_shapes("t", a, b).ok(), broadcast_shapes("t", b, a).ok());
                assert_eq!(one, other, "{a:?} {b:?}");
                // What is broadcast already takes both as they are.
                for part in one.iter().flat_map(|_| [a, b]) {
                    let whole = one.as_ref().unwrap();
                    assert_eq!(&broadcast_shapes("t", whole, part).unwrap(), whole);
                }
            }
        }
        let e = broadcast_shapes("add", &[2, 3], &[2]).unwrap_err().to_string();
        assert_eq!(e, "[add] Shapes (2,3) and (2) cannot be broadcast.");
    }

    #[test]
    fn new_and_repeated_axes_have_no_stride() {
        assert_eq!(broadcast_strides(&[3, 1, 4], &[4, 7, 1], &[2, 3, 5, 4]).as_slice(), &[0, 4, 0, 1]);
        assert_eq!(broadcast_strides(&[], &[], &[2, 3]).as_slice(), &[0, 0]);
    }

    #[test]
    fn axes_count_from_either_end() {
        assert_eq!([0, 2, -1, -3].map(|i| normalize_axis("t", i, 3).unwrap()), [0, 2, 2, 0]);
        for i in [3, -4, i64::MIN, i64::MAX] {
            assert!(matches!(normalize_axis("t", i, 3), Err(Error::Index(_))), "{i}");
        }
        assert!(normalize_axis("t", 0, 0).is_err());
    }

    #[test]
    fn collapse_joins_rows_and_keeps_seams() {
        let a: &[i64] = &[12, 4, 1];
        let b: &[i64] = &[0, 4, 1];
        let (shape, st) = collapse(&[2, 3, 4], &[a, b]);
        assert_eq!(shape.as_slice(), &[2, 12]);
        assert_eq!(st[1].as_slice(), &[0, 1]);
    }
}
