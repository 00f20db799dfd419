//! Every expansion against the oracle: special values, samples, and for small integers all pairs.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, SQRT_2};

use super::evaluate::{Recording, ulps};
use crate::dtype::DType;
use crate::op::pointwise::{Gives, Lower, Oracle, Row};
use crate::op::{Pointwise, scalar};

const SPECIAL: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.1,
    7.0,
    2.5,
    -2.5,
    1e20,
    8388607.5,
    -16777215.0,
    16777216.0,
    9007199254740991.0,
    9007199254740992.0,
    4503599627370495.5,
    1e-30,
    1e-45,
    -1e-45,
    1e-40,
    1.1754944e-38,
    3.4028235e38,
    -1e38,
    5e-324,
    -1e-310,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1e300,
    1e-300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Where expansions change from one formula to another, or results leave the range.
const CORNERS: &[f64] = &[
    0.0,
    1e-45,
    1.1754944e-38,
    1e-8,
    3e-8,
    0.25,
    0.3466,
    0.5,
    0.625,
    2.0 / 3.0,
    FRAC_PI_4,
    1.0,
    4.0 / 3.0,
    SQRT_2,
    FRAC_PI_2,
    2.0,
    3.0 * FRAC_PI_4,
    PI,
    3.93,
    5.95,
    9.0,
    18.0,
    20.0,
    37.0,
    88.0,
    88.72284,
    89.0,
    89.416,
    103.97,
    104.0,
    709.78,
    710.4758,
    745.13,
    1e5,
    6.7e7,
    1.8e16,
    1e22,
    2.26e38,
    3.4e38,
    1e300,
    1.797e308,
    f64::INFINITY,
];

fn expansions() -> impl Iterator<Item = &'static Row> {
    Pointwise::ALL.iter().map(|op| op.row()).filter(|row| matches!(row.lower, Lower::Expand(_)))
}

fn floats_of(row: &Row) -> Option<fn(&[f64]) -> f64> {
    match row.oracle {
        Oracle::Float(f) | Oracle::Both(f, _) => Some(f),
        _ => None,
    }
}

fn encode(dtype: DType, x: f64) -> u64 {
    if dtype == DType::F32 { (x as f32).to_bits().into() } else { x.to_bits() }
}

fn decode(dtype: DType, bits: u64) -> f64 {
    if dtype == DType::F32 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) }
}

/// Compares on operands given as bit patterns; the standard library's f64 functions may be off by one themselves.
fn check(row: &Row, dtype: DType, operands: &[Vec<u64>]) {
    let Some(oracle) = floats_of(row) else { return };
    let bound = f64::from(row.ulp) + if dtype == DType::F64 && row.ulp > 0 { 1.0 } else { 0.0 };
    let slices: Vec<&[u64]> = operands.iter().map(Vec::as_slice).collect();
    let results = Recording::of(row.op, dtype).run(&slices);
    for (i, &got) in results.iter().enumerate() {
        let numbers: Vec<f64> = slices.iter().map(|s| decode(dtype, s[i])).collect();
        let wanted = oracle(&numbers);
        let error = match row.gives {
            Gives::Bool => {
                if got as f64 == wanted {
                    0.0
                } else {
                    f64::INFINITY
                }
            }
            // An exact row is right when it is the rounded oracle.
            _ if row.ulp == 0 => ulps(decode(dtype, got), decode(dtype, encode(dtype, wanted)), dtype),
            _ => ulps(decode(dtype, got), wanted, dtype),
        };
        assert!(
            error <= bound,
            "{} {dtype} {numbers:?}: {error} ulp, got {}, wanted {wanted}",
            row.name,
            decode(dtype, got)
        );
    }
}

#[test]
fn expansions_are_native_and_well_typed() {
    for row in expansions() {
        for &dtype in DType::ALL.iter().filter(|d| row.accepts(**d) && d.compute() == **d) {
            let recording = Recording::of(row.op, dtype);
            assert_eq!(Some(recording.result()), row.result(dtype), "{} {dtype}", row.name);
        }
    }
}

