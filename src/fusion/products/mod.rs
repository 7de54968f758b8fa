//! Patterns that begin with products of rows: products of one row and few, what comes before and behind them, and experts.

pub(super) mod experts;
mod following;
mod halves;
mod picked_biases;
mod row_biases;
pub(super) mod row_products;
