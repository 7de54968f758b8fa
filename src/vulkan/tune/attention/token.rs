//! How sdpa_token.comp, attention of one position, cuts rows and keys into workgroups. Pure; called by `attention`.

use super::LIMITS;
use crate::core::env::KernelVariant;
use crate::vulkan::kernels::elem::{WG, shuffles};
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static SDPA_TOKEN: KernelVariant = KernelVariant::new(
    "sdpa_token",
    "attention of one position that takes several turns of keys, as other lengths do",
);

/// Most workgroups, two for each multiprocessor. H200, 16-bit heads of 128 behind 570 keys, share of the GPU's time in a step in
/// place of the vector kernel's: 192 workgroups of 48 keys and two heads each 12.3 % (15.7; 32 heads over 8 of keys) and 18.7 (22.6; over
/// 4), 144 of 64 keys 13.0 and 19.1; half as many workgroups of four heads 13.9 and 14.7, 20.7 and 21.0.
pub static TOKEN_GROUPS: Best = best("attention_token_groups", 264);

pub static SDPA_TURNS: KernelVariant = KernelVariant::new(
    "sdpa_turns",
    "attention of one position of several sequences, or of many keys, as other lengths do",
);

/// Heads of a workgroup, the first that does; of several turns the second, unless workgroups would be few.
const ROWS: [u32; 2] = [2, 4];

/// Most keys of a lane, those above which there are more parts, and most parts. What runs once waits for its code.
const MOST_UNROLL: u64 = 4;
const FEW_KEYS: u64 = 2;
const MOST_PARTS: u64 = 16;

/// Subgroups of a workgroup. Where parts are long and no more than two heads share keys there are twice as many (H200, us, 16 heads
/// over 8 of keys, 32 sequences of 300 keys 16.5, by 8 subgroups 19.6; 8 sequences 10.6 in two parts, by 8 subgroups in four 10.1).
const TEAMS: u32 = 8;

/// Keys of a part of several turns that there is room for, and least lanes of a row.
pub const ROOM: u32 = 1024;
const LEAST_LANES: u32 = 8;

/// Workgroups of two heads each are few where there could be so many times as many parts. Then two heads go together, else four.
const FEW_GROUPS: u64 = 8;
/// Keys of a part above which it is long, and above which workgroups that are few take too long (estimates).
const FEW_SPAN: u64 = 128;
const LONG_SPAN: u64 = 192;
/// Keys of a lane above which four of them go together. H200, us, 32 heads over 8 of keys, two and four: 19 keys of a lane 27.0 and
/// 25.6, 5 keys 12.3 and 13.0; of two heads 19.6 and 22.1, 10.1 and 12.7.
const MANY_KEYS: u64 = 8;

/// What a workgroup works on, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Invocations.
    pub workgroup: u32,
    /// Heads, of those that share keys, and groups of so many.
    pub rows: u32,
    pub tiles: u32,
    /// Keys of a lane.
    pub unroll: u32,
    /// Parts of the keys, and keys of a part.
    pub parts: u32,
    pub span: u32,
    /// Steps in which lanes divide scores, where a part has several turns of keys or scores are masked.
    pub steps: Option<u32>,
}

/// Lanes of a subgroup that have fours of one row.
fn together(lanes: u32, subgroup: u32) -> u32 {
    (2 * lanes).min(subgroup)
}

impl Token {
    /// Bytes of shared memory where `lanes` share a row, and a subgroup has so many.
    fn shared(&self, lanes: u32, subgroup: u32) -> u32 {
        let teams = self.workgroup / subgroup;
        let (ready, held) = match self.steps {
            Some(_) => (2, (32 * teams * lanes).max(4 * ROOM)),
            None => (1, 32 * self.workgroup),
        };
        16 * (self.rows + ready) * lanes + 32 * lanes + 8 * self.rows * teams + held * self.rows + 16
    }

