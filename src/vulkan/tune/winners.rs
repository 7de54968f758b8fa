//! What `python -m mlx.tune` measured on a device: it comes before the packaged rows. Kept as text in the disk cache,
//! signed like every entry, by device and driver; what does not read well is passed over.

use std::collections::HashMap;

use super::profile::Measured;
use super::subjects;
use crate::core::Dtype;
use crate::kernels::quantized::quant::{Format, Mode};

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A number of a table, by its name.
    Count(&'static str),
    /// Products of these sides M, N, K, as powers of two.
    Matmul(Dtype, [u8; 3]),
    /// Products by quantised matrices of these sides M, N, K, as powers of two.
    Quantized(Format, Dtype, [u8; 3]),
}

fn sides(s: [u8; 3]) -> String {
    s.map(|n| (1u64 << n.min(63)).to_string()).join("x")
}

fn parse_sides(text: &str) -> Option<[u8; 3]> {
    let side = |s: &str| s.parse::<u64>().ok().filter(|n| n.is_power_of_two()).map(|n| n.ilog2() as u8);
    let all: Vec<u8> = text.split('x').map(side).collect::<Option<_>>()?;
    all.try_into().ok()
}

impl Subject {
    /// How it reads in the cache and in tables.
    pub fn text(&self) -> String {
        match self {
            Subject::Count(name) => (*name).to_string(),
            Subject::Matmul(dtype, s) => format!("matmul {} {}", dtype.name(), sides(*s)),
            Subject::Quantized(f, dtype, s) => {
                let (mode, group, bits) = (f.mode.name(), f.group, f.bits);
                format!("quantized {mode} {group} {bits} {} {}", dtype.name(), sides(*s))
            }
        }
    }

    /// The subject of such a text.
    pub fn parse(text: &str) -> Option<Subject> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            [name] => subjects::counts().find(|b| b.name == name).map(|b| Subject::Count(b.name)),
            ["matmul", dtype, s] => Some(Subject::Matmul(Dtype::from_name(dtype)?, parse_sides(s)?)),
            ["quantized", mode, group, bits, dtype, s] => {
                let mode = Mode::parse("tune", mode).ok()?;
                let format = Format::new("tune", mode, group.parse().ok()?, bits.parse().ok()?).ok()?;
                Some(Subject::Quantized(format, Dtype::from_name(dtype)?, parse_sides(s)?))
            }
            _ => None,
        }
    }
}

/// The winners of a device: for each subject the numbers of a variant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Winners(HashMap<Subject, Vec<u32>>);

impl Winners {
    /// Whether nothing was measured.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What won.
    #[inline]
    pub fn get(&self, subject: &Subject) -> Option<&[u32]> {
        if self.0.is_empty() { None } else { self.0.get(subject).map(Vec::as_slice) }
    }

    /// Notes what won.
    pub fn set(&mut self, subject: Subject, numbers: Vec<u32>) {
        self.0.insert(subject, numbers);
    }

    /// Forgets what won.
    pub fn remove(&mut self, subject: &Subject) {
        self.0.remove(subject);
    }

    /// All of them as text, a line each, sorted.
    pub fn lines(&self) -> Vec<String> {
        let line = |(s, n): (&Subject, &Vec<u32>)| {
            let numbers: Vec<String> = n.iter().map(u32::to_string).collect();
            format!("{} = {}", s.text(), numbers.join(" "))
        };
        let mut all: Vec<String> = self.0.iter().map(line).collect();
        all.sort();
        all
    }

    /// The winners of such lines; one that says nothing is passed over.
    pub fn parse(text: &str) -> Winners {
        let line = |l: &str| {
            let (subject, numbers) = l.split_once(" = ")?;
            let numbers = numbers.split(' ').map(|n| n.parse().ok()).collect::<Option<Vec<u32>>>()?;
            Some((Subject::parse(subject)?, numbers))
        };
        Winners(text.lines().filter_map(line).collect())
    }
}

impl Measured {
    /// As it is kept.
    pub fn text(&self) -> String {
        format!("{} {} {} {}", self.units, self.bandwidth, self.dependent_ns, self.matrices)
    }

    /// What such a text says.
    pub fn parse(text: &str) -> Option<Measured> {
        let numbers: Vec<u32> = text.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let [units, bandwidth, dependent_ns, matrices] = numbers[..] else { return None };
        let sane = (1..=65_536).contains(&units) && bandwidth >= 1 && dependent_ns >= 1;
        sane.then_some(Measured { units, bandwidth, dependent_ns, matrices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_reads_back_and_nonsense_is_passed_over() {
        let mut w = Winners::default();
        let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
        for (subject, numbers) in [
            (Subject::Count("fill"), vec![96]),
            (Subject::Matmul(Dtype::BF16, [12, 12, 10]), vec![0, 128, 128, 64, 128, 1]),
            (Subject::Quantized(format, Dtype::F16, [0, 14, 12]), vec![64, 2]),
        ] {
            assert_eq!(Subject::parse(&subject.text()), Some(subject.clone()));
            w.set(subject, numbers);
        }
        let text = w.lines().join("\n");
        assert_eq!(
            text,
            "fill = 96\nmatmul bfloat16 4096x4096x1024 = 0 128 128 64 128 1\nquantized affine 64 4 float16 \
             1x16384x4096 = 64 2"
        );
        assert_eq!(Winners::parse(&text), w);
        let odd = format!("fill = x\nnobody = 1\n{text}\nmatmul f 1x1x1 = 1\nmatmul bfloat16 3x1x1 = 1\n=");
        assert_eq!(Winners::parse(&odd), w);
        w.remove(&Subject::Count("fill"));
        assert_eq!((w.get(&Subject::Count("fill")), w.lines().len()), (None, 2));
    }

    #[test]
    fn measurements_read_back() {
        let m = Measured { units: 32, bandwidth: 560, dependent_ns: 3000, matrices: 20 };
        assert_eq!(Measured::parse("32 560 3000 20"), Some(m));
        assert_eq!(m.text(), "32 560 3000 20");
        for bad in ["", "1 2 3", "0 1 1 1", "1 0 1 1", "1 2 3 4 5", "a 2 3 4"] {
            assert_eq!(Measured::parse(bad), None, "{bad}");
        }
    }
}
