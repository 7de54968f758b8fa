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
    /// float32, `Unit` up to the largest float16 below one, which as float16 is what `Unit` gives that is kept below one there.
    UnitF16,
    /// The same for bfloat16.
    UnitBF16,
}

/// Largest float32 below one.
pub const BELOW_ONE: f32 = 1.0 - f32::EPSILON / 2.0;
/// Largest float16 below one.
const BELOW_ONE_F16: f32 = 1.0 - 1.0 / 2048.0;
/// Largest bfloat16 below one.
const BELOW_ONE_BF16: f32 = 1.0 - 1.0 / 256.0;

impl Draw {
    /// All of them; exported functions know them by their places.
    pub const ALL: [Draw; 7] =
        [Draw::Bits, Draw::Unit, Draw::Symmetric, Draw::Erfinv, Draw::Normal, Draw::UnitF16, Draw::UnitBF16];
}

/// `Draw::Unit` of a word: scaled by 2^-32 and kept below one.
#[inline(always)]
pub fn unit(word: u32) -> f32 {
    (word as f32 * 2f32.powi(-32)).min(BELOW_ONE)
}

/// `Draw::UnitF16` of a word.
#[inline(always)]
pub fn unit_f16(word: u32) -> f32 {
    unit(word).min(BELOW_ONE_F16)
}

/// `Draw::UnitBF16` of a word.
#[inline(always)]
pub fn unit_bf16(word: u32) -> f32 {
    unit(word).min(BELOW_ONE_BF16)
}

/// `Draw::Symmetric` of a word.
#[inline(always)]
pub fn symmetric(word: u32) -> f32 {
    2.0 * unit(word) - BELOW_ONE
}
