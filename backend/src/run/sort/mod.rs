//! Sorting on the processor: stable, NaN last (first, when descending).  The definition is
//! [`kiln_lowering::graph::oracle::order`].
//!
//! Elements become unsigned keys ([`word`]), which are sorted digit by digit ([`radix`]): alone where all values are
//! wanted, else with their indices below them, so that equal keys stay in order.  Lines are shared among the pool's
//! threads ([`lines`]); where they are few and long, each is sorted in runs, which are merged in parts ([`long`]).

mod line;
mod lines;
mod long;
mod radix;
#[cfg(test)]
mod tests;
mod word;

use kiln_lowering::DType;
use kiln_lowering::schedule::Sort;
use kiln_lowering::target::host::Pool;

use super::memory::Plain;
use line::{Indexed, Line, Values};
use lines::Lines;
use word::Word;

/// Elements that are worth calling other threads for.
const WORTH_SHARING: usize = 1 << 14;

/// Sorts `input` into the contiguous `output`.
///
/// # Errors
///
/// A line that has more elements than indices are kept for, or leaves its buffer; indices of a type that has none.
///
/// # Safety
///
/// The addresses are those of the sort's buffers, valid for all elements that it names and aligned; the output is not
/// the input, and nobody else accesses it meanwhile.
pub(super) unsafe fn run(pool: &Pool, sort: &Sort, input: (*const u8, usize), output: *mut u8) -> Result<(), String> {
    if u32::try_from(sort.len).is_err() {
        return Err(format!("a line of {} elements is too long to sort", sort.len));
    }
    if sort.dims.contains(&0) {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    unsafe {
        match sort.dtype.bytes() {
            1 => words(pool, sort, elements::<u8>(input), output),
            2 => words(pool, sort, elements::<u16>(input), output),
            4 => words(pool, sort, elements::<u32>(input), output),
            _ => words(pool, sort, elements::<u64>(input), output),
        }
    }
}

/// # Safety
///
/// As for [`run`].
unsafe fn words<W: Word>(pool: &Pool, sort: &Sort, input: &[W], output: *mut u8) -> Result<(), String> {
    let lines = Lines::new(pool, sort, input)?;
    let line = Line::new(sort);
    // SAFETY: as the caller promises.
    unsafe {
        match sort.indices {
            None if line.few => lines.fill(&Indexed(line, |line, i| line[i as usize]), results::<W>(sort, output)),
            None => lines.fill(&Values(line), results::<W>(sort, output)),
            Some(DType::I8 | DType::U8) => lines.fill(&Indexed(line, |_, i| i as u8), results(sort, output)),
            Some(DType::I16 | DType::U16) => lines.fill(&Indexed(line, |_, i| i as u16), results(sort, output)),
            Some(DType::I32 | DType::U32) => lines.fill(&Indexed(line, |_, i| i), results(sort, output)),
            Some(DType::I64 | DType::U64) => lines.fill(&Indexed(line, |_, i| u64::from(i)), results(sort, output)),
            Some(other) => return Err(format!("indices cannot be {other}")),
        }
    }
    Ok(())
}

/// # Safety
///
/// `len` bytes may be read there for as long as the slice is used, and nobody writes them.
unsafe fn elements<'a, T: Plain>((address, len): (*const u8, usize)) -> &'a [T] {
    // SAFETY: as the caller promises; every bit pattern is a value of a plain type.
    unsafe { std::slice::from_raw_parts(address.cast::<T>(), len / size_of::<T>()) }
}

/// # Safety
///
/// All elements of the sort's result, of this type, lie there, and nobody else accesses them.
unsafe fn results<'a, T: Plain>(sort: &Sort, address: *mut u8) -> &'a mut [T] {
    let count = sort.dims.iter().product::<u64>() as usize;
    // SAFETY: as the caller promises; every bit pattern is a value of a plain type.
    unsafe { std::slice::from_raw_parts_mut(address.cast::<T>(), count) }
}
