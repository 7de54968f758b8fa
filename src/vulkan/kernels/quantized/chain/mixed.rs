//! Products of several kinds in one text: what differs between kinds is written once for each, and a stage's flags say which kind it is
//! of. A warp asks for units ahead while those are of its stage's kind, and behind its last unit of a stage for the first one of another.

use std::collections::HashSet;
use std::fmt::Write;

use smallvec::SmallVec;

use super::text::Chain;
use super::{Stage, place};
use crate::vulkan::kernels::matmul::warpgroup::text::put;
use crate::vulkan::tune::quantized::chain::Kind;

/// Most kinds of a chain.
pub(super) const KINDS: usize = 4;
/// The place of a kind's number in a stage's flags, and its digits.
pub(super) const PLACE: u32 = 10;
const DIGITS: u32 = KINDS.ilog2();

/// What some products of a chain are by, and whether rows of them end inside a span.
pub type Part = (Kind, bool);

/// The kinds of a chain that has several; else nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mix {
    all: [Option<Part>; KINDS],
    /// Which one is written.
    nth: u32,
}

impl Mix {
    /// The first of some kinds, one at least, and all of them.
    pub fn of(parts: &[Part]) -> (Part, Mix) {
        let mut mix = Mix::default();
        if parts.len() > 1 {
            mix.all.iter_mut().zip(parts).for_each(|(to, part)| *to = Some(*part));
        }
        (parts[0], mix)
    }
}

impl Chain {
    /// Whether its products are of several kinds.
    pub(super) fn mixed(self) -> bool {
        self.mix.all[0].is_some()
    }

    /// The text of each kind.
    fn parts(self) -> SmallVec<[Chain; KINDS]> {
        if !self.mixed() {
            return SmallVec::from_slice(&[self]);
        }
        let mut parts = SmallVec::new();
        for (nth, &(holds, ragged)) in (0..).zip(self.mix.all.iter().flatten()) {
            parts.push(Chain { holds, ragged, mix: Mix { nth, ..self.mix }, ..self });
        }
        parts
    }

    /// All kinds of its products.
    pub(super) fn kinds(self) -> SmallVec<[Kind; KINDS]> {
        self.parts().iter().map(|c| c.holds).collect()
    }

    /// The largest number of all kinds.
    pub(super) fn most(self, number: impl Fn(Chain) -> u32) -> u32 {
        self.parts().into_iter().map(number).max().unwrap_or(0)
    }

    /// What is written for the kind whose number register `of` has; places in it are each kind's own.
    pub(super) fn each(self, name: &str, of: &str, write: impl Fn(Chain, &mut String)) -> String {
        let mut all = String::new();
        if !self.mixed() {
            write(self, &mut all);
            return all;
        }
        let parts = self.parts();
        for part in &parts {
            let (mut text, n) = (String::new(), part.mix.nth);
            write(*part, &mut text);
            let last = n as usize + 1 == parts.len();
            if !last {
                put(&mut all, format_args!("setp.ne.u32 apart,{of},{n};\n@apart bra {name}_NOT{n};"));
            }
            all.push_str(&own_places(&text, n));
            if !last {
                put(&mut all, format_args!("bra {name}_ALL;\n{name}_NOT{n}:"));
            }
        }
        put(&mut all, format_args!("{name}_ALL:"));
        all
    }

    /// The same of the stage's kind amid a line: places end lines.
    fn within_line(self, name: &str, write: impl Fn(Chain, &mut String)) -> String {
        let mut text = self.each(name, "kind", write);
        if !self.mixed() {
            text.truncate(text.trim_end().len());
        }
        text
    }

    /// Registers that several kinds need: the stage's kind and the one of the stage whose units are asked for; whether that is another
    /// than the stage's, and whether it is found behind a stage's units.
    pub(super) fn mix_registers(self, o: &mut String) {
        if self.mixed() {
            put(o, format_args!(".reg .pred apart,other,amid;\n.reg .b32 kind,ckind;"));
        }
    }

    /// The kind of the stage.
    pub(super) fn kind_of_stage(self, o: &mut String) {
        if self.mixed() {
            put(o, format_args!("bfe.u32 kind,flags,{PLACE},{DIGITS};"));
        }
    }

