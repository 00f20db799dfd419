//! What matrix instructions do, by the formulas of their makers: which element of a matrix the `e`-th element that a lane
//! hands over is.  Written down apart from the layouts that the lowering goes by, which it checks.
//!
//! Source: the register to matrix element mappings that AMD's Matrix Instruction Calculator prints; PTX ISA, matrix
//! fragments of `mma.m16n8k16`, `.m16n8k8` and `.m16n8k32`.

use crate::dtype::DType;
use crate::layout::fragment::Matrix;
use crate::op::scalar::cast;

/// The row and column of element `e` of lane `l`.
type Place = fn(u32, u32) -> [u32; 2];

/// The places of an instruction's `a`, `b` and `c`, and how many elements of each a lane has.
struct Places {
    elements: [u32; 3],
    a: Place,
    b: Place,
    c: Place,
}

fn places(machine: &str, matrix: &Matrix) -> Places {
    let bytes = matrix.operand.bytes();
    match (machine, bytes) {
        ("gfx90a", _) | ("gfx942", 2) => Places {
            elements: [4, 4, 4],
            a: |l, e| [l % 16, 4 * (l / 16) + e],
            b: |l, e| [4 * (l / 16) + e, l % 16],
            c: |l, e| [4 * (l / 16) + e % 4, l % 16],
        },
        ("gfx942", 4) => Places {
            elements: [2, 2, 4],
            a: |l, e| [l % 16, 2 * (l / 16) + e],
            b: |l, e| [2 * (l / 16) + e, l % 16],
            c: |l, e| [4 * (l / 16) + e % 4, l % 16],
        },
        ("gfx942", _) => Places {
            elements: [8, 8, 4],
            a: |l, e| [l % 16, 8 * (l / 16) + e],
            b: |l, e| [8 * (l / 16) + e, l % 16],
            c: |l, e| [4 * (l / 16) + e % 4, l % 16],
        },
        ("gfx1100", _) => Places {
            elements: [16, 16, 8],
            a: |l, e| [l % 16, e],
            b: |l, e| [e, l % 16],
            c: |l, e| [2 * e + l / 16, l % 16],
        },
        ("gfx1201", 2) => Places {
            elements: [8, 8, 8],
            a: |l, e| [l % 16, 8 * (e / 4) + 4 * (l / 16) + e % 4],
            b: |l, e| [8 * (e / 4) + 4 * (l / 16) + e % 4, l % 16],
            c: |l, e| [8 * (l / 16) + e, l % 16],
        },
        ("gfx1201", _) => Places {
            elements: [8, 8, 8],
            a: |l, e| [l % 16, 8 * (l / 16) + e],
            b: |l, e| [8 * (l / 16) + e, l % 16],
            c: |l, e| [8 * (l / 16) + e, l % 16],
        },
        ("sm_80", 2) => Places {
            elements: [8, 4, 4],
            a: |l, e| [l / 4 + 8 * (e / 2 % 2), 2 * (l % 4) + e % 2 + 8 * (e / 4)],
            b: |l, e| [2 * (l % 4) + e % 2 + 8 * (e / 2), l / 4],
            c: |l, e| [l / 4 + 8 * (e / 2), 2 * (l % 4) + e % 2],
        },
        ("sm_80", 4) => Places {
            elements: [4, 2, 4],
            a: |l, e| [l / 4 + 8 * (e % 2), l % 4 + 4 * (e / 2)],
            b: |l, e| [l % 4 + 4 * e, l / 4],
            c: |l, e| [l / 4 + 8 * (e / 2), 2 * (l % 4) + e % 2],
        },
        ("sm_80", _) => Places {
            elements: [16, 8, 4],
            a: |l, e| [l / 4 + 8 * (e / 4 % 2), 4 * (l % 4) + e % 4 + 16 * (e / 8)],
            b: |l, e| [4 * (l % 4) + e % 4 + 16 * (e / 4), l / 4],
            c: |l, e| [l / 4 + 8 * (e / 2), 2 * (l % 4) + e % 2],
        },
        _ => panic!("no formulas for {} on {machine}", matrix.name),
    }
}

/// Words that a lane hands over and is handed back.
pub fn words(machine: &str, matrix: &Matrix) -> usize {
    places(machine, matrix).elements.iter().sum::<u32>() as usize
}

/// The words of the result that one lane gets; `lanes` are those that all of them handed over.  Sums are taken in
/// ascending order of k, one fused multiply-add each.
pub fn multiply(machine: &str, matrix: &Matrix, lanes: &[Vec<u32>], lane: u32) -> Vec<u32> {
    let places = places(machine, matrix);
    let [in_a, in_b, in_c] = places.elements;
    let [m, n, k] = matrix.extents;
    let fill = |columns: u32, rows: u32, count: u32, first: u32, place: Place| {
        let mut whole = vec![None; (rows * columns) as usize];
        for (l, words) in lanes.iter().enumerate() {
            for e in 0..count {
                let [row, column] = place(l as u32, e);
                let word = words[(first + e) as usize];
                let old = whole[(row * columns + column) as usize].replace(word);
                assert!(old.is_none_or(|old| old == word), "{}: copies of an element differ", matrix.name);
            }
        }
        whole.into_iter().map(|word| word.expect("every element is handed over")).collect::<Vec<u32>>()
    };
    let a = fill(k, m, in_a, 0, places.a);
    let b = fill(n, k, in_b, in_a, places.b);
    let wide = |word: u32| cast(matrix.operand, matrix.sum, word.into()) as u32;
    let result = (0..in_c).map(|e| {
        let [i, j] = (places.c)(lane, e);
        let first = lanes[lane as usize][(in_a + in_b + e) as usize];
        (0..k).fold(first, |sum, l| {
            let (x, y) = (wide(a[(i * k + l) as usize]), wide(b[(l * n + j) as usize]));
            match matrix.sum {
                DType::F32 => f32::from_bits(x).mul_add(f32::from_bits(y), f32::from_bits(sum)).to_bits(),
                _ => x.wrapping_mul(y).wrapping_add(sum),
            }
        })
    });
    result.collect()
}
