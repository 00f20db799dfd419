//! Strided views: which movements leave a tensor addressable by one stride per axis, without touching memory.

use smallvec::SmallVec;

use super::plan::Layout;
use crate::graph::{Movement, NodeData};

/// The layout of a movement's result over an operand laid out as `layout`, if strides can express it.
pub fn moved(movement: &Movement, from: &NodeData, to: &NodeData, layout: &Layout) -> Option<Layout> {
    let strides = &layout.strides;
    let same_place = |strides: SmallVec<[i64; 6]>| Some(Layout { offset: layout.offset, strides });
    match movement {
        Movement::Permute(perm) => same_place(perm.iter().map(|&p| strides[p as usize]).collect()),
        Movement::Expand => {
            let axes = from.dims.iter().zip(&to.dims).zip(strides);
            same_place(axes.map(|((&a, &b), &s)| if a == 1 && b != 1 { 0 } else { s }).collect())
        }
        Movement::Slice(ranges) => {
            let offset = ranges.iter().zip(strides).map(|(r, &s)| r.start as i64 * s).sum::<i64>();
            let strides = ranges.iter().zip(strides).map(|(r, &s)| r.step * s).collect();
            Some(Layout { offset: layout.offset + if to.is_empty() { 0 } else { offset }, strides })
        }
        Movement::Window(windows) => {
            let mut out = strides.clone();
            for w in windows {
                let s = out[w.axis as usize];
                out[w.axis as usize] = s * w.step as i64;
                out.push(s * w.dilation as i64);
            }
            same_place(out)
        }
        Movement::Reshape => same_place(reshaped(&from.dims, strides, &to.dims)?),
        Movement::Pad { .. } => None,
    }
}

/// Strides of the same elements under other extents, if there are any.
fn reshaped(from: &[u64], strides: &[i64], to: &[u64]) -> Option<SmallVec<[i64; 6]>> {
    if to.contains(&0) {
        return Some(Layout::contiguous(to).strides);
    }
    // Runs of old axes in which each is as far apart as the next one is long: they act as one.
    let mut runs: SmallVec<[(u64, i64); 6]> = SmallVec::new();
    for (&n, &s) in from.iter().zip(strides).filter(|(n, _)| **n != 1) {
        match runs.last_mut() {
            Some((len, stride)) if *stride == s * n as i64 => (*len, *stride) = (*len * n, s),
            _ => runs.push((n, s)),
        }
    }
    let mut out: SmallVec<[i64; 6]> = SmallVec::from_elem(0, to.len());
    let mut run = runs.pop();
    let mut used = 1;
    for (i, &n) in to.iter().enumerate().rev() {
        if n == 1 {
            continue;
        }
        if let Some((len, _)) = run
            && used == len
        {
            (run, used) = (runs.pop(), 1);
        }
        let (len, stride) = run?;
        if len % (used * n) != 0 {
            return None;
        }
        out[i] = stride * used as i64;
        used *= n;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_axes_merge_and_split() {
        assert_eq!(reshaped(&[2, 3, 4], &[12, 4, 1], &[6, 4]).as_deref(), Some(&[4, 1][..]));
        assert_eq!(reshaped(&[6, 4], &[4, 1], &[2, 1, 3, 2, 2]).as_deref(), Some(&[12, 0, 4, 2, 1][..]));
        assert_eq!(reshaped(&[], &[], &[1, 1]).as_deref(), Some(&[0, 0][..]));
    }

    #[test]
    fn a_transposed_pair_does_not_merge_but_still_splits() {
        assert_eq!(reshaped(&[4, 6], &[1, 4], &[24]), None);
        assert_eq!(reshaped(&[4, 6], &[1, 4], &[2, 2, 6]).as_deref(), Some(&[2, 1, 4][..]));
    }
}
