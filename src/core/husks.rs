//! What the recorder leaves of nodes and arrays that nobody holds any more. Their memory came from the thread that built
//! the graph: given back by another one, each piece goes through the allocator's list for strangers, and the builder finds
//! none of it in its caches. So the recorder lets go of what they hold (data, events) at once and keeps the empty
//! husks together; the thread that built them frees them, after it has handed the next graph over.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

use super::array::{Array, Inputs, Node, drop_iteratively};
use super::fork::Shared;

/// Something empty whose memory is still to be freed.
pub(crate) enum Husk {
    Node(Arc<Node>),
    Array(Array),
}

impl Husk {
    /// Asks for its memory.
    fn ask_for(&self) {
        match self {
            Husk::Node(node) => Node::ask_for(node),
            Husk::Array(array) => array.ask_for(),
        }
    }
}

/// Husks between one that is freed and one whose memory is asked for.
const AHEAD: usize = 8;

/// Husks of a collection, and collections that may wait to be freed; further husks are freed where they are.
const LARGEST: usize = 1 << 14;
/// See [`LARGEST`].
const MOST: usize = 4;

pub(crate) static LEFT: Shared<Vec<Vec<Husk>>> = Shared::new(Vec::new);

thread_local! {
    /// What this thread has collected, if it does.
    static HUSKS: RefCell<Option<Vec<Husk>>> = const { RefCell::new(None) };
}

/// While one exists, this thread collects husks.
pub struct Collecting(());

impl Collecting {
    /// Begins to collect.
    pub fn begin() -> Collecting {
        HUSKS.with(|h| *h.borrow_mut() = Some(Vec::with_capacity(1024)));
        Collecting(())
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        let Some(husks) = HUSKS.with(|h| h.borrow_mut().take()) else { return };
        let mut left = LEFT.lock();
        if left.len() < MOST {
            left.push(husks);
        }
    }
}

/// Frees what recordings have left so far; what was built first comes last, so that it is handed out first again.
pub fn free() {
    for mut husks in mem::take(&mut *LEFT.lock()) {
        while let Some(husk) = husks.pop() {
            husks.len().checked_sub(AHEAD).and_then(|i| husks.get(i)).into_iter().for_each(Husk::ask_for);
            drop(husk);
        }
    }
}

/// Whether this thread collects.
fn collects() -> bool {
    HUSKS.try_with(|h| h.borrow().is_some()).unwrap_or(false)
}

fn keep(husk: Husk) {
    let rest = HUSKS.with(|h| match h.borrow_mut().as_mut() {
        Some(all) if all.len() < LARGEST => {
            all.push(husk);
            None
        }
        _ => Some(husk),
    });
    drop(rest);
}

/// Drops a node.
pub(super) fn node(mut node: Arc<Node>) {
    if !collects() {
        return drop(node);
    }
    let Some(inner) = Arc::get_mut(&mut node) else { return drop(node) };
    mem::replace(&mut inner.inputs, Inputs::new()).into_iter().for_each(array);
    keep(Husk::Node(node));
}

/// Drops a handle of an array.
pub fn array(mut array: Array) {
    if !collects() {
        return drop(array);
    }
    let Some(node) = array.empty() else { return drop(array) };
    node.into_iter().for_each(drop_iteratively);
    keep(Husk::Array(array));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::device::{Device, new_stream};
    use crate::core::storage::HostBlock;
    use crate::core::testing::Id;
    use crate::core::{Dtype, Layout, Storage};
    use std::ptr::NonNull;

    /// An array of bytes whose owner is told apart by its handles.
    fn of(owner: &Arc<()>) -> Array {
        let block = HostBlock::lent(NonNull::<u8>::dangling(), Box::new(owner.clone()));
        let storage = Storage::from_host(block, 0);
        Array::from_data(Layout::contiguous(&[0]), Dtype::U8, storage).unwrap()
    }

    #[test]
    fn bytes_go_at_once_and_what_others_hold_stays() {
        let (owner, stream) = (Arc::new(()), new_stream(Device::CPU));
        let (mine, held) = (of(&owner), of(&owner));
        let sum = Array::lazy(&[0i64][..], Dtype::U8, Id, vec![mine, held.clone()], stream).unwrap();
        let chain = Array::lazy(&[0i64][..], Dtype::U8, Id, vec![sum], stream).unwrap();
        assert_eq!(Arc::strong_count(&owner), 3);
        let collecting = Collecting::begin();
        array(chain);
        assert_eq!(Arc::strong_count(&owner), 2, "the bytes of what nobody holds");
        // Two results, their nodes, and one of the two arrays that were read.
        assert_eq!(HUSKS.with(|h| h.borrow().as_ref().map(Vec::len)), Some(5));
        drop(collecting);
        free();
        drop(held);
        assert_eq!(Arc::strong_count(&owner), 1);
        array(of(&owner));
        assert_eq!(Arc::strong_count(&owner), 1, "without a collection they are dropped");
    }
}
