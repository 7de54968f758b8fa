//! Choices over made-up devices: what is chosen must be legal on each, and must grow with it.

use super::devices::{all, h200, integrated, large, software};
use crate::core::Dtype;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::pacing::Pace;
use crate::vulkan::tune::profile::{FILL, H200, Measured, Profile, Source};
use crate::vulkan::tune::{
    Subject, Winners, attention, conv, fft, gemv, matmul, quantized, reduce, sort, subjects,
};
use crate::vulkan::{AdapterInfo, AdapterKind, Component, Features};

const HALVES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

fn products() -> impl Iterator<Item = matmul::Shape> {
    const SIDES: [u64; 6] = [9, 33, 128, 768, 4096, 50257];
    let shape = |dtype, m, n| {
        [64, 1000, 4096, 100_003].map(|k| matmul::Shape {
            dtype,
            m,
            n,
            k,
            batch: 1 + k % 3,
            aligned: k % 8 == 0,
        })
    };
    HALVES.into_iter().flat_map(move |d| {
        SIDES.into_iter().flat_map(move |m| SIDES.into_iter().flat_map(move |n| shape(d, m, n)))
    })
}

fn check_product(p: &Profile, s: &matmul::Shape, c: matmul::Choice) {
    let what = format!("{} {s:?} {c:?}", p.name);
    assert!(matmul::supports(&p.features, s, c.tier, c.tile), "{what}");
    assert!(c.tile.threads <= p.features.max_workgroup_invocations, "{what}");
    let (k, parts) = (u64::from(c.k_split), u64::from(c.splits));
    assert!(k * parts >= s.k && (parts == 1 || k * (parts - 1) < s.k), "{what}");
    let tiles = matmul::tiles(s, c.tile) * s.batch;
    assert!(parts == 1 || tiles * 2 <= p.fill() * 256 / u64::from(c.tile.threads), "{what}");
}

#[test]
fn products_are_legal_on_every_device() {
    for p in all() {
        for s in products() {
            check_product(&p, &s, matmul::choose(&p, &s));
            check_product(&p, &s, matmul::choose_flat(&p, &s, 20));
            let long = matmul::choose_long(&p, &s);
            assert!(matmul::supports(&p.features, &s, long.tier, long.tile), "{} {s:?} {long:?}", p.name);
            assert!(u64::from(long.k_split) * u64::from(long.splits) >= s.k);
        }
    }
}

#[test]
fn quantised_products_are_legal_on_every_device() {
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    for p in all() {
        let f = &p.features;
        for dtype in HALVES {
            for (m, n, k) in [
                (1, 4096, 4096),
                (1, 64, 14336),
                (4, 1024, 512),
                (16, 151_936, 1024),
                (32, 12288, 4096),
                (40, 1024, 512),
                (300, 4096, 4096),
            ] {
                for transpose in [true, false] {
                    let s = quantized::Shape {
                        dtype,
                        format,
                        transpose,
                        m,
                        n,
                        k,
                        batch: 1,
                        matrices: 1,
                        runs: false,
                    };
                    let c = quantized::choose(&p, &s, &|_, _| true);
                    assert!(c.k_split * c.splits >= k, "{} {s:?} {c:?}", p.name);
                    match c.variant {
                        quantized::Variant::Rows { threads, rows, vectors, .. } => {
                            assert!(threads <= 256 && rows * vectors <= 32);
                            assert!(quantized::stage(f) + 1024 <= f.shared_memory);
                        }
                        quantized::Variant::Held(h) => {
                            assert!(f.subgroup_shuffle && 32 * h.subgroups <= f.max_workgroup_invocations);
                            assert!((3..=8).contains(&m) && format.bits == 4);
                        }
                        quantized::Variant::Streamed(l) => {
                            assert!(f.subgroup_shuffle && m == 1 && i64::from(32 * l.threads) >= k);
                            assert!(l.threads * l.teams <= f.max_workgroup_invocations);
                        }
                        quantized::Variant::Row(r) => {
                            assert!(f.subgroup_clustered && 32 * r.parts * r.beside <= 512);
                            assert!(i64::from(r.width) >= k && r.width * 5 / 2 < f.shared_memory);
                        }
                        quantized::Variant::Coop(c) => {
                            assert_eq!(matmul::fixed_subgroup(f), Some(32));
                            assert!(c.subgroups * 32 <= f.max_workgroup_invocations);
                            assert!(c.vectors <= c.cols * c.sides && i64::from(c.vectors) >= m.min(32));
                            assert!(64 * c.subgroups * c.tiles * c.cols * c.sides <= f.shared_memory);
                            for pair in [false, true] {
                                let joined = quantized::of_rows(&p, &s, pair, &|_, _| true);
                                assert_eq!(joined.is_some(), (2..=32).contains(&m), "{} {s:?}", p.name);
                                let Some(j) = joined else { continue };
                                assert!(j.tiles % 2 == 0 || !pair && j == c, "{} {s:?} {j:?}", p.name);
                                assert!(64 * j.subgroups * j.tiles * j.cols * j.sides <= f.shared_memory);
                            }
                            let all = quantized::candidates(&p, &s, &|_, _| true);
                            assert!(
                                quantized::numbers(&quantized::Variant::Coop(c))
                                    .is_some_and(|n| all.contains(&n))
                            );
                        }
                        quantized::Variant::Cols { slices, .. } => assert!(slices <= 32),
                        quantized::Variant::Tiled { bm, bn, tm, tn, .. } => {
                            assert!(bm * bn / (tm * tn) <= f.max_workgroup_invocations);
                        }
                        quantized::Variant::Dequantize => assert!(!f.coop_matrices.is_empty()),
                    }
                }
            }
        }
    }
}

