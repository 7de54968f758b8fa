//! Tests of the choices for Fourier transforms.

use super::*;
use crate::kernels::fft::plan::is_smooth;

const ALL: [Access; 6] = [
    Access::Dense,
    Access::Columns,
    Access::ColumnsToLines,
    Access::LinesToColumns,
    Access::Head,
    Access::Tail,
];

/// Elements of shared memory, and whether all of it is in the room.
fn fits(room: Room, plan: &LinePlan, l: &Layout, access: Access) -> bool {
    let row = |i: usize| i + i.checked_div(l.padding).unwrap_or(0);
    let dense = !access.side_by_side();
    let count = if dense { l.lines * l.pitch } else { (row(plan.n - 1) + 1) * l.pitch };
    let reaches = row(plan.n - 1) < l.pitch || !dense;
    let bytes = count * if l.split { 4 } else { 8 } + 16 * l.lines;
    reaches && bytes <= room.memory && plan.lanes * l.lines <= room.lanes
}

#[test]
fn workgroups_fit_devices_of_all_sizes() {
    for (memory, lanes) in
        [(16 << 10, 256), (32 << 10, 256), (32 << 10, 1024), (48 << 10, 1024), (64 << 10, 512)]
    {
        let room = Room { memory, lanes };
        let longest = longest(room);
        for n in (2..=longest.split).filter(|&n| is_smooth(n) && (n < 1200 || n % 16 == 0)) {
            for access in ALL {
                if n > longest.column && access != Access::Dense {
                    continue;
                }
                let plan = plan(room, n, access);
                for count in [1, 3, 1000] {
                    let mixed = [Access::ColumnsToLines, Access::LinesToColumns].contains(&access);
                    let staged = mixed || (n <= longest.line && n % 3 == 0);
                    let l = layout(room, &plan, count, access, staged);
                    assert!(fits(room, &plan, &l, access), "{room:?} {access:?} {plan:?} {l:?}");
                    assert!(l.lines as u64 <= count && l.lines > 0 && !(staged && l.split));
                }
            }
        }
    }
}

#[test]
fn what_was_measured_is_chosen() {
    let room = Room { memory: 48 << 10, lanes: 1024 };
    let laid = |n, access| {
        let plan = plan(room, n, access);
        let l = layout(room, &plan, 1 << 14, access, false);
        (plan.stages[0].radix, plan.lanes, l.lines, l.padding, l.split)
    };
    assert_eq!(laid(1000, Access::Dense), (10, 100, 1, 0, false));
    assert_eq!(laid(1024, Access::Dense), (8, 64, 1, 16, false));
    assert_eq!(laid(125, Access::Dense), (5, 25, 5, 0, false));
    assert_eq!(laid(4096, Access::Dense), (16, 256, 1, 16, true));
    assert_eq!(laid(1024, Access::Columns), (32, 32, 8, 32, true));
    assert_eq!(laid(512, Access::Columns), (32, 16, 16, 32, true));
    assert_eq!(laid(256, Access::Columns), (16, 16, 16, 16, true));
    assert_eq!(laid(64, Access::Columns), (8, 4, 32, 8, false));
    assert_eq!(laid(1000, Access::Columns), (10, 50, 8, 10, true));
    assert_eq!(laid(8192, Access::Dense), (16, 256, 1, 16, true));
    assert_eq!(laid(1024, Access::Head), (32, 32, 4, 32, true));
    assert_eq!(laid(1024, Access::Tail), (8, 64, 4, 8, true));
    assert_eq!(laid(256, Access::Head), (16, 16, 8, 16, false));
    assert_eq!(longest(room), Longest { line: 4096, column: 1024, split: 8448 });
    assert_eq!(
        longest(Room { memory: 16 << 10, lanes: 256 }),
        Longest { line: 1984, column: 496, split: 3734 }
    );
}

#[test]
fn tiles_divide_what_the_first_butterflies_are_apart() {
    let room = Room { memory: 48 << 10, lanes: 1024 };
    let wide = |radices: &[usize]| tile(room, radices);
    assert_eq!((wide(&[1024, 1024]), wide(&[256, 256]), wide(&[98, 84]), wide(&[1000, 1000])), (4, 4, 7, 4));
    // One pass, three of them, and none where nothing divides.
    assert_eq!((wide(&[1024]), wide(&[128, 128, 128]), wide(&[169, 169])), (1, 1, 13));
    assert_eq!(wide(&[16, 16]), 1);
}
