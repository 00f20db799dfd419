//! A long line: all threads sort runs of it, then merge pairs of runs, each pair in parts.

use std::sync::{Mutex, PoisonError};

use super::line::Work;
use super::lines::Lines;
use super::radix;
use super::word::Word;

/// A line this long is shared by the threads where there are fewer lines than threads.
pub(super) const LONG: usize = 1 << 16;

/// Items of a part of a merge.
const PART: usize = 1 << 13;

/// Sorts line number `number`.
pub(super) fn sort<W: Word, K: Work<W>>(lines: &Lines<W>, number: usize, work: &K, out: &mut [K::Out]) {
    let mut room = Vec::new();
    let line = lines.line(number, &mut room);
    let length = line.len().div_ceil(lines.pool.threads().next_power_of_two()).next_multiple_of(PART);
    let items = if work.line().few { first(lines, line, length, work) } else { all(lines, line, length, work) };
    lines.share(out.len(), &mut out.chunks_mut(PART), &|number, out| {
        let from = number * PART;
        work.write(line, &items[from..from + out.len()], out);
    });
    work.mend(line, &items, out);
}

/// The wanted items alone: those of each run, and of these the first again.
fn first<W: Word, K: Work<W>>(lines: &Lines<W>, line: &[W], length: usize, work: &K) -> Vec<K::Item> {
    let found = Mutex::new(Vec::new());
    lines.pool.share(line.len().div_ceil(length) as u32, &|number| {
        let start = number as usize * length;
        let mut run = Vec::new();
        work.first(&line[start..(start + length).min(line.len())], start, &mut run);
        found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut run);
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut items = Vec::new();
    radix::first(found.into_iter(), work.line().keep, &mut items);
    items
}

/// All items, in order.
fn all<W: Word, K: Work<W>>(lines: &Lines<W>, line: &[W], mut length: usize, work: &K) -> Vec<K::Item> {
    let [mut items, mut other] = [0, 1].map(|_| vec![K::Item::default(); line.len()]);
    {
        let runs: Vec<_> = items.chunks_mut(length).zip(other.chunks_mut(length)).map(Mutex::new).collect();
        lines.pool.share(runs.len() as u32, &|number| {
            let start = number as usize * length;
            let mut run = runs[number as usize].lock().unwrap_or_else(PoisonError::into_inner);
            let (items, scratch) = &mut *run;
            work.sort(&line[start..start + items.len()], start, items, scratch);
        });
    }
    while length < line.len() {
        lines.share(line.len(), &mut other.chunks_mut(PART), &|number, out| {
            let from = number * PART;
            let start = from / (2 * length) * (2 * length);
            let pair = &items[start..(start + 2 * length).min(items.len())];
            let (a, b) = pair.split_at(length.min(pair.len()));
            radix::merge(a, b, from - start, out);
        });
        std::mem::swap(&mut items, &mut other);
        length *= 2;
    }
    items
}