    /// Spans of the stage's row.
    pub(super) fn spans(self, name: &str) -> String {
        let spans = |c: Chain, o: &mut String| {
            let (more, log) = (c.span() - 1, c.span().ilog2());
            put(o, format_args!("add.u32 spans,k,{more}; shr.u32 spans,spans,{log};"));
        };
        self.within_line(name, spans)
    }

    /// Pieces of eight elements that those have.
    pub(super) fn pieces(self) -> String {
        let pieces = |c: Chain, o: &mut String| {
            put(o, format_args!("shl.b32 at,spans,{};", (c.span() / 8).ilog2()));
        };
        self.within_line("PIECES", pieces)
    }

    /// Up to which stage units are known.
    pub(super) fn upto(self) -> &'static str {
        if self.within() { "upto" } else { "stages" }
    }

    /// Stage `t0` has units that are asked for if it is of the kind that is written.
    pub(super) fn of_same_kind(self) -> String {
        let Mix { nth, .. } = self.mix;
        match self.mixed() {
            true => format!(
                "@live ld.param.u32 t1,[ca+{}];
bfe.u32 t1,t1,{PLACE},{DIGITS}; setp.ne.and.u32 other,t1,{nth},live; setp.eq.and.u32 live,t1,{nth},live;
",
                size_of::<Stage>() + place!(flags)
            ),
            false => String::new(),
        }
    }

    /// All units of the warp, and the first of another kind that comes behind them.
    pub(super) fn walks(self, o: &mut String) {
        if !self.mixed() {
            return self.walk(o);
        }
        let walk = |c: Chain, o: &mut String| {
            c.walk(o);
            put(o, format_args!("bra WALKS_ALL;"));
            c.next_run(o);
        };
        o.push_str(&self.each("WALKS", "kind", walk));
        put(
            o,
            format_args!(
                "@!other bra ASKED;\nsetp.eq.u32 amid,zero,0;\nbra START;\nASKED:\nsetp.ne.u32 amid,zero,0;"
            ),
        );
    }

    /// Asks for the first units of all.
    pub(super) fn first(self, o: &mut String) {
        match self.mixed() {
            true => put(o, format_args!("bra START;\nBEGUN:")),
            false => self.first_units(o),
        }
    }

    /// Asks for the warp's first units behind stage `cstage` for whoever goes there, or for nothing where it has none.
    pub(super) fn starts(self, o: &mut String) {
        if !self.mixed() && !self.within() {
            return;
        }
        put(o, format_args!("START:"));
        if self.mixed() {
            self.first_of_kind(o);
        } else {
            self.first_units(o);
        }
        if self.within() {
            put(o, format_args!("@mid bra RESTARTED;"));
        }
        put(o, format_args!("bra BEGUN;"));
    }

    /// The same by the kind of the next stage, and again where that has none and the one behind is of another kind.
    fn first_of_kind(self, o: &mut String) {
        put(
            o,
            format_args!(
                "setp.ne.u32 other,zero,0; add.u32 t0,cstage,1; setp.lt.u32 live,t0,{};
@!live bra STARTED;
ld.param.u32 ckind,[ca+{}]; bfe.u32 ckind,ckind,{PLACE},{DIGITS};",
                self.upto(),
                size_of::<Stage>() + place!(flags)
            ),
        );
        let first = |c: Chain, o: &mut String| {
            put(o, format_args!("{}", c.lane_scale()));
            c.first_units(o);
        };
        o.push_str(&self.each("FIRSTS", "ckind", first));
        put(o, format_args!("@other bra START;\nSTARTED:\n@amid bra ASKED;"));
    }
}

/// A text whose places, which are lines of their own, have a number behind their names.
fn own_places(text: &str, n: u32) -> String {
    let places: HashSet<&str> = text.lines().filter_map(|l| l.strip_suffix(':')).collect();
    let behind = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let mut o = String::with_capacity(text.len());
    for piece in text.split_inclusive(behind) {
        let name = piece.trim_end_matches(behind);
        o.push_str(name);
        if places.contains(name) {
            // INVARIANT: strings take all that is written to them.
            let _ = write!(o, "_{n}");
        }
        o.push_str(&piece[name.len()..]);
    }
    o
}
