//! Finds what a program does over and over in the sequence of operations that it recorded: the step that stands for all.
//! Where Kiln cut the sequence into plans does not matter here.

use std::collections::HashMap;

/// Operations looked at, from the start: more than any step's few first repetitions.
const ENOUGH: usize = 60_000;

/// Of what the best period explains, so much suffices for a shorter one: a loop's step, not the epoch around it.  What
/// repeats inside a step (layers, an optimizer over its parameters) explains less.
const SHORTER: f64 = 0.95;

/// Periods that are tried: those at which short sequences come again, the most frequent first.
const TRIED: usize = 200;

/// A step in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// A place where a step begins, inside the longest stretch that repeats.
    pub start: usize,
    /// Length of a step.
    pub len: usize,
    /// Number of steps that follow each other from there.
    pub times: usize,
}

/// The step that repeats; `None` where nothing explains a tenth of the sequence.
pub fn find(items: &[u32]) -> Option<Period> {
    let items = &items[..items.len().min(ENOUGH)];
    let mut lengths = distances(items);
    lengths.sort_unstable();
    let counts: Vec<(usize, usize)> = lengths.iter().map(|&len| (len, explained(items, len))).collect();
    let best = counts.iter().map(|c| c.1).max().filter(|most| 10 * most >= items.len())?;
    let &(len, _) = counts.iter().find(|c| c.1 as f64 >= SHORTER * best as f64)?;
    let (from, length) = longest(items, len)?;
    let start = from + beginning(items, &items[from..from + len]);
    Some(Period { start, len, times: (from + length - start) / len })
}

/// Distances at which sequences of eight come again.
fn distances(items: &[u32]) -> Vec<usize> {
    let gram = 8.min(items.len() / 3).max(1);
    let mut last: HashMap<&[u32], usize> = HashMap::new();
    let mut times: HashMap<usize, usize> = HashMap::new();
    for (at, window) in items.windows(gram).enumerate() {
        if let Some(before) = last.insert(window, at) {
            *times.entry(at - before).or_default() += 1;
        }
    }
    // What repeats at every step hides the step itself: its sums count as well.
    let mut list: Vec<(usize, usize)> = times.into_iter().collect();
    list.sort_by_key(|&(distance, times)| std::cmp::Reverse((times * distance, distance)));
    list.retain(|&(distance, _)| distance * 2 <= items.len());
    list.truncate(TRIED);
    list.into_iter().map(|(distance, _)| distance).collect()
}

/// Stretches that go through `len` operations twice at least, by start and length.
fn stretches(items: &[u32], len: usize) -> Vec<(usize, usize)> {
    let (mut list, mut start) = (Vec::new(), 0);
    for at in 0..=items.len() - len {
        if at + len < items.len() && items[at] == items[at + len] {
            continue;
        }
        let length = at - start + len;
        if at > start && length >= 2 * len {
            list.push((start, length));
        }
        start = at + 1;
    }
    list
}

/// How many operations lie in such stretches.
fn explained(items: &[u32], len: usize) -> usize {
    let (mut count, mut end) = (0, 0);
    for (start, length) in stretches(items, len) {
        count += (start + length).saturating_sub(end.max(start));
        end = end.max(start + length);
    }
    count
}

/// The longest such stretch.
fn longest(items: &[u32], len: usize) -> Option<(usize, usize)> {
    stretches(items, len).into_iter().rev().max_by_key(|&(_, length)| length)
}

/// Where in a step it begins: with what the program did first of it, for it begins its first step at the beginning.
fn beginning(items: &[u32], step: &[u32]) -> usize {
    let wanted = (step.len() / 4).max(1);
    let matches = |at: usize, phase: usize| {
        let cycle = step.iter().cycle().skip(phase);
        items[at..].iter().zip(cycle).take(wanted).filter(|(a, b)| a == b).count() == wanted
    };
    (0..items.len() - wanted).find_map(|at| (0..step.len()).find(|&phase| matches(at, phase))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Preparations, then epochs of steps; each step goes through equal layers and updates equal parameters.  The first
    /// step does a little more.
    fn program() -> Vec<u32> {
        let mut items: Vec<u32> = (100..140).collect();
        for epoch in 0..4 {
            for step in 0..10 {
                items.extend(1..=8);
                items.extend((0..4).flat_map(|_| 20..32));
                items.extend(9..=16);
                let first = epoch == 0 && step == 0;
                items.extend((0..5).flat_map(|_| if first { 49..60 } else { 50..60 }));
            }
            items.extend(200..220);
        }
        items
    }

    #[test]
    fn a_step_of_a_loop_is_found_between_other_work() {
        let items = program();
        let found = find(&items).expect("there are forty steps");
        assert_eq!(found.len, 8 + 48 + 8 + 50);
        assert_eq!(items[found.start..found.start + 8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(found.times >= 8, "{found:?}");
    }

    #[test]
    fn without_repetition_there_is_no_step() {
        assert_eq!(find(&(0..100).collect::<Vec<_>>()), None);
        assert_eq!(find(&[1]), None);
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn a_short_loop_is_found() {
        let items: Vec<u32> = [5, 6, 7].into_iter().cycle().take(30).collect();
        assert_eq!(find(&items).map(|p| (items[p.start], p.len)), Some((5, 3)));
    }
}
