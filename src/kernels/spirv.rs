//! What a SPIR-V module says about itself (SPIR-V specification 1.6, section 2.3), read without trust in a single word.
//! Pure; whether the instructions make sense is for the validator of the backend.

use std::collections::HashMap;
use std::sync::Arc;

/// Largest module in bytes: far above real ones, far below what makes compilers run for minutes.
pub const MOST_BYTES: usize = 8 << 20;
/// Bytes of push constants that a kernel gets.
pub const PUSH_BYTES: u64 = 20;

/// Words before the first instruction.
const HEADER: usize = 5;
const MAGIC: u32 = 0x0723_0203;
/// Largest bound of ids (section 2.17).
const MOST_IDS: u32 = 0x3f_ffff;
/// How deep types are looked into.
const DEPTH: u32 = 16;

/// A module that holds together, and what decides where it can run.
#[derive(Debug, Clone)]
pub struct Spirv {
    /// The module.
    pub words: Arc<[u32]>,
    /// Major and minor version.
    pub version: (u32, u32),
    /// Numbers of the capabilities it declares.
    pub capabilities: Vec<u32>,
    /// Names of the extensions it declares.
    pub extensions: Vec<String>,
    /// Execution modes with one number, as those of float controls: mode and width.
    pub modes: Vec<(u32, u32)>,
    /// Workgroup size, where it is fixed.
    pub local_size: Option<[u32; 3]>,
    /// Bytes of shared memory, specialisation constants at their defaults.
    pub shared: u64,
}

/// What is known about a type's size.
enum Type {
    Bytes(u64),
    Array(u32, u32),
    Struct(Vec<u32>),
    Pointer(u32),
}

#[derive(Default)]
struct Types {
    types: HashMap<u32, Type>,
    constants: HashMap<u32, u32>,
}

impl Types {
    /// Takes in a type or a constant; other instructions say nothing about them.
    fn declare(&mut self, code: u32, args: &[u32]) {
        match (code, args) {
            (20, &[id]) => drop(self.types.insert(id, Type::Bytes(4))),
            (21 | 22, &[id, bits, ..]) => drop(self.types.insert(id, Type::Bytes(u64::from(bits) / 8))),
            (23 | 24 | 28, &[id, of, n]) => {
                // Vectors and matrices hold a number, arrays the id of one.
                let n = if code == 28 {
                    n
                } else {
                    // Literals and ids do not meet: the key is above all ids.
                    let key = MOST_IDS + 1 + n.min(MOST_IDS);
                    self.constants.insert(key, n);
                    key
                };
                self.types.insert(id, Type::Array(of, n));
            }
            (30, [id, members @ ..]) => drop(self.types.insert(*id, Type::Struct(members.to_vec()))),
            (32, &[id, _, of]) => drop(self.types.insert(id, Type::Pointer(of))),
            (43 | 50, &[_, id, value, ..]) => drop(self.constants.insert(id, value)),
            (52, &[_, id, operation, a, b]) => {
                if let Some(value) = self.folded(operation, a, b) {
                    self.constants.insert(id, value);
                }
            }
            _ => {}
        }
    }

    /// The value of an operation on two constants, as lengths of arrays are made of specialisation constants.
    fn folded(&self, operation: u32, a: u32, b: u32) -> Option<u32> {
        let (a, b) = (*self.constants.get(&a)?, *self.constants.get(&b)?);
        match operation {
            128 => Some(a.wrapping_add(b)),
            130 => Some(a.wrapping_sub(b)),
            132 => Some(a.wrapping_mul(b)),
            134 => a.checked_div(b),
            137 => a.checked_rem(b),
            194 => a.checked_shr(b),
            196 => a.checked_shl(b),
            _ => None,
        }
    }

    fn size(&self, id: u32, depth: u32) -> Result<u64, String> {
        if depth == 0 {
            return Err("its types are nested too deeply".into());
        }
        let below = |id: u32| self.size(id, depth - 1);
        match self.types.get(&id) {
            Some(Type::Bytes(n)) => Ok(*n),
            Some(Type::Array(of, n)) => {
                Ok(below(*of)?.saturating_mul(self.constants.get(n).copied().unwrap_or(1).into()))
            }
            Some(Type::Struct(of)) => of.iter().try_fold(0u64, |sum, &m| Ok(sum.saturating_add(below(m)?))),
            Some(Type::Pointer(_)) => Ok(8),
            None => Ok(0),
        }
    }
}

