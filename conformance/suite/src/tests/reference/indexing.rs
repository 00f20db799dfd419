//! Gathers, scatters and embeddings.

use burn_backend::tensor::IndexingUpdateOp as Update;

use super::{agree, bools, floats, ints, read_bool, read_float, read_int};

agree! {
    fn gathers<B>(d) within 0.0 {
        let x = floats::<B>(&[4, 5, 3], 1, d);
        let i = ints::<B>(&[4, 7, 3], 0, 5, 2, d);
        let j = ints::<B>(&[6], 0, 4, 3, d);
        let nd = ints::<B>(&[2, 3, 2], 0, 4, 4, d);
        vec![
            read_float::<B>(B::float_gather(1, x.clone(), i)), read_float::<B>(B::float_select(x.clone(), 0, j.clone())),
            read_float::<B>(B::float_gather_nd(x, nd)),
            read_int::<B>(B::int_select(ints::<B>(&[4, 2], -9, 9, 1, d), 0, j.clone())),
            read_bool::<B>(B::bool_select(bools::<B>(&[4, 2], 1, d), 0, j)),
        ]
    }

    fn scatters<B>(d) within 1e-6 {
        let x = floats::<B>(&[4, 5], 1, d);
        let v = floats::<B>(&[4, 7], 2, d);
        let i = ints::<B>(&[4, 7], 0, 5, 3, d);
        let j = ints::<B>(&[7], 0, 5, 4, d);
        let unique = B::int_from_data(burn_backend::TensorData::from([3i32, 0, 2]), d);
        let three = floats::<B>(&[4, 3], 5, d);
        vec![
            read_float::<B>(B::float_scatter(1, x.clone(), i, v.clone(), Update::Add)),
            read_float::<B>(B::float_select_assign(x.clone(), 1, j, v, Update::Add)),
            read_float::<B>(B::float_select_assign(x.clone(), 1, unique, three, Update::Assign)),
            read_float::<B>(B::float_scatter_nd(
                x, ints::<B>(&[6, 1], 0, 4, 8, d), floats::<B>(&[6, 5], 9, d), Update::Add,
            )),
        ]
    }

    fn embeddings<B>(d) within 1e-6 {
        let table = floats::<B>(&[9, 4], 1, d);
        let i = ints::<B>(&[2, 5], 0, 9, 2, d);
        vec![
            read_float::<B>(B::embedding(table.clone(), i.clone())),
            read_float::<B>(B::embedding_backward(table, floats::<B>(&[2, 5, 4], 3, d), i)),
        ]
    }
}
