//! Which bytes were read and written since the last barrier. The encoder asks before every dispatch
//! whether a barrier is due; ranges are exact, so independent kernels run side by side.

/// More ranges than this cost more to search than the barrier that forgets them.
const CAP: usize = 128;

/// A set of byte ranges, kept as two arrays so that the search vectorises.
struct Ranges {
    len: usize,
    start: [u64; CAP],
    end: [u64; CAP],
}

impl Ranges {
    const fn new() -> Ranges {
        Ranges { len: 0, start: [0; CAP], end: [0; CAP] }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        let mut hit = false;
        for i in 0..self.len {
            hit |= (self.start[i] < end) & (start < self.end[i]);
        }
        hit
    }

    /// Adds a range, growing the last one where it touches; false when there is no room.
    fn add(&mut self, start: u64, end: u64) -> bool {
        for i in (self.len.saturating_sub(4)..self.len).rev() {
            if self.start[i] <= end && start <= self.end[i] {
                self.start[i] = self.start[i].min(start);
                self.end[i] = self.end[i].max(end);
                return true;
            }
        }
        if self.len == CAP {
            return false;
        }
        self.start[self.len] = start;
        self.end[self.len] = end;
        self.len += 1;
        true
    }
}

/// Accesses of some commands.
struct Accesses {
    reads: Ranges,
    writes: Ranges,
}

impl Accesses {
    const fn new() -> Accesses {
        Accesses { reads: Ranges::new(), writes: Ranges::new() }
    }

    fn clear(&mut self) {
        self.reads.len = 0;
        self.writes.len = 0;
    }

    fn conflicts(&self, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> bool {
        reads.iter().any(|&r| self.written(r)) || writes.iter().any(|&w| self.touched(w))
    }

    fn written(&self, r: (u64, u64)) -> bool {
        r.1 > 0 && self.writes.overlaps(r.0, r.0.saturating_add(r.1))
    }

    fn touched(&self, w: (u64, u64)) -> bool {
        self.written(w) || (w.1 > 0 && self.reads.overlaps(w.0, w.0.saturating_add(w.1)))
    }

    fn note(&mut self, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> bool {
        let add = |set: &mut Ranges, &(a, n): &(u64, u64)| n == 0 || set.add(a, a.saturating_add(n));
        reads.iter().all(|r| add(&mut self.reads, r)) && writes.iter().all(|w| add(&mut self.writes, w))
    }
}

/// Unsynchronised accesses of the commands since the last barrier.
pub struct Hazards {
    all: Accesses,
    /// Those of commands that nobody can wait for but by a barrier.
    loose: Accesses,
}

impl Default for Hazards {
    fn default() -> Self {
        Hazards { all: Accesses::new(), loose: Accesses::new() }
    }
}

/// How a command that waits by itself comes behind others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It has nothing to do with them: nobody waits.
    Beside,
    /// It is the first one since a barrier.
    First,
    /// A barrier must come before it.
    Barrier,
    /// It waits for all of them that can be waited for.
    Waits,
}

impl Hazards {
    /// Forgets everything: a barrier over all memory was recorded.
    pub fn clear(&mut self) {
        self.all.clear();
        self.loose.clear();
    }

    /// All memory counts as touched: the next command comes behind a barrier.
    pub fn touch_all(&mut self) {
        self.clear();
        self.all.writes.add(0, u64::MAX);
        self.loose.writes.add(0, u64::MAX);
    }

