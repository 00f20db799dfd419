//! Operations that rearrange elements: broadcast, trans, gather.

use super::Cause;
use crate::tile::Type;

/// Distance between neighbours along each axis of a row-major tile.
pub(super) fn strides(shape: &[u32]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1] as usize;
    }
    strides
}

/// Reads `x` with the given strides, in row-major order of `shape`.
fn strided(x: &[u64], shape: &[u32], strides: &[usize]) -> Vec<u64> {
    let mut offsets = vec![0];
    for (&n, &stride) in shape.iter().zip(strides) {
        offsets = offsets.iter().flat_map(|&at| (0..n as usize).map(move |i| at + i * stride)).collect();
    }
    offsets.into_iter().map(|at| x[at]).collect()
}

/// Axes of extent 1 are repeated; a scalar is repeated along all axes.
pub(super) fn broadcast(x: &[u64], from: &[u32], to: &[u32]) -> Vec<u64> {
    if x.len() == 1 {
        return vec![x[0]; to.iter().map(|&n| n as usize).product()];
    }
    let steps: Vec<usize> = strides(from).iter().zip(from).map(|(&s, &n)| if n == 1 { 0 } else { s }).collect();
    strided(x, to, &steps)
}

/// Axis `i` of the result is axis `perm[i]` of `x`.
pub(super) fn trans(x: &[u64], shape: &[u32], perm: &[u8]) -> Vec<u64> {
    let from = strides(shape);
    let steps: Vec<usize> = perm.iter().map(|&p| from[usize::from(p)]).collect();
    let shape: Vec<u32> = perm.iter().map(|&p| shape[usize::from(p)]).collect();
    strided(x, &shape, &steps)
}

/// `out[… i …] = x[… index[… i …] …]` along `axis`.
pub(super) fn gather([x, index]: [&[u64]; 2], [ty, index_ty]: [&Type; 2], axis: usize) -> Result<Vec<u64>, Cause> {
    let extent = ty.shape[axis];
    let inner = strides(&ty.shape)[axis];
    let per_outer = inner * index_ty.shape[axis] as usize;
    let pick = |(i, &bits): (usize, &u64)| {
        let index = index_ty.dtype.sign_extend(bits);
        let k = u32::try_from(index).ok().filter(|&k| k < extent).ok_or(Cause::Index { index, extent })?;
        Ok(x[(i / per_outer * extent as usize + k as usize) * inner + i % inner])
    };
    index.iter().enumerate().map(pick).collect()
}