    /// Whether the shader is written for it.
    fn fits(&self, lanes: u32, subgroup: u32) -> bool {
        let teams = if self.steps.is_some() { 1 } else { self.workgroup / subgroup };
        (self.rows + 1).max(4) * lanes <= self.workgroup
            && 2 * self.rows * lanes <= self.workgroup
            && self.parts.max(teams) <= together(lanes, subgroup)
    }
}

/// For `lines` heads of keys, each of `group` of queries, and rows that `lanes` lanes share; `None` where the vector kernel is
/// the only one. `plain`: there is no mask, and one offset.
pub fn token(p: &Profile, lines: u64, group: u64, keys: u64, lanes: u32, plain: bool) -> Option<Token> {
    let one = plain.then(|| one_turn(p, lines, group, keys, lanes)).flatten();
    one.or_else(|| turns(p, lines, group, keys, lanes))
}

/// The same where keys are few enough for one turn of so many workgroups, without a mask.
fn one_turn(p: &Profile, lines: u64, group: u64, keys: u64, lanes: u32) -> Option<Token> {
    let f = &p.features;
    let subgroup = f.subgroup_size;
    if SDPA_TOKEN.disabled() || LIMITS.splits.is_some() || !shuffles(f) || !(2..=subgroup).contains(&lanes) {
        return None;
    }
    let workgroup = WG.min(TEAMS * subgroup);
    let side = u64::from(workgroup / lanes);
    let most = MOST_PARTS.min(together(lanes, subgroup).into());
    let wanted = LIMITS.groups.unwrap_or_else(|| p.count(&TOKEN_GROUPS));
    let token = |rows: u32| {
        let tiles = group.div_ceil(rows.into());
        let fill = (wanted / (lines * tiles).max(1)).clamp(1, most);
        let few = keys.div_ceil(FEW_KEYS * side).next_power_of_two();
        let parts = if keys <= MOST_UNROLL * side { 1 } else { few.min(1 << fill.ilog2()) };
        let span = keys.div_ceil(parts);
        let unroll = span.div_ceil(side).max(1);
        // FITS: at most MOST_UNROLL, and counts of heads.
        let t = Token {
            workgroup,
            rows,
            tiles: tiles as u32,
            unroll: unroll as u32,
            parts: parts as u32,
            span: span as u32,
            steps: None,
        };
        let room = t.shared(lanes, subgroup) <= f.shared_memory;
        (unroll <= MOST_UNROLL && t.fits(lanes, subgroup) && room).then_some(t)
    };
    let least = group.next_power_of_two().min(ROWS[1].into()) as u32;
    ROWS.into_iter().map(|r| r.min(least)).find_map(token)
}

/// The same over several turns of keys, with masks and offsets of sequences; `None` where the vector kernel is the only one, or
/// workgroups are too few for so many keys.
fn turns(p: &Profile, lines: u64, group: u64, keys: u64, lanes: u32) -> Option<Token> {
    let f = &p.features;
    let subgroup = f.subgroup_size;
    let held = (LEAST_LANES..=subgroup).contains(&lanes);
    if SDPA_TURNS.disabled() || LIMITS.splits.is_some() || !shuffles(f) || !held {
        return None;
    }
    let wanted = LIMITS.groups.unwrap_or_else(|| p.count(&TOKEN_GROUPS));
    let most = MOST_PARTS.min(together(lanes, subgroup).into());
    let all = group.next_power_of_two().min(ROWS[1].into()) as u32;
    let few = lines * group.div_ceil(ROWS[0].into()) * FEW_GROUPS <= wanted;
    let token = |(rows, teams): (u32, u32)| {
        let workgroup = (WG / TEAMS * teams).min(teams * subgroup);
        let side = u64::from(workgroup / lanes);
        let tiles = group.div_ceil(rows.into());
        let fill = wanted / (lines * tiles).max(1);
        let full = 1 << fill.clamp(1, most).ilog2();
        let parts = keys.div_ceil(FEW_KEYS * side).next_power_of_two().min(full);
        let parts = parts.max(keys.div_ceil(ROOM.into()).next_power_of_two());
        let span = keys.div_ceil(parts).next_multiple_of(side);
        let slow = (few && rows < all || fill > most) && span > LONG_SPAN;
        if parts > most || span > u64::from(ROOM) || slow {
            return None;
        }
        let unroll = unroll(rows, span.div_ceil(side));
        // FITS: at most ROOM, and counts of heads.
        let t = Token {
            workgroup,
            rows,
            tiles: tiles as u32,
            unroll,
            parts: parts as u32,
            span: span as u32,
            steps: Some((rows * unroll).ilog2().min(lanes.ilog2())),
        };
        let room = t.shared(lanes, subgroup) <= f.shared_memory && workgroup <= f.max_workgroup_invocations;
        let long = teams == TEAMS || span > FEW_SPAN;
        (t.fits(lanes, subgroup) && room && long).then_some(t)
    };
    let pair = ROWS[0].min(all);
    let wide = (all == pair).then_some((pair, 2 * TEAMS));
    let paired = few.then_some((pair, TEAMS));
    wide.into_iter().chain(paired).chain([(all, TEAMS), (pair, TEAMS)]).find_map(token)
}

