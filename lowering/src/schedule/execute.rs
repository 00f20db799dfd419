//! Runs a plan step by step on the interpreter, on dense arrays: the reference that machines are compared with.

use cranelift_entity::SecondaryMap;

use super::plan::{Arg, Buf, Epilogue, Gemm, InputData, Layout, Matrix, Options, Plan, Sort, Step};
use crate::dtype::DType;
use crate::graph::array::{Array, coordinates};
use crate::graph::{Graph, number, oracle};
use crate::passes;
use crate::target::interp::{self, Fault};

/// What went wrong in a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program broke a rule.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// A program reported a failed check.
    #[error("{0}")]
    Check(String),
}

/// Plans and runs a graph on contiguous inputs.
pub fn run(graph: &Graph, case: (&[Array], &[u64]), options: &Options, rewrite: bool) -> Result<Vec<Array>, Error> {
    let (inputs, slots) = case;
    let data = inputs.iter().map(|x| InputData {
        layout: Layout::contiguous(&x.dims),
        buffer_len: x.bits.len() as u64,
        donated: false,
    });
    let plan = super::plan(graph, &data.collect::<Vec<_>>(), options);
    let wanted: Vec<&[u64]> = graph.outputs.iter().map(|&n| graph.dims(n).as_slice()).collect();
    run_plan(&plan, inputs, slots, &wanted, rewrite)
}

/// Runs a plan on its inputs' buffers; `wanted` are the outputs' extents.  With `rewrite`, programs are rewritten for
/// code generation before.
pub fn run_plan(
    plan: &Plan,
    inputs: &[Array],
    slots: &[u64],
    wanted: &[&[u64]],
    rewrite: bool,
) -> Result<Vec<Array>, Error> {
    let mut memory: SecondaryMap<Buf, Vec<u8>> = SecondaryMap::new();
    for (buf, data) in &plan.buffers {
        memory[buf] = match data.input {
            Some(number) => inputs[number as usize].to_bytes(),
            // What nobody wrote is not 0.
            None => vec![0xa5; data.len as usize * data.dtype.bytes()],
        };
    }
    let mut taken: Vec<Buf> = plan.buffers.values().filter_map(|data| data.takes).collect();
    for step in &plan.steps {
        // A result takes its operand's memory when the first step that writes it comes.
        if let Step::Launch { args, .. } = step {
            for arg in args {
                if let Arg::Buffer(buf) = arg
                    && let Some(from) = plan.buffers[*buf].takes
                    && let Some(at) = taken.iter().position(|b| *b == from)
                {
                    taken.remove(at);
                    memory[*buf] = std::mem::take(&mut memory[from]);
                }
            }
        }
        match step {
            Step::Launch { program, grid, args, checks, .. } => {
                let mut code = plan.programs[*program].clone();
                if rewrite {
                    passes::run(&mut code, &mut |_, _| {});
                }
                // Each buffer appears once among the arguments.
                let mut taken: Vec<(Buf, Vec<u8>)> = Vec::new();
                for arg in args {
                    if let Arg::Buffer(buf) = arg {
                        taken.push((*buf, std::mem::take(&mut memory[*buf])));
                    }
                }
                let report = {
                    let mut buffers = taken.iter_mut();
                    let mut launch: Vec<interp::Arg> = Vec::new();
                    for arg in args {
                        launch.push(match (arg, matches!(arg, Arg::Buffer(_)).then(|| buffers.next()).flatten()) {
                            (_, Some((_, bytes))) => interp::Arg::Buffer(bytes),
                            (Arg::Slot(slot), _) => interp::Arg::Scalar(slots[slot.as_u32() as usize]),
                            (Arg::Literal(bits), _) => interp::Arg::Scalar(*bits),
                            (Arg::Buffer(_), None) => unreachable!("every buffer was taken"),
                        });
                    }
                    let options = interp::Options { races: true, steps: None };
                    interp::launch_with(&code, *grid, &mut launch, options).map_err(Box::new)?
                };
                for (buf, bytes) in taken {
                    memory[buf] = bytes;
                }
                if let Some(&code) = report.checks.first() {
                    return Err(Error::Check(checks[code as usize - 1].clone()));
                }
            }
            Step::Gemm(gemm) => product(&mut memory, gemm),
            Step::Sort(sort) => sorted(&mut memory, sort),
            Step::Free(buf) => memory[*buf].fill(0x5a),
        }
    }
    let outputs = plan.outputs.iter().zip(wanted).map(|(output, dims)| {
        let dtype = plan.buffers[output.buffer].dtype;
        let bytes = &memory[output.buffer];
        let places = places(&output.layout, dims).map(|at| read(bytes, dtype, at));
        Array::new(dtype, dims, places.collect())
    });
    Ok(outputs.collect())
}

