//! The end of the process: devices stop before the libraries they use are torn down, and counters are written.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::Once;

use super::machine::Machine;

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

/// Has every device stopped when the process ends.
pub(super) fn arrange() {
    static ONCE: Once = Once::new();
    // SAFETY: the function is never unloaded, does not unwind, and takes nothing with it.
    ONCE.call_once(|| _ = unsafe { atexit(stop) });
}

extern "C" fn stop() {
    // A panic must not cross into C; there is nobody left to tell.
    let _ = catch_unwind(|| {
        for machine in Machine::all() {
            machine.halt();
            crate::inspect::write_stats(machine);
        }
    });
}
