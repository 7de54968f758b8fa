//! What a rotary embedding does, and its table of angles; shared by both backends.

/// A rotation of features by their positions.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Leading features that are rotated.
    pub dims: usize,
    /// Pairs are neighbours.
    pub traditional: bool,
    /// `None`: wavelengths are given.
    pub base: Option<f32>,
    /// Factor of positions.
    pub scale: f32,
    /// First position, where no offsets are given.
    pub offset: i32,
    /// Turns the other way.
    pub back: bool,
}

/// Angle of each pair for one position: `base^(-i / (dims / 2))`, rounded once; empty without a base.
pub fn inverse_frequencies(f: &Form) -> Vec<f32> {
    let Some(base) = f.base else { return Vec::new() };
    let half = f.dims / 2;
    (0..half).map(|i| f64::from(base).powf(-(i as f64) / half as f64) as f32).collect()
}