/// Places of all elements, in row-major order.
fn places<'a>(layout: &'a Layout, dims: &'a [u64]) -> impl Iterator<Item = i64> + 'a {
    coordinates(dims).map(|c| layout.offset + layout.strides.iter().zip(&c).map(|(&s, &i)| s * i as i64).sum::<i64>())
}

fn read(memory: &[u8], dtype: DType, at: i64) -> u64 {
    let width = dtype.bytes();
    let mut word = [0; 8];
    word[..width].copy_from_slice(&memory[at as usize * width..][..width]);
    u64::from_le_bytes(word)
}

fn write(memory: &mut [u8], dtype: DType, at: i64, bits: u64) {
    let width = dtype.bytes();
    memory[at as usize * width..][..width].copy_from_slice(&bits.to_le_bytes()[..width]);
}

/// One fused multiply-add per term, in ascending order of k; what the epilogue does comes before the rounding.
fn product(memory: &mut SecondaryMap<Buf, Vec<u8>>, gemm: &Gemm) {
    let wide = gemm.dtype.compute();
    for batch in coordinates(&gemm.batch) {
        let place = |m: &Matrix, i: u64, j: u64| {
            let batch: i64 = m.batch_strides.iter().zip(&batch).map(|(&s, &b)| s * b as i64).sum();
            m.offset + batch + m.row_stride * i as i64 + m.col_stride * j as i64
        };
        for i in 0..gemm.m {
            for j in 0..gemm.n {
                let mut sum = 0.0f64;
                for k in 0..gemm.k {
                    let a = number::to_f64(gemm.from, read(&memory[gemm.a.buffer], gemm.from, place(&gemm.a, i, k)));
                    let b = number::to_f64(gemm.from, read(&memory[gemm.b.buffer], gemm.from, place(&gemm.b, k, j)));
                    sum = match wide {
                        DType::F64 => a.mul_add(b, sum),
                        _ => f64::from((a as f32).mul_add(b as f32, sum as f32)),
                    };
                }
                if let Some(Epilogue { bias, relu }) = gemm.epilogue {
                    if let Some((buf, first)) = bias {
                        let bias = number::to_f64(gemm.dtype, read(&memory[buf], gemm.dtype, first + j as i64));
                        sum = match wide {
                            DType::F64 => sum + bias,
                            _ => f64::from(sum as f32 + bias as f32),
                        };
                    }
                    sum = if relu && sum < 0.0 { 0.0 } else { sum };
                }
                let at = place(&gemm.c, i, j);
                write(&mut memory[gemm.c.buffer], gemm.dtype, at, number::from_f64(gemm.dtype, sum));
            }
        }
    }
}

fn sorted(memory: &mut SecondaryMap<Buf, Vec<u8>>, sort: &Sort) {
    let input = &memory[sort.input];
    let (axis, mut dims) = (sort.axis as usize, sort.dims.clone());
    let keep = std::mem::replace(&mut dims[axis], sort.len);
    let bits = places(&sort.layout, &dims).map(|at| read(input, sort.dtype, at)).collect();
    let x = Array::new(sort.dtype, &dims, bits);
    let result = match sort.indices {
        None => oracle::order::sort(&x, axis, keep, sort.descending),
        Some(dtype) => oracle::order::argsort(&x, axis, keep, sort.descending, dtype),
    };
    memory[sort.output] = result.to_bytes();
}
