//! Windows of time: what falls in, what falls out, and what nests.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use burn_backend::{Backend, ProfileDuration, ProfileOptions};

use super::super::*;
use super::{AssertUnwindSafe, DEVICES, add, catch_unwind, floats, tensor};
use crate::Kiln;

/// What a window measured; its answer waits by itself.
fn time(window: ProfileDuration) -> Duration {
    match pin!(window.resolve()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(ticks)) => ticks.duration(),
        other => panic!("no measurement: {}", other.is_pending()),
    }
}

fn flushed() -> ProfileOptions {
    ProfileOptions::default().flush()
}

#[test]
fn a_window_holds_what_ran_in_it() {
    for device in DEVICES {
        let x = tensor(device, &[1.0; 5000]);
        let work = || (0..20).fold(x.clone(), |y, _| add(&y, &x));
        flush(&device);
        let (_, nothing) = Kiln::profile(&device, flushed(), || ()).expect("the device is there");
        assert_eq!(time(nothing), Duration::ZERO, "{device}");
        let (queued, nothing) = Kiln::profile(&device, ProfileOptions::default(), work).expect("the device is there");
        assert_eq!(time(nothing), Duration::ZERO, "{device}");
        drop(queued);
        let (made, some) = Kiln::profile(&device, flushed(), work).expect("the device is there");
        assert!(time(some) > Duration::ZERO, "{device}");
        let (read, some) = Kiln::profile(&device, ProfileOptions::default(), || floats(made)).expect("it is there");
        // The work was over before.
        assert_eq!((read[0], time(some)), (21.0, Duration::ZERO), "{device}");
    }
}

#[test]
fn windows_nest() {
    for device in DEVICES {
        let x = tensor(device, &[1.0; 5000]);
        let outer = Kiln::profile_start(&device).expect("the device is there").expect("windows are opened");
        let (first, one) = Kiln::profile(&device, flushed(), || add(&x, &x)).expect("the device is there");
        let (second, two) = Kiln::profile(&device, flushed(), || add(&first, &x)).expect("the device is there");
        let whole = Kiln::profile_end(&device, outer, ProfileOptions::default()).expect("it is open");
        let (one, two, whole) = (time(one), time(two), time(whole));
        assert!(one > Duration::ZERO && two > Duration::ZERO && whole >= one + two, "{one:?} {two:?} {whole:?}");
        assert_eq!(floats(second)[0], 3.0);
    }
}

#[test]
fn a_window_is_closed_once_and_given_up_by_a_panic() {
    for device in DEVICES {
        let open = || Kiln::profile_start(&device).expect("the device is there").expect("windows are opened");
        let end = |token| Kiln::profile_end(&device, token, ProfileOptions::default());
        let (first, second) = (open(), open());
        assert!(end(first).is_ok());
        let again = end(first).err().expect("it is closed").to_string();
        assert!(again.contains("no profiling window"), "{again}");
        Kiln::profile_abandon(&device, second);
        assert!(end(second).is_err());
        let panics = || Kiln::profile(&device, flushed(), || panic!("on purpose")).map(|((), _)| ());
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(floats(add(&tensor(device, &[1.0]), &tensor(device, &[1.0]))), [2.0]);
    }
}
