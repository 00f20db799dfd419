//! Puts items into order: digit by digit, or the first few alone; and merges runs.

use super::word::Item;

/// Fewer items are compared with each other.
const FEW: usize = 768;

/// Candidates that are gathered before the best of them are kept, beside the wanted ones.
const SPARE: usize = 512;

/// Sorts by the bytes from `low` on, of which there are `bytes`; what lies below must be in order already, or be nothing.
/// `scratch` is as long.
pub(super) fn sort<T: Item>(items: &mut [T], scratch: &mut [T], low: u32, bytes: u32) {
    let n = items.len();
    if n < FEW {
        return items.sort_unstable();
    }
    let mut counts = vec![[0u32; 256]; bytes as usize];
    for &item in items.iter() {
        for (i, counts) in counts.iter_mut().enumerate() {
            counts[item.byte(low + i as u32)] += 1;
        }
    }
    let (mut from, mut to) = (items, scratch);
    let mut swapped = false;
    for (i, counts) in counts.iter().enumerate() {
        if counts.iter().any(|&count| count as usize == n) {
            continue;
        }
        let mut before = 0;
        let starts = counts.map(|count| {
            before += count;
            before - count
        });
        scatter(from, to, starts, |item| item.byte(low + i as u32));
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    }
    if swapped {
        to.copy_from_slice(from);
    }
}

/// Puts each item where its digit's next one goes.
fn scatter<T: Item>(from: &[T], to: &mut [T], mut places: [u32; 256], digit: impl Fn(T) -> usize) {
    for &item in from {
        let place = &mut places[digit(item)];
        to[*place as usize] = item;
        *place += 1;
    }
}

/// The first `keep` items in order: whatever is behind the last of those found so far is passed over.
pub(super) fn first<T: Item>(items: impl Iterator<Item = T>, keep: usize, found: &mut Vec<T>) {
    found.clear();
    if keep == 0 {
        return;
    }
    let most = keep + keep.max(SPARE);
    let mut bound: Option<T> = None;
    for item in items {
        if bound.is_some_and(|bound| item >= bound) {
            continue;
        }
        found.push(item);
        if found.len() == most {
            bound = Some(*found.select_nth_unstable(keep - 1).1);
            found.truncate(keep);
        }
    }
    found.sort_unstable();
    found.truncate(keep);
}

/// Fills `out` with what stands from place `from` on in the merged order of two runs.
pub(super) fn merge<T: Item>(a: &[T], b: &[T], from: usize, out: &mut [T]) {
    // How many of the first `from` are of `a`: the least number after which `a` goes on with something greater than
    // what `b` has given.
    let (mut low, mut high) = (from.saturating_sub(b.len()), from.min(a.len()));
    while low < high {
        let middle = (low + high) / 2;
        if a[middle] > b[from - 1 - middle] { high = middle } else { low = middle + 1 }
    }
    let (mut a, mut b) = (&a[low..], &b[from - low..]);
    for at in 0..out.len() {
        let (Some(&x), Some(&y)) = (a.first(), b.first()) else {
            let rest = if a.is_empty() { b } else { a };
            let left = out.len() - at;
            return out[at..].copy_from_slice(&rest[..left]);
        };
        // Chosen without a branch, which would be a guess each time.
        let take_a = x <= y;
        out[at] = if take_a { x } else { y };
        a = &a[usize::from(take_a)..];
        b = &b[usize::from(!take_a)..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<u32> {
        let mut state = 0x9e37_79b9u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % 5000
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn digits_firsts_and_merges_agree_with_comparisons() {
        for n in [0, 1, 2, FEW - 1, FEW, 1000, 5000, 200_000] {
            let xs = numbers(n);
            let mut want = xs.clone();
            want.sort_unstable();
            let (mut sorted, mut scratch, mut found) = (xs.clone(), xs.clone(), Vec::new());
            sort(&mut sorted, &mut scratch, 0, 4);
            assert_eq!(sorted, want);
            for keep in [0, n.min(1), n / 3, n] {
                first(xs.iter().copied(), keep, &mut found);
                assert_eq!(found, want[..keep]);
            }
            let (a, b) = xs.split_at(n / 3);
            let [mut a, mut b] = [a.to_vec(), b.to_vec()];
            a.sort_unstable();
            b.sort_unstable();
            for part in [7, n.max(1)] {
                let mut merged = vec![0; n];
                merged.chunks_mut(part).enumerate().for_each(|(i, out)| merge(&a, &b, i * part, out));
                assert_eq!(merged, want);
            }
        }
    }
}
