//! A machine that stands for all: each kernel that is launched on it runs on every target, on the same operands, and how
//! they differ is written down.  What comes out is the first target's.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kiln_lowering::DType;
use kiln_lowering::graph::number;
use kiln_lowering::tile::{ParamKind, Program};

use crate::assemble::{ASSEMBLERS, Missed};
use crate::targets::{self, Argument, Machine};

/// What became of a kernel on a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The same bits (a NaN may be another NaN).
    Equal,
    /// Elements differ by at most so many steps from one number of the type to the next.
    Ulps(u64),
    /// Elements differ that are no neighbours, or the code of a failed check; which.
    Differs(String),
    /// Compiled, and not run for want of a device.
    Assembled,
    /// Not even that, for want of a tool.
    Skipped(String),
    /// The compiler or the machine refused it.
    Failed(String),
}

impl Outcome {
    /// Whether nothing is wrong with it.
    pub fn is_well(&self) -> bool {
        matches!(self, Outcome::Equal | Outcome::Assembled | Outcome::Skipped(_))
    }
}

/// A kernel on all targets.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case that launched it first.
    pub case: String,
    /// The kernel's own name.
    pub kernel: String,
    /// In the order of [`columns`].
    pub outcomes: Vec<Outcome>,
}

/// Names of the columns: the targets that this computer has, and the machines that are only compiled for.
pub fn columns() -> Vec<&'static str> {
    targets::present().map(|(target, _)| target.name).chain(ASSEMBLERS.iter().map(|assembler| assembler.name)).collect()
}

/// Collects findings, one a kernel.
#[derive(Default)]
pub struct Witness {
    findings: Mutex<HashMap<String, Option<Finding>>>,
}

/// The witness of one case.
pub struct Hearing<'w> {
    witness: &'w Witness,
    case: &'w str,
}

impl Witness {
    /// The machine to run a case on.
    pub fn of<'w>(&'w self, case: &'w str) -> Hearing<'w> {
        Hearing { witness: self, case }
    }

