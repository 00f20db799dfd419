//! Native rows on f32 and f64.

use crate::op::Pointwise;

macro_rules! float_rows {
    ($name:ident $float:ident $bits:ident) => {
        pub(super) fn $name(op: Pointwise, args: &[&[u64]]) -> Vec<u64> {
            const SIGN: $bits = 1 << ($bits::BITS - 1);
            let from = |x: u64| $float::from_bits(x as $bits);
            // Processors differ in the sign and payload of the NaNs they make; these are all alike.
            let to = |x: $float| u64::from(if x.is_nan() { $float::NAN.to_bits() & !SIGN } else { x.to_bits() });
            let one = |f: fn($float) -> $float| args[0].iter().map(|&x| to(f(from(x)))).collect();
            let two = |f: fn($float, $float) -> $float| {
                args[0].iter().zip(args[1]).map(|(&x, &y)| to(f(from(x), from(y)))).collect()
            };
            let test = |f: fn(&$float, &$float) -> bool| {
                args[0].iter().zip(args[1]).map(|(&x, &y)| u64::from(f(&from(x), &from(y)))).collect()
            };
            let sign = |f: fn($bits) -> $bits| args[0].iter().map(|&x| u64::from(f(x as $bits))).collect();
            match op {
                Pointwise::Add => two(|x, y| x + y),
                Pointwise::Sub => two(|x, y| x - y),
                Pointwise::Mul => two(|x, y| x * y),
                Pointwise::Div => two(|x, y| x / y),
                Pointwise::Fma => {
                    let xy = args[0].iter().zip(args[1]);
                    xy.zip(args[2]).map(|((&x, &y), &z)| to(from(x).mul_add(from(y), from(z)))).collect()
                }
                Pointwise::Neg => sign(|x| x ^ SIGN),
                Pointwise::Abs => sign(|x| x & !SIGN),
                Pointwise::Min => two(|x, y| {
                    if x.is_nan() || y.is_nan() {
                        $float::NAN
                    } else if x < y || x == y && x.is_sign_negative() {
                        x
                    } else {
                        y
                    }
                }),
                Pointwise::Max => two(|x, y| {
                    if x.is_nan() || y.is_nan() {
                        $float::NAN
                    } else if x > y || x == y && x.is_sign_positive() {
                        x
                    } else {
                        y
                    }
                }),
                Pointwise::Sqrt => one($float::sqrt),
                Pointwise::Floor => one($float::floor),
                Pointwise::Ceil => one($float::ceil),
                Pointwise::Trunc => one($float::trunc),
                Pointwise::Round => one($float::round_ties_even),
                Pointwise::Eq => test($float::eq),
                Pointwise::Ne => test($float::ne),
                Pointwise::Lt => test($float::lt),
                Pointwise::Le => test($float::le),
                Pointwise::Gt => test($float::gt),
                Pointwise::Ge => test($float::ge),
                other => panic!("`{}` is not a native row on floats", other.row().name),
            }
        }
    };
}

float_rows! { f32_row f32 u32 }
float_rows! { f64_row f64 u64 }
