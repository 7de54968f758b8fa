//! Pins what is chosen on the card that the tables were measured on: a change of a table or of how it is scaled shows
//! here as the slices of the sweep that it touched. A line of pins_h200.txt is a slice, the number of choices in it and
//! their hash. Where they differ the present ones are written to a file that the failure names, for a change that is wanted.

use std::fmt::{Debug, Write};

use super::devices::h200;
use crate::core::Dtype;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::pacing::Pace;
use crate::vulkan::tune::{Profile, attention, conv, gemv, matmul, quantized, reduce, sort};

const PINNED: &str = include_str!("pins_h200.txt");

/// FNV-1a, 64 bits.
struct Slice {
    hash: u64,
    count: u32,
}

impl Slice {
    fn add(&mut self, choice: impl Debug) {
        for b in format!("{choice:?};").bytes() {
            self.hash = (self.hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        self.count += 1;
    }
}

fn slice(out: &mut String, name: &str, choices: impl FnOnce(&mut Slice)) {
    let mut s = Slice { hash: 0xcbf2_9ce4_8422_2325, count: 0 };
    choices(&mut s);
    writeln!(out, "{name}: {} {:016x}", s.count, s.hash).unwrap();
}

const ROWS: [u64; 16] = [1, 9, 16, 32, 33, 48, 64, 100, 128, 256, 512, 768, 1000, 2048, 4096, 8192];
const COLUMNS: [u64; 10] = [9, 16, 64, 128, 256, 768, 1024, 4096, 8192, 50257];

fn products(out: &mut String, p: &Profile) {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for aligned in [true, false] {
            for k in [16, 64, 128, 512, 1024, 4096, 16384, 100_003] {
                for batch in [1, 20, 512] {
                    let name = format!("matmul {dtype} aligned={aligned} k={k} batch={batch}");
                    slice(out, &name, |s| {
                        for m in ROWS {
                            for n in COLUMNS {
                                let shape = matmul::Shape { dtype, m, n, k, batch, aligned };
                                let show = |c: matmul::Choice| {
                                    let t = c.tile;
                                    let tile = [t.bm, t.bn, t.bk, t.threads, t.unroll];
                                    (c.tier as u32, tile, c.k_split, c.splits)
                                };
                                s.add(show(matmul::choose(p, &shape)));
                                s.add(show(matmul::choose_flat(p, &shape, m.div_ceil(8))));
                                s.add(show(matmul::choose_long(p, &shape)));
                            }
                        }
                    });
                }
            }
        }
    }
}

fn vectors(out: &mut String, p: &Profile) {
    for k in [16, 64, 128, 512, 1024, 2048, 4096, 8192, 16384, 100_000] {
        for vector in [4, 8] {
            slice(out, &format!("gemv k={k} vector={vector}"), |s| {
                for rows in [1, 16, 100, 512, 1000, 2048, 4096, 11008, 16384, 50257, 151_936] {
                    for batches in [1, 4, 64] {
                        for vectors in [1, 2, 4, 8] {
                            let c = gemv::by_rows(p, rows, k, vector, batches, vectors);
                            s.add((c.threads, c.rows, c.unroll, c.k_split, c.splits));
                        }
                        let c = gemv::by_columns(p, rows, k, vector, batches);
                        s.add((c.slices, c.k_split, c.splits));
                    }
                }
            });
        }
    }
    slice(out, "depthwise", |s| {
        for positions in [64, 4096, 100_000, 3_211_264] {
            for elements in [1, 3, 9, 25, 49] {
                for blocks in [1, 8, 64, 300] {
                    let c = conv::depthwise_gradient(p, positions, elements, blocks);
                    s.add((c.lanes, c.taps, c.parts));
                }
            }
        }
    });
}

fn quantised(out: &mut String, p: &Profile) {
    let formats =
        [(Mode::Affine, 64, 4), (Mode::Affine, 32, 8), (Mode::Affine, 128, 2), (Mode::Mxfp4, 32, 4)];
    for (mode, group, bits) in formats {
        let format = Format::new("test", mode, group, bits).unwrap();
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            for (transpose, runs) in [(true, false), (false, false), (true, true)] {
                let name = format!("quantized {mode:?} {group} {bits} {dtype} t={transpose} runs={runs}");
                slice(out, &name, |s| {
                    for m in [1, 2, 3, 5, 8, 9, 16, 17, 33, 64, 65, 512, 4096] {
                        for n in [64, 128, 256, 1024, 4096, 14336, 16384, 151_936] {
                            for k in [128, 512, 1024, 2048, 4096, 14336] {
                                for batch in if runs { [256, 2048] } else { [1, 8] } {
                                    let m = if runs { 1 } else { m };
                                    let matrices = if runs { 8 } else { 1 };
                                    let shape = quantized::Shape {
                                        dtype,
                                        format,
                                        transpose,
                                        m,
                                        n,
                                        k,
                                        batch,
                                        matrices,
                                        runs,
                                    };
                                    for known in [true, false] {
                                        let c = quantized::choose(p, &shape, &|_, _| known);
                                        s.add((c.variant, c.k_split, c.splits));
                                    }
                                    s.add(quantized::layout_of_rows(p, &shape, k / 32, 1));
                                    s.add(quantized::layout_of_rows(p, &shape, k / 16, 8));
                                }
                            }
                        }
                    }
                });
            }
        }
    }
}

