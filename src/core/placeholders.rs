//! Whether functions run on placeholders: arrays without values, of which a graph is recorded.

use std::cell::Cell;

thread_local! {
    // How many functions run on placeholders on this thread.
    static PLACEHOLDERS: Cell<u32> = const { Cell::new(0) };
}

/// Lasts while a function runs on placeholders.
pub(crate) struct Placeholders(());

impl Placeholders {
    pub(crate) fn new() -> Placeholders {
        PLACEHOLDERS.set(PLACEHOLDERS.get() + 1);
        Placeholders(())
    }

    /// Whether a function of this thread runs on placeholders.
    pub(crate) fn exist() -> bool {
        PLACEHOLDERS.get() > 0
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        PLACEHOLDERS.set(PLACEHOLDERS.get() - 1);
    }
}
