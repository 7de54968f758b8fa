//! What can be measured on a device: the numbers of the tables, and tiles by shape. Called by `python -m mlx.tune`.

use super::profile::{Best, FILL, Profile};
use super::winners::{Subject, Winners};
use super::{attention, gemv, matmul, quantized, reduce, sort};
use crate::core::tree::Tree;
use crate::core::{Dtype, Result};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::kernels::matmul::fragment_probe;
use crate::vulkan::{Device, device};

/// The numbers of the tables.
pub fn counts() -> impl Iterator<Item = &'static Best> {
    [
        &FILL,
        &attention::GROUPS,
        &attention::KEYS,
        &gemv::FEW_ROWS,
        &reduce::ROWS,
        &reduce::COLUMNS,
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

/// Products of M x K by the transpose of a quantised N x K.
pub fn quantised(
    device: &'static Device,
    format: Format,
    dtype: Dtype,
    [m, n, k]: [i64; 3],
) -> Option<Question> {
    let p = packaged(device.profile());
    let s = quantized::Shape { dtype, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false };
    let known = |cols| fragment_probe::known(device, dtype, cols);
    let packaged = quantized::numbers(&quantized::choose(&p, &s, &known).variant);
    let mut candidates = quantized::candidates(&p, &s, &known);
    candidates.extend(packaged.iter().filter(|n| !candidates.contains(n)).cloned().collect::<Vec<_>>());
    Some(Question { subject: quantized::subject(&s)?, candidates, packaged })
}

/// What a caller asks about: a number of a table, or a product.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A number, by its name.
    Count(String),
    /// Sides M, N, K.
    Product(Dtype, [u64; 3]),
    /// Sides M, N, K.
    Quantised(Format, Dtype, [i64; 3]),
}

fn text(subject: &Subject, numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("{} = {}", subject.text(), numbers.join(" "))
}

/// What a device can choose from, as lines that [`set`] takes; none where it has no choice.
///
/// # Errors
/// Value error where there is no such device.
pub fn question(index: u32, ask: &Ask) -> Result<Option<Tree>> {
    let device = device(index)?;
    let p = device.profile();
    let found = match ask {
        Ask::Count(name) => count(p, name),
        Ask::Product(dtype, sides) => product(p, *dtype, *sides),
        Ask::Quantised(format, dtype, sides) => quantised(device, *format, *dtype, *sides),
    };
    Ok(found.map(|q| {
        let lines = q.candidates.iter().map(|c| Tree::from(text(&q.subject, c))).collect();
        let packaged = q.packaged.map_or(String::new(), |c| text(&q.subject, &c));
        Tree::map([
            ("subject", Tree::from(q.subject.text())),
            ("candidates", Tree::List(lines)),
            ("packaged", packaged.into()),
        ])
    }))
}

/// What won on a device, as lines.
///
/// # Errors
/// Value error where there is no such device.
pub fn winners(index: u32) -> Result<Vec<String>> {
    Ok(device(index)?.profile().winners.lines())
}

/// Lets these lines win on a device from now on, and if `keep` in the processes to come; returns whether they are kept.
///
/// # Errors
/// Value error where there is no such device.
pub fn set(index: u32, lines: &[String], keep: bool) -> Result<bool> {
    let device = device(index)?;
    let winners = Winners::parse(&lines.join("\n"));
    let kept = keep && winners.save(device.adapter());
    device.set_winners(winners);
    Ok(kept)
}

/// Measures a device and keeps what it showed: units, bytes a nanosecond, nanoseconds of a dependent command.
///
/// # Errors
/// Value error where there is no such device, or what its driver says.
pub fn measure(index: u32) -> Result<[u32; 3]> {
    let device = device(index)?;
    let m = super::measure::look(device)?;
    m.save(device.adapter());
    Ok([m.units, m.bandwidth, m.dependent_ns])
}