#[test]
fn layouts_are_asked_only_of_matrices_that_a_device_has() {
    let half_alone = {
        let mut p = h200();
        p.features.bfloat16_coop = false;
        p.features.coop_matrices.retain(|m| m.a == Component::F16);
        p
    };
    for p in all().into_iter().chain([half_alone]) {
        let known = |dtype, cols| {
            assert!(matmul::multiplies(&p.features, dtype, [16, cols, 16]), "{} {dtype} {cols}", p.name);
            true
        };
        for (group, bits) in [(64, 4), (32, 8)] {
            let format = Format::new("test", Mode::Affine, group, bits).unwrap();
            for (dtype, (m, n, k)) in
                HALVES.into_iter().flat_map(|d| [(1, 4096, 4096), (4, 4096, 4096)].map(|size| (d, size)))
            {
                let (transpose, batch, matrices, runs) = (true, 1, 1, false);
                let s = quantized::Shape { dtype, format, transpose, m, n, k, batch, matrices, runs };
                quantized::choose(&p, &s, &known);
                quantized::candidates(&p, &s, &known);
            }
        }
    }
}

#[test]
fn attention_is_legal_on_every_device() {
    for p in all() {
        let f = &p.features;
        for (groups, keys) in [(1, 1), (1, 8192), (8, 100_003), (500, 4096)] {
            for step in [32, 64, 128] {
                let (splits, span) = attention::parts(&p, groups, keys, step);
                assert!(splits * span >= keys && (splits - 1) * span < keys && span % step == 0);
            }
        }
        for rows in [16, 65, 4096] {
            for d in [64, 80, 128] {
                for dtype in HALVES {
                    let Some(c) = attention::coop(f, dtype, rows, [d, d], || true) else { continue };
                    assert!(!f.coop_matrices.is_empty() && c.teams * c.lanes <= f.max_workgroup_invocations);
                    assert!(
                        (f.min_subgroup_size..=f.max_subgroup_size).contains(&c.lanes),
                        "{} {c:?}",
                        p.name
                    );
                }
                for dtype in HALVES {
                    assert!(attention::gradient(f, dtype, rows, [d, d], || false).is_none());
                    let Some(g) = attention::gradient(f, dtype, rows, [d, d], || true) else { continue };
                    assert!(g.coop.held && g.teams * g.coop.lanes <= f.max_workgroup_invocations, "{g:?}");
                    let words = |staged: u32, teams: u32| (2 * staged * g.coop.wd).max(16 * teams * 17);
                    let most = words(g.keys, g.coop.teams).max(words(g.queries, g.teams));
                    assert!(16 * most < f.shared_memory && g.keys % 16 == 0 && g.queries % 16 == 0, "{g:?}");
                    // Blocks of a mask have 64 queries and keys.
                    assert!(64 % g.keys == 0 && 64 % g.queries == 0);
                }
                let t = attention::tiled(rows, d, f.shared_memory.into());
                assert!(
                    t.bytes(d.next_multiple_of(16) as u32) <= u64::from(f.shared_memory),
                    "{} {t:?}",
                    p.name
                );
            }
        }
    }
}

