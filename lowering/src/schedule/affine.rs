//! Index arithmetic over a kernel's axes: sums of multiples, and what reshapes do to them.

use smallvec::SmallVec;

/// An axis of a kernel's domain, by number.
pub type Axis = u8;

/// `(constant + Σ coefficient · axis) / denominator`.  The division is exact wherever the value is used: a
/// [`Check`] guards it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Affine {
    /// The constant term.
    pub constant: i64,
    /// Sorted by axis; coefficients are not 0.
    pub terms: SmallVec<[(Axis, i64); 4]>,
    /// At least 1.
    pub denominator: i64,
}

/// A condition on indices: `0 ≤ at < limit`, and `at` a multiple of `divisor`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Check {
    /// What is tested.
    pub at: Affine,
    /// The first value too great.
    pub limit: i64,
    /// At least 1.
    pub divisor: i64,
}

/// Why an index cannot be divided into a quotient and a remainder that are sums of multiples again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indivisible {
    /// It can once this axis is divided into an outer one and an inner one of this extent.
    SplitAxis(Axis, u64),
    /// It can not.
    Never,
}

impl Affine {
    /// A number.
    pub fn number(constant: i64) -> Affine {
        Affine { constant, terms: SmallVec::new(), denominator: 1 }
    }

    /// An axis itself.
    pub fn axis(axis: Axis) -> Affine {
        Affine { constant: 0, terms: SmallVec::from_slice(&[(axis, 1)]), denominator: 1 }
    }

    /// Coefficient of an axis, before the division.
    pub fn coefficient(&self, axis: Axis) -> i64 {
        self.terms.iter().find(|t| t.0 == axis).map_or(0, |t| t.1)
    }

    /// `self · k`
    pub fn scale(&self, k: i64) -> Affine {
        if k == 0 {
            return Affine::number(0);
        }
        let terms = self.terms.iter().map(|&(a, c)| (a, c * k)).collect();
        Affine { constant: self.constant * k, terms, denominator: self.denominator }.reduced()
    }

    /// `self + other`
    pub fn plus(&self, other: &Affine) -> Affine {
        let denominator = lcm(self.denominator, other.denominator);
        let (p, q) = (denominator / self.denominator, denominator / other.denominator);
        let mut terms: SmallVec<[(Axis, i64); 4]> = self.terms.iter().map(|&(a, c)| (a, c * p)).collect();
        for &(axis, c) in &other.terms {
            match terms.binary_search_by_key(&axis, |t| t.0) {
                Ok(i) => terms[i].1 += c * q,
                Err(i) => terms.insert(i, (axis, c * q)),
            }
        }
        terms.retain(|t| t.1 != 0);
        Affine { constant: self.constant * p + other.constant * q, terms, denominator }.reduced()
    }

    /// `self + k`
    pub fn offset(&self, k: i64) -> Affine {
        self.plus(&Affine::number(k))
    }

    /// `self / k`, exact by the caller's word.
    pub fn divided(&self, k: i64) -> Affine {
        Affine { denominator: self.denominator * k, ..self.clone() }.reduced()
    }

    fn reduced(mut self) -> Affine {
        if self.denominator == 1 {
            return self;
        }
        let common = self.terms.iter().fold(gcd(self.constant, self.denominator), |g, t| gcd(g, t.1));
        self.constant /= common;
        self.denominator /= common;
        for t in &mut self.terms {
            t.1 /= common;
        }
        self
    }

    /// Least and greatest value over the axes' extents, before the division.
    pub fn range(&self, extent: impl Fn(Axis) -> i64) -> (i64, i64) {
        self.terms.iter().fold((self.constant, self.constant), |(low, high), &(axis, c)| {
            let reach = c.saturating_mul(extent(axis) - 1);
            (low.saturating_add(reach.min(0)), high.saturating_add(reach.max(0)))
        })
    }

    /// Replaces axes by sums of multiples.
    pub fn substitute(&self, of: impl Fn(Axis) -> Affine) -> Affine {
        let start = Affine::number(self.constant);
        let sum = self.terms.iter().fold(start, |sum, &(axis, c)| sum.plus(&of(axis).scale(c)));
        sum.divided(self.denominator)
    }

    /// `(self / n, self % n)` as sums of multiples.
    pub fn divide(&self, n: u64, extent: impl Fn(Axis) -> i64) -> Result<(Affine, Affine), Indivisible> {
        let n = n as i64;
        if self.denominator != 1 {
            return Err(Indivisible::Never);
        }
        let mut quotient = Affine::number(self.constant.div_euclid(n));
        let mut rest = Affine::number(self.constant.rem_euclid(n));
        for &(axis, c) in &self.terms {
            if c % n == 0 {
                quotient.terms.push((axis, c / n));
            } else {
                rest.terms.push((axis, c));
            }
        }
        let (low, high) = rest.range(&extent);
        if low >= 0 && high < n {
            return Ok((quotient, rest));
        }
        for &(axis, c) in &rest.terms {
            let inner = n / c.abs();
            if inner > 1 && n % c.abs() == 0 && extent(axis) > inner && extent(axis) % inner == 0 {
                return Err(Indivisible::SplitAxis(axis, inner as u64));
            }
        }
        Err(Indivisible::Never)
    }
}

impl Check {
    /// Whether it holds for all indices.
    pub fn always(&self, extent: impl Fn(Axis) -> i64) -> bool {
        let (low, high) = self.at.range(extent);
        self.divisor == 1 && self.at.denominator == 1 && low >= 0 && high < self.limit
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

fn lcm(a: i64, b: i64) -> i64 {
    a / gcd(a, b) * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_major_pair_divides_into_its_parts() {
        // 24·x₀ + x₁ with x₁ < 24
        let at = Affine::axis(0).scale(24).plus(&Affine::axis(1));
        let extent = |axis: Axis| if axis == 0 { 4 } else { 24 };
        assert_eq!(at.divide(24, extent), Ok((Affine::axis(0), Affine::axis(1))));
        // By 8, the inner axis must be split first.
        assert_eq!(at.divide(8, extent), Err(Indivisible::SplitAxis(1, 8)));
        assert_eq!(at.divide(7, extent), Err(Indivisible::Never));
    }

    #[test]
    fn a_flipped_axis_divides_too() {
        // 63 − 8·x₀ − x₁ with x₁ < 8
        let at = Affine::number(63).plus(&Affine::axis(0).scale(-8)).plus(&Affine::axis(1).scale(-1));
        let (outer, inner) = at.divide(8, |_| 8).unwrap();
        assert_eq!(outer, Affine::number(7).plus(&Affine::axis(0).scale(-1)));
        assert_eq!(inner, Affine::number(7).plus(&Affine::axis(1).scale(-1)));
    }

    #[test]
    fn fractions_add_and_reduce() {
        let half = Affine::axis(0).divided(2);
        assert_eq!(half.plus(&half), Affine::axis(0));
        assert_eq!(half.scale(4), Affine::axis(0).scale(2));
    }
}
