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

/// Heads of a workgroup, the first that does.
const ROWS: [u32; 2] = [2, 4];

/// Most keys of a lane, those above which there are more parts, and most parts. What runs once waits for its code.
const MOST_UNROLL: u64 = 4;
const FEW_KEYS: u64 = 2;
const MOST_PARTS: u64 = 16;

/// Subgroups of a workgroup.
const TEAMS: u32 = 8;

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
}

/// Lanes of a subgroup that have fours of one row.
fn together(lanes: u32, subgroup: u32) -> u32 {
    (2 * lanes).min(subgroup)
}

impl Token {
    /// Bytes of shared memory where `lanes` share a row, and a subgroup has so many.
    fn shared(&self, lanes: u32, subgroup: u32) -> u32 {
        let teams = self.workgroup / subgroup;
        16 * (self.rows + 1) * lanes
            + 32 * lanes
            + 8 * self.rows * teams
            + 32 * self.workgroup * self.rows
            + 16
    }

    /// Whether the shader is written for it.
    fn fits(&self, lanes: u32, subgroup: u32) -> bool {
        (self.rows + 1).max(4) * lanes <= self.workgroup
            && 2 * self.rows * lanes <= self.workgroup
            && self.parts.max(self.workgroup / subgroup) <= together(lanes, subgroup)
    }
}

/// For `lines` heads of keys, each of `group` of queries, and rows that `lanes` lanes share; `None` where the vector kernel is
/// the only one, or keys are too many for one turn of so many workgroups.
pub fn token(p: &Profile, lines: u64, group: u64, keys: u64, lanes: u32) -> Option<Token> {
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
        };
        let room = t.shared(lanes, subgroup) <= f.shared_memory;
        (unroll <= MOST_UNROLL && t.fits(lanes, subgroup) && room).then_some(t)
    };
    let least = group.next_power_of_two().min(ROWS[1].into()) as u32;
    ROWS.into_iter().map(|r| r.min(least)).find_map(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::tune::tests::devices::{h200, integrated};

    fn numbers(lines: u64, group: u64, keys: u64, lanes: u32) -> Option<[u32; 5]> {
        token(&h200(), lines, group, keys, lanes).map(|t| [t.rows, t.tiles, t.unroll, t.parts, t.span])
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
        assert!(token(&integrated(), 8, 4, 572, 16).is_none());
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
            let Some(t) = token(&h200(), lines, group, keys, lanes) else { continue };
            assert!(t.span <= t.unroll * (t.workgroup / lanes), "{t:?}");
            assert!(u64::from(t.parts * t.span) >= keys && u64::from(t.rows * t.tiles) >= group, "{t:?}");
        }
    }
}
