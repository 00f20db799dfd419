//! The machines that Kiln runs on, as Burn names devices.  Knows nothing of what runs there.

use std::fmt;
use std::hash::{Hash, Hasher};

use burn_backend::{BoolStore, DType, DeviceId, DeviceOps, DeviceSettings};
use burn_std::device::Device;

use crate::knobs;

/// The machine that a tensor lives on.
#[derive(Clone, Copy)]
pub enum KilnDevice {
    /// This computer's processor.
    Cpu,
    /// An NVIDIA GPU, by number.
    Cuda(usize),
    /// An AMD GPU, by number.
    Hip(usize),
    /// The interpreter of tile programs: slow, checks every access, defines what is right.
    Interp,
    /// Whatever `KILN_DEVICE` names, decided when it is used.
    #[doc(hidden)]
    Chosen,
}

impl KilnDevice {
    /// The machine meant: `KILN_DEVICE` is consulted for the chosen one.
    pub(crate) fn resolve(self) -> KilnDevice {
        match self {
            KilnDevice::Chosen => knobs::get().device,
            named => named,
        }
    }

    /// Reads `cpu`, `cuda:0`, `hip:0` or `interp`; the number may be left out.
    pub fn parse(text: &str) -> Option<KilnDevice> {
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (kind, Some(number.parse::<usize>().ok()?)),
            None => (text, None),
        };
        match (kind, number) {
            ("cpu", None) => Some(KilnDevice::Cpu),
            ("interp", None) => Some(KilnDevice::Interp),
            ("cuda", number) => Some(KilnDevice::Cuda(number.unwrap_or(0))),
            ("hip", number) => Some(KilnDevice::Hip(number.unwrap_or(0))),
            _ => None,
        }
    }

    /// The first device of a kind, by the number that Burn calls it.
    pub(crate) fn of_kind(kind: u16) -> Option<KilnDevice> {
        [KilnDevice::Cpu, KilnDevice::Cuda(0), KilnDevice::Hip(0), KilnDevice::Interp]
            .into_iter()
            .find(|d| d.key().0 == kind)
    }

    fn key(self) -> (u16, u16) {
        match self.resolve() {
            KilnDevice::Cpu | KilnDevice::Chosen => (0, 0),
            KilnDevice::Cuda(n) => (1, n as u16),
            KilnDevice::Hip(n) => (2, n as u16),
            KilnDevice::Interp => (3, 0),
        }
    }
}

impl Default for KilnDevice {
    fn default() -> KilnDevice {
        KilnDevice::Chosen.resolve()
    }
}

impl PartialEq for KilnDevice {
    fn eq(&self, other: &KilnDevice) -> bool {
        self.key() == other.key()
    }
}

impl Eq for KilnDevice {}

impl Hash for KilnDevice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for KilnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resolve() {
            KilnDevice::Cpu | KilnDevice::Chosen => f.write_str("cpu"),
            KilnDevice::Cuda(n) => write!(f, "cuda:{n}"),
            KilnDevice::Hip(n) => write!(f, "hip:{n}"),
            KilnDevice::Interp => f.write_str("interp"),
        }
    }
}

impl fmt::Debug for KilnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Device for KilnDevice {
    fn from_id(id: DeviceId) -> KilnDevice {
        match id.type_id {
            0 => KilnDevice::Cpu,
            1 => KilnDevice::Cuda(id.index_id as usize),
            2 => KilnDevice::Hip(id.index_id as usize),
            3 => KilnDevice::Interp,
            other => panic!("Kiln has device types 0 (cpu), 1 (cuda), 2 (hip) and 3 (interp), got {other}"),
        }
    }

    fn to_id(&self) -> DeviceId {
        let (kind, number) = self.key();
        DeviceId::new(kind, number)
    }
}

impl DeviceOps for KilnDevice {
    fn defaults(&self) -> DeviceSettings {
        DeviceSettings::new(DType::F32, DType::I32, DType::Bool(BoolStore::Native), Default::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_round_trip() {
        for device in
            [KilnDevice::Cpu, KilnDevice::Cuda(0), KilnDevice::Cuda(2), KilnDevice::Hip(1), KilnDevice::Interp]
        {
            assert_eq!(KilnDevice::parse(&device.to_string()), Some(device));
            assert_eq!(KilnDevice::from_id(device.to_id()), device);
        }
        assert_eq!(KilnDevice::parse("cpu:0"), None);
        assert_ne!(KilnDevice::Cpu, KilnDevice::Interp);
    }
}