#[test]
fn a_small_device_is_not_cut_for_and_a_large_one_is_filled() {
    let (small, big) = (integrated(), h200());
    assert_eq!((small.fill(), large().fill(), big.fill()), (16, 192, 264));
    // A product of few tiles and a long sum.
    let s = matmul::Shape { dtype: Dtype::F32, m: 128, n: 128, k: 8192, batch: 1, aligned: true };
    let parts = |p: &Profile| matmul::choose(p, &s).splits;
    assert_eq!(parts(&small), 1);
    assert!(parts(&large()) > 4 && parts(&big) >= parts(&large()));
    // Sums over columns, which 32 workgroups walk anyway.
    let columns = |p: &Profile| reduce::splits(p, true, 32, 1 << 20, 128);
    assert_eq!((columns(&small), columns(&large()), columns(&big)), (1, 12, 16));
    let rows = |p: &Profile| reduce::splits(p, false, 1, 1 << 26, 16384);
    assert_eq!((rows(&small), rows(&large()), rows(&big)), (124, 1489, 2048));
    let chunk = |p: &Profile| reduce::chunk(p, 16, 1 << 20, 1024);
    assert_eq!((chunk(&small), chunk(&big)), (1 << 20, 16384));
    // A decoding step's attention.
    let keys = |p: &Profile| attention::parts(p, 8, 8192, 64).0;
    assert_eq!((keys(&small), keys(&large()), keys(&big)), (1, 22, 16));
    // Products by a vector: rows a thread grow as soon as the device is full.
    let rows = |p: &Profile| gemv::by_rows(p, 4096, 1024, 8, 1, 1).rows;
    assert_eq!((rows(&small), rows(&big)), (4, 1));
    let items = |p: &Profile| sort::items(p, 4, 256, 100_000);
    assert_eq!((items(&small), items(&big), items(&software())), (16, 4, 4));
    assert!(conv::winograd(&small, 64, 64, 50_000_000) && !conv::winograd(&big, 64, 64, 50_000_000));
    let grouped = |p: &Profile| conv::depthwise_gradient(p, 100_000, 9, 8).parts;
    assert_eq!((grouped(&small), grouped(&big)), (21, 195));
}

#[test]
fn tiles_that_are_merged_and_lines_that_are_transformed_fit_shared_memory() {
    for (n, bytes, carries) in [(33, 1, false), (1000, 4, false), (1 << 20, 4, true), (1 << 20, 8, true)] {
        let (lanes, items) = sort::merged(n, if bytes == 8 { 8 } else { 4 }, carries, 48 << 10);
        let element = bytes.max(4) + if carries { 4 } else { 0 };
        assert!(lanes.is_power_of_two() && lanes <= 256, "{n} {bytes} {carries}");
        assert!(lanes * items * element <= 16 << 10, "{n} {bytes} {carries}");
        let (lanes, items) = sort::merged(n, if bytes == 8 { 8 } else { 4 }, carries, 16 << 10);
        assert!(lanes * items * element + 8 <= 16 << 10, "{n} {bytes} {carries}");
    }
    for (n, across, most) in (1..=64).flat_map(|n| [(n, false, 256), (n, true, 256), (n, true, 128)]) {
        for count in [1, 1000, 1 << 20] {
            let b = sort::blocks(&all()[0], n, count, most, across);
            let fits = b.pitch >= n && b.rows > 0 && b.rows * b.pitch <= b.lanes * b.items;
            // One row has a lane for each element, and so many are cut for lanes that have several.
            let right = (count > 1 || b.items == 1) && (count < 1 << 20 || b.items == 4);
            assert!(fits && right, "{n} {count} {across}");
        }
    }
    for (n, count, rows) in
        [(2048, 256, 1), (1 << 24, 100, 1), (128_256, 50, 261), (1 << 30, 256, 9), (5000, 1, 1 << 20)]
    {
        let parts = sort::segments(n, count, rows);
        assert!(parts >= 1 && n / parts >= 2 * count && parts * count < n, "{n} {count} {rows}");
        assert!(n.div_ceil(parts) <= 64 << 10, "{n} {count} {rows}");
    }
    assert!(sort::finds_tops(128_256, 50) && !sort::finds_tops(1000, 5) && !sort::finds_tops(4000, 1000));
    assert!(!sort::radix_pays(0, 1) && sort::radix_pays(10, 8));
    for p in all() {
        let (memory, lanes) =
            (p.features.shared_memory as usize, p.features.max_workgroup_invocations as usize);
        let values = memory / 8;
        let fft::Longest { line, column, split } = fft::longest(fft::Room { memory, lanes });
        assert!(line <= values && column <= line && column >= 16, "{}", p.name);
        assert!(split >= line && split <= 2 * values, "{}", p.name);
    }
}

