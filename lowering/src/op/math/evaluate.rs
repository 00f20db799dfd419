//! Expansions as lists of native rows: recorded and checked once, then run on blocks of numbers.
//!
//! What a row computes is [`scalar`]'s business; here it is only checked that an expansion uses native rows alone and
//! that the types of their operands agree.

use crate::dtype::DType;
use crate::op::pointwise::Lower;
use crate::op::{Expander, Pointwise, Term, scalar};

/// An expansion as a list of native rows.
pub struct Recording {
    steps: Vec<(Step, DType)>,
    result: Term,
}

enum Step {
    Operand(usize),
    Constant(u64),
    Row(Pointwise, Vec<Term>),
    Power(Term),
}

impl Recording {
    /// What `op` becomes on operands of type `dtype`.  Panics where an expansion is wrongly typed or not native.
    pub fn of(op: Pointwise, dtype: DType) -> Recording {
        let mut recording = Recording { steps: Vec::new(), result: Term(0) };
        let operands: Vec<Term> = (0..op.row().arity).map(|i| recording.push(Step::Operand(i), dtype)).collect();
        recording.result = match op.row().lower {
            Lower::Native => recording.row(op, &operands),
            Lower::Expand(expand) => expand(&mut recording, &operands),
        };
        recording
    }

    /// Number of rows, constants and operands not counted.
    pub fn rows(&self) -> usize {
        self.steps.iter().filter(|(step, _)| matches!(step, Step::Row(..))).count()
    }

    /// Element type of the result.
    pub fn result(&self) -> DType {
        self.dtype(self.result)
    }

    /// The results for operands given as bit patterns, one slice an operand, all of one length.
    pub fn run(&self, operands: &[&[u64]]) -> Vec<u64> {
        let mut values: Vec<Vec<u64>> = Vec::with_capacity(self.steps.len());
        for (step, dtype) in &self.steps {
            let value = match step {
                Step::Operand(i) => operands[*i].to_vec(),
                Step::Constant(bits) => vec![*bits; operands[0].len()],
                Step::Row(op, args) => {
                    let from = self.dtype(args[args.len() - 1]);
                    let args: Vec<&[u64]> = args.iter().map(|t| values[t.0 as usize].as_slice()).collect();
                    scalar::map(*op, from, *dtype, &args)
                }
                Step::Power(x) => values[x.0 as usize].iter().map(|&x| scalar::exp2_approx(x)).collect(),
            };
            values.push(value);
        }
        values.swap_remove(self.result.0 as usize)
    }

    fn push(&mut self, step: Step, dtype: DType) -> Term {
        self.steps.push((step, dtype));
        Term(self.steps.len() as u32 - 1)
    }
}

impl Expander for Recording {
    fn row(&mut self, op: Pointwise, args: &[Term]) -> Term {
        let row = op.row();
        assert_eq!(args.len(), row.arity, "{} takes {} operands", row.name, row.arity);
        let dtype = self.dtype(args[args.len() - 1]);
        assert!(matches!(row.lower, Lower::Native), "{} is not a native row", row.name);
        assert!(row.accepts(dtype), "{} does not take {dtype}", row.name);
        for (i, &arg) in args.iter().enumerate() {
            let wanted = if op == Pointwise::Select && i == 0 { DType::Bool } else { dtype };
            assert_eq!(self.dtype(arg), wanted, "operand {i} of {}", row.name);
        }
        let result = row.result(dtype).unwrap_or_else(|| panic!("{} is a conversion", row.name));
        self.push(Step::Row(op, args.to_vec()), result)
    }

    fn convert(&mut self, op: Pointwise, arg: Term, to: DType) -> Term {
        assert!(op == Pointwise::Cast || self.dtype(arg).bits() == to.bits(), "bitcast between widths");
        self.push(Step::Row(op, vec![arg]), to)
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> Term {
        self.push(Step::Constant(bits), dtype)
    }

    fn exp2_approx(&mut self, x: Term) -> Term {
        assert_eq!(self.dtype(x), DType::F32, "an approximation of {}", self.dtype(x));
        self.push(Step::Power(x), DType::F32)
    }

    fn dtype(&self, term: Term) -> DType {
        self.steps[term.0 as usize].1
    }
}

/// How far `got` is from `wanted`, in units in the last place of `wanted` as a number of type `dtype` (`f32` or `f64`);
/// infinite where only one of them is NaN, infinite or negative, the sign of a zero included.
pub fn ulps(got: f64, wanted: f64, dtype: DType) -> f64 {
    let rounded = if dtype == DType::F32 { f64::from(wanted as f32) } else { wanted };
    if got.is_nan() && wanted.is_nan() {
        return 0.0;
    }
    if got.is_nan() || wanted.is_nan() || got.is_sign_negative() != wanted.is_sign_negative() {
        return f64::INFINITY;
    }
    if got == rounded && (got == 0.0 || got.is_infinite()) {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() {
        return f64::INFINITY;
    }
    let (digits, least) = if dtype == DType::F32 { (23, -126) } else { (52, -1022) };
    let exponent = (((wanted.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(least);
    // In two factors, as the unit of the smallest numbers has an inverse beyond the range.
    let half = exponent / 2;
    (got - wanted).abs() * 2f64.powi(-half) * 2f64.powi(digits - exponent + half)
}
