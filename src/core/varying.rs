//! Functions that are recorded for arrays of any length. While this thread records one, numbers that follow from the
//! shape of an argument must not be written down: ops and transforms that would write them down leave a node that
//! stands for them, and which is made into graph for the shapes of each call (`Primitive::expand`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use super::array::{Array, Node};

thread_local! {
    static LENGTHS_VARY: Cell<bool> = const { Cell::new(false) };
    // What is known of arrays of the recording: whether they follow from its arguments.
    static KNOWN: RefCell<HashMap<u64, bool>> = RefCell::default();
}

/// Whether this thread records a function for arrays of other lengths too.
pub fn lengths_vary() -> bool {
    LENGTHS_VARY.get()
}

/// Lasts as long as lengths vary, or do not, for what this thread builds.
pub struct Lengths(bool);

impl Lengths {
    /// A function is recorded for arrays of any length.
    pub fn vary(on: bool) -> Lengths {
        Lengths(LENGTHS_VARY.replace(on))
    }

    /// Graph is made for the shapes that arrays have.
    pub fn fixed() -> Lengths {
        Lengths::vary(false)
    }
}

impl Drop for Lengths {
    fn drop(&mut self) {
        if LENGTHS_VARY.replace(self.0) && !self.0 {
            KNOWN.take();
        }
    }
}

/// Whether an array follows from a placeholder, so that its shape may be another one in a call. Constants do not.
pub fn follows(a: &Array) -> bool {
    KNOWN.with_borrow_mut(|seen| {
        let mut stack: Vec<(Array, Arc<Node>, usize)> = Vec::new();
        let mut next = Some(a.clone());
        let mut answer = false;
        loop {
            if let Some(a) = next.take() {
                match known(&a, seen) {
                    Ok(v) => answer = v,
                    Err(node) => {
                        stack.push((a, node, 0));
                        answer = false;
                    }
                }
            }
            let Some((array, node, at)) = stack.last_mut() else { return answer };
            match node.inputs.get(*at).filter(|_| !answer) {
                Some(input) => {
                    next = Some(input.clone());
                    *at += 1;
                }
                None => {
                    seen.insert(array.id(), answer);
                    stack.pop();
                }
            }
        }
    })
}

/// What can be said of an array without its inputs, or the node to look at.
fn known(a: &Array, seen: &mut HashMap<u64, bool>) -> Result<bool, Arc<Node>> {
    if let Some(&v) = seen.get(&a.id()) {
        return Ok(v);
    }
    if a.has_data() {
        return Ok(false);
    }
    match a.node() {
        Some(node) => Err(node),
        None => {
            // A placeholder, if it is not on its way from another thread.
            let v = a.event().is_none();
            seen.insert(a.id(), v);
            Ok(v)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Dtype;
    use crate::core::device::{Device, new_stream};
    use crate::core::testing::Id;

    #[test]
    fn what_follows_is_found_through_long_graphs() {
        let s = new_stream(Device::CPU);
        let over = |inputs: Vec<Array>| Array::lazy(&[4i64][..], Dtype::F32, Id, inputs, s).unwrap();
        let lengths = Lengths::vary(true);
        let constant = over(vec![]);
        let mut a = Array::placeholder(&[4i64][..], Dtype::F32).unwrap();
        for _ in 0..100_000 {
            a = over(vec![constant.clone(), a]);
        }
        assert!(follows(&a) && !follows(&constant));
        assert!(!follows(&over(vec![constant.clone(), constant])) && follows(&over(vec![a])));
        assert!(lengths_vary());
        {
            let _fixed = Lengths::fixed();
            assert!(!lengths_vary());
        }
        drop(lengths);
        assert!(!lengths_vary() && KNOWN.with_borrow(HashMap::is_empty));
    }
}
