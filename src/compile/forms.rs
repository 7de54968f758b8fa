//! Compiled functions: a fused tape, or where shapes vary the recorded one, from which a fused tape is made for each form
//! of the arguments that comes. Those are as good as those of functions that are recorded for one form.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{Tape, fuse, record, simplified};
use crate::core::{Array, Result, Shape, fork};

/// Forms that are kept; beyond them all are made again.
const KEPT: usize = 256;

/// A function that was recorded and simplified.
pub enum Compiled {
    /// For arguments of one form.
    One(Arc<Tape>),
    /// For arguments of any lengths.
    Any(Tape, Mutex<HashMap<Vec<Shape>, Arc<Tape>>>),
}

impl Compiled {
    /// From a simplified tape. `shapeless`: arguments may have other shapes (of as many axes) than the recorded ones.
    pub fn new(tape: &Tape, shapeless: bool) -> Compiled {
        if shapeless {
            Compiled::Any(tape.clone(), Mutex::default())
        } else {
            Compiled::One(Arc::new(fuse(tape)))
        }
    }

    /// The fused tape for these arguments, if it is there.
    pub fn find(&self, inputs: &[Array]) -> Option<Arc<Tape>> {
        match self {
            Compiled::One(tape) => Some(tape.clone()),
            Compiled::Any(_, known) => {
                let known = fork::lock(known);
                known.get(&form(inputs)).cloned()
            }
        }
    }

    /// As [`find`](Self::find), or made now. May wait for constants.
    ///
    /// # Errors
    /// Those of operations that do not take these shapes, or whose results do not follow from shapes.
    pub fn tape(&self, inputs: &[Array]) -> Result<Arc<Tape>> {
        let (tape, known) = match self {
            Compiled::One(tape) => return Ok(tape.clone()),
            Compiled::Any(tape, known) => (tape, known),
        };
        if let Some(found) = self.find(inputs) {
            return Ok(found);
        }
        let made = Arc::new(fuse(&simplified(&fixed(tape, inputs)?)?));
        let mut known = fork::lock(known);
        // Tapes may hold what runs Python when it is dropped: not under the lock.
        let old = if known.len() >= KEPT { std::mem::take(&mut *known) } else { HashMap::new() };
        known.insert(form(inputs), made.clone());
        drop(known);
        drop(old);
        Ok(made)
    }
}

fn form(inputs: &[Array]) -> Vec<Shape> {
    inputs.iter().map(|a| a.shape().into()).collect()
}

/// What a tape for any lengths computes for arguments like these.
pub fn fixed(tape: &Tape, inputs: &[Array]) -> Result<Tape> {
    record(&mut |a| tape.play(a, true), inputs, false)
}