/// The instructions of a module: first word, code and operands of each. The last item is the first word of one that
/// does not end where the module does.
pub fn instructions(words: &[u32]) -> impl Iterator<Item = Result<(usize, u32, &[u32]), usize>> {
    let mut next = HEADER;
    std::iter::from_fn(move || {
        let (at, first) = (next, *words.get(next)?);
        let n = (first >> 16) as usize;
        let args = (n > 0).then(|| words.get(at + 1..at + n)).flatten();
        next = if args.is_some() { at + n } else { words.len() };
        Some(args.map(|args| (at, first & 0xffff, args)).ok_or(at))
    })
}

/// The words of a module and its version, where the header makes sense.
fn header(bytes: &[u8]) -> Result<(Arc<[u32]>, (u32, u32)), String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("it has {} bytes, expected at most {MOST_BYTES}", bytes.len()));
    }
    let words: Arc<[u32]> =
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    if !bytes.len().is_multiple_of(4) || words.len() < HEADER || words[0] != MAGIC {
        return Err("the bytes are no SPIR-V".into());
    }
    let version = (words[1] >> 16 & 0xff, words[1] >> 8 & 0xff);
    if words[1] & 0xff00_00ff != 0 || version.0 != 1 || version.1 > 6 {
        return Err(format!("its version is {:#x}, expected SPIR-V 1.0 to 1.6", words[1]));
    }
    if words[3] == 0 || words[3] > MOST_IDS || words[4] != 0 {
        return Err(format!("its header promises {} ids in schema {}", words[3], words[4]));
    }
    Ok((words, version))
}

/// What the instructions of a module have said so far.
struct Draft {
    module: Spirv,
    types: Types,
    /// Entry points named main: the last one's id and how many there are.
    entry: Option<u32>,
    entries: usize,
    /// Sides of the workgroup are constants that can be specialised.
    sized: bool,
    /// Pointers to shared memory, and to push constants.
    shared: Vec<u32>,
    pushed: Option<u32>,
    /// Struct, member and offset in bytes.
    offsets: Vec<(u32, u32, u32)>,
}

impl Draft {
    fn new(words: Arc<[u32]>, version: (u32, u32)) -> Draft {
        let module = Spirv {
            words,
            version,
            capabilities: Vec::new(),
            extensions: Vec::new(),
            modes: Vec::new(),
            local_size: None,
            shared: 0,
        };
        Draft {
            module,
            types: Types::default(),
            entry: None,
            entries: 0,
            sized: false,
            shared: Vec::new(),
            pushed: None,
            offsets: Vec::new(),
        }
    }

    /// Takes in the instruction at word `at`.
    fn take(&mut self, at: usize, code: u32, args: &[u32]) -> Result<(), String> {
        match (code, args) {
            (17, &[capability]) => self.module.capabilities.push(capability),
            (10, name) => self.module.extensions.push(String::from_utf8_lossy(&text(name)).into_owned()),
            (16, &[_, mode, width]) => self.module.modes.push((mode, width)),
            (15, [5, id, name @ ..]) if text(name) == b"main" => {
                self.entry = Some(*id);
                self.entries += 1;
            }
            (16, &[id, 17, x, y, z]) if self.entry == Some(id) => self.module.local_size = Some([x, y, z]),
            (71, [_, 33 | 34, ..]) => {
                return Err(format!(
                    "word {at} binds a descriptor; arrays are reached through the table of addresses alone"
                ));
            }
            (71, [_, 11, 25]) | (331, _) => self.sized = true, // WorkgroupSize, or an execution mode by constants
            (72, &[of, member, 35, offset]) => self.offsets.push((of, member, offset)),
            (59, &[pointer, _, class, ..]) => self.variable(at, pointer, class)?,
            _ => self.types.declare(code, args),
        }
        Ok(())
    }

