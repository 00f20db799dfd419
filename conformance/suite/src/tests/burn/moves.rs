//! Tensors that move: from every device of this machine to every other one, and back.

use burn_backend::Backend;
use burn_kiln::{Kiln, KilnDevice};
use burn_tensor::{Bool, DType, Device, FloatDType, Int, IntDType, Tensor, TensorData};

use super::{tensor, values};
use crate::test::{Test, test};

pub const TESTS: &[Test] = &[
    test!(every_type_arrives_as_it_was),
    test!(views_arrive_in_their_order),
    test!(large_tensors_arrive_whole),
    test!(work_goes_on_where_the_tensor_is),
    test!(gradients_come_back),
    test!(a_failure_on_one_device_leaves_the_other_usable),
    test!(threads_move_at_the_same_time),
];

/// The kind of NVIDIA's devices, as Burn numbers it.
const CUDA: u16 = 1;

/// Devices that this machine has.
fn devices() -> Vec<KilnDevice> {
    let gpus = (0..Kiln::device_count(CUDA)).map(KilnDevice::Cuda);
    [KilnDevice::Cpu, KilnDevice::Interp].into_iter().chain(gpus).collect()
}

/// Does something for each device and each other one.
fn pairs(f: impl Fn(&Device, &Device, &str)) {
    let all = devices();
    for from in &all {
        for to in all.iter().filter(|to| *to != from) {
            f(&Device::new(*from), &Device::new(*to), &format!("{from} to {to}"));
        }
    }
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 29 % 83) as f32 - 41.0).collect()
}

fn every_type_arrives_as_it_was() {
    use FloatDType as F;
    use IntDType as I;
    pairs(|from, to, pair| {
        let data = TensorData::new(numbers(60), [3, 20]);
        for dtype in [F::F64, F::F32, F::F16, F::BF16] {
            let x = Tensor::<2>::from_data(data.clone(), from).cast(dtype) / 8.0;
            let moved = x.clone().to_device(to);
            assert_eq!(moved.device(), *to, "{pair}");
            assert_eq!(moved.dtype(), x.dtype(), "{pair}");
            let (there, here) = (moved.clone().into_data(), x.clone().into_data());
            assert!(there.as_bytes() == here.as_bytes(), "{pair} {dtype:?}");
            assert!(moved.to_device(from).into_data().as_bytes() == here.as_bytes(), "{pair} {dtype:?} and back");
        }
        for dtype in [I::I64, I::I32, I::I16, I::I8, I::U64, I::U32, I::U16, I::U8] {
            let x = Tensor::<2, Int>::from_data(data.clone(), from).cast(dtype);
            let moved = x.clone().to_device(to) + 0;
            assert!(moved.into_data().as_bytes() == x.into_data().as_bytes(), "{pair} {dtype:?}");
        }
        let x: Tensor<2, Bool> = Tensor::<2>::from_data(data, from).greater_elem(0.0);
        let moved = x.clone().to_device(to);
        assert_eq!(moved.clone().into_data(), x.clone().into_data(), "{pair}");
        assert_eq!(moved.bool_not().into_data(), x.bool_not().into_data(), "{pair}");
    });
}

fn views_arrive_in_their_order() {
    pairs(|from, to, pair| {
        let x = tensor(&numbers(120), [4, 5, 6], from) + 1.0;
        let views: [fn(Tensor<3>) -> Tensor<3>; 6] = [
            |x| x.swap_dims(0, 2),
            |x| x.slice([1..3, 2..5, 1..2]),
            |x| x.flip([0, 2]),
            |x| x.slice([0..1, 0..5, 0..6]).expand([3, 5, 6]),
            |x| x.slice([2..2, 0..5, 0..6]),
            |x| x.flip([1]).permute([1, 2, 0]).slice([1..4, 0..6, 3..4]),
        ];
        for (number, view) in views.iter().enumerate() {
            // Computed already, and not yet.
            for _ in 0..2 {
                let seen = view(x.clone());
                let moved = seen.clone().to_device(to);
                assert_eq!(moved.dims(), seen.dims(), "{pair} {number}");
                assert_eq!(values(moved.clone()), values(seen.clone()), "{pair} {number}");
                assert_eq!(values(moved * 2.0), values(seen * 2.0), "{pair} {number}");
            }
        }
        let scalar = tensor(&[7.5], [1], from).sum().to_device(to);
        assert_eq!(values(scalar + 1.0), [8.5], "{pair}");
    });
}

