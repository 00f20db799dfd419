//! Burn's transactions, which read several tensors at once, and its operations across devices, none of which is lowered
//! yet.

use burn_backend::DeviceId;
use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn_backend::ops::TransactionOps;

use super::checks::not_lowered;
use crate::{Kiln, KilnDevice, KilnTensor};

/// The first read hands everything recorded to the device, the others find their values there.
impl TransactionOps<Kiln> for Kiln {}

impl DistributedOps<Kiln> for Kiln {
    fn all_reduce(_tensor: KilnTensor, _op: ReduceOperation, _device_ids: Vec<DeviceId>) -> CollectiveTensor<Kiln> {
        not_lowered("all_reduce")
    }

    fn sync_collective(_device: &KilnDevice) {
        not_lowered("sync_collective")
    }
}