    /// A variable of a storage class.
    fn variable(&mut self, at: usize, pointer: u32, class: u32) -> Result<(), String> {
        match class {
            4 => self.shared.push(pointer),
            9 => self.pushed = Some(pointer),
            0 | 2 | 12 => {
                return Err(format!(
                    "word {at} declares a bound buffer or image; arrays are reached through the table of \
                     addresses alone"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// The type behind a pointer's type.
    fn target(&self, pointer: u32) -> u32 {
        match self.types.types.get(&pointer) {
            Some(Type::Pointer(of)) => *of,
            _ => 0,
        }
    }

    /// The module, whose push constants end within `push` bytes.
    fn finish(mut self, push: u64) -> Result<Spirv, String> {
        match self.entries {
            1 => {}
            0 => return Err("it has no compute entry point named main".into()),
            n => return Err(format!("it has {n} compute entry points named main")),
        }
        if self.sized {
            self.module.local_size = None;
        }
        for &pointer in &self.shared {
            let bytes = self.types.size(self.target(pointer), DEPTH)?;
            self.module.shared = self.module.shared.saturating_add(bytes);
        }
        if let Some(block) = self.pushed.map(|pointer| self.target(pointer))
            && let Some(Type::Struct(members)) = self.types.types.get(&block)
        {
            for &(of, member, offset) in self.offsets.iter().filter(|o| o.0 == block) {
                let Some(&kind) = members.get(member as usize) else {
                    return Err(format!("struct {of} has no member {member}"));
                };
                let end = u64::from(offset) + self.types.size(kind, DEPTH)?;
                if end > push {
                    return Err(format!("it reads {end} bytes of push constants, expected at most {push}"));
                }
            }
        }
        Ok(self.module)
    }
}

/// Reads a module that gets at most `push` bytes of push constants.
///
/// # Errors
/// What is wrong, as the end of a sentence that begins with the module.
pub fn read(bytes: &[u8], push: u64) -> Result<Spirv, String> {
    let (words, version) = header(bytes)?;
    let mut draft = Draft::new(words.clone(), version);
    for instruction in instructions(&words) {
        let (at, code, args) = instruction
            .map_err(|at| format!("the instruction at word {at} does not end where the module does"))?;
        draft.take(at, code, args)?;
    }
    draft.finish(push)
}

/// Bytes of a literal string up to its end.
fn text(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).take_while(|&b| b != 0).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(tail: &[u32]) -> Vec<u8> {
        let words = [&[MAGIC, 0x1_0500, 0, 9, 0][..], tail].concat();
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    const MAIN: [u32; 5] = [5 << 16 | 15, 5, 1, u32::from_le_bytes(*b"main"), 0];

    #[test]
    fn an_entry_point_is_enough_to_be_read() {
        let m = read(&module(&MAIN), PUSH_BYTES).unwrap();
        assert_eq!((m.version, m.local_size, m.shared), ((1, 5), None, 0));
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let cut = module(&MAIN);
        for n in (0..cut.len()).filter(|&n| n != cut.len()) {
            assert!(read(&cut[..n], PUSH_BYTES).is_err(), "{n}");
        }
        for (tail, reason) in [
            (&[0u32][..], "does not end"),
            (&[9 << 16 | 17, 1], "does not end"),
            (&[], "no compute entry"),
            (&[4 << 16 | 71, 1, 33, 0], "descriptor"),
            (&[4 << 16 | 59, 1, 2, 12], "bound buffer"),
        ] {
            let e = read(&module(tail), PUSH_BYTES).unwrap_err();
            assert!(e.contains(reason), "{e}");
        }
    }

    #[test]
    fn types_that_hold_themselves_do_not_loop() {
        let tail = [&MAIN[..], &[3 << 16 | 30, 2, 2, 4 << 16 | 32, 3, 4, 2, 4 << 16 | 59, 3, 4, 4]].concat();
        assert!(read(&module(&tail), PUSH_BYTES).unwrap_err().contains("nested"));
    }

    #[test]
    fn shared_memory_is_counted() {
        // float; 100; float[100]; pointer; variable
        let tail = [
            &MAIN[..],
            &[3 << 16 | 22, 2, 32, 4 << 16 | 43, 6, 3, 100, 4 << 16 | 28, 4, 2, 3],
            &[4 << 16 | 32, 5, 4, 4, 4 << 16 | 59, 5, 7, 4],
        ];
        assert_eq!(read(&module(&tail.concat()), PUSH_BYTES).unwrap().shared, 400);
    }

    #[test]
    fn lengths_that_constants_are_computed_to_count() {
        // float; constant 256; constant 4; quotient; float[quotient]; pointer; variable
        for (operation, bytes) in [(134, 256), (132, 4096), (128, 1040), (130, 1008), (194, 64)] {
            let tail = [
                &MAIN[..],
                &[3 << 16 | 22, 2, 32, 4 << 16 | 50, 8, 3, 256, 4 << 16 | 43, 8, 4, 4],
                &[6 << 16 | 52, 8, 5, operation, 3, 4, 4 << 16 | 28, 6, 2, 5],
                &[4 << 16 | 32, 7, 4, 6, 4 << 16 | 59, 7, 9, 4],
            ];
            assert_eq!(read(&module(&tail.concat()), PUSH_BYTES).unwrap().shared, bytes, "{operation}");
        }
    }
}
