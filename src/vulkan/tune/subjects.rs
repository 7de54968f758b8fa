//! What can be measured on a device: the numbers of the tables, and tiles by shape. Called by `python -m mlx.tune`.

use super::profile::{Best, FILL, Profile};
use super::winners::Subject;
use super::{attention, gemv, matmul, quantized, reduce, sort};
use crate::core::Dtype;
use crate::kernels::quantized::quant::Format;

/// The numbers of the tables.
pub fn counts() -> impl Iterator<Item = &'static Best> {
    [
        &FILL,
        &attention::GROUPS,
        &attention::KEYS,
        &attention::token::TOKEN_GROUPS,
        &gemv::FEW_ROWS,
        &reduce::ROWS,
        &reduce::COLUMNS,
        &reduce::FEW_LANES,
        &reduce::SCAN_FEW,
        &reduce::SCAN_PARTS,
        &sort::BUSY,
        &sort::SCATTER_LANES,
    ]
    .into_iter()
}

/// A question to a device: which of some variants is the fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is measured.
    pub subject: Subject,
    /// The numbers of the variants.
    pub candidates: Vec<Vec<u32>>,
    /// The one that the packaged rows choose, where it is among those that can be kept.
    pub packaged: Option<Vec<u32>>,
}

/// The packaged choices of a device: those of a profile without winners.
fn packaged(p: &Profile) -> Profile {
    Profile { winners: Default::default(), ..p.clone() }
}

/// A number of a table: the packaged one and others around it.
pub fn count(p: &Profile, name: &str) -> Option<Question> {
    let b = counts().find(|b| b.name == name)?;
    let now = packaged(p).count(b) as u32;
    let mut candidates: Vec<Vec<u32>> =
        [now / 4, now / 2, now, now.saturating_mul(2), now.saturating_mul(4)].map(|n| vec![n.max(1)]).into();
    candidates.dedup();
    Some(Question { subject: Subject::Count(b.name), candidates, packaged: Some(vec![now]) })
}

/// Products of M x K by K x N.
pub fn product(p: &Profile, dtype: Dtype, [m, n, k]: [u64; 3]) -> Option<Question> {
    let p = packaged(p);
    let s = matmul::Shape { dtype, m, n, k, batch: 1, aligned: true };
    let c = matmul::choose(&p, &s);
    let packaged = matmul::numbers(c.tier, c.tile);
    let mut candidates = matmul::candidates(&p, &s);
    if !candidates.contains(&packaged) {
        candidates.push(packaged.clone());
    }
    Some(Question { subject: matmul::subject(&s)?, candidates, packaged: Some(packaged) })
}

/// Products of M x K by the transpose of a quantised N x K; `known` as for `quantized::choose`.
pub(in crate::vulkan) fn quantised(
    p: &Profile,
    format: Format,
    dtype: Dtype,
    [m, n, k]: [i64; 3],
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Option<Question> {
    let p = packaged(p);
    let s = quantized::Shape { dtype, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false };
    let packaged = quantized::numbers(&quantized::choose(&p, &s, known).variant);
    let mut candidates = quantized::candidates(&p, &s, known);
    if let Some(own) = packaged.as_ref().filter(|n| !candidates.contains(n)) {
        candidates.push(own.clone());
    }
    Some(Question { subject: quantized::subject(&s)?, candidates, packaged })
}
