//! Ranks in a boolean matrix: for each element, how many before it in its row are true.

use crate::core::Result;
use crate::kernels::HostView;

use crate::cpu::runtime::walk::Lines;

/// Writes the ranks to `dst` (contiguous int32 of the shape of `src`); returns the largest number of true
/// elements in a row.
pub fn rank(src: &HostView, dst: &HostView) -> Result<i64> {
    let mut most = 0;
    if src.size() == 0 {
        return Ok(most);
    }
    let lines = Lines::new(src, src.ndim() - 1, dst);
    for line in 0..lines.count {
        let (from, to) = crate::cpu::runtime::walk::locate(&lines.axes, line);
        let mut count = 0;
        for i in 0..lines.len as isize {
            // SAFETY: the lines cover both views.
            unsafe {
                *dst.as_ptr::<i32>().offset(to + i * lines.dst) = count;
                count += i32::from(*src.as_ptr::<u8>().offset(from + i * lines.src) != 0);
            }
        }
        most = most.max(i64::from(count));
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Dtype;
    use crate::cpu::runtime::testing::Owned;

    #[test]
    fn ranks_start_anew_in_each_row() {
        let a = Owned::from_f64(Dtype::Bool, &[2, 4], &[1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        let out = Owned::zeros(Dtype::I32, &[2, 4]);
        assert_eq!(rank(&a.view(), &out.view()).unwrap(), 3);
        assert_eq!(out.reals(), [0.0, 1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 1.0]);
    }
}
