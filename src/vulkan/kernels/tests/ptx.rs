//! A reader of PTX: runs the texts of kernels on the host, so that their values are tested without a card. It knows what those texts
//! use. Warps go on in lockstep, lanes that part wait for each other where they meet again; workgroups take turns, so that some may wait for
//! others' words. What was not written is noise, and what lies outside the memory that it was given stops it.

#[path = "ptx_doubles.rs"]
mod doubles;
#[path = "ptx_memory.rs"]
mod memory;
#[path = "ptx_products.rs"]
mod products;

use std::collections::HashMap;

use self::memory::{bytes, copy, load, store};
use self::products::{Arrivals, Elements};

const LANES: usize = 32;
/// What a lane can ask for: as a warp's place has them.
const SPECIAL: [&str; 5] = ["%tid.x", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x"];
/// Instructions of a warp before another one's turn.
const TURN: usize = 2000;

/// A function of the lanes' operands.
type Pure = fn(&[u64]) -> u64;

#[derive(Clone, Copy)]
enum Operand {
    Register(usize),
    Number(u64),
    /// See [`SPECIAL`].
    Special(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Space {
    Global,
    Shared,
    Param,
}

enum Kind {
    Pure(Pure),
    /// Bits of each part of a register.
    Pack(u32),
    Unpack(u32),
    Load(Space, usize),
    Store(Space, usize),
    Branch(String),
    /// A word of another lane, where there is one, by its own number and another.
    Shuffle(fn(usize, usize) -> Option<usize>),
    /// What lanes find together, by their numbers and what each says: which of them say so, or the greatest.
    Together(fn(u64, usize, u64) -> u64),
    Product(Elements),
    Transpose,
    /// A warp's share of a product of a warpgroup.
    WarpgroupProduct,
    /// A barrier in memory: readied, arrived at, or whether a phase of it is over.
    Arrivals(Arrivals),
    /// Its number, and how many warps it awaits where not all.
    Barrier(Operand, Option<usize>),
    ActiveLanes,
    /// From the device's memory to the workgroup's: done at once.
    Copy,
    /// Adds to a word.
    Atomic(Space),
    /// Only says when, or asks ahead.
    Nothing,
    End,
}

struct Instruction {
    /// A register that says whether, and what it must be.
    guard: Option<(usize, bool)>,
    kind: Kind,
    to: Vec<usize>,
    from: Vec<Operand>,
    /// Added to the address.
    offset: u64,
    target: usize,
    text: String,
}

impl Instruction {
    fn new(guard: Option<(usize, bool)>, text: &str) -> Instruction {
        let (to, from) = (Vec::new(), Vec::new());
        Instruction { guard, kind: Kind::End, to, from, offset: 0, target: 0, text: text.into() }
    }
}

/// A kernel's text, read.
pub struct Program {
    instructions: Vec<Instruction>,
    registers: usize,
    shared: usize,
    threads: usize,
}

/// Memory of the device.
#[derive(Default)]
pub struct Memory {
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    /// Puts bytes somewhere; where.
    pub fn place(&mut self, bytes: Vec<u8>) -> u64 {
        let at = self
            .pieces
            .last()
            .map_or(0x7000_0000, |(a, b)| (a + b.len() as u64).next_multiple_of(256) + 4096);
        self.pieces.push((at, bytes));
        at
    }

    fn find(&mut self, at: u64, n: usize, text: &str) -> &mut [u8] {
        assert!(at.is_multiple_of(n as u64), "{text}: {n} bytes at {at:#x}");
        let inside = |(a, b): &&mut (u64, Vec<u8>)| *a <= at && at + n as u64 <= a + b.len() as u64;
        let Some((a, b)) = self.pieces.iter_mut().find(inside) else { panic!("{text}: nothing at {at:#x}") };
        let from = (at - *a) as usize;
        &mut b[from..from + n]
    }

    /// All bytes of what was placed at `at`.
    pub fn bytes(&self, at: u64) -> &[u8] {
        &self.pieces.iter().find(|p| p.0 == at).expect("a place").1
    }
}

fn float(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn bits(x: f32) -> u64 {
    x.to_bits().into()
}

/// To bfloat16, to nearest even.
pub fn bf16(x: f32) -> u64 {
    let b = x.to_bits();
    if x.is_nan() { 0x7fff } else { u64::from(b.wrapping_add(0x7fff + (b >> 16 & 1)) >> 16) }
}

pub fn of_bf16(x: u64) -> f32 {
    f32::from_bits((x as u32) << 16)
}

fn permuted(a: &[u64]) -> u64 {
    let bytes = a[1] << 32 | a[0] & 0xffff_ffff;
    let byte = |which: u64| match bytes >> (8 * (which & 7)) & 0xff {
        // Its sign all over.
        b if which & 8 != 0 => (b >> 7) * 0xff,
        b => b,
    };
    (0..4).map(|i| byte(a[2] >> (4 * i)) << (8 * i)).sum()
}

/// What lanes compute by themselves.
fn pure(name: &str) -> Option<Pure> {
    Some(match name {
        "mov.u32" | "mov.b32" | "mov.f32" | "mov.pred" | "cvt.u64.u32" => |a| a[0] & 0xffff_ffff,
        "mov.u64" | "mov.b64" => |a| a[0],
        "mov.b16" | "cvt.u32.u16" | "cvt.u16.u32" => |a| a[0] & 0xffff,
        "add.u32" | "add.s32" => |a| u64::from((a[0] as u32).wrapping_add(a[1] as u32)),
        "sub.u32" | "sub.s32" => |a| u64::from((a[0] as u32).wrapping_sub(a[1] as u32)),
        "mul.lo.u32" => |a| u64::from((a[0] as u32).wrapping_mul(a[1] as u32)),
        "mad.lo.u32" => |a| u64::from((a[0] as u32).wrapping_mul(a[1] as u32).wrapping_add(a[2] as u32)),
        "mul.wide.u32" => |a| u64::from(a[0] as u32) * u64::from(a[1] as u32),
        "mad.wide.u32" => |a| (u64::from(a[0] as u32) * u64::from(a[1] as u32)).wrapping_add(a[2]),
        "div.u32" => |a| u64::from(a[0] as u32 / a[1] as u32),
        "rem.u32" => |a| u64::from(a[0] as u32 % a[1] as u32),
        "min.s32" => |a| u64::from((a[0] as i32).min(a[1] as i32) as u32),
        "min.u32" => |a| (a[0] as u32).min(a[1] as u32).into(),
        "max.u32" => |a| (a[0] as u32).max(a[1] as u32).into(),
        "add.u64" => |a| a[0].wrapping_add(a[1]),
        "sub.u64" => |a| a[0].wrapping_sub(a[1]),
        "and.b32" | "and.pred" => |a| a[0] & a[1] & 0xffff_ffff,
        "or.b32" | "or.pred" => |a| (a[0] | a[1]) & 0xffff_ffff,
        "xor.b32" => |a| (a[0] ^ a[1]) & 0xffff_ffff,
        "shl.b32" => |a| if a[1] < 32 { (a[0] << a[1]) & 0xffff_ffff } else { 0 },
        "shr.u32" => |a| if a[1] < 32 { (a[0] & 0xffff_ffff) >> a[1] } else { 0 },
        "bfe.u32" => |a| (a[0] & 0xffff_ffff) >> a[1] & ((1 << a[2]) - 1),
        "shl.b64" => |a| a[0] << a[1],
        "popc.b32" => |a| (a[0] as u32).count_ones().into(),
        "prmt.b32" => permuted,
        _ if name.starts_with("selp.") => |a| if a[2] & 1 == 1 { a[0] } else { a[1] },
        _ => return floats(name).or_else(|| compares(name)).or_else(|| doubles::pure(name)),
    })
}

fn floats(name: &str) -> Option<Pure> {
    Some(match name {
        "add.f32" | "add.rn.f32" => |a| bits(float(a[0]) + float(a[1])),
        "sub.f32" | "sub.rn.f32" => |a| bits(float(a[0]) - float(a[1])),
        "mul.f32" | "mul.rn.f32" => |a| bits(float(a[0]) * float(a[1])),
        "min.f32" => |a| bits(float(a[0]).min(float(a[1]))),
        "max.f32" => |a| bits(float(a[0]).max(float(a[1]))),
        "fma.rn.f32" => |a| bits(float(a[0]).mul_add(float(a[1]), float(a[2]))),
        "div.rn.f32" => |a| bits(float(a[0]) / float(a[1])),
        "sqrt.rn.f32" => |a| bits(float(a[0]).sqrt()),
        "rcp.rn.f32" => |a| bits(1.0 / float(a[0])),
        "ex2.approx.f32" => |a| bits(float(a[0]).exp2()),
        "abs.f32" => |a| bits(float(a[0]).abs()),
        "neg.f32" => |a| bits(-float(a[0])),
        "cvt.rn.f32.u32" => |a| bits(a[0] as u32 as f32),
        "cvt.rn.bf16.f32" => |a| bf16(float(a[0])),
        "cvt.rn.bf16x2.f32" => |a| bf16(float(a[0])) << 16 | bf16(float(a[1])),
        "mul.rn.bf16x2" => |a| {
            let half = |s: u64| bf16(of_bf16(a[0] >> s) * of_bf16(a[1] >> s)) << s;
            half(0) | half(16)
        },
        "fma.rn.bf16x2" => |a| {
            let part = |s: u64| bf16(of_bf16(a[0] >> s).mul_add(of_bf16(a[1] >> s), of_bf16(a[2] >> s))) << s;
            part(0) | part(16)
        },
        "max.bf16x2" => |a| {
            let half = |s: u64| bf16(of_bf16(a[0] >> s).max(of_bf16(a[1] >> s))) << s;
            half(0) | half(16)
        },
        _ => return None,
    })
}

fn compares(name: &str) -> Option<Pure> {
    Some(match name {
        "setp.eq.u32" => |a| u64::from(a[0] as u32 == a[1] as u32),
        "setp.ne.u32" => |a| u64::from(a[0] as u32 != a[1] as u32),
        "setp.lt.u32" => |a| u64::from((a[0] as u32) < a[1] as u32),
        "setp.le.u32" => |a| u64::from(a[0] as u32 <= a[1] as u32),
        "setp.ge.u32" => |a| u64::from(a[0] as u32 >= a[1] as u32),
        "setp.gt.u32" => |a| u64::from(a[0] as u32 > a[1] as u32),
        "setp.gt.s32" => |a| u64::from(a[0] as i32 > a[1] as i32),
        "setp.gt.f32" => |a| u64::from(float(a[0]) > float(a[1])),
        "setp.lt.f32" => |a| u64::from(float(a[0]) < float(a[1])),
        "setp.eq.and.u32" => |a| u64::from(a[0] as u32 == a[1] as u32) & a[2],
        "setp.ne.and.u32" => |a| u64::from(a[0] as u32 != a[1] as u32) & a[2],
        "setp.lt.and.u32" => |a| u64::from((a[0] as u32) < a[1] as u32) & a[2],
        "setp.ge.and.u32" => |a| u64::from(a[0] as u32 >= a[1] as u32) & a[2],
        "setp.gt.and.u32" => |a| u64::from(a[0] as u32 > a[1] as u32) & a[2],
        "setp.gt.and.s32" => |a| u64::from(a[0] as i32 > a[1] as i32) & a[2],
        "setp.ne.or.u32" => |a| u64::from(a[0] as u32 != a[1] as u32) | a[2],
        _ => return None,
    })
}

/// Bytes of an element by the end of an instruction's name.
fn width(name: &str) -> usize {
    match name.rsplit('.').next() {
        Some("b64" | "u64") => 8,
        Some("b16" | "u16") => 2,
        Some("u8") => 1,
        _ => 4,
    }
}

#[derive(Default)]
struct Reader {
    /// Names of registers, by block.
    scopes: Vec<HashMap<String, usize>>,
    registers: usize,
    shared: HashMap<String, u64>,
    bytes: usize,
    labels: HashMap<String, usize>,
    instructions: Vec<Instruction>,
}

impl Reader {
    fn declare(&mut self, names: &str) {
        for name in names.split(',').map(str::trim) {
            let all = match name.split_once('<') {
                Some((stem, n)) => {
                    let n: usize = n.trim_end_matches('>').parse().expect("a count");
                    (0..n).map(|i| format!("{stem}{i}")).collect()
                }
                None => vec![name.to_string()],
            };
            for name in all {
                let known = self.scopes.last_mut().expect("a block").insert(name.clone(), self.registers);
                assert!(known.is_none(), "{name} is declared twice");
                self.registers += 1;
            }
        }
    }

    fn register(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).copied()
    }

    fn operand(&self, text: &str) -> Operand {
        if let Some(i) = SPECIAL.iter().position(|s| *s == text) {
            return Operand::Special(i);
        }
        if let Some(r) = self.register(text) {
            return Operand::Register(r);
        }
        let (name, offset) = text.split_once('+').unwrap_or((text, "0"));
        if let Some(&at) = self.shared.get(name) {
            // The register is what assemblers take in its block.
            assert!(self.register(name).is_none(), "{name} is a register here");
            return Operand::Number(at + offset.parse::<u64>().expect("an offset"));
        }
        Operand::Number(match text {
            "args" => 0,
            _ if text.starts_with("0f") || text.starts_with("0d") => {
                u64::from_str_radix(&text[2..], 16).expect("a number")
            }
            _ if text.starts_with("0x") => u64::from_str_radix(&text[2..], 16).expect("a number"),
            _ => text.parse::<i64>().unwrap_or_else(|_| panic!("what is {text}?")) as u64,
        })
    }

    fn shared(&mut self, text: &str) {
        // .shared .align 16 .b8 row[512]
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, size) = words[4].split_once('[').expect("a size");
        let element = if words[3] == ".b64" { 8 } else { 1 };
        let align: usize = words[2].parse().expect("an alignment");
        self.bytes = self.bytes.next_multiple_of(align);
        self.shared.insert(name.into(), self.bytes as u64);
        self.bytes += element * size.trim_end_matches(']').parse::<usize>().expect("a size");
    }

    fn statement(&mut self, text: &str) {
        if let Some(names) = text.strip_prefix(".reg ") {
            return self.declare(names.split_once(' ').expect("names").1);
        }
        if text.starts_with(".shared ") {
            return self.shared(text);
        }
        if text.is_empty() || text.starts_with('.') {
            return;
        }
        let (guard, rest) = match text.strip_prefix('@') {
            Some(t) => {
                let (name, rest) = t.split_once(' ').expect("an instruction");
                let register = self.register(name.trim_start_matches('!')).expect("a predicate");
                (Some((register, !name.starts_with('!'))), rest.trim())
            }
            None => (None, text),
        };
        let (name, args) = rest.split_once(' ').unwrap_or((rest, ""));
        let instruction = self.instruction(guard, name, args, text);
        self.instructions.push(instruction);
    }

    /// Operands; those between braces are one.
    fn split(args: &str) -> Vec<Vec<String>> {
        let (mut out, mut inside) = (Vec::new(), false);
        for part in args.split(',') {
            let clean = part.trim().trim_matches(['{', '}']).to_string();
            if inside {
                let last: &mut Vec<String> = out.last_mut().expect("a brace");
                last.push(clean);
            } else {
                out.push(vec![clean]);
            }
            inside = (inside || part.contains('{')) && !part.contains('}');
        }
        out.retain(|p| !p[0].is_empty());
        out
    }

    fn instruction(&self, guard: Option<(usize, bool)>, name: &str, args: &str, text: &str) -> Instruction {
        let parts = Self::split(args);
        let registers = |p: &[String]| -> Vec<usize> {
            p.iter().map(|n| self.register(n).unwrap_or_else(|| panic!("{text}: {n}"))).collect()
        };
        let operands =
            |p: &[Vec<String>]| -> Vec<Operand> { p.iter().flatten().map(|n| self.operand(n)).collect() };
        let mut i = Instruction::new(guard, text);
        let address = |i: &mut Instruction, text: &str| {
            let inner = text.trim_matches(['[', ']']);
            let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
            i.from.insert(0, self.operand(base));
            i.offset = offset.parse().expect("an offset");
        };
        let space = [(".global", Space::Global), (".shared", Space::Shared), (".param", Space::Param)];
        let space = space.into_iter().find(|s| name.contains(s.0)).map(|s| s.1);
        match name.split('.').next() {
            Some("ret") => {}
            Some("bra") => i.kind = Kind::Branch(parts[0][0].clone()),
            Some("bar") if !name.contains("warp") => i.kind = products::barrier(self, &parts),
            Some("bar" | "fence" | "prefetch" | "wgmma") if !name.contains("mma_async") => {
                i.kind = Kind::Nothing
            }
            Some("cp") if !name.starts_with("cp.async.c") || name.contains("commit") => {
                i.kind = Kind::Nothing
            }
            Some("cp") => {
                i.kind = Kind::Copy;
                i.from = operands(&parts[2..]);
                address(&mut i, &parts[1][0]);
                let offset = i.offset;
                address(&mut i, &parts[0][0]);
                // Two addresses: the second one's offset is a number behind all others.
                i.from.push(Operand::Number(offset));
            }
            Some("atom") => {
                let kind = Kind::Atomic(space.expect("a space"));
                (i.kind, i.to, i.from) = (kind, registers(&parts[0]), operands(&parts[2..]));
                address(&mut i, &parts[1][0]);
            }
            Some("ld") => {
                (i.kind, i.to) = (Kind::Load(space.expect("a space"), width(name)), registers(&parts[0]));
                address(&mut i, &parts[1][0]);
            }
            Some("st") => {
                (i.kind, i.from) = (Kind::Store(space.expect("a space"), width(name)), operands(&parts[1..]));
                address(&mut i, &parts[0][0]);
            }
            Some("shfl") => {
                let other = products::other_lane(name, &parts[3][0]);
                (i.kind, i.to) = (Kind::Shuffle(other), registers(&parts[0]));
                i.from = operands(&parts[1..3]);
            }
            Some(of_warp @ ("vote" | "redux")) => {
                i.kind = Kind::Together(products::together(of_warp));
                (i.to, i.from) = (registers(&parts[0]), operands(&parts[1..2]));
            }
            Some("mbarrier") => {
                let (what, at) = Arrivals::of(name);
                (i.kind, i.from) = (Kind::Arrivals(what), operands(&parts[at + 1..]));
                i.to = if name.contains(".try_wait.") { registers(&parts[0]) } else { Vec::new() };
                address(&mut i, &parts[at][0]);
            }
            Some("wgmma") => {
                i.kind = Kind::WarpgroupProduct;
                (i.to, i.from) = (registers(&parts[0]), operands(&parts[1..3]));
            }
            Some(of_warp @ ("mma" | "movmatrix")) => {
                i.kind = if of_warp == "mma" { Kind::Product(Elements::of(name)) } else { Kind::Transpose };
                (i.to, i.from) = (registers(&parts[0]), operands(&parts[1..]));
            }
            Some("activemask") => (i.kind, i.to) = (Kind::ActiveLanes, registers(&parts[0])),
            _ => {
                (i.to, i.from) = (registers(&parts[0]), operands(&parts[1..]));
                i.kind = match (i.to.len(), i.from.len()) {
                    (1, 2) if name.starts_with("mov") => Kind::Pack(8 * width(name) as u32 / 2),
                    (2, _) => Kind::Unpack(8 * width(name) as u32 / 2),
                    _ => Kind::Pure(pure(name).unwrap_or_else(|| panic!("{name} is not known"))),
                };
            }
        }
        i
    }

    fn read(mut self, text: &str) -> Program {
        let body = &text[text.find('{').expect("a body") + 1..];
        let head = &text[..text.find('{').expect("a body")];
        let threads = head.split(".maxntid ").nth(1).and_then(|t| t.split(',').next()).expect("threads");
        self.scopes.push(HashMap::new());
        for line in body.lines().map(str::trim) {
            match line {
                "{" => self.scopes.push(HashMap::new()),
                "}" => drop(self.scopes.pop()),
                _ if line.starts_with("//") => {}
                _ => {
                    for statement in line.split(';').map(str::trim) {
                        match statement.strip_suffix(':').filter(|l| !l.contains(' ')) {
                            Some(label) => {
                                let known = self.labels.insert(label.into(), self.instructions.len());
                                assert!(known.is_none(), "{label} stands twice");
                            }
                            None => self.statement(statement),
                        }
                    }
                }
            }
        }
        for i in &mut self.instructions {
            if let Kind::Branch(label) = &i.kind {
                i.target = *self.labels.get(label).unwrap_or_else(|| panic!("no {label}"));
            }
        }
        let threads = threads.trim().parse().expect("threads");
        Program { instructions: self.instructions, registers: self.registers, shared: self.bytes, threads }
    }
}

struct Warp {
    at: [usize; LANES],
    /// All registers, lane by lane.
    values: Vec<u64>,
    /// The barrier that it waits at.
    waits: Option<(usize, Option<usize>)>,
}

struct Group {
    warps: Vec<Warp>,
    shared: Vec<u8>,
}

/// What an instruction sees besides its warp.
struct Around<'a> {
    memory: &'a mut Memory,
    params: &'a [u8],
    shared: &'a mut [u8],
    /// The numbers of [`SPECIAL`] of the warp's first lane.
    place: [u64; SPECIAL.len()],
}

const GONE: usize = usize::MAX;

impl Program {
    pub fn read(text: &str) -> Program {
        Reader::default().read(text)
    }

    /// Runs so many groups to their end.
    pub fn run(&self, memory: &mut Memory, params: &[u8], groups: usize) {
        self.run_grid(memory, params, [groups, 1, 1]);
    }

    /// The same of groups in three axes.
    pub fn run_grid(&self, memory: &mut Memory, params: &[u8], grid: [usize; 3]) {
        // Behind them what texts are told of progress.
        let params = &[params, &[0; 16]].concat();
        let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            noise >> 16
        };
        let warps = self.threads / LANES;
        let mut all: Vec<Group> = (0..grid.iter().product())
            .map(|_| Group {
                warps: (0..warps)
                    .map(|_| Warp {
                        at: [0; LANES],
                        values: (0..self.registers * LANES).map(|_| next()).collect(),
                        waits: None,
                    })
                    .collect(),
                shared: (0..self.shared).map(|_| next() as u8).collect(),
            })
            .collect();
        let over = |g: &Group| g.warps.iter().all(|w| w.at.iter().all(|&a| a == GONE));
        for _ in 0..200_000 {
            for (n, group) in all.iter_mut().enumerate() {
                for (k, warp) in group.warps.iter_mut().enumerate() {
                    let place =
                        [k * LANES, n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1], grid[0]];
                    let place = place.map(|p| p as u64);
                    let around = Around { memory, params, shared: &mut group.shared, place };
                    self.turn(warp, around);
                }
                products::release(&mut group.warps);
            }
            if all.iter().all(over) {
                return;
            }
        }
        panic!("a kernel that does not end");
    }

    fn turn(&self, warp: &mut Warp, mut around: Around) {
        for _ in 0..TURN {
            let at = *warp.at.iter().min().expect("lanes");
            if at == GONE || warp.waits.is_some() {
                return;
            }
            let i = &self.instructions[at];
            let mut lanes = 0_u32;
            for lane in 0..LANES {
                if warp.at[lane] != at {
                    continue;
                }
                warp.at[lane] += 1;
                let runs = i.guard.is_none_or(|(r, is)| (warp.values[r * LANES + lane] & 1 == 1) == is);
                lanes |= u32::from(runs) << lane;
            }
            if lanes != 0 {
                self.step(i, warp, lanes, &mut around);
            }
        }
    }

    fn step(&self, i: &Instruction, warp: &mut Warp, lanes: u32, around: &mut Around) {
        let each = |lanes: u32| (0..LANES).filter(move |l| lanes >> l & 1 == 1);
        match &i.kind {
            Kind::Pure(f) => {
                let mut args = [0; 4];
                for lane in each(lanes) {
                    for (k, &o) in i.from.iter().enumerate() {
                        args[k] = value(warp, o, lane, around);
                    }
                    warp.values[i.to[0] * LANES + lane] = f(&args);
                }
            }
            Kind::Pack(half) => {
                for lane in each(lanes) {
                    let [low, high] =
                        [0, 1].map(|k| value(warp, i.from[k], lane, around) & ((1 << half) - 1));
                    warp.values[i.to[0] * LANES + lane] = high << half | low;
                }
            }
            Kind::Unpack(half) => {
                for lane in each(lanes) {
                    let v = value(warp, i.from[0], lane, around);
                    warp.values[i.to[0] * LANES + lane] = v & ((1 << half) - 1);
                    warp.values[i.to[1] * LANES + lane] = v >> half & ((1 << half) - 1);
                }
            }
            Kind::Load(space, bytes) => {
                each(lanes).for_each(|lane| load(i, warp, lane, around, *space, *bytes))
            }
            Kind::Store(space, bytes) => {
                each(lanes).for_each(|lane| store(i, warp, lane, around, *space, *bytes))
            }
            Kind::Branch(_) => each(lanes).for_each(|lane| warp.at[lane] = i.target),
            Kind::Shuffle(other) => {
                let all: Vec<u64> = (0..LANES).map(|l| value(warp, i.from[0], l, around)).collect();
                for lane in each(lanes) {
                    let from = other(lane, value(warp, i.from[1], lane, around) as usize).unwrap_or(lane);
                    assert!(lanes >> from & 1 == 1, "{}: a lane is missing", i.text);
                    warp.values[i.to[0] * LANES + lane] = all[from];
                }
            }
            Kind::Together(of) => {
                let says = |all, lane| of(all, lane, value(warp, i.from[0], lane, around));
                let found = each(lanes).fold(0, says);
                each(lanes).for_each(|lane| warp.values[i.to[0] * LANES + lane] = found);
            }
            Kind::Product(_) | Kind::Transpose | Kind::WarpgroupProduct => {
                assert_eq!(lanes, u32::MAX, "{}: lanes are missing", i.text);
                match &i.kind {
                    Kind::Product(e) => products::of_warp(*e, i, warp, around),
                    Kind::Transpose => products::transpose(i, warp, around),
                    _ => products::of_warpgroup(i, warp, around),
                }
            }
            Kind::Arrivals(what) => {
                each(lanes).for_each(|lane| products::arrive(i, warp, lane, around, *what))
            }
            Kind::Barrier(number, warps) => {
                assert!(warp.at.iter().all(|&a| a == warp.at[0]), "{}: lanes are elsewhere", i.text);
                warp.waits = Some((value(warp, *number, 0, around) as usize, *warps));
            }
            Kind::ActiveLanes => {
                each(lanes).for_each(|lane| warp.values[i.to[0] * LANES + lane] = lanes.into());
            }
            Kind::Copy => each(lanes).for_each(|lane| copy(i, warp, lane, around)),
            Kind::Atomic(space) => {
                for lane in each(lanes) {
                    let at = value(warp, i.from[0], lane, around).wrapping_add(i.offset);
                    let add = value(warp, i.from[1], lane, around) as u32;
                    let word = bytes(i, at, 4, around, *space);
                    let before = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    word.copy_from_slice(&before.wrapping_add(add).to_le_bytes());
                    warp.values[i.to[0] * LANES + lane] = before.into();
                }
            }
            Kind::Nothing => {}
            Kind::End => each(lanes).for_each(|lane| warp.at[lane] = GONE),
        }
    }
}

fn value(warp: &Warp, o: Operand, lane: usize, around: &Around) -> u64 {
    match o {
        Operand::Register(r) => warp.values[r * LANES + lane],
        Operand::Number(n) => n,
        Operand::Special(0) => around.place[0] + lane as u64,
        Operand::Special(i) => around.place[i],
    }
}
