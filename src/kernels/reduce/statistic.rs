//! The table of statistics: what a GPU computes of numbers in one pass over them, where composed of reductions and
//! elementwise operations it would be several. A row holds the GLSL for shaders/reduce/reduce.comp.

/// One number that tells something of many real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    Mean,
    Var,
    Std,
    Norm,
    LogSumExp,
}

/// What is kept of the elements seen so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Summary {
    /// A sum.
    Sum,
    /// How many they are, their mean, and the sum of squared deviations from it; two of these are joined as in T. F. Chan,
    /// G. H. Golub and R. J. LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979).
    Moments,
    /// Their maximum and the sum of the exponentials above it.
    Exponentials,
}

/// What there is to know about a statistic.
#[derive(Debug, Clone, Copy)]
pub struct StatisticRow {
    pub name: &'static str,
    pub summary: Summary,
    /// What is summed of an element `x`, where there is a sum.
    pub element: &'static str,
    /// The statistic, of the summary `a` and of `divisor`.
    pub result: &'static str,
}

// Deviations from an infinite mean are no numbers.
macro_rules! variance {
    () => {
        "m_div(m_isfinite(a.mean) ? a.m2 : M_NAN, divisor)"
    };
}

impl Statistic {
    /// All of them.
    pub const EVERY: [Statistic; 5] =
        [Statistic::Mean, Statistic::Var, Statistic::Std, Statistic::Norm, Statistic::LogSumExp];

    /// What there is to know about it.
    pub fn row(self) -> StatisticRow {
        let sum = |name, element, result| StatisticRow { name, summary: Summary::Sum, element, result };
        let moments = |name, result| StatisticRow { summary: Summary::Moments, ..sum(name, "x", result) };
        match self {
            Statistic::Mean => sum("mean", "x", "m_div(a, divisor)"),
            Statistic::Var => moments("var", variance!()),
            Statistic::Std => moments("std", concat!("m_sqrt(", variance!(), ")")),
            Statistic::Norm => sum("norm", "x * x", "m_sqrt(a)"),
            Statistic::LogSumExp => StatisticRow {
                summary: Summary::Exponentials,
                ..sum("logsumexp", "x", "a.sum == 0.0 ? -M_INF : m_log(a.sum) + base_of(a.top)")
            },
        }
    }
}
