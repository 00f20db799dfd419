//! All lines of a sort: where they start, and which thread takes which.

use std::sync::{Mutex, PoisonError};

use kiln_lowering::graph::array::coordinates;
use kiln_lowering::schedule::Sort;
use kiln_lowering::target::host::Pool;

use super::WORTH_SHARING;
use super::line::Work;
use super::long;
use super::word::Word;

/// Lines that are read and written together: neighbours share lines of memory where they do not lie along it.
const TOGETHER: usize = 16;

/// The lines of an operand.
pub(super) struct Lines<'a, W> {
    pub(super) pool: &'a Pool,
    input: &'a [W],
    /// Place of the first element of each line.
    starts: Vec<i64>,
    stride: i64,
    pub(super) len: usize,
    /// Distance between neighbours of a line in the result.
    inner: usize,
}

impl<'a, W: Word> Lines<'a, W> {
    /// Those of a sort.
    pub(super) fn new(pool: &'a Pool, sort: &Sort, input: &'a [W]) -> Result<Self, String> {
        let axis = sort.axis as usize;
        let mut others = sort.dims.clone();
        others[axis] = 1;
        let at = |c: &[u64]| sort.layout.strides.iter().zip(c).map(|(&s, &i)| s * i as i64).sum::<i64>();
        let starts: Vec<i64> = coordinates(&others).map(|c| sort.layout.offset + at(&c)).collect();
        let stride = sort.layout.strides[axis];
        let reach = stride * (sort.len as i64 - 1);
        let (low, high) = starts.iter().fold((i64::MAX, i64::MIN), |(l, h), &s| (l.min(s), h.max(s)));
        if low + reach.min(0) < 0 || high + reach.max(0) >= input.len() as i64 {
            return Err(format!("a line that is to be sorted leaves its buffer of {} elements", input.len()));
        }
        let inner = sort.dims[axis + 1..].iter().product::<u64>() as usize;
        Ok(Lines { pool, input, starts, stride, len: sort.len as usize, inner })
    }

    /// Sorts all of them into the result.
    pub(super) fn fill<K: Work<W>>(&self, work: &K, out: &mut [K::Out]) {
        if self.inner == 1 {
            return self.one_after_another(work, out);
        }
        let mut sorted = vec![K::Out::default(); out.len()];
        self.one_after_another(work, &mut sorted);
        self.spread(&sorted, work.line().keep, out);
    }

    /// A line, as it lies or brought together.
    pub(super) fn line<'b>(&'b self, number: usize, room: &'b mut Vec<W>) -> &'b [W] {
        let start = self.starts[number];
        if self.stride == 1 {
            return &self.input[start as usize..][..self.len];
        }
        room.clear();
        room.extend((0..self.len as i64).map(|i| self.input[(start + self.stride * i) as usize]));
        room
    }

    /// Sorts all lines, the results of each behind those of the one before.
    fn one_after_another<K: Work<W>>(&self, work: &K, out: &mut [K::Out]) {
        let keep = work.line().keep;
        if self.starts.len() < self.pool.threads() && self.len >= long::LONG {
            for (line, out) in out.chunks_mut(keep).enumerate() {
                long::sort(self, line, work, out);
            }
            return;
        }
        let each = (WORTH_SHARING / self.len).max(1).next_multiple_of(if self.stride == 1 { 1 } else { TOGETHER });
        self.share(self.len * self.starts.len(), &mut out.chunks_mut(each * keep), &|number, out| {
            let mut group: Vec<Vec<W>> = vec![Vec::new(); TOGETHER];
            let size = if work.line().few { 0 } else { self.len };
            let [mut items, mut scratch] = [0, 1].map(|_| vec![K::Item::default(); size]);
            for (at, out) in out.chunks_mut(TOGETHER * keep).enumerate() {
                let first = number * each + at * TOGETHER;
                if self.stride != 1 {
                    self.read_together(first, &mut group[..out.len() / keep]);
                }
                for (i, out) in out.chunks_mut(keep).enumerate() {
                    let line = match self.stride {
                        1 => &self.input[self.starts[first + i] as usize..][..self.len],
                        _ => &group[i][..],
                    };
                    match work.line().few {
                        true => work.first(line, 0, &mut items),
                        false => work.sort(line, 0, &mut items, &mut scratch),
                    }
                    work.write(line, &items[..keep], out);
                    work.mend(line, &items, out);
                }
            }
        });
    }

    /// Reads neighbouring lines.
    fn read_together(&self, first: usize, lines: &mut [Vec<W>]) {
        lines.iter_mut().for_each(Vec::clear);
        let starts = &self.starts[first..first + lines.len()];
        for i in 0..self.len as i64 {
            for (line, &start) in lines.iter_mut().zip(starts) {
                line.push(self.input[(start + self.stride * i) as usize]);
            }
        }
    }

    /// Brings results from one line after another to where the axis wants them.
    fn spread<T: Copy + Send + Sync>(&self, sorted: &[T], keep: usize, out: &mut [T]) {
        // Rows of the result: one place of `inner` lines.  A part has the same `TOGETHER` places, or fewer at the end.
        let inner = self.inner;
        let mut parts = out.chunks_mut(keep * inner).flat_map(|lines| lines.chunks_mut(TOGETHER * inner));
        let each = keep.div_ceil(TOGETHER);
        self.share(sorted.len(), &mut parts, &|number, out| {
            let (outer, first) = (number / each, number % each * TOGETHER);
            let places = out.len() / inner;
            for lane in 0..inner {
                let line = &sorted[(outer * inner + lane) * keep + first..][..places];
                for (place, &x) in line.iter().enumerate() {
                    out[place * inner + lane] = x;
                }
            }
        });
    }

    /// Calls `task` for all parts, each with its number; on all threads where `size` elements are worth it.
    pub(super) fn share<T: Send>(
        &self,
        size: usize,
        parts: &mut dyn Iterator<Item = &mut [T]>,
        task: &(dyn Fn(usize, &mut [T]) + Sync),
    ) {
        if size < WORTH_SHARING {
            return parts.enumerate().for_each(|(number, part)| task(number, part));
        }
        // Each part is taken once; the lock is never waited for.
        let parts: Vec<Mutex<&mut [T]>> = parts.map(Mutex::new).collect();
        self.pool.share(parts.len() as u32, &|number| {
            let mut part = parts[number as usize].lock().unwrap_or_else(PoisonError::into_inner);
            task(number as usize, &mut part);
        });
    }
}
