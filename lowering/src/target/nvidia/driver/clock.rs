//! A device's own clock: stamps in the order of work, and the time between two of them.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{self, CUevent, CUresult};

use super::{Device, Error, driver_version};

/// The driver's time between two events; CUDA 12.8 gave it another name.
type Elapsed = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;

/// From which version of CUDA on it has the new name.
const RENAMED: u32 = 12080;

/// A place in the order of work, of which the device keeps when it came past it.
pub struct Stamp {
    device: Arc<Device>,
    event: CUevent,
}

// SAFETY: an event may be used by any thread in whose context it is, which `enter` sees to.
unsafe impl Send for Stamp {}

impl Drop for Stamp {
    fn drop(&mut self) {
        // On a device that has stopped there is nothing to give back.
        if self.device.enter().is_ok() {
            // SAFETY: the event is this value's own; the driver keeps it while the device has not come past it.
            let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
        }
    }
}

impl Stamp {
    /// After everything asked for so far.
    ///
    /// # Errors
    ///
    /// If the device has stopped.
    pub fn new(device: &Arc<Device>) -> Result<Stamp, Error> {
        device.enter()?;
        let mut event = MaybeUninit::uninit();
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT as u32;
        // SAFETY: the driver writes the handle on success, and only then is it read.
        let event = unsafe {
            device.check("cuEventCreate", sys::cuEventCreate(event.as_mut_ptr(), flags))?;
            event.assume_init()
        };
        let stamp = Stamp { device: Arc::clone(device), event };
        // SAFETY: event and stream are alive.
        device.check("cuEventRecord", unsafe { sys::cuEventRecord(event, device.stream) })?;
        Ok(stamp)
    }

    /// How long after an earlier one of the same device it was; waits until the device has come past both.
    ///
    /// # Errors
    ///
    /// If the device has stopped.
    pub fn since(&self, earlier: &Stamp) -> Result<Duration, Error> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        self.device.check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.event) })?;
        let mut milliseconds = 0.0;
        // SAFETY: the driver writes a number that outlives the call; both events keep times, were recorded, and have
        // passed, the earlier one before the other on the same stream.
        let code = unsafe { elapsed(&mut milliseconds, earlier.event, self.event)? };
        self.device.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

/// # Safety
///
/// As for the driver's function.
unsafe fn elapsed(milliseconds: &mut f32, earlier: CUevent, later: CUevent) -> Result<CUresult, Error> {
    if driver_version()? >= RENAMED {
        // SAFETY: as the caller promises; the driver has the function.
        return Ok(unsafe { sys::cuEventElapsedTime_v2(milliseconds, earlier, later) });
    }
    let missing = |error: libloading::Error| Error::Call { call: "cuEventElapsedTime", what: error.to_string() };
    // SAFETY: the driver is loaded already; its function has this type; both as the caller promises.
    unsafe {
        let driver = libloading::Library::new("libcuda.so.1").map_err(missing)?;
        let elapsed = driver.get::<Elapsed>(b"cuEventElapsedTime\0").map_err(missing)?;
        Ok(elapsed(milliseconds, earlier, later))
    }
}
