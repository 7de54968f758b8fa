//! What a random kernel makes of each 32-bit word before it is stored, so that the common distributions
//! take one pass over memory.

/// Finish of a random word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Draw {
    /// The word itself.
    Bits,
    /// float32, uniform in [0, 1).
    Unit,
    /// float32, uniform in (-1, 1).
    Symmetric,
    /// float32, inverse error function of `Symmetric`.
    Erfinv,
    /// float32, standard normal: sqrt(2) times `Erfinv`.
    Normal,
}

/// Largest float32 below one.
pub const BELOW_ONE: f32 = 1.0 - f32::EPSILON / 2.0;

impl Draw {
    /// All of them.
    pub const ALL: [Draw; 5] = [Draw::Bits, Draw::Unit, Draw::Symmetric, Draw::Erfinv, Draw::Normal];
}

/// `Draw::Unit` of a word: scaled by 2^-32 and kept below one.
#[inline(always)]
pub fn unit(word: u32) -> f32 {
    (word as f32 * 2f32.powi(-32)).min(BELOW_ONE)
}

/// `Draw::Symmetric` of a word.
#[inline(always)]
pub fn symmetric(word: u32) -> f32 {
    2.0 * unit(word) - BELOW_ONE
}