#[test]
fn whatever_is_cut_keeps_a_device_of_any_size_busy() {
    for p in all() {
        for units in [1, 2, 8, 32, 96, 132, 1024] {
            let p = Profile { units, ..p.clone() };
            for best in subjects::counts() {
                assert!(p.count(best) >= 1, "{}", best.name);
            }
            for groups in [1, 3, 64, 5000] {
                let splits = reduce::splits(&p, false, groups, 1 << 30, 4096);
                assert!(splits == 1 || splits * groups <= p.count(&reduce::ROWS));
                let chunk = reduce::chunk(&p, groups, 1 << 20, 256);
                assert!((1..=1 << 20).contains(&chunk));
            }
        }
    }
}

#[test]
fn batches_are_paced_by_the_memory_and_the_commands() {
    let pace = |p: &Profile| Pace::of(p).work(10, 60_000_000);
    assert_eq!(pace(&h200()), 10 * 400 + 60_000_000 / 4096);
    assert_eq!(pace(&integrated()), 10 * 400 + 1_000_000);
    let measured = Profile { source: Source::Measured, ..h200() };
    assert_eq!(pace(&measured), 10 * 400 + 60_000_000 / 8192, "it may have been measured at a low clock");
    assert_eq!(Pace::of(&h200()).full(), 200_000 * 4096, "what it reads in 200 us");
    assert_eq!(Pace::of(&integrated()).full(), 50 << 20);
}

#[test]
fn what_won_on_the_device_comes_first() {
    let mut p = h200();
    let s = matmul::Shape { dtype: Dtype::BF16, m: 4096, n: 4000, k: 1024, batch: 1, aligned: true };
    let before = matmul::choose(&p, &s);
    let mut w = Winners::default();
    w.set(Subject::Count("reduce_rows"), vec![100]);
    w.set(matmul::subject(&s).unwrap(), matmul::numbers(matmul::Tier::Khr, before.tile));
    p.winners = w;
    assert_eq!(reduce::splits(&p, false, 1, 1 << 26, 16384), 100);
    // The tile has too many elements a thread of 128 for that tier: what cannot run is passed over.
    let c = matmul::choose(&p, &s);
    assert!(matmul::supports(&p.features, &s, c.tier, c.tile));
    for candidate in matmul::candidates(&p, &s) {
        p.winners.set(matmul::subject(&s).unwrap(), candidate.clone());
        let c = matmul::choose(&p, &s);
        assert_eq!(matmul::numbers(c.tier, c.tile), candidate);
        // Other shapes, and operands that do not lie so, are as before.
        let other = matmul::Shape { aligned: false, ..s };
        assert_eq!(matmul::choose(&p, &other), matmul::choose(&h200(), &other));
    }
    let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
    let (dtype, n, k) = (Dtype::F16, 4096, 4096);
    // Layouts of qmm_stream, qmm_row and qmm_held have one number, of qmm_rows two, of qmm_coop three.
    for (m, least) in [(1, 1), (2, 2), (4, 1)] {
        let s =
            quantized::Shape { dtype, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false };
        let all = quantized::candidates(&h200(), &s, &|_, _| true);
        let lengths: Vec<usize> = (1..=3).filter(|&n| all.iter().any(|c| c.len() == n)).collect();
        assert_eq!(lengths, (least..=3).collect::<Vec<_>>(), "{all:?}");
        for candidate in all {
            p.winners.set(quantized::subject(&s).unwrap(), candidate.clone());
            let chosen = quantized::choose(&p, &s, &|_, _| true).variant;
            assert_eq!(quantized::numbers(&chosen), Some(candidate));
        }
    }
}

