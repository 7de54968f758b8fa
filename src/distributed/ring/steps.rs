//! Which bytes go where in which step of a ring: MLX's ring algorithms (Patarasu and Yuan 2009, "Bandwidth optimal
//! all-reduce algorithms for clusters of workstations"), as ranges. Large messages are cut into several rings, in both
//! directions and over all connections.

use std::ops::Range;

use super::link::Step;

/// Least bytes of a segment that make one more ring worth it.
const WORTH: usize = 262_144;

/// The ring as this process sees it.
#[derive(Clone, Copy)]
pub struct Shape {
    pub rank: usize,
    pub size: usize,
    pub sockets: usize,
}

/// What goes around in one ring, over one connection to each side.
pub struct Planned {
    pub socket: usize,
    /// Sends to the left and receives from the right, or the other way.
    pub leftward: bool,
    /// Bytes of each segment; what is received in each step, what is sent in it, and whether that is reduced.
    segments: Vec<Range<usize>>,
    walk: Vec<(usize, usize, bool)>,
}

impl Planned {
    /// The steps as ranges of bytes.
    pub fn steps(&self) -> Vec<Step> {
        let at = |i: usize| self.segments[i].clone();
        self.walk
            .iter()
            .map(|&(send, recv, reduce)| Step { send: at(send), recv: at(recv), reduce })
            .collect()
    }
}

impl Shape {
    fn turn(self, segment: usize, leftward: bool, steps: usize) -> usize {
        let steps = steps % self.size;
        (segment + if leftward { steps } else { self.size - steps }) % self.size
    }

    /// Sends segment `first` and receives the next, and so on, `steps` times.
    fn walk(self, first: usize, leftward: bool, steps: usize, reduce: bool) -> Vec<(usize, usize, bool)> {
        (0..steps)
            .map(|k| (self.turn(first, leftward, k), self.turn(first, leftward, k + 1), reduce))
            .collect()
    }

    fn rings(self, worth: usize) -> usize {
        worth.clamp(1, 2 * self.sockets)
    }

    /// One element a segment, to the right.
    pub fn small(self, element: usize) -> Planned {
        self.reduce(0, false, 0..self.size * element, element)
    }

    /// A ring over the elements in a range of bytes.
    fn reduce(self, socket: usize, leftward: bool, bytes: Range<usize>, element: usize) -> Planned {
        let each = (bytes.len() / element).div_ceil(self.size) * element;
        let edge = |i: usize| bytes.end.min(bytes.start + i * each);
        let segments = (0..self.size).map(|i| edge(i)..edge(i + 1)).collect();
        let mut walk = self.walk(self.rank, leftward, self.size - 1, true);
        walk.extend(self.walk(self.turn(self.rank, leftward, self.size - 1), leftward, self.size - 1, false));
        Planned { socket, leftward, segments, walk }
    }

    /// Sums, or the like, of so many bytes; at least one element for each process.
    pub fn all_reduce(self, bytes: usize, element: usize) -> Vec<Planned> {
        let n = self.rings(bytes / (self.size * WORTH));
        let each = (bytes / element).div_ceil(n) * element;
        (0..n)
            .map(|i| self.reduce(i / 2, i % 2 == 0, bytes.min(i * each)..bytes.min((i + 1) * each), element))
            .collect()
    }

    /// Blocks of so many bytes from each process.
    pub fn all_gather(self, bytes: usize) -> Vec<Planned> {
        if bytes == 0 {
            return Vec::new();
        }
        let n = self.rings(bytes / WORTH);
        let each = bytes.div_ceil(n);
        self.cut(bytes, n, each, |leftward| self.walk(self.rank, leftward, self.size - 1, false))
    }

    /// The first half of a reduction, so turned that each process ends with its own segment.
    pub fn sum_scatter(self, bytes: usize, element: usize) -> Vec<Planned> {
        let block = bytes / self.size;
        if block == 0 {
            return Vec::new();
        }
        let n = self.rings(block / WORTH);
        let each = (block / element).div_ceil(n) * element;
        self.cut(block, n, each, |leftward| {
            self.walk(self.turn(self.rank, leftward, 1), leftward, self.size - 1, true)
        })
    }

    /// Rings over parts of `each` bytes of every process's block.
    fn cut(
        self,
        block: usize,
        rings: usize,
        each: usize,
        walk: impl Fn(bool) -> Vec<(usize, usize, bool)>,
    ) -> Vec<Planned> {
        let part = |i: usize| {
            let (start, end) = (block.min(i * each), block.min((i + 1) * each));
            let segments = (0..self.size).map(|r| r * block + start..r * block + end).collect();
            Planned {
                socket: i / 2,
                leftward: i.is_multiple_of(2),
                segments,
                walk: walk(i.is_multiple_of(2)),
            }
        };
        (0..rings).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the plans of all processes step by step on numbers of one byte.
    fn simulate(size: usize, mut data: Vec<Vec<u8>>, plan: impl Fn(Shape) -> Vec<Planned>) -> Vec<Vec<u8>> {
        let plans: Vec<Vec<Planned>> = (0..size).map(|rank| plan(Shape { rank, size, sockets: 2 })).collect();
        for i in 0..plans[0].len() {
            for k in 0..plans[0][i].steps().len() {
                let before = data.clone();
                for rank in 0..size {
                    let other = (rank + if plans[rank][i].leftward { 1 } else { size - 1 }) % size;
                    let (own, theirs) = (&plans[rank][i].steps()[k], &plans[other][i].steps()[k]);
                    assert_eq!(own.recv.len(), theirs.send.len());
                    for (to, from) in own.recv.clone().zip(theirs.send.clone()) {
                        let x = before[other][from];
                        data[rank][to] = if own.reduce { data[rank][to] + x } else { x };
                    }
                }
            }
        }
        data
    }

    #[test]
    fn every_process_gets_what_it_should() {
        for size in [2, 3, 5] {
            for n in [size, 7, 13] {
                let own: Vec<Vec<u8>> =
                    (0..size).map(|r| (0..n).map(|i| (i * (r + 1)) as u8).collect()).collect();
                let sum: Vec<u8> = (0..n).map(|i| own.iter().map(|o| o[i]).sum()).collect();
                for rings in 1..5 {
                    let each = n.div_ceil(rings);
                    let plan = |s: Shape| {
                        let part = |i: usize| n.min(i * each)..n.min((i + 1) * each);
                        (0..rings).map(|i| s.reduce(i / 2, i % 2 == 0, part(i), 1)).collect()
                    };
                    assert_eq!(simulate(size, own.clone(), plan), vec![sum.clone(); size]);
                }
                let whole = own.concat();
                let placed = (0..size).map(|r| {
                    let mut d = vec![0; n * size];
                    d[r * n..][..n].copy_from_slice(&own[r]);
                    d
                });
                assert_eq!(simulate(size, placed.collect(), |s| s.all_gather(n)), vec![whole; size]);
            }
            let own: Vec<Vec<u8>> =
                (0..size).map(|r| (0..3 * size).map(|i| (i + r) as u8).collect()).collect();
            let got = simulate(size, own.clone(), |s| s.sum_scatter(3 * size, 1));
            for r in 0..size {
                let want: Vec<u8> = (3 * r..3 * r + 3).map(|i| own.iter().map(|o| o[i]).sum()).collect();
                assert_eq!(got[r][3 * r..3 * r + 3], want);
            }
        }
    }
}