    /// Notes a command's accesses, (address, length) each. True: a barrier must come before it, and the
    /// notes now hold this command alone. Overlaps within one command are its own affair.
    pub fn visit(&mut self, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> bool {
        let meets = self.all.conflicts(reads, writes);
        if meets {
            self.clear();
        }
        if self.note(reads, writes, true) {
            return meets;
        }
        // The notes are full. Start anew behind a barrier.
        self.anew(reads, writes, true);
        true
    }

    /// The same for a command that waits for others by itself before it reads what begins at `late` or writes anything; all that wait so
    /// have ended when it has.
    pub fn visit_early(&mut self, reads: &[(u64, u64)], writes: &[(u64, u64)], late: &[u64]) -> Order {
        let early = |r: &&(u64, u64)| !late.contains(&r.0);
        let order = if self.all.reads.len + self.all.writes.len == 0 {
            Order::First
        } else if !self.all.conflicts(reads, writes) {
            Order::Beside
        } else if self.loose.conflicts(reads, writes)
            || reads.iter().filter(early).any(|&r| self.all.written(r))
        {
            Order::Barrier
        } else {
            Order::Waits
        };
        if order == Order::Barrier {
            self.clear();
        }
        if self.note(reads, writes, order == Order::Beside) {
            return order;
        }
        self.anew(reads, writes, false);
        Order::Barrier
    }

    /// Notes one command alone; one with more ranges than fit marks all memory as touched.
    fn anew(&mut self, reads: &[(u64, u64)], writes: &[(u64, u64)], loose: bool) {
        self.clear();
        if !self.note(reads, writes, loose) {
            self.touch_all();
        }
    }

    fn note(&mut self, reads: &[(u64, u64)], writes: &[(u64, u64)], loose: bool) -> bool {
        self.all.note(reads, writes) && (!loose || self.loose.note(reads, writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_after_write_write_after_read_and_write_after_write_need_a_barrier() {
        for (first, second) in [
            ((&[][..], &[(100, 10)][..]), (&[(105, 1)][..], &[(500, 4)][..])),
            ((&[(100, 10)][..], &[(0, 4)][..]), (&[][..], &[(109, 4)][..])),
            ((&[][..], &[(100, 10)][..]), (&[][..], &[(96, 5)][..])),
        ] {
            let mut h = Hazards::default();
            assert!(!h.visit(first.0, first.1));
            assert!(h.visit(second.0, second.1));
        }
    }

    #[test]
    fn disjoint_ranges_shared_reads_and_empty_ranges_need_none() {
        let mut h = Hazards::default();
        assert!(!h.visit(&[(0, 100)], &[(100, 100)]));
        assert!(!h.visit(&[(0, 100)], &[(200, 100)]));
        assert!(!h.visit(&[(150, 0)], &[(300, 0)]));
        assert!(!h.visit(&[(50, 50)], &[(300, 8)]));
        assert!(h.visit(&[(299, 1)], &[]));
        assert!(!h.visit(&[(100, 100)], &[]), "the barrier covers earlier writes");
    }

    #[test]
    fn a_command_may_overlap_itself() {
        let mut h = Hazards::default();
        assert!(!h.visit(&[(0, 64)], &[(0, 64)]));
        assert!(h.visit(&[(0, 64)], &[(0, 64)]));
    }

    #[test]
    fn full_notes_ask_for_a_barrier_and_stay_exact() {
        let mut h = Hazards::default();
        let barriers = (0..1000u64).filter(|i| h.visit(&[], &[(i * 100, 10)])).count();
        assert_eq!(barriers, 1000 / CAP);
        assert!(h.visit(&[(99_905, 1)], &[]));
        let many: Vec<(u64, u64)> = (0..200).map(|i| (i * 1000, 8)).collect();
        assert!(h.visit(&[], &many));
        assert!(h.visit(&[(12_345_678, 1)], &[]), "a command with too many ranges touches everything");
    }

    #[test]
    fn agrees_with_a_plain_model() {
        let mut seed = 12345u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        let mut h = Hazards::default();
        let mut seen: Vec<(u64, u64, bool)> = Vec::new();
        for _ in 0..20_000 {
            let r = (random(4000), random(30));
            let w = (random(4000), random(30));
            let meets =
                |a: (u64, u64), b: (u64, u64)| a.1 > 0 && b.1 > 0 && a.0 < b.0 + b.1 && b.0 < a.0 + a.1;
            let needed = seen.iter().any(|&(a, n, write)| meets((a, n), w) || (write && meets((a, n), r)));
            let got = h.visit(&[r], &[w]);
            assert!(got || !needed);
            if got {
                seen.clear();
            }
            seen.extend([(r.0, r.1, false), (w.0, w.1, true)]);
        }
    }

    #[test]
    fn who_waits_by_itself_needs_no_barrier_behind_others_that_can_be_waited_for() {
        let mut h = Hazards::default();
        let (weights, x, y, z) = ((1000, 100), (0, 10), (20, 10), (40, 10));
        assert_eq!(h.visit_early(&[weights, x], &[y], &[x.0]), Order::First);
        assert_eq!(h.visit_early(&[weights, y], &[z], &[y.0]), Order::Waits);
        assert_eq!(h.visit_early(&[weights, (60, 10)], &[(80, 10)], &[60]), Order::Beside);
        // Of a command beside others nobody knows when it has ended.
        assert_eq!(h.visit_early(&[weights, (80, 10)], &[(90, 5)], &[80]), Order::Barrier);
        assert_eq!(h.visit_early(&[weights, (90, 5)], &[x], &[90]), Order::Waits);
        // Weights that were just written, and arrays that a shader makes.
        assert_eq!(h.visit_early(&[(90, 5), x], &[z], &[x.0]), Order::Barrier);
        assert!(!h.visit(&[weights], &[(200, 10)]));
        assert_eq!(h.visit_early(&[weights, z, (200, 10)], &[x], &[z.0, 200]), Order::Barrier);
        assert!(h.visit(&[x], &[(300, 10)]), "a shader behind it");
    }
}