#[test]
fn teams_add_up_by_whole_subgroups_or_by_parts_of_one() {
    let f = |size, arithmetic, clustered| Features {
        min_subgroup_size: size,
        max_subgroup_size: size,
        subgroup_size: size,
        subgroup_arithmetic: arithmetic,
        subgroup_clustered: clustered,
        ..Features::default()
    };
    let teams = |f: Features| [8, 32, 128].map(|team| matmul::team_subgroup(&f, team));
    let (whole, shared) = (Some((32, false)), Some((32, true)));
    assert_eq!(teams(f(32, true, true)), [shared, whole, whole]);
    assert_eq!(teams(f(32, true, false)), [None, whole, whole]);
    assert_eq!(teams(f(32, false, true)), [None, None, None]);
    assert_eq!(teams(f(64, true, true)), [Some((64, true)), Some((64, true)), Some((64, false))]);
}

#[test]
fn a_profile_is_told_known_measured_or_assumed() {
    let info = |name: &str, kind| AdapterInfo { name: name.into(), kind, ..AdapterInfo::default() };
    let told = |units| Features { units, ..Features::default() };
    let new = |i: &AdapterInfo, f, m| Profile::new(i, f, m, None, Winners::default());
    let card = info(H200.name, AdapterKind::Discrete);
    let p = new(&card, told(132), None);
    assert_eq!((p.source, p.units, p.bandwidth, p.unknown()), (Source::Card, 132, H200.bandwidth, false));
    // A part of the card.
    let p = new(&card, told(16), None);
    assert_eq!((p.source, p.units, p.fill()), (Source::Assumed, 16, 32));
    let other = info("other", AdapterKind::Integrated);
    let m = Measured { units: 20, bandwidth: 90, dependent_ns: 9000, matrices: 40 };
    let p = new(&other, told(0), Some(m));
    assert_eq!((p.source, p.units, p.bandwidth), (Source::Measured, 20, 90));
    assert_eq!((p.dependent_ns, p.matrices), (9000, 40));
    assert_eq!(new(&other, told(24), Some(m)).units, 24);
    let p = new(&other, told(0), None);
    assert!(p.unknown() && p.units >= 1 && p.count(&FILL) >= 2);
}

#[test]
fn few_vectors_go_to_tiles_where_those_read_the_matrix_faster() {
    let matrix = |dtype, bytes, by_rows| gemv::Matrix { dtype, bytes, by_rows, batches: 1 };
    for p in all() {
        for (dtype, bytes, by_rows) in [(Dtype::F32, 1 << 28, true), (Dtype::BF16, 1 << 20, false)] {
            assert!(gemv::takes(&p, 8, matrix(dtype, bytes, by_rows)), "{} {dtype} {bytes}", p.name);
            assert!(!gemv::takes(&p, 9, matrix(dtype, bytes, by_rows)), "{} {dtype} {bytes}", p.name);
        }
        // One vector alone leaves tiles idle.
        assert!(gemv::takes(&p, 1, matrix(Dtype::BF16, 1 << 30, true)), "{}", p.name);
        let matrices = matmul::fragment(&p.features, Dtype::BF16).is_some();
        for by_rows in [false, true] {
            let many = gemv::takes(&p, 8, matrix(Dtype::BF16, 1 << 28, by_rows));
            assert_eq!(many, !matrices, "{}", p.name);
            let batch = gemv::Matrix { batches: 2, ..matrix(Dtype::BF16, 1 << 28, by_rows) };
            assert!(gemv::takes(&p, 8, batch), "{}", p.name);
        }
    }
}

#[test]
fn lanes_have_whole_results_where_there_are_many_of_few_elements() {
    for p in all() {
        assert!(!reduce::few(&p, 33, 1 << 30), "{}", p.name);
        assert!(!reduce::few(&p, 4, 1), "{}", p.name);
        assert!(reduce::few(&p, 4, 1 << 22), "{}", p.name);
    }
    assert!(reduce::few(&integrated(), 4, 1 << 13) && !reduce::few(&h200(), 4, 1 << 13));
}