    /// All that was found, by case and kernel.
    pub fn findings(&self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.lock().values().flatten().cloned().collect();
        all.sort_by(|a, b| (&a.case, &a.kernel).cmp(&(&b.case, &b.kernel)));
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Finding>>> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine for Hearing<'_> {
    fn launch(&self, program: &Program, grid: [u32; 3], args: &mut [Argument<'_>]) -> Result<u32, String> {
        let Some((_, first)) = targets::present().next() else { return Err("there is no target".into()) };
        let text = program.to_string();
        let before: Vec<Owned> = args.iter().map(Owned::of).collect();
        let code = first.launch(program, grid, args)?;
        // Whoever comes first with a kernel looks at it.
        if self.witness.lock().contains_key(&text) {
            return Ok(code);
        }
        self.witness.lock().insert(text.clone(), None);
        let wanted: Vec<Owned> = args.iter().map(Owned::of).collect();
        let on_targets = targets::present().enumerate().map(|(at, (_, machine))| match at {
            0 => Outcome::Equal,
            _ => {
                let mut own = before.clone();
                let mut arguments: Vec<Argument<'_>> = own.iter_mut().map(Owned::lend).collect();
                match machine.launch(program, grid, &mut arguments) {
                    Err(error) => Outcome::Failed(error),
                    Ok(got) if got != code => Outcome::Differs(format!("check {got}, wanted {code}")),
                    // What a failed check leaves behind is anybody's.
                    Ok(_) if code != 0 => Outcome::Equal,
                    Ok(_) => compare(program, &own, &wanted),
                }
            }
        });
        let assembled = ASSEMBLERS.iter().map(|assembler| match assembler.assemble(program) {
            Ok(_) => Outcome::Assembled,
            Err(Missed::Tool(what)) => Outcome::Skipped(what),
            Err(Missed::Refused(error)) => Outcome::Failed(error),
        });
        let outcomes = on_targets.chain(assembled).collect();
        let finding = Finding { case: self.case.to_owned(), kernel: program.name.clone(), outcomes };
        self.witness.lock().insert(text, Some(finding));
        Ok(code)
    }
}

/// An argument that is kept.
#[derive(Clone)]
enum Owned {
    Buffer(Aligned),
    Scalar(u64),
}

/// Bytes that lie as devices align them, with room around them.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

const ALIGNMENT: usize = 64;

impl Aligned {
    fn of(data: &[u8]) -> Aligned {
        let mut bytes = vec![0; data.len() + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        bytes[start..start + data.len()].copy_from_slice(data);
        Aligned { bytes, start, len: data.len() }
    }

    fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

/// A copy lies elsewhere, so that its alignment is found anew.
impl Clone for Aligned {
    fn clone(&self) -> Aligned {
        Aligned::of(self.data())
    }
}

impl Owned {
    fn of(argument: &Argument<'_>) -> Owned {
        match argument {
            Argument::Buffer(bytes) => Owned::Buffer(Aligned::of(bytes)),
            Argument::Scalar(bits) => Owned::Scalar(*bits),
        }
    }

    fn lend(&mut self) -> Argument<'_> {
        match self {
            Owned::Buffer(aligned) => Argument::Buffer(&mut aligned.bytes[aligned.start..aligned.start + aligned.len]),
            Owned::Scalar(bits) => Argument::Scalar(*bits),
        }
    }
}

/// The worst of all elements of the buffers that the program writes.
fn compare(program: &Program, got: &[Owned], wanted: &[Owned]) -> Outcome {
    let mut worst = 0;
    for (at, data) in program.params.values().enumerate() {
        let (Owned::Buffer(got), Owned::Buffer(wanted)) = (&got[at], &wanted[at]) else { continue };
        if data.kind != (ParamKind::Buffer { written: true }) {
            continue;
        }
        let width = data.dtype.bytes();
        for (i, (got, wanted)) in got.data().chunks_exact(width).zip(wanted.data().chunks_exact(width)).enumerate() {
            if got == wanted {
                continue;
            }
            match steps_between(data.dtype, word(got), word(wanted)) {
                Some(steps) => worst = worst.max(steps),
                None => {
                    let of = |bytes: &[u8]| format!("{:#x}", word(bytes));
                    return Outcome::Differs(format!("p{at}, element {i}: {}, wanted {}", of(got), of(wanted)));
                }
            }
        }
    }
    if worst == 0 { Outcome::Equal } else { Outcome::Ulps(worst) }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// How far two floats are apart, infinities being the neighbours of the greatest numbers; `None` where one is a NaN and
/// the other is not, and for integers.
fn steps_between(dtype: DType, a: u64, b: u64) -> Option<u64> {
    if !dtype.is_float() {
        return None;
    }
    match (number::to_f64(dtype, a).is_nan(), number::to_f64(dtype, b).is_nan()) {
        (true, true) => return Some(0),
        (false, false) => {}
        _ => return None,
    }
    let sign = 1u64 << (dtype.bits() - 1);
    let place = |bits: u64| {
        let magnitude = (bits & (sign - 1)) as i64;
        // The two zeros are different bits: one step.
        if bits & sign == 0 { magnitude } else { -magnitude - 1 }
    };
    Some(place(a).abs_diff(place(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::Setting;
    use crate::tables;
    use kiln_lowering::graph::Reduction;
    use kiln_lowering::graph::arbitrary::Fill;

    #[test]
    fn steps_are_counted_across_zero() {
        let bits = |x: f32| u64::from(x.to_bits());
        let between = |a: f32, b: f32| steps_between(DType::F32, bits(a), bits(b));
        assert_eq!(between(1.0, 1.0f32.next_up()), Some(1));
        assert_eq!(
            (between(0.0, -0.0), between(f32::NAN, -f32::NAN), between(f32::NAN, 1.0)),
            (Some(1), Some(0), None)
        );
        assert_eq!(steps_between(DType::I32, 1, 2), None);
    }

    #[test]
    fn a_kernel_is_found_once_and_has_an_outcome_in_every_column() {
        let case = tables::reduction(Reduction::Sum, DType::F32, 33, Fill::Ordinary).expect("f32 can be summed");
        let witness = Witness::default();
        for _ in 0..2 {
            let run = Setting::default().run(&case, &case.graph, true, &witness.of("sums"));
            run.expect("every kernel runs");
        }
        let findings = witness.findings();
        assert!(!findings.is_empty());
        for finding in &findings {
            assert_eq!(finding.outcomes.len(), columns().len());
            for (column, outcome) in columns().iter().zip(&finding.outcomes) {
                assert!(outcome.is_well(), "{column}: {finding:?}");
            }
        }
    }
}