fn others(out: &mut String, p: &Profile) {
    slice(out, "attention parts", |s| {
        for groups in [1, 2, 8, 32, 64, 127, 128, 500] {
            for keys in [1, 63, 64, 128, 1000, 4096, 8192, 100_003] {
                for step in [32, 64, 128] {
                    s.add(attention::parts(p, groups, keys, step));
                }
            }
        }
    });
    slice(out, "attention matrices", |s| {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            for rows in [8, 16, 64, 65, 128, 4096] {
                for d in [[64, 64], [80, 80], [128, 128], [192, 128], [256, 256]] {
                    for known in [false, true] {
                        s.add(attention::coop(&p.features, dtype, rows, d, || known));
                    }
                }
                let t = attention::tiled(rows, rows, p.features.shared_memory.into());
                s.add([t.tm, t.tn, t.dc, t.vk]);
            }
        }
        for rows in [1, 2, 4, 8] {
            for keys in [300, 100_000] {
                let b = attention::block(p, 8, rows, keys, 16);
                s.add([b.rows, b.merged]);
            }
        }
    });
    for columns in [false, true] {
        slice(out, &format!("reduce columns={columns}"), |s| {
            for groups in [1, 2, 7, 64, 100, 263, 264, 528, 1000, 2047, 2048, 5000] {
                for work in [1, 100, 4096, 16384, 100_000, 1 << 20, 1 << 26, 1 << 30] {
                    for least in [1, 128, 512, 4096, 16384] {
                        s.add(reduce::splits(p, columns, groups, work, least));
                    }
                }
            }
        });
    }
    slice(out, "scan", |s| {
        for groups in [1, 2, 7, 64, 100, 263, 264, 528] {
            for steps in [1, 100, 4096, 16384, 100_000, 1 << 20, 1 << 26] {
                for tile in [8, 64, 256, 1024, 4096] {
                    s.add(reduce::chunk(p, groups, steps, tile));
                }
            }
        }
    });
    slice(out, "radix", |s| {
        for key in [4, 8] {
            for elements in [100, 4096, 100_000, 524_287, 524_288, 1 << 24] {
                s.add(sort::items(p, key, 256, elements));
            }
        }
    });
    slice(out, "pacing", |s| {
        for ops in [0, 1, 10, 100, 1000] {
            for bytes in [0, 4095, 4096, 1 << 20, 1 << 30] {
                s.add(Pace::of(p).work(ops, bytes));
            }
        }
    });
}

fn present(p: &Profile) -> String {
    let mut out = String::new();
    products(&mut out, p);
    vectors(&mut out, p);
    quantised(&mut out, p);
    others(&mut out, p);
    out
}

#[test]
fn choices_on_the_measured_card_are_the_pinned_ones() {
    let now = present(&h200());
    let changed: Vec<(&str, &str)> = PINNED.lines().zip(now.lines()).filter(|(a, b)| a != b).collect();
    if PINNED != now {
        let file = std::env::temp_dir().join("pins_h200.txt");
        std::fs::write(&file, &now).unwrap();
        panic!("pinned and present ({} has all of these): {changed:#?}", file.display());
    }
}
