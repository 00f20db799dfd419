//! A program together with a launch of it: run, compared, written to and read from a file.

use std::fmt;

use crate::dtype::DType;
use crate::op::scalar;
use crate::target::interp::{self, Arg, Fault, Options, Report};
use crate::tile::ir::{Param, ParamData, ParamKind, Program};
use crate::tile::parse::{bits, parse};
use crate::tile::print::constant;

/// A program and a launch of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program.
    pub program: Program,
    /// Number of programs along each axis.
    pub grid: [u32; 3],
    /// Arguments; buffers hold what they hold before the launch.
    pub args: Vec<Data>,
}

/// An argument that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A buffer's bytes, elements in little-endian order.
    Buffer(Vec<u8>),
    /// A scalar's bit pattern.
    Scalar(u64),
}

/// The first element in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the parameter.
    pub param: usize,
    /// Index of the element.
    pub element: usize,
    /// Element type.
    pub dtype: DType,
    /// Both bit patterns.
    pub bits: [u64; 2],
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = self.bits;
        write!(f, "element {} of p{} ({}): {a:#x} and {b:#x}", self.element, self.param, self.dtype)
    }
}

impl Case {
    /// Interprets `program`, this case's own or a rewritten one; gives the arguments as they are afterwards.
    pub fn interpret(&self, program: &Program) -> Result<(Vec<Data>, Report), Fault> {
        let mut data = self.args.clone();
        let mut args: Vec<Arg<'_>> = data
            .iter_mut()
            .map(|d| match d {
                Data::Buffer(bytes) => Arg::Buffer(bytes),
                Data::Scalar(bits) => Arg::Scalar(*bits),
            })
            .collect();
        let report = interp::launch_with(program, self.grid, &mut args, Options { races: true, steps: Some(1 << 22) })?;
        Ok((data, report))
    }

    /// The first difference between two results of this case; NaNs are alike.
    pub fn difference(&self, a: &[Data], b: &[Data]) -> Option<Difference> {
        for (param, (data, (a, b))) in self.program.params.values().zip(a.iter().zip(b)).enumerate() {
            let (ParamKind::Buffer { .. }, Data::Buffer(a), Data::Buffer(b)) = (&data.kind, a, b) else { continue };
            let dtype = data.dtype;
            let pairs = a.chunks(dtype.bytes()).zip(b.chunks(dtype.bytes()));
            let differ = |(_, (a, b)): &(usize, (&[u8], &[u8]))| !scalar::same(dtype, word(a), word(b));
            if let Some((element, (a, b))) = pairs.enumerate().find(differ) {
                return Some(Difference { param, element, dtype, bits: [word(a), word(b)] });
            }
        }
        None
    }

    /// Reads a program with its launch: comments before the text of the program give the grid (`// grid 2 1 1`) and the
    /// arguments (`// p0 = 1 2 3`, `// p1 = 0 * 16`: sixteen times, `// p2 = iota 64`: 0, 1, 2, …).
    pub fn read(text: &str) -> Result<Case, String> {
        let program = parse(text).map_err(|e| e.to_string())?;
        let mut grid = [1; 3];
        let mut args = vec![None; program.params.len()];
        for line in text.lines().map_while(|line| line.strip_prefix("// ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["grid", ref sizes @ ..] if sizes.len() <= 3 => {
                    for (n, size) in grid.iter_mut().zip(sizes) {
                        *n = size.parse().map_err(|_| format!("`{line}`: wanted numbers"))?;
                    }
                }
                [param, "=", ref values @ ..] => {
                    let index = program.params.keys().position(|p| p.to_string() == param);
                    let index = index.ok_or_else(|| format!("`{line}`: there is no {param}"))?;
                    args[index] = Some(
                        data(&program.params[Param::from_u32(index as u32)], values)
                            .ok_or_else(|| format!("`{line}`: wanted numbers of the parameter's type"))?,
                    );
                }
                _ => {}
            }
        }
        let missing = args.iter().position(Option::is_none);
        let args: Option<Vec<Data>> = args.into_iter().collect();
        args.map(|args| Case { program, grid, args }).ok_or_else(|| format!("p{} has no value", missing.unwrap_or(0)))
    }

    /// What each written buffer holds in `results`, as `p1 gives 1 2 3`.
    pub fn outputs(&self, results: &[Data]) -> Vec<String> {
        let mut out = Vec::new();
        for ((param, data), result) in self.program.params.iter().zip(results) {
            let (ParamKind::Buffer { written: true }, Data::Buffer(bytes)) = (&data.kind, result) else { continue };
            let number = |bytes| constant(data.dtype, word(bytes));
            let numbers: Vec<String> = bytes.chunks(data.dtype.bytes()).map(number).collect();
            out.push(format!("{param} gives {}", numbers.join(" ")));
        }
        out
    }
}

/// The little-endian number that some bytes are.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// An argument from its text.
fn data(param: &ParamData, words: &[&str]) -> Option<Data> {
    let number = |word: &str| bits(param.dtype, word);
    let elements: Vec<u64> = match *words {
        ["iota", n] => (0..n.parse().ok()?).map(|i| scalar::cast(DType::U64, param.dtype, i)).collect(),
        [value, "*", n] => vec![number(value)?; n.parse().ok()?],
        _ => words.iter().map(|word| number(word)).collect::<Option<_>>()?,
    };
    match param.kind {
        ParamKind::Scalar { .. } => Some(Data::Scalar(*elements.first()?)),
        ParamKind::Buffer { .. } => Some(Data::Buffer(
            elements.iter().flat_map(|x| x.to_le_bytes().into_iter().take(param.dtype.bytes())).collect(),
        )),
    }
}