/// More than fits into one part of a staged copy.
fn large_tensors_arrive_whole() {
    let n = 700_001;
    pairs(|from, to, pair| {
        if [from, to].into_iter().any(|device| *device == Device::new(KilnDevice::Interp)) {
            return;
        }
        let x = tensor(&numbers(n), [n], from);
        assert!(values(x.clone().to_device(to) + 1.0) == values(x + 1.0), "{pair}");
    });
    let (cpu, interp) = (Device::new(KilnDevice::Cpu), Device::new(KilnDevice::Interp));
    let x = tensor(&numbers(n), [n], &cpu);
    assert!(values(x.clone().to_device(&interp).to_device(&cpu)) == values(x));
}

fn work_goes_on_where_the_tensor_is() {
    pairs(|from, to, pair| {
        let mut x = tensor(&numbers(24), [4, 6], from) / 16.0;
        let mut wanted = x.clone();
        for round in 0..6 {
            let there = if round % 2 == 0 { to } else { from };
            x = x.to_device(there);
            let shift = tensor(&[0.5; 6], [1, 6], there);
            x = (x.clone() - x.sum_dim(0) * 0.25 + shift).tanh();
            wanted = (wanted.clone() - wanted.sum_dim(0) * 0.25 + 0.5).tanh();
        }
        assert_eq!(x.device(), *from);
        assert!(values(x) == values(wanted), "{pair}");
        let mixed = tensor(&[1.0], [1], from);
        let message = super::cases::panics(|| mixed.clone() + tensor(&[1.0], [1], to));
        assert!(!message.is_empty(), "{pair}");
    });
}

fn gradients_come_back() {
    pairs(|from, to, pair| {
        let (here, there) = (from.clone().autodiff(), to.clone().autodiff());
        let x = tensor(&numbers(12), [3, 4], &here).require_grad();
        let y = (x.clone() * 2.0).to_device(&there);
        let loss = (y.clone() * y).sum();
        let gradients = loss.backward();
        let gradient = x.grad(&gradients).expect("the tensor has a gradient");
        assert_eq!(gradient.device(), *from, "{pair}");
        let wanted: Vec<f32> = numbers(12).iter().map(|v| 8.0 * v).collect();
        assert_eq!(values(gradient), wanted, "{pair}");
    });
}

fn a_failure_on_one_device_leaves_the_other_usable() {
    pairs(|from, to, pair| {
        let at = |rows: [i64; 2], device: &Device| {
            Tensor::<1, Int>::from_data(TensorData::new(rows.to_vec(), [2]), (device, DType::I64))
        };
        let (x, beside) = (tensor(&numbers(6), [3, 2], from), tensor(&numbers(6), [3, 2], to));
        let lost = x.clone().select(0, at([0, 3], from)).to_device(to);
        let after = lost.clone() + 1.0;
        let other = beside.clone() * 2.0;
        for t in [after, lost.clone()] {
            let message = t.try_into_data().expect_err("3 is out of range").to_string();
            assert!(message.contains("select") && message.contains("to_device"), "{pair}: {message}");
        }
        let doubled: Vec<f32> = numbers(6).iter().map(|v| 2.0 * v).collect();
        assert_eq!(values(other), doubled, "{pair}");
        assert_eq!(values(x.clone() * 2.0), doubled, "{pair}");
        assert_eq!(values(x.to_device(to) + beside), doubled, "{pair}");
        assert!(lost.to_device(from).try_into_data().is_err(), "{pair}");
        for device in [from, to] {
            // Whether a failure is left that nobody took is the other tests' business.
            let _ = device.sync();
            device.sync().unwrap_or_else(|error| panic!("{pair}: {error}"));
        }
    });
}

fn threads_move_at_the_same_time() {
    pairs(|from, to, pair| {
        std::thread::scope(|scope| {
            for seed in 0..3 {
                scope.spawn(move || {
                    for round in 0..8 {
                        let k = (seed * 8 + round) as f32;
                        let x = tensor(&[k; 300], [300], from) + 1.0;
                        let there = x.clone().to_device(to) * 2.0;
                        assert_eq!(values(there.to_device(from) + x), [3.0 * (k + 1.0); 300], "{pair}");
                    }
                });
            }
        });
    });
}
