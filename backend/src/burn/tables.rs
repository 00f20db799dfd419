//! Methods that differ in their name and row alone, as tables.  Each macro turns lines `method Row;` into methods.

macro_rules! unary {
    ($($method:ident $row:ident;)+) => {$(
        fn $method(tensor: KilnTensor) -> KilnTensor {
            elementwise::unary(stringify!($method), Pointwise::$row, tensor)
        }
    )+};
}

macro_rules! binary {
    ($($method:ident $row:ident;)+) => {$(
        fn $method(lhs: KilnTensor, rhs: KilnTensor) -> KilnTensor {
            elementwise::binary(stringify!($method), Pointwise::$row, lhs, rhs)
        }
    )+};
}

macro_rules! with_scalar {
    ($($method:ident $row:ident;)+) => {$(
        fn $method(lhs: KilnTensor, rhs: Scalar) -> KilnTensor {
            elementwise::with_scalar(stringify!($method), Pointwise::$row, lhs, rhs)
        }
    )+};
}

macro_rules! compare {
    ($($method:ident $row:ident;)+) => {$(
        fn $method(lhs: KilnTensor, rhs: KilnTensor, out_dtype: BoolDType) -> KilnTensor {
            elementwise::compare(stringify!($method), Pointwise::$row, lhs, rhs, out_dtype)
        }
    )+};
}

macro_rules! compare_elem {
    ($($method:ident $row:ident;)+) => {$(
        fn $method(lhs: KilnTensor, rhs: Scalar, out_dtype: BoolDType) -> KilnTensor {
            elementwise::compare_elem(stringify!($method), Pointwise::$row, lhs, rhs, out_dtype)
        }
    )+};
}

macro_rules! reduce_dim {
    ($($method:ident $kind:ident;)+) => {$(
        fn $method(tensor: KilnTensor, dim: usize) -> KilnTensor {
            reduce::along(stringify!($method), Reduction::$kind, tensor, dim)
        }
    )+};
}

macro_rules! reduce_all {
    ($($method:ident $kind:ident;)+) => {$(
        fn $method(tensor: KilnTensor) -> KilnTensor {
            reduce::whole(stringify!($method), Reduction::$kind, tensor)
        }
    )+};
}

macro_rules! scan {
    ($($method:ident $kind:ident;)+) => {$(
        fn $method(tensor: KilnTensor, dim: usize) -> KilnTensor {
            scan::along(stringify!($method), Reduction::$kind, tensor, dim)
        }
    )+};
}

pub(super) use {binary, compare, compare_elem, reduce_all, reduce_dim, scan, unary, with_scalar};
