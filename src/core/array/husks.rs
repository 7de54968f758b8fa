//! What the recorder leaves of nodes and arrays that nobody holds any more. Their memory came from the thread that built
//! the graph: given back by another one, each piece goes through the allocator's list for strangers, and the builder finds
//! none of it in its caches. So the recorder lets go of what they hold (data, events) at once and keeps the empty
//! husks together; the thread that built them frees them, after it has handed the next graph over.

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex};

use super::{Array, Inputs, Link, Node, drop_iteratively};
use crate::core::fork;

/// Something empty whose memory is still to be freed.
pub(super) enum Husk {
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

/// Collections that may wait to be freed; the husks of further ones are freed where they are.
const MOST: usize = 4;

static LEFT: Mutex<Vec<Vec<Husk>>> = Mutex::new(Vec::new());

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
        let mut left = fork::lock(&LEFT);
        if left.len() < MOST {
            left.push(husks);
        }
    }
}

/// Frees what recordings have left so far; what was built first comes last, so that it is handed out first again.
pub fn free() {
    for mut husks in mem::take(&mut *fork::lock(&LEFT)) {
        while let Some(husk) = husks.pop() {
            husks.len().checked_sub(AHEAD).and_then(|i| husks.get(i)).into_iter().for_each(Husk::ask_for);
            drop(husk);
        }
    }
}

/// Whether this thread collects.
fn collects() -> bool {
    HUSKS.with(|h| h.borrow().is_some())
}

fn keep(husk: Husk) {
    let rest = HUSKS.with(|h| match h.borrow_mut().as_mut() {
        Some(all) => {
            all.push(husk);
            None
        }
        None => Some(husk),
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
    let Some(inner) = Arc::get_mut(&mut array.0) else { return drop(array) };
    let link = mem::take(inner.link.get_mut().unwrap_or_else(|e| e.into_inner()));
    let Link { node, event, .. } = link;
    drop((mem::take(&mut inner.slot), event));
    node.into_iter().for_each(drop_iteratively);
    keep(Husk::Array(array));
}
