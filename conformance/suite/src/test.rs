//! A test as data: a name, a function that panics where something is wrong, and what the machine must have for it.

use burn_kiln::KilnDevice;

/// One test.
#[derive(Clone, Copy)]
pub struct Test {
    /// Its name within its module.
    pub name: &'static str,
    /// Panics where something is wrong.
    pub run: fn(),
    /// Whether nothing else may run beside it: what it counts belongs to the whole device.
    pub alone: bool,
    /// What the machine must have for it to mean something.
    pub wants: Option<&'static Want>,
}

/// Something that not every machine has.
pub struct Want {
    /// As in `skipped: no compiled kernels on interp`.
    pub what: &'static str,
    /// Whether the machine under test has it.
    pub met: fn() -> bool,
}

/// Kernels that are compiled and kept on disk.
pub const COMPILED: Want =
    Want { what: "compiled kernels on this device", met: || crate::DEVICE != KilnDevice::Interp };

impl Test {
    /// A test that may run beside others, on every machine.
    pub const fn new(name: &'static str, run: fn()) -> Test {
        Test { name, run, alone: false, wants: None }
    }

    /// The same, with nothing beside it.
    pub const fn alone(self) -> Test {
        Test { alone: true, ..self }
    }

    /// The same, skipped where the machine lacks something.
    pub const fn wants(self, want: &'static Want) -> Test {
        Test { wants: Some(want), ..self }
    }

    /// Why it is skipped here, if it is.
    pub fn skipped(&self) -> Option<String> {
        let want = self.wants?;
        (!(want.met)()).then(|| format!("skipped: no {}", want.what))
    }
}

/// A test of a function's own name.
macro_rules! test {
    ($name:ident) => {
        $crate::test::Test::new(stringify!($name), $name)
    };
}
pub(crate) use test;
