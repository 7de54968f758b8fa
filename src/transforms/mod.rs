//! Evaluation and function transforms over the graph.
