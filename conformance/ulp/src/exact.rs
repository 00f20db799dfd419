//! What rows on f64 should give, to 160 bits.

use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;
use kiln_lowering::op::Pointwise;

/// A number of that precision.
pub type Big = FBig<HalfEven, 2>;

/// Precision of all that is computed here: three times f64's.
const PRECISION: usize = 160;

/// Exponentials of larger arguments leave f64's range, or have reached what they tend to, on either side.
const SATURATED: f64 = 800.0;

fn big(x: f64) -> Option<Big> {
    Some(Big::try_from(x).ok()?.with_precision(PRECISION).value())
}

fn one() -> Big {
    Big::ONE.with_precision(PRECISION).value()
}

/// The row's value at these finite operands.
///
/// `None` where f64 functions are as good: where the result is infinite, NaN, a zero, or a limit that has been reached.
pub fn exact(op: Pointwise, args: &[f64]) -> Option<Big> {
    let x = args[0];
    if args.iter().any(|x| !x.is_finite()) || x == 0.0 {
        return None;
    }
    let inside = |domain: bool| if domain { big(x) } else { None };
    let bounded = || inside(x.abs() < SATURATED);
    Some(match op {
        Pointwise::Exp => bounded()?.exp(),
        Pointwise::ExpBelow if x.abs() < SATURATED => big(-x.abs())?.exp(),
        Pointwise::Expm1 => bounded()?.exp_m1(),
        Pointwise::Log => inside(x > 0.0)?.ln(),
        Pointwise::Log1p => inside(x > -1.0)?.ln_1p(),
        Pointwise::Sin => big(x)?.sin(),
        Pointwise::Cos => big(x)?.cos(),
        Pointwise::Tan => big(x)?.tan(),
        Pointwise::Sinh => bounded()?.sinh(),
        Pointwise::Cosh => bounded()?.cosh(),
        Pointwise::Tanh => bounded()?.tanh(),
        Pointwise::Asin => inside(x.abs() <= 1.0)?.asin(),
        Pointwise::Acos => inside(x.abs() < 1.0)?.acos(),
        Pointwise::Atan => big(x)?.atan(),
        Pointwise::Asinh => big(x)?.asinh(),
        Pointwise::Acosh => inside(x > 1.0)?.acosh(),
        Pointwise::Atanh => inside(x.abs() < 1.0)?.atanh(),
        Pointwise::Sigmoid => one() / (one() + (-bounded()?).exp()),
        Pointwise::Erf => error_function(&inside(x.abs() < 6.5)?),
        Pointwise::Hypot => big(x)?.hypot(&big(args[1])?),
        Pointwise::Atan2 if args[1] != 0.0 => big(x)?.atan2(&big(args[1])?),
        Pointwise::Pow => power(x, args[1])?,
        _ => return None,
    })
}

/// `x^y` where it is a number other than zero, or nearly one.
fn power(x: f64, y: f64) -> Option<Big> {
    // Where it is no whole number the power of a negative base is none; odd ones are those with a last bit.
    let whole = y == y.trunc();
    if y == 0.0 || x < 0.0 && !whole || (x.abs().log2() * y).abs() > 1100.0 {
        return None;
    }
    let power = big(x.abs())?.powf(&big(y)?);
    let odd = whole && (y / 2.0) != (y / 2.0).trunc();
    Some(if x < 0.0 && odd { -power } else { power })
}

/// `erf x = 2/√π · e^(−x²) · Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1))`, all terms of one sign (Abramowitz and Stegun, 7.1.6).
fn error_function(x: &Big) -> Big {
    let square = x * x;
    let twice = &square + &square;
    let mut term = x.clone();
    let mut sum = x.clone();
    for n in 1u32.. {
        term = term * &twice / Big::from(2 * n + 1);
        sum += &term;
        if exponent(&term) < exponent(&sum) - PRECISION as isize {
            break;
        }
    }
    let root = Big::pi(PRECISION).sqrt();
    (&sum + &sum) * (-square).exp() / root
}

/// `e` with `2^e ≤ |x| < 2^(e+1)`.
fn exponent(x: &Big) -> isize {
    x.repr().exponent() + x.repr().digits() as isize - 1
}

/// How far `got` is from `wanted`, in units in the last place of `wanted` as an f64.
pub fn error(got: f64, wanted: &Big) -> f64 {
    // An infinity, and what is beyond all numbers, stand where the next number after the greatest would.
    let next = |negative: bool| if negative { -(one() << 1024) } else { one() << 1024 };
    let got = match got {
        f64::INFINITY | f64::NEG_INFINITY => next(got < 0.0),
        _ => match big(got) {
            Some(got) => got,
            None => return f64::INFINITY,
        },
    };
    let unit = exponent(wanted).clamp(-1022, 1023) - 52;
    let beyond = exponent(wanted) > 1023;
    let off = if beyond { got - next(*wanted < Big::ZERO) } else { got - wanted };
    (off >> unit).to_f64().value().abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_agree_with_published_ones() {
        // Abramowitz and Stegun, tables 7.1 and 4.2, and NIST's digital library.
        for (op, x, wanted) in [
            (Pointwise::Erf, 0.5, 0.520_499_877_813_046_5),
            (Pointwise::Erf, 2.0, 0.995_322_265_018_952_7),
            (Pointwise::Erf, -6.0, -1.0),
            (Pointwise::Log, 2.0, std::f64::consts::LN_2),
            (Pointwise::Exp, -745.13, 5e-324),
            (Pointwise::Sigmoid, 0.5, 0.622_459_331_201_854_6),
        ] {
            let value = exact(op, &[x]).expect("it is a number");
            assert!(error(wanted, &value) <= 0.5, "{} {x}: {}", op.row().name, value.to_f64().value());
        }
        let value = exact(Pointwise::Pow, &[-3.0, 3.0]).expect("it is a number");
        assert_eq!(value.to_f64().value(), -27.0);
        assert!(exact(Pointwise::Pow, &[-3.0, 0.5]).is_none());
    }

    #[test]
    fn errors_are_in_units_of_the_last_place() {
        let wanted = big(1.5).expect("it is a number");
        assert_eq!(error(1.5 + 2.0 * f64::EPSILON, &wanted), 2.0);
        let least = big(5e-324).expect("it is a number");
        assert_eq!(error(0.0, &least), 1.0);
        assert_eq!(error(f64::INFINITY, &big(f64::MAX).expect("it is a number")), 1.0);
        let beyond = exact(Pointwise::Sinh, &[-745.0]).expect("it is a number");
        assert_eq!((error(f64::NEG_INFINITY, &beyond), error(f64::MIN, &beyond)), (0.0, 1.0));
    }
}
