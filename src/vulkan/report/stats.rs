//! What ran: hits of kernels and of their variants, caches, batches. Counters are relaxed atomics and always on;
//! MLX_VK_STATS=1 prints them when the process ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::core::tree::Tree;
use crate::vulkan::shader::pipeline::Pipeline;

/// Classes of sizes by powers of two: the number `n` of a class holds sizes above `2^(n-1)` up to `2^n`.
const ROWS: usize = 16;
const GROUPS: usize = 16;
const KEYS: usize = 24;
const PARTS: usize = 9;
const OPS: usize = 21;

/// Kernels of quantised products.
pub(in crate::vulkan) const QMM: [&str; 10] =
    ["rows", "cols", "tiled", "dequantize", "coop", "row", "held", "stream", "few_rows", "few_picked"];
/// Kernels of attention.
pub(in crate::vulkan) const ATTENTION: [&str; 3] = ["vector", "tile", "coop"];

/// A counter.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// All counters but those of the kernels.
pub(crate) struct Stats {
    pub pipeline_hits: Counter,
    pub pipeline_misses: Counter,
    pub pipeline_ns: Counter,
    pub spirv_hits: Counter,
    pub spirv_misses: Counter,
    pub spirv_ns: Counter,
    pub barriers: Counter,
    pub uploads: Counter,
    pub upload_bytes: Counter,
    pub downloads: Counter,
    pub download_bytes: Counter,
    buffers: [Counter; OPS],
    buffer_ops: Counter,
    qmm: [[[Counter; GROUPS]; ROWS]; QMM.len()],
    attention: [[[[Counter; PARTS]; KEYS]; ROWS]; ATTENTION.len()],
}

/// The counters.
pub(crate) static STATS: Stats = Stats {
    pipeline_hits: Counter::new(),
    pipeline_misses: Counter::new(),
    pipeline_ns: Counter::new(),
    spirv_hits: Counter::new(),
    spirv_misses: Counter::new(),
    spirv_ns: Counter::new(),
    barriers: Counter::new(),
    uploads: Counter::new(),
    upload_bytes: Counter::new(),
    downloads: Counter::new(),
    download_bytes: Counter::new(),
    buffers: [const { Counter::new() }; OPS],
    buffer_ops: Counter::new(),
    qmm: [const { [const { [const { Counter::new() }; GROUPS] }; ROWS] }; QMM.len()],
    attention: [const { [const { [const { [const { Counter::new() }; PARTS] }; KEYS] }; ROWS] };
        ATTENTION.len()],
};

/// Every pipeline that is there, and hits by name of those that are gone.
static PIPELINES: Mutex<(Vec<Weak<Pipeline>>, Hits)> = Mutex::new((Vec::new(), Hits::new()));

type Hits = BTreeMap<String, u64>;

fn pipelines() -> MutexGuard<'static, (Vec<Weak<Pipeline>>, Hits)> {
    PIPELINES.lock().unwrap_or_else(|e| e.into_inner())
}

/// The class of a size, at most `classes - 1`.
fn class(n: u64, classes: usize) -> usize {
    (n.max(1).next_power_of_two().ilog2() as usize).min(classes - 1)
}

/// The sizes of a class.
fn sizes(class: usize, classes: usize) -> String {
    match class {
        0 => "1".into(),
        1 => "2".into(),
        c if c + 1 == classes => format!("{}+", (1u64 << (c - 1)) + 1),
        c => format!("{}-{}", (1u64 << (c - 1)) + 1, 1u64 << c),
    }
}

/// Notes a pipeline, so that its hits are listed.
pub(in crate::vulkan) fn made(pipeline: &Arc<Pipeline>) {
    let mut all = pipelines();
    if all.0.len() == all.0.capacity() {
        all.0.retain(|p| p.strong_count() > 0);
    }
    all.0.push(Arc::downgrade(pipeline));
}

/// Keeps the hits of a pipeline that dies.
pub(in crate::vulkan) fn gone(pipeline: &Pipeline) {
    let hits = pipeline.hits.load(Relaxed);
    if hits > 0 {
        *pipelines().1.entry(pipeline.name().to_string()).or_default() += hits;
    }
}

impl Stats {
    /// A command buffer with `ops` commands was submitted.
    pub fn submitted(&self, ops: u64) {
        self.buffers[class(ops, OPS)].add(1);
        self.buffer_ops.add(ops);
    }

    /// A quantised product by a kernel of [`QMM`]: rows of x, groups of codes along the sums.
    pub fn quantized(&self, variant: usize, rows: i64, groups: i64) {
        self.qmm[variant][class(rows as u64, ROWS)][class(groups as u64, GROUPS)].add(1);
    }

    /// Attention by a kernel of [`ATTENTION`]: queries, keys, parts of the keys.
    pub fn attention(&self, variant: usize, queries: u64, keys: u64, parts: u64) {
        self.attention[variant][class(queries, ROWS)][class(keys, KEYS)][class(parts, PARTS)].add(1);
    }

