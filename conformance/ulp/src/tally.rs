//! Sums up what results were worth, over all operands and over the special kinds of them.

use kiln_lowering::DType;
use kiln_lowering::graph::number;

use crate::subject::Verdict;

/// Kinds of operands and results that go wrong on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A NaN among the operands.
    Nan,
    /// An infinity among them.
    Infinity,
    /// A zero of either sign.
    Zero,
    /// A number below the normal range.
    Denormal,
    /// Ordinary operands with a result below the normal range.
    DenormalResult,
}

impl Kind {
    /// Every kind, in the order of a tally.
    pub const ALL: &[Kind] = &[Kind::Nan, Kind::Infinity, Kind::Zero, Kind::Denormal, Kind::DenormalResult];

    /// As it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nan => "nan",
            Kind::Infinity => "infinity",
            Kind::Zero => "zero",
            Kind::Denormal => "denormal",
            Kind::DenormalResult => "denormal_result",
        }
    }
}

/// The result that is farthest off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// By so many units in the last place.
    pub error: f64,
    /// Patterns of the operands.
    pub operands: [u64; 2],
    /// Pattern of the result.
    pub got: u64,
}

impl Worst {
    #[inline]
    fn is_beyond(&self, other: &Worst) -> bool {
        self.error > other.error || self.error == other.error && self.operands < other.operands
    }
}

/// Results of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// How many there were.
    pub count: u64,
    /// How many of them were beyond the bound.
    pub wrong: u64,
}

/// Results of one sweep, or of a part of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of results.
    pub count: u64,
    /// Those that are not the number nearest to the true value.
    pub not_nearest: u64,
    /// Those beyond the bound.
    pub wrong: u64,
    /// Sum of the finite errors.
    pub sum: f64,
    /// The farthest one; of equals that with the least pattern, whatever the threads did.
    pub worst: Option<Worst>,
    /// One part per [`Kind`].
    pub parts: [Part; Kind::ALL.len()],
}

impl Tally {
    /// Adds a result.
    #[inline]
    pub fn add(&mut self, dtype: DType, arity: usize, operands: [u64; 2], got: u64, verdict: &Verdict, bound: f64) {
        self.count += 1;
        self.not_nearest += u64::from(!verdict.nearest);
        if verdict.error.is_finite() {
            self.sum += verdict.error;
        }
        let candidate = Worst { error: verdict.error, operands, got };
        let last = self.worst.is_none_or(|worst| candidate.is_beyond(&worst));
        if last || verdict.error > bound || !is_ordinary(dtype, got) || operands.iter().any(|&x| !is_ordinary(dtype, x))
        {
            self.add_notable(dtype, arity, operands, got, verdict.error, bound);
        }
    }

    /// What few results have: a place among the special ones, or the last place.
    fn add_notable(&mut self, dtype: DType, arity: usize, operands: [u64; 2], got: u64, error: f64, bound: f64) {
        let wrong = u64::from(error > bound);
        self.wrong += wrong;
        let candidate = Worst { error, operands, got };
        if self.worst.is_none_or(|worst| candidate.is_beyond(&worst)) {
            self.worst = Some(candidate);
        }
        if let Some(kind) = kind(dtype, &operands[..arity], got) {
            let part = &mut self.parts[kind as usize];
            part.count += 1;
            part.wrong += wrong;
        }
    }

    /// Adds the results of a later part of the sweep.
    pub fn merge(&mut self, other: &Tally) {
        self.count += other.count;
        self.not_nearest += other.not_nearest;
        self.wrong += other.wrong;
        self.sum += other.sum;
        if let Some(theirs) = other.worst
            && self.worst.is_none_or(|ours| theirs.is_beyond(&ours))
        {
            self.worst = Some(theirs);
        }
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.count += other.count;
            part.wrong += other.wrong;
        }
    }

    /// Mean error of the results that have a finite one.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// Whether a pattern is that of a normal number.
#[inline]
fn is_ordinary(dtype: DType, bits: u64) -> bool {
    let stored = number::precision(dtype) - 1;
    let most = (1 << (dtype.bits() - 1 - stored)) - 1;
    let exponent = bits >> stored & most;
    exponent != 0 && exponent != most
}

/// The kind that operands and their result belong to, the first that fits.
fn kind(dtype: DType, operands: &[u64], got: u64) -> Option<Kind> {
    let sign = 1u64 << (dtype.bits() - 1);
    let normal = 1u64 << (number::precision(dtype) - 1);
    let infinity = number::from_f64(dtype, f64::INFINITY);
    let any = |test: &dyn Fn(u64) -> bool| operands.iter().any(|x| test(x & (sign - 1)));
    let result = got & (sign - 1);
    if any(&|x| x > infinity) {
        Some(Kind::Nan)
    } else if any(&|x| x == infinity) {
        Some(Kind::Infinity)
    } else if any(&|x| x == 0) {
        Some(Kind::Zero)
    } else if any(&|x| x < normal) {
        Some(Kind::Denormal)
    } else if result != 0 && result < normal {
        Some(Kind::DenormalResult)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        let of = |x: f32, y: f32| kind(DType::F32, &[x.to_bits().into()], y.to_bits().into());
        assert_eq!(of(f32::NAN, 1.0), Some(Kind::Nan));
        assert_eq!(of(f32::NEG_INFINITY, 1.0), Some(Kind::Infinity));
        assert_eq!(of(-0.0, 1.0), Some(Kind::Zero));
        assert_eq!(of(-1e-45, 1.0), Some(Kind::Denormal));
        assert_eq!(of(1.0, 1e-40), Some(Kind::DenormalResult));
        assert_eq!(of(1.0, 0.0), None);
    }

    #[test]
    fn parts_make_up_the_whole() {
        let verdict = |error| Verdict { error, nearest: error <= 0.5 };
        let (mut a, mut b) = (Tally::default(), Tally::default());
        a.add(DType::F32, 1, [1, 1], 1, &verdict(0.25), 2.0);
        b.add(DType::F32, 1, [0x3f80_0000; 2], 2, &verdict(2.25), 2.0);
        a.merge(&b);
        assert_eq!((a.count, a.wrong, a.not_nearest, a.mean()), (2, 1, 1, 1.25));
        assert_eq!(a.worst, Some(Worst { error: 2.25, operands: [0x3f80_0000; 2], got: 2 }));
        assert_eq!(a.parts[Kind::Denormal as usize], Part { count: 1, wrong: 0 });
    }
}