#[test]
fn the_table_knows_what_an_expansion_costs() {
    for row in expansions() {
        let rows = Recording::of(row.op, DType::F32).rows() as u32;
        // A division is one row.
        assert!((rows / 2..=rows * 2 + 3).contains(&row.cost), "{}: {rows} rows, cost {}", row.name, row.cost);
    }
}

#[test]
fn special_values() {
    for row in expansions() {
        for dtype in [DType::F32, DType::F64] {
            let count = SPECIAL.len();
            let pairs = if row.arity == 2 { count * count } else { count };
            let operands: Vec<Vec<u64>> = (0..row.arity)
                .map(|k| {
                    (0..pairs).map(|i| encode(dtype, SPECIAL[if k == 0 { i % count } else { i / count }])).collect()
                })
                .collect();
            check(row, dtype, &operands);
        }
    }
}

#[test]
fn neighbourhoods_of_corners() {
    for row in expansions().filter(|row| row.arity == 1) {
        for dtype in [DType::F32, DType::F64] {
            let sign = 1 << (dtype.bits() - 1);
            let around = |&x: &f64| (0..64u64).map(move |i| (encode(dtype, x) + i).saturating_sub(32));
            let positive: Vec<u64> = CORNERS.iter().flat_map(around).collect();
            let negative = positive.iter().map(|bits| bits | sign).collect();
            check(row, dtype, &[positive]);
            check(row, dtype, &[negative]);
        }
    }
}

/// Of numbers that are no greater than 0, one row gives the other's bits.
#[test]
fn exponentials_of_what_is_below_zero_are_those_of_the_general_row() {
    let narrow = (1u64 << 31..=0xff80_0000).step_by(4099);
    // Where results leave the normal range, and then the range.
    let rare = (u64::from((-87.0f32).to_bits())..u64::from((-133.0f32).to_bits())).step_by(61);
    let wide = (1u64 << 63..=0xfff0 << 48).step_by(4_503_599_627_371);
    let end = ((-708.0f64).to_bits()..(-1065.0f64).to_bits()).step_by(2_251_799_813);
    let cases: [(DType, Vec<u64>); 2] =
        [(DType::F32, narrow.chain(rare).collect()), (DType::F64, wide.chain(end).collect())];
    for (dtype, xs) in cases {
        let [wanted, got] = [Pointwise::Exp, Pointwise::ExpBelow].map(|op| scalar::map(op, dtype, dtype, &[&xs]));
        let other = (0..xs.len()).find(|&i| wanted[i] != got[i]);
        assert_eq!(other.map(|i| (decode(dtype, xs[i]), wanted[i], got[i])), None, "{dtype}");
    }
}

#[test]
fn angles_are_reduced_with_all_the_bits_that_they_need() {
    // 6381956970095103 · 2^797 is of all f64 the nearest to a multiple of π/2; values computed with 2000 bits.
    let x: u64 = 5.319372648326541e255f64.to_bits();
    for (op, wanted) in
        [(Pointwise::Sin, 1.0), (Pointwise::Cos, -4.687165924254628e-19), (Pointwise::Tan, -2.133485385753704e18)]
    {
        let got = f64::from_bits(Recording::of(op, DType::F64).run(&[&[x]])[0]);
        assert!(ulps(got, wanted, DType::F64) <= 1.0, "{} gives {got:e}", op.row().name);
    }
}

#[test]
fn samples_of_all_magnitudes() {
    for row in expansions().filter(|row| row.arity == 1) {
        for dtype in [DType::F32, DType::F64] {
            // Odd strides, so that all mantissa bits vary.
            let (count, stride) = if dtype == DType::F32 { (1 << 14, 262_139) } else { (1 << 12, (1 << 52) - 27) };
            check(row, dtype, &[(0..count).map(|i: u64| i.wrapping_mul(stride)).collect()]);
        }
    }
}