    fn all(&self) -> impl Iterator<Item = &Counter> {
        let plain = [
            &self.pipeline_hits,
            &self.pipeline_misses,
            &self.pipeline_ns,
            &self.spirv_hits,
            &self.spirv_misses,
            &self.spirv_ns,
            &self.barriers,
            &self.uploads,
            &self.upload_bytes,
            &self.downloads,
            &self.download_bytes,
            &self.buffer_ops,
        ];
        let qmm = self.qmm.iter().flatten().flatten();
        let attention = self.attention.iter().flatten().flatten().flatten();
        plain.into_iter().chain(&self.buffers).chain(qmm).chain(attention)
    }
}

/// Starts from zero.
pub fn reset() {
    STATS.all().for_each(|c| c.0.store(0, Relaxed));
    let mut all = pipelines();
    all.1.clear();
    let known: Vec<Arc<Pipeline>> = all.0.iter().filter_map(Weak::upgrade).collect();
    // The last one to hold a pipeline notes its hits, for which it wants the lock.
    drop(all);
    known.iter().for_each(|p| p.hits.store(0, Relaxed));
}

/// Hits by the name of the kernel, the most frequent first.
fn kernels() -> Vec<(String, u64)> {
    let (known, mut hits): (Vec<Arc<Pipeline>>, Hits) = {
        let all = pipelines();
        (all.0.iter().filter_map(Weak::upgrade).collect(), all.1.clone())
    };
    for p in &known {
        *hits.entry(p.name().to_string()).or_default() += p.hits.load(Relaxed);
    }
    let mut list: Vec<(String, u64)> = hits.into_iter().filter(|h| h.1 > 0).collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    list
}

/// Everything that was counted.
pub fn report() -> Vec<(&'static str, Tree)> {
    let s = &STATS;
    let kernels = kernels();
    let of = |prefixes: &[&str]| {
        let ours = |k: &&(String, u64)| {
            prefixes.iter().any(|p| k.0.starts_with(p)) && !k.0.contains("_copy") && !k.0.contains("_reduce")
        };
        Tree::map(kernels.iter().filter(ours).map(|(k, n)| (k.clone(), Tree::Int(*n))))
    };
    let cache = |hits: &Counter, misses: &Counter, ns: &Counter| {
        Tree::map([
            ("hits", Tree::Int(hits.get())),
            ("misses", Tree::Int(misses.get())),
            ("seconds", Tree::Float(ns.get() as f64 / 1e9)),
        ])
    };
    let mut qmm = Vec::new();
    for (name, rows) in QMM.iter().zip(&s.qmm) {
        for (r, groups) in rows.iter().enumerate() {
            for (g, n) in groups.iter().enumerate().filter(|x| x.1.get() > 0) {
                qmm.push(Tree::map([
                    ("kernel", Tree::from(*name)),
                    ("rows", sizes(r, ROWS).into()),
                    ("groups", sizes(g, GROUPS).into()),
                    ("hits", n.get().into()),
                ]));
            }
        }
    }
    let mut attention = Vec::new();
    for (name, queries) in ATTENTION.iter().zip(&s.attention) {
        for (q, keys) in queries.iter().enumerate() {
            for (k, parts) in keys.iter().enumerate() {
                for (p, n) in parts.iter().enumerate().filter(|x| x.1.get() > 0) {
                    attention.push(Tree::map([
                        ("kernel", Tree::from(*name)),
                        ("queries", sizes(q, ROWS).into()),
                        ("keys", sizes(k, KEYS).into()),
                        ("splits", sizes(p, PARTS).into()),
                        ("hits", n.get().into()),
                    ]));
                }
            }
        }
    }
    let buffers: u64 = s.buffers.iter().map(Counter::get).sum();
    let histogram = s.buffers.iter().enumerate().filter(|b| b.1.get() > 0);
    let histogram = Tree::map(histogram.map(|(i, n)| (sizes(i, OPS), Tree::Int(n.get()))));
    let moved = |n: &Counter, bytes: &Counter| {
        Tree::map([("count", Tree::Int(n.get())), ("bytes", Tree::Int(bytes.get()))])
    };
    vec![
        ("dispatches", kernels.iter().map(|k| k.1).sum::<u64>().into()),
        ("barriers", s.barriers.get().into()),
        ("matmul", of(&["matmul_", "gemv_"])),
        ("quantized_matmul", Tree::List(qmm)),
        ("attention", Tree::List(attention)),
        ("conv", of(&["conv"])),
        ("kernels", Tree::map(kernels.iter().map(|(k, n)| (k.clone(), Tree::Int(*n))))),
        ("pipelines", cache(&s.pipeline_hits, &s.pipeline_misses, &s.pipeline_ns)),
        ("spirv", cache(&s.spirv_hits, &s.spirv_misses, &s.spirv_ns)),
        (
            "command_buffers",
            Tree::map([
                ("count", Tree::Int(buffers)),
                ("commands", s.buffer_ops.get().into()),
                ("mean_commands", (s.buffer_ops.get() as f64 / buffers.max(1) as f64).into()),
                ("by_commands", histogram),
            ]),
        ),
        ("uploads", moved(&s.uploads, &s.upload_bytes)),
        ("downloads", moved(&s.downloads, &s.download_bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 5, 8, 9].map(|n| class(n, 16)), [0, 0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(class(u64::from(u32::MAX), 16), 15);
        assert_eq!([0, 1, 2, 3].map(|c| sizes(c, 16)), ["1", "2", "3-4", "5-8"]);
        assert_eq!(sizes(15, 16), "16385+");
    }
}
