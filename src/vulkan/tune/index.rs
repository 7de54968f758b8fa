//! How a scatter finds the updates that meet in one place. Called by its host.

/// Places of the destination for each update up to which a table of all places is cheaper than to sort the updates, on an
/// H200.
const PLACES: u64 = 16;

/// Whether a table of all places pays.
pub fn scatter_by_table(places: u64, updates: u64) -> bool {
    places / PLACES <= updates
}
