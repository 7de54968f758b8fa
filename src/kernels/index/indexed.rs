//! Geometry of gathers and scatters, the same for both backends. Elements of a dense array are paired with
//! elements of a base array: each axis of the dense array steps through the base, through the index arrays,
//! or through both, and the values of the index arrays add steps along the axes that they select on. A
//! gather reads the base and writes the dense array, a scatter does the opposite.

use smallvec::{SmallVec, smallvec};

use crate::core::{Shape, Strides};

/// What a scatter does where an update meets an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    /// The update replaces the element; of several the last one in row-major order stays.
    Set,
    /// Sum (logical or for bool).
    Add,
    /// Product.
    Prod,
    /// Larger value; NaN wins.
    Max,
    /// Smaller value; NaN wins.
    Min,
}

/// How an axis of the walk relates to the index arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Index arrays do not vary along it; each position is another part of the base.
    Row,
    /// Index arrays vary along it, and each position is another part of the base.
    Line,
    /// Positions may meet in one part of the base.
    Index,
}

/// An axis of the walk, with strides in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dim {
    /// Length.
    pub size: i64,
    /// Step in the base array.
    pub base: i64,
    /// Step in the dense array.
    pub dense: i64,
    /// Step in each index array.
    pub index: SmallVec<[i64; 2]>,
    /// Relation to the index arrays.
    pub role: Role,
    /// The pick whose axis it walks along, for a window that many index tuples share.
    pub window: Option<usize>,
}

/// An axis of the base that an index array selects on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    /// Stride of the axis; 0 where the axis has one position.
    pub stride: i64,
    /// Length of the axis: negative indices count from it.
    pub len: i64,
    /// Positions that an index may have: the length less what the window needs behind it.
    pub limit: i64,
}

/// A walk over all elements of the dense array, in its row-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// Axes, outermost first, collapsed; none has length one.
    pub dims: SmallVec<[Dim; 4]>,
    /// One for each index array.
    pub picks: SmallVec<[Pick; 2]>,
}

/// Shape and strides of an operand.
pub type Operand<'a> = (&'a [i64], &'a [i64]);

impl Walk {
    /// Index arrays of one shape, one for each of `axes` of the base. The dense array has the base's other
    /// axes, with the axes of the index arrays put in before axis `at` of them. An indexed axis is among the
    /// other axes if it has a window: so many neighbours from the index on.
    pub fn outer(
        base: Operand,
        dense: &[i64],
        index: Operand,
        index_strides: &[&[i64]],
        axes: &[usize],
        windows: &[Option<i64>],
        at: usize,
    ) -> Walk {
        let k = axes.len();
        let tuples: i64 = index.0.iter().product();
        let mut dims: SmallVec<[Dim; 4]> = SmallVec::new();
        let mut picks: SmallVec<[Pick; 2]> = smallvec![Pick { stride: 0, len: 1, limit: 1 }; k];
        for (axis, (&n, &stride)) in base.0.iter().zip(base.1).enumerate() {
            let mut dim = Dim {
                size: n,
                base: stride,
                dense: 0,
                index: smallvec![0; k],
                role: Role::Row,
                window: None,
            };
            if let Some(p) = axes.iter().position(|&a| a == axis) {
                let width = windows[p].unwrap_or(1);
                picks[p] = Pick { stride: if n == 1 { 0 } else { stride }, len: n, limit: n - width + 1 };
                if windows[p].is_none() {
                    continue;
                }
                dim.size = width;
                if tuples > 1 {
                    (dim.role, dim.window) = (Role::Index, Some(p));
                }
            }
            dims.push(dim);
        }
        for (i, &size) in index.0.iter().enumerate() {
            let index = index_strides.iter().map(|s| s[i]).collect();
            dims.insert(at + i, Dim { size, base: 0, dense: 0, index, role: Role::Index, window: None });
        }
        dims.iter_mut().zip(dense).for_each(|(d, &s)| d.dense = s);
        Walk { dims, picks }.collapsed()
    }

    /// One index array of the base's rank, whose other axes agree with the base's: the dense array has the
    /// shape of the index array.
    pub fn along(base: Operand, dense: &[i64], index: Operand, axis: usize) -> Walk {
        let mut dims: SmallVec<[Dim; 4]> = SmallVec::new();
        for i in 0..base.0.len() {
            let (size, s) = (index.0[i], index.1[i]);
            let (base, role) = match s {
                _ if i == axis => (0, Role::Index),
                0 => (base.1[i], Role::Row),
                _ => (base.1[i], Role::Line),
            };
            dims.push(Dim { size, base, dense: dense[i], index: smallvec![s], role, window: None });
        }
        let len = base.0[axis];
        let stride = if len == 1 { 0 } else { base.1[axis] };
        let picks = smallvec![Pick { stride, len, limit: len }];
        Walk { dims, picks }.collapsed()
    }

    fn collapsed(mut self) -> Walk {
        let mut out: SmallVec<[Dim; 4]> = SmallVec::new();
        for d in self.dims.into_iter().filter(|d| d.size != 1) {
            if let Some(last) = out.last_mut() {
                let joins = last.role == d.role
                    && last.window.is_none()
                    && d.window.is_none()
                    && last.base == d.base * d.size
                    && last.dense == d.dense * d.size
                    && last.index.iter().zip(&d.index).all(|(a, b)| *a == b * d.size);
                if joins {
                    *last = Dim { size: last.size * d.size, ..d };
                    continue;
                }
            }
            out.push(d);
        }
        self.dims = out;
        self
    }

