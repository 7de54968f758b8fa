//! How environment variables are read and kernel variants taken out. Each variable is a static beside the code that it
//! steers, and so is each variant that MLX_VK_DISABLE can name; `vulkan::environment` and `python` list them all for
//! docs/environment.md and for the warnings about names that nobody knows. Values that make no sense count as not set.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What a variable may hold.
#[derive(Clone, Copy)]
pub enum Values {
    /// A whole number between two bounds.
    Number(u64, u64),
    /// One of some words.
    Word(&'static [&'static str]),
    /// Numbers joined by `x` that fit, or one of some words: how it reads, the check, the words.
    Sizes(&'static str, fn(&[u32]) -> bool, &'static [&'static str]),
    /// Text of a form: how it reads, the check.
    Form(&'static str, fn(&str) -> bool),
    /// Any text: what it stands for.
    Text(&'static str),
    /// A folder that is there.
    Folder,
}

impl Values {
    /// 0 or 1.
    pub const SWITCH: Values = Values::Word(&["0", "1"]);

    /// How they read in the docs.
    pub fn show(self) -> String {
        let code = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
        let forms = |form: &'static str, words: &[&'static str]| {
            code(&form.split(" or ").chain(words.iter().copied()).collect::<Vec<_>>())
        };
        match self {
            Values::Number(low, high) => format!("{low} to {high}"),
            Values::Word(words) => code(words),
            Values::Sizes(form, _, words) => forms(form, words),
            Values::Form(form, _) => forms(form, &[]),
            Values::Text(what) => what.into(),
            Values::Folder => "folder".into(),
        }
    }
}

/// One variable.
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// What holds without it, for the reader of the docs.
    pub default: &'static str,
    /// What it may hold.
    pub values: Values,
    /// What follows from it.
    pub effect: &'static str,
    told: AtomicBool,
}

impl Variable {
    /// A variable; its owner keeps it in a static.
    pub const fn new(
        name: &'static str,
        default: &'static str,
        values: Values,
        effect: &'static str,
    ) -> Variable {
        Variable { name, default, values, effect, told: AtomicBool::new(false) }
    }

    /// What a value should have been, if it is none.
    fn mistake(&self, text: &str) -> Option<String> {
        let good = |ok: bool, expected: String| (!ok).then_some(expected);
        match self.values {
            Values::Number(low, high) => good(
                text.parse::<u64>().is_ok_and(|n| (low..=high).contains(&n)),
                format!("a whole number from {low} to {high}"),
            ),
            Values::Word(words) => good(words.contains(&text), words.join(", ")),
            Values::Sizes(form, fits, words) => good(
                words.contains(&text) || joined(text).is_some_and(|n| fits(&n)),
                [&[form], words].concat().join(", "),
            ),
            Values::Form(form, fits) => good(fits(text), form.into()),
            Values::Folder => good(std::path::Path::new(text).is_dir(), "a folder that can be read".into()),
            Values::Text(_) => None,
        }
    }

    /// What is wrong with the value that is set, in a sentence.
    pub fn problem(&self) -> Option<String> {
        let text = raw(self.name)?.to_string_lossy().trim().to_string();
        let expected = if text.is_empty() { None } else { self.mistake(&text) }?;
        let used = self.default.replace('`', "");
        let name = self.name;
        Some(format!(
            "[environment] {name}={text} is passed over, expected {expected}; the default holds: {used}."
        ))
    }

    /// The value, if there is one that makes sense. Says on stderr once what is wrong with another, unless that was
    /// [`taken_over`].
    pub fn value(&self) -> Option<String> {
        let text = raw(self.name)?.to_string_lossy().trim().to_string();
        let good = self.mistake(&text).is_none();
        if !good && !TAKEN_OVER.load(Ordering::Relaxed) && !self.told.swap(true, Ordering::Relaxed) {
            self.problem().iter().for_each(|p| eprintln!("{p}"));
        }
        good.then_some(text)
    }

    /// Whether it is set to anything.
    pub fn is_set(&self) -> bool {
        std::env::var_os(self.name).is_some()
    }

    /// The number.
    pub fn number(&self) -> Option<u64> {
        self.value()?.parse().ok()
    }

    /// The number, or that of the default: of variables whose default is a number, which stands there alone.
    pub fn count(&self) -> u64 {
        // INVARIANT: a test goes over all variables of the library that are asked so.
        self.number().unwrap_or_else(|| self.default.parse().expect("a default that is a number"))
    }

    /// The word.
    pub fn word(&self) -> Option<&'static str> {
        let text = self.value()?;
        let (Values::Word(words) | Values::Sizes(_, _, words)) = self.values else { return None };
        words.iter().copied().find(|&w| w == text)
    }

    /// Whether it is 1, of one that is 0 or 1.
    pub fn switch(&self) -> Option<bool> {
        self.word().map(|w| w == "1")
    }

    /// The numbers that are joined by `x`.
    pub fn sizes(&self) -> Option<Vec<u32>> {
        joined(&self.value()?)
    }

    /// The text as it is.
    pub fn text(&self) -> Option<OsString> {
        raw(self.name)
    }
}