/// A sequence without pattern (Marsaglia's xorshift).
fn noise() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x9e37_79b9_7f4a_7c15u64), |&s| {
        let s = s ^ s << 13;
        let s = s ^ s >> 7;
        Some(s ^ s << 17)
    })
}

#[test]
fn samples_of_pairs() {
    for row in expansions().filter(|row| row.arity == 2) {
        for dtype in [DType::F32, DType::F64] {
            let bits: Vec<u64> =
                noise().take(8192).map(|s| s.wrapping_mul(0x2545_f491_4f6c_dd1d) >> (64 - dtype.bits())).collect();
            let (x, y) = bits.split_at(4096);
            check(row, dtype, &[x.to_vec(), y.to_vec()]);
            // Exponents that keep powers in range, and quotients near one.
            let mild = |s: &u64| encode(dtype, (*s as f64 / 2f64.powi(dtype.bits() as i32) - 0.5) * 80.0);
            let base: Vec<u64> =
                x.iter().map(|s| encode(dtype, *s as f64 / 2f64.powi(dtype.bits() as i32) * 9.0)).collect();
            check(row, dtype, &[base, y.iter().map(mild).collect()]);
            check(row, dtype, &[x.iter().map(mild).collect(), y.iter().map(mild).collect()]);
        }
    }
}

#[test]
fn integers_of_eight_bits_exhaustively() {
    for row in expansions() {
        let Oracle::Both(_, oracle) = row.oracle else { continue };
        for dtype in [DType::I8, DType::U8] {
            let pairs = if row.arity == 2 { 1 << 16 } else { 1 << 8 };
            let operands: Vec<Vec<u64>> =
                (0..row.arity).map(|k| (0..pairs).map(|i| i >> (8 * k) & 0xff).collect()).collect();
            let slices: Vec<&[u64]> = operands.iter().map(Vec::as_slice).collect();
            for (i, &got) in Recording::of(row.op, dtype).run(&slices).iter().enumerate() {
                let numbers: Vec<i128> = slices.iter().map(|s| widen(dtype, s[i])).collect();
                let wanted = oracle(&numbers, dtype) as u64 & 0xff;
                assert_eq!(got, wanted, "{} {dtype} {numbers:?}", row.name);
            }
        }
    }
}

#[test]
fn integers_at_the_ends_of_every_width() {
    for row in expansions() {
        let Oracle::Both(_, oracle) = row.oracle else { continue };
        for &dtype in DType::ALL.iter().filter(|d| d.is_int()) {
            let mask = u64::MAX >> (64 - dtype.bits());
            let ends: Vec<u64> = [0, 1, 2, 3, 5, 31, 63, 64]
                .iter()
                .flat_map(|&i: &u64| [i, i.wrapping_neg(), mask >> 1 ^ i])
                .map(|x| x & mask)
                .collect();
            let count = ends.len();
            let operands: Vec<Vec<u64>> = (0..row.arity)
                .map(|k| (0..count * count).map(|i| ends[if k == 0 { i % count } else { i / count }]).collect())
                .collect();
            let slices: Vec<&[u64]> = operands.iter().map(Vec::as_slice).collect();
            for (i, &got) in Recording::of(row.op, dtype).run(&slices).iter().enumerate() {
                let numbers: Vec<i128> = slices.iter().map(|s| widen(dtype, s[i])).collect();
                assert_eq!(got, oracle(&numbers, dtype) as u64 & mask, "{} {dtype} {numbers:?}", row.name);
            }
        }
    }
}

fn widen(dtype: DType, bits: u64) -> i128 {
    let unused = 128 - dtype.bits();
    if dtype.is_signed() { (i128::from(bits) << unused) >> unused } else { bits.into() }
}
