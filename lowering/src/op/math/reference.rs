//! Functions that the oracle needs and the standard library lacks, for accuracy and not for speed.

/// A number as an unevaluated sum of two.
type Pair = (f64, f64);

fn sum(a: Pair, b: Pair) -> Pair {
    let s = a.0 + b.0;
    let of_b = s - a.0;
    let lost = (a.0 - (s - of_b)) + (b.0 - of_b) + a.1 + b.1;
    let high = s + lost;
    (high, lost - (high - s))
}

fn product(a: Pair, b: Pair) -> Pair {
    let p = a.0 * b.0;
    let lost = a.0.mul_add(b.0, -p) + a.0 * b.1 + a.1 * b.0;
    let high = p + lost;
    (high, lost - (high - p))
}

fn quotient(a: Pair, b: f64) -> Pair {
    let q = a.0 / b;
    let lost = ((-q).mul_add(b, a.0) + a.1) / b;
    let high = q + lost;
    (high, lost - (high - q))
}

/// The error function, within one unit in the last place.
pub fn erf(args: &[f64]) -> f64 {
    let x = args[0];
    if x == 0.0 {
        return x;
    }
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    if x.abs() > 3.0 {
        return x.signum() * (1.0 - complement(x.abs()));
    }
    // 2/√π · Σ (−1)ⁿ x²ⁿ⁺¹ / (n! (2n + 1)); terms reach e⁹, which takes 13 of 106 bits.
    const TWO_OVER_ROOT_PI: Pair = (std::f64::consts::FRAC_2_SQRT_PI, 1.533545961316588e-17);
    let square = (x * x, x.mul_add(x, -(x * x)));
    let mut power = (x, 0.0);
    let mut total = power;
    for n in 1..80 {
        power = quotient(product(power, (-square.0, -square.1)), f64::from(n));
        total = sum(total, quotient(power, f64::from(2 * n + 1)));
    }
    product(total, TWO_OVER_ROOT_PI).0
}

/// `1 − erf x` for `x` above 3, by its continued fraction, to about 1e−12.
fn complement(x: f64) -> f64 {
    let half_inverse = 0.5 / (x * x);
    let tail = (1..100).rev().fold(1.0, |tail, n| 1.0 + f64::from(n) * half_inverse / tail);
    (-x * x).exp() / (x * std::f64::consts::PI.sqrt() * tail)
}

fn square_root(a: Pair) -> Pair {
    let root = a.0.sqrt();
    if root == 0.0 { (0.0, 0.0) } else { (root, ((-root).mul_add(root, a.0) + a.1) / (2.0 * root)) }
}

/// `log(1 + a)`
fn log_1p(a: Pair) -> f64 {
    a.0.ln_1p() + a.1 / (1.0 + a.0)
}

/// From here on `√(x² ± 1)` is `x`, and squares may overflow before long.
const LARGE: f64 = 1e20;

/// The inverse hyperbolic sine, to about one unit in the last place.
pub fn asinh(args: &[f64]) -> f64 {
    let x = args[0].abs();
    if x.is_nan() || x > LARGE {
        return (x.ln() + std::f64::consts::LN_2).copysign(args[0]);
    }
    // log(1 + x + (√(x² + 1) − 1)), the difference as x² / (√(x² + 1) + 1).
    let square = product((x, 0.0), (x, 0.0));
    let root = square_root(sum(square, (1.0, 0.0)));
    let below = sum(root, (1.0, 0.0));
    let first = square.0 / below.0;
    let rest = ((-first).mul_add(below.0, square.0) + square.1 - first * below.1) / below.0;
    log_1p(sum((x, 0.0), (first, rest))).copysign(args[0])
}

/// The inverse hyperbolic cosine, to about one unit in the last place.
pub fn acosh(args: &[f64]) -> f64 {
    let x = args[0];
    if x.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if x > LARGE {
        return x.ln() + std::f64::consts::LN_2;
    }
    let above = sum((x, 0.0), (-1.0, 0.0));
    let root = square_root(product(above, sum((x, 0.0), (1.0, 0.0))));
    log_1p(sum(above, root))
}

/// The inverse hyperbolic tangent, to about one unit in the last place.
pub fn atanh(args: &[f64]) -> f64 {
    let x = args[0].abs();
    // log(1 + 2x / (1 − x)) / 2
    let below = sum((1.0, 0.0), (-x, 0.0));
    let first = 2.0 * x / below.0;
    let rest = ((-first).mul_add(below.0, 2.0 * x) - first * below.1) / below.0;
    let rest = if first.is_finite() { rest } else { 0.0 };
    (0.5 * log_1p((first, rest))).copysign(args[0])
}

#[cfg(test)]
mod tests {
    use super::{acosh, asinh, atanh, erf};

    #[test]
    fn inverse_hyperbolic_functions_undo_the_hyperbolic_ones() {
        for x in [1e-8, 0.1, 0.7, 1.5, 9.0, 30.0, 300.0] {
            assert!((asinh(&[f64::sinh(x)]) / x - 1.0).abs() < 1e-14, "{x}");
            assert!((atanh(&[f64::tanh(x.min(1.5))]) / x.min(1.5) - 1.0).abs() < 1e-14, "{x}");
        }
        for x in [0.7, 1.5, 9.0, 30.0, 300.0] {
            assert!((acosh(&[f64::cosh(x)]) / x - 1.0).abs() < 1e-14, "{x}");
        }
        // √(2t) (1 − t/12) for small t.
        let t: f64 = f64::EPSILON;
        assert!((acosh(&[1.0 + t]) / (2.0 * t).sqrt() - 1.0).abs() < 1e-15);
        assert_eq!((atanh(&[1.0]), asinh(&[f64::MAX])), (f64::INFINITY, 710.4758600739439));
        assert!(atanh(&[1.5]).is_nan() && acosh(&[0.5]).is_nan());
    }

    #[test]
    fn erf_agrees_with_published_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, y) in [(0.5, 0.5204998778), (1.0, 0.8427007929), (2.0, 0.9953222650)] {
            assert!((erf(&[x]) - y).abs() < 1e-10, "{x}");
        }
        assert!((erf(&[2.999999999]) - erf(&[3.000000001])).abs() < 1e-12);
        assert_eq!(erf(&[-7.0]), -1.0);
        assert!(erf(&[f64::NAN]).is_nan());
        assert!(erf(&[-0.0]).is_sign_negative());
    }
}
