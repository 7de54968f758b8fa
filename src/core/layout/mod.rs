//! Shape, strides and offset of an array in its storage, as one value. Strides and offset count
//! elements, not bytes; strides may be zero or negative. Pure arithmetic, called by every floor.

mod shapes;

use smallvec::SmallVec;

pub use self::shapes::*;

/// Dimensions of an array; none of them is negative.
pub type Shape = SmallVec<[i64; 6]>;
/// Distance in elements between neighbours along each axis.
pub type Strides = SmallVec<[i64; 6]>;

/// Where the elements of an array lie in its storage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Dimensions.
    pub shape: Shape,
    /// Element strides.
    pub strides: Strides,
    /// Position of the first element, in elements of the array's dtype.
    pub offset: i64,
}

/// Most axes of an array, as in NumPy. Walks over axes are recursions and products, and files may claim any number.
pub const MOST_AXES: usize = 64;

/// Bytes of the largest element type.
pub const LARGEST_ELEMENT: usize = 8;

/// Number of elements of a shape.
pub fn size_of(shape: &[i64]) -> usize {
    shape.iter().map(|&d| d as usize).product()
}

/// Row-major strides of a shape.
pub fn row_major(shape: &[i64]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(1, shape.len());
    let mut step = 1i64;
    for (s, &d) in strides.iter_mut().zip(shape).rev() {
        *s = step;
        step *= d.max(1);
    }
    strides
}

/// Whether elements of a shape lie row-major without gaps.
pub fn is_row_major(shape: &[i64], strides: &[i64]) -> bool {
    let mut step = 1i64;
    for (&d, &s) in shape.iter().zip(strides).rev() {
        if d == 0 {
            return true;
        }
        if d != 1 && s != step {
            return false;
        }
        step *= d;
    }
    true
}

/// Whether elements of a shape lie without gaps in the order of its axes or another one.
pub fn is_dense(shape: &[i64], strides: &[i64]) -> bool {
    let mut axes: SmallVec<[(i64, i64); 8]> =
        shape.iter().zip(strides).filter(|(d, _)| **d != 1).map(|(&d, &s)| (s, d)).collect();
    axes.sort_unstable();
    let mut step = 1i64;
    for (s, d) in axes {
        if s != step {
            return false;
        }
        step *= d;
    }
    true
}

impl Layout {
    /// Row-major layout at offset zero.
    pub fn contiguous(shape: &[i64]) -> Layout {
        Layout { shape: shape.into(), strides: row_major(shape), offset: 0 }
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        size_of(&self.shape)
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Whether the elements lie row-major without gaps (at any offset).
    pub fn is_row_contiguous(&self) -> bool {
        is_row_major(&self.shape, &self.strides)
    }

    /// Lowest and highest element position that the layout touches; `None` when it has no elements.
    pub fn span(&self) -> Option<(i64, i64)> {
        let (mut lo, mut hi) = (self.offset, self.offset);
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            if d == 0 {
                return None;
            }
            // Held at the ends of the range: no array reaches as far.
            let reach = (d - 1).saturating_mul(s);
            if reach < 0 { lo = lo.saturating_add(reach) } else { hi = hi.saturating_add(reach) }
        }
        Some((lo, hi))
    }

    /// The layout seen through another shape, if that needs no copy.
    pub fn reshape(&self, shape: &[i64]) -> Option<Layout> {
        if self.size() == 0 {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Walk both shapes from the left, matching groups of axes with equal products.
        let old: Vec<(i64, i64)> =
            self.shape.iter().zip(&self.strides).filter(|(d, _)| **d != 1).map(|(&d, &s)| (d, s)).collect();
        let mut strides: Strides = SmallVec::from_elem(1, shape.len());
        let (mut i, mut j) = (0, 0);
        while i < old.len() {
            let (mut po, mut i_end) = (old[i].0, i + 1);
            while j < shape.len() && shape[j] == 1 {
                j += 1;
            }
            let mut j_end = j + 1;
            let mut pn = *shape.get(j)?;
            while po != pn {
                if po < pn {
                    po *= old.get(i_end)?.0;
                    i_end += 1;
                } else {
                    pn *= *shape.get(j_end)?;
                    j_end += 1;
                }
            }
            for k in i..i_end - 1 {
                if old[k].1 != old[k + 1].0 * old[k + 1].1 {
                    return None;
                }
            }
            let mut step = old[i_end - 1].1;
            for k in (j..j_end).rev() {
                strides[k] = step;
                step *= shape[k];
            }
            i = i_end;
            j = j_end;
        }
        Some(Layout { shape: shape.into(), strides, offset: self.offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_without_gaps_whatever_the_strides_of_single_elements_are() {
        for (shape, strides, want) in [
            (&[2, 3][..], &[3, 1][..], true),
            (&[2, 3], &[1, 2], false),
            (&[2, 1, 3], &[3, 99, 1], true),
            (&[2, 3], &[4, 1], false),
            (&[3], &[-1], false),
            (&[3, 0], &[5, 7], true),
            (&[], &[], true),
        ] {
            assert_eq!(is_row_major(shape, strides), want, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn a_span_reaches_to_both_sides_of_the_first_element() {
        let layout = |shape: &[i64], strides: &[i64], offset| Layout {
            shape: shape.into(),
            strides: strides.into(),
            offset,
        };
        assert_eq!(layout(&[2, 3], &[3, 1], 4).span(), Some((4, 9)));
        assert_eq!(layout(&[2, 3], &[-3, 1], 3).span(), Some((0, 5)));
        assert_eq!(layout(&[5], &[0], 2).span(), Some((2, 2)));
        assert_eq!(layout(&[2, 0], &[3, 1], 4).span(), None);
        assert_eq!(layout(&[], &[], 7).span(), Some((7, 7)));
    }

    #[test]
    fn reshape_without_copy_only_where_strides_allow() {
        let l = Layout::contiguous(&[2, 3, 4]);
        assert_eq!(l.reshape(&[6, 4]).unwrap().strides.as_slice(), &[4, 1]);
        assert_eq!(l.reshape(&[24, 1]).unwrap().strides[0], 1);
        let t = Layout { shape: (&[3, 2][..]).into(), strides: (&[1, 3][..]).into(), offset: 0 };
        assert!(t.reshape(&[6]).is_none());
        assert_eq!(t.reshape(&[3, 1, 2]).unwrap().strides.as_slice(), &[1, 1, 3]);
    }
}