/// Numbers above zero, joined by `x`.
fn joined(text: &str) -> Option<Vec<u32>> {
    text.split('x').map(|s| s.trim().parse().ok().filter(|&n| n > 0)).collect()
}

fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// Whether a variable of another program is set.
pub fn foreign(name: &str) -> bool {
    raw(name).is_some()
}

/// The text of a variable of another program.
pub fn foreign_text(name: &str) -> Option<String> {
    Some(raw(name)?.to_string_lossy().into_owned())
}

/// The number of a variable of another program.
pub fn foreign_number(name: &str) -> Option<u64> {
    raw(name)?.to_string_lossy().parse().ok()
}

static TAKEN_OVER: AtomicBool = AtomicBool::new(false);

/// Whoever calls this tells the user what is wrong with the environment.
pub fn taken_over() {
    TAKEN_OVER.store(true, Ordering::Relaxed);
}

/// Variants that are taken out.
pub static DISABLE: Variable = Variable::new(
    "MLX_VK_DISABLE",
    "none",
    Values::Text("names, separated by commas"),
    "Kernel variants to route around, for finding the one at fault; see the second table",
);

/// The names in MLX_VK_DISABLE.
pub fn disabled_names() -> Vec<String> {
    let text = DISABLE.value().unwrap_or_default();
    text.split(',').map(|n| n.trim().to_string()).filter(|n| !n.is_empty()).collect()
}

const UNREAD: u8 = 0;
const IN: u8 = 1;
const OUT: u8 = 2;

/// A kernel, or a way to use one, that can be taken out of every choice: results stay right, only the way there changes.
pub struct KernelVariant {
    /// Name in MLX_VK_DISABLE.
    pub name: &'static str,
    /// What runs instead, for the reader of the docs.
    pub instead: &'static str,
    state: AtomicU8,
}

impl KernelVariant {
    /// A variant; its owner keeps it in a static.
    pub const fn new(name: &'static str, instead: &'static str) -> KernelVariant {
        KernelVariant { name, instead, state: AtomicU8::new(UNREAD) }
    }

    /// Whether it is taken out.
    #[inline]
    pub fn disabled(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            UNREAD => self.read(),
            state => state == OUT,
        }
    }

    #[cold]
    fn read(&self) -> bool {
        let state = if disabled_names().iter().any(|n| n == self.name) { OUT } else { IN };
        // Not over what `disable` says meanwhile.
        let _ = self.state.compare_exchange(UNREAD, state, Ordering::Relaxed, Ordering::Relaxed);
        self.state.load(Ordering::Relaxed) == OUT
    }

    /// Takes it out of every choice from now on, or lets it take part again, whatever MLX_VK_DISABLE says.
    pub fn disable(&self, out: bool) {
        self.state.store(if out { OUT } else { IN }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_kind() {
        let bad = |values, text: &str| Variable::new("A_VARIABLE", "", values, "").mistake(text).is_some();
        let number = Values::Number(1, 100);
        assert!(bad(number, "0") && bad(number, "101") && bad(number, "many") && !bad(number, "7"));
        let word = Values::Word(&["error", "warn"]);
        assert!(bad(word, "yes") && bad(word, "") && !bad(word, "warn"));
        let sizes = Values::Sizes("AxB", |v| v.len() == 2 && v[0] > 1, &["none"]);
        assert!(bad(sizes, "1x1") && bad(sizes, "2x") && bad(sizes, "2x0") && bad(sizes, "2x1x1"));
        assert!(!bad(sizes, "2x1") && !bad(sizes, "none"));
        assert!(bad(Values::Form("a", |t| t == "a"), "b") && !bad(Values::Form("a", |t| t == "a"), "a"));
        assert!(bad(Values::Folder, "/nonexistent/folder") && !bad(Values::Folder, "/"));
        assert!(!bad(Values::Text("anything"), "anything"));
    }

    #[test]
    fn counts_without_a_value_are_those_of_the_default() {
        let with = |default| Variable::new("A_VARIABLE", default, Values::Number(1, 100), "");
        assert_eq!((with("17").number(), with("17").count()), (None, 17));
    }

    #[test]
    fn variants_are_in_until_they_are_taken_out() {
        let v = KernelVariant::new("no variant", "nothing");
        assert!(!v.disabled());
        v.disable(true);
        assert!(v.disabled());
        v.disable(false);
        assert!(!v.disabled());
    }
}