    /// Number of elements of the dense array.
    pub fn size(&self) -> u64 {
        self.dims.iter().map(|d| d.size as u64).product()
    }

    /// How a scatter's updates fall into groups that may meet.
    pub fn groups(&self) -> Groups {
        let of = |role| (0..self.dims.len()).filter(move |&i| self.dims[i].role == role);
        let order: SmallVec<[usize; 4]> = of(Role::Line).chain(of(Role::Index)).collect();
        let lines = of(Role::Line).map(|i| self.dims[i].size as u64).product();
        let per_line = of(Role::Index).map(|i| self.dims[i].size as u64).product();
        let mut total = 1u64;
        let mut pick_keys: SmallVec<[i64; 2]> = smallvec![0; self.picks.len()];
        for (k, p) in self.picks.iter().enumerate().rev() {
            pick_keys[k] = total as i64;
            total = total.saturating_mul(p.len as u64);
        }
        let mut keys: SmallVec<[i64; 4]> = smallvec![0; order.len()];
        for (k, &i) in order.iter().enumerate().rev() {
            let d = &self.dims[i];
            match (d.role, d.window) {
                (Role::Line, _) => {
                    keys[k] = total as i64;
                    total = total.saturating_mul(d.size as u64);
                }
                (_, Some(p)) => keys[k] = pick_keys[p],
                _ => {}
            }
        }
        Groups { order, lines, per_line, keys, pick_keys, total }
    }
}

/// Row-major numbering of the updates of a scatter without their rows: line axes first, then index axes.
/// Updates of different lines never meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    /// Axes of the walk in the order of the numbering.
    pub order: SmallVec<[usize; 4]>,
    /// Number of lines.
    pub lines: u64,
    /// Updates in each line.
    pub per_line: u64,
    /// What a step along each axis of `order` adds to the key of an update. Updates of equal key meet.
    pub keys: SmallVec<[i64; 4]>,
    /// What a step of each index adds to the key.
    pub pick_keys: SmallVec<[i64; 2]>,
    /// Keys are below this.
    pub total: u64,
}

impl Groups {
    /// Updates in all lines.
    pub fn size(&self) -> u64 {
        self.lines * self.per_line
    }

    /// Keys of a line, which follow those of the line before.
    pub fn places(&self) -> u64 {
        self.total / self.lines.max(1)
    }
}

/// Shape of the dense array of [`Walk::outer`].
pub fn outer_shape(base: &[i64], index: &[i64], axes: &[usize], windows: &[Option<i64>], at: usize) -> Shape {
    let mut out = Shape::new();
    for (axis, &n) in base.iter().enumerate() {
        match axes.iter().position(|&a| a == axis) {
            None => out.push(n),
            Some(p) => out.extend(windows[p]),
        }
    }
    out.insert_many(at, index.iter().copied());
    out
}

/// Strides over the axes of `dims`, in which `counted` axes are row-major and the others do not count.
pub fn numbering(dims: &[Dim], order: &[usize]) -> Strides {
    let mut out: Strides = smallvec![0; dims.len()];
    let mut step = 1;
    for &i in order.iter().rev() {
        out[i] = step;
        step *= dims[i].size;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::layout::row_major;

    #[test]
    fn a_take_is_an_index_axis_between_rows() {
        let base = [6i64, 5, 4];
        let index = [2i64, 3];
        let shape = outer_shape(&base, &index, &[1], &[None], 1);
        assert_eq!(shape.as_slice(), &[6, 2, 3, 4]);
        let w = Walk::outer(
            (&base, &row_major(&base)),
            &row_major(&shape),
            (&index, &[3, 1]),
            &[&[3, 1]],
            &[1],
            &[None],
            1,
        );
        let sizes: Vec<_> = w.dims.iter().map(|d| (d.size, d.base, d.dense, d.role)).collect();
        assert_eq!(sizes, [(6, 20, 24, Role::Row), (6, 0, 4, Role::Index), (4, 1, 1, Role::Row)]);
        assert_eq!(w.picks[0], Pick { stride: 4, len: 5, limit: 5 });
        let g = w.groups();
        assert_eq!((g.lines, g.per_line, g.total), (1, 6, 5));
    }

    #[test]
    fn windows_of_many_tuples_may_meet_and_lines_never_do() {
        let base = [8i64, 9];
        let w = Walk::outer((&base, &[9, 1]), &[6, 2, 1], (&[4], &[1]), &[&[1]], &[1], &[Some(2)], 0);
        assert_eq!(w.dims.len(), 3);
        assert_eq!(w.picks[0].limit, 8);
        let g = w.groups();
        assert_eq!((g.lines, g.per_line, g.total), (1, 8, 9));
        let a = Walk::along((&base, &[9, 1]), &[3, 1], (&[8, 3], &[3, 1]), 1);
        let g = a.groups();
        assert_eq!((g.lines, g.per_line, g.total), (8, 3, 72));
        assert_eq!(g.keys.as_slice(), &[9, 0]);
        assert_eq!(numbering(&a.dims, &g.order).as_slice(), &[3, 1]);
    }
}
