//! What `python -m mlx.tune` asks of a device: which variants it can choose from, and to let some of them win.

use crate::core::tree::Tree;
use crate::core::{Dtype, Result};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::device;
use crate::vulkan::kernels::matmul::fragment_probe;
use crate::vulkan::kernels::measure;
use crate::vulkan::shader::pipeline_cache::write_text;
use crate::vulkan::tune::subjects::{count, product, quantised};
use crate::vulkan::tune::{Subject, Winners};

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
        Ask::Quantised(format, dtype, sides) => {
            quantised(p, *format, *dtype, *sides, &|dtype, cols| fragment_probe::known(device, dtype, cols))
        }
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
    let kept = keep && write_text("winners", device.adapter(), &winners.lines().join("\n"));
    device.set_winners(winners);
    Ok(kept)
}

/// Measures a device and keeps what it showed: units, bytes a nanosecond, nanoseconds of a dependent command, and
/// multiplications by matrix units for ten others.
///
/// # Errors
/// Value error where there is no such device, or what its driver says.
pub fn measure(index: u32) -> Result<[u32; 4]> {
    let device = device(index)?;
    let (m, _) = measure::look(device)?;
    measure::keep(device, m);
    Ok([m.units, m.bandwidth, m.dependent_ns, m.matrices])
}