/// Keys of a lane at a time, of so many of a part: 1, 2 or 4.
fn unroll(rows: u32, each: u64) -> u32 {
    let many = rows > ROWS[0] && each > MANY_KEYS;
    let most = if each <= MOST_UNROLL || many { MOST_UNROLL } else { FEW_KEYS };
    // FITS: at most MOST_UNROLL.
    each.max(1).next_power_of_two().min(most) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::tune::tests::devices::{h200, integrated};

    fn numbers(lines: u64, group: u64, keys: u64, lanes: u32) -> Option<[u32; 5]> {
        one_turn(&h200(), lines, group, keys, lanes).map(|t| [t.rows, t.tiles, t.unroll, t.parts, t.span])
    }

    #[test]
    fn decoders_of_one_sequence() {
        // Heads of queries and keys 32 and 8, 32 and 4, 16 and 8, 64 and 8, 16 and 16.
        assert_eq!(numbers(8, 4, 572, 16), Some([2, 2, 3, 16, 36]));
        assert_eq!(numbers(4, 8, 572, 16), Some([2, 4, 3, 16, 36]));
        assert_eq!(numbers(8, 2, 572, 16), Some([2, 1, 3, 16, 36]));
        assert_eq!(numbers(8, 8, 572, 16), Some([4, 2, 3, 16, 36]));
        assert_eq!(numbers(16, 1, 572, 16), Some([1, 1, 3, 16, 36]));
        assert_eq!(numbers(8, 4, 64, 16), Some([2, 2, 4, 1, 64]));
        assert_eq!(numbers(8, 4, 65, 16), Some([2, 2, 2, 4, 17]));
        assert_eq!(numbers(8, 4, 1024, 16), Some([2, 2, 4, 16, 64]));
        assert_eq!(numbers(8, 4, 2048, 8), Some([2, 2, 4, 16, 128]));
    }

    #[test]
    fn many_keys_and_many_sequences_take_turns() {
        assert_eq!(numbers(8, 4, 1025, 16), None);
        assert_eq!(numbers(64, 4, 572, 16), None);
        assert!(one_turn(&integrated(), 8, 4, 572, 16).is_none());
    }

    #[test]
    fn parts_are_one_turn_and_cover_the_keys() {
        for (lines, group, keys, lanes) in
            [1, 3, 8, 16, 64].into_iter().flat_map(|l| [1, 2, 5, 8].map(|g| (l, g))).flat_map(|(l, g)| {
                [1, 2, 63, 64, 65, 300, 777, 1024]
                    .into_iter()
                    .flat_map(move |n| [4, 8, 16, 32].map(|t| (l, g, n, t)))
            })
        {
            let Some(t) = one_turn(&h200(), lines, group, keys, lanes) else { continue };
            assert!(t.span <= t.unroll * (t.workgroup / lanes), "{t:?}");
            assert!(u64::from(t.parts * t.span) >= keys && u64::from(t.rows * t.tiles) >= group, "{t:?}");
        }
    }

    /// Subgroups, rows, tiles, keys of a lane, parts and their keys.
    fn several(p: &Profile, lines: u64, group: u64, keys: u64, lanes: u32) -> Option<[u32; 6]> {
        let t = token(p, lines, group, keys, lanes, false)?;
        Some([t.workgroup / p.features.subgroup_size, t.rows, t.tiles, t.unroll, t.parts, t.span])
    }

    #[test]
    fn decoders_of_several_sequences() {
        let p = h200();
        // 32 heads over 8 of keys: 8, 32 and 1 sequences, and many keys.
        assert_eq!(several(&p, 64, 4, 300, 16), Some([8, 4, 1, 2, 4, 80]));
        assert_eq!(several(&p, 256, 4, 300, 16), Some([8, 4, 1, 4, 1, 304]));
        assert_eq!(several(&p, 8, 4, 300, 16), Some([8, 2, 2, 2, 16, 32]));
        assert_eq!(several(&p, 64, 4, 4001, 16), Some([8, 4, 1, 4, 4, 1008]));
        assert_eq!(several(&p, 256, 4, 4001, 16), Some([8, 4, 1, 4, 4, 1008]));
        // 16 over 8, 32 over 4.
        assert_eq!(several(&p, 64, 2, 300, 16), Some([8, 2, 1, 2, 4, 80]));
        assert_eq!(several(&p, 256, 2, 300, 16), Some([16, 2, 1, 2, 1, 320]));
        assert_eq!(several(&p, 32, 8, 300, 16), Some([8, 4, 2, 2, 4, 80]));
        assert_eq!(several(&p, 128, 8, 300, 16), Some([8, 4, 2, 4, 1, 304]));
        // Few sequences behind very many keys have the vector kernel.
        assert_eq!(several(&p, 8, 4, 8192, 16), None);
        assert_eq!(several(&p, 256, 4, 100_000, 16), None);
        // One turn goes first, several are for more keys.
        assert!(token(&p, 8, 4, 572, 16, true).is_some_and(|t| t.steps.is_none()));
        assert!(token(&p, 8, 4, 2000, 16, true).is_some_and(|t| t.steps.is_some()));
    }

    #[test]
    fn several_turns_cover_the_keys_and_fit() {
        let mut small = integrated();
        let f = &mut small.features;
        (f.subgroup_basic, f.subgroup_shuffle) = (true, true);
        (f.subgroup_size, f.min_subgroup_size, f.max_subgroup_size) = (64, 64, 64);
        for (p, lines, group) in [h200(), small]
            .iter()
            .flat_map(|p| [1, 3, 8, 64, 256, 1000].map(|l| (p, l)))
            .flat_map(|(p, l)| [1, 2, 3, 5, 8, 16].map(|g| (p, l, g)))
        {
            for (keys, lanes) in [1, 2, 63, 65, 300, 1000, 2000, 5000, 16_384]
                .into_iter()
                .flat_map(|n| [8, 16, 32].map(|t| (n, t)))
            {
                let Some(t) = token(p, lines, group, keys, lanes, false) else { continue };
                let side = t.workgroup / lanes;
                assert!(t.span <= ROOM && t.span.is_multiple_of(side) && t.parts.is_power_of_two(), "{t:?}");
                assert!(ROOM.is_multiple_of(t.unroll * side), "{t:?}");
                assert!(u64::from(t.parts * t.span) >= keys && u64::from(t.rows * t.tiles) >= group);
                assert!(t.shared(lanes, p.features.subgroup_size) <= p.features.shared_memory, "{t:?}");
                assert!(t.workgroup <= p.features.max_workgroup_invocations, "{t:?}");
                assert_eq!(t.steps, Some((t.rows * t.unroll).ilog2().min(lanes.ilog2())));
            }
        }
    }
}
