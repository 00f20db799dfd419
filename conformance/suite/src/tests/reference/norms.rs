//! Normalisation and attention.

use burn_backend::ops::AttentionModuleOptions;

use super::{agree, bools, floats, read_float};

agree! {
    fn batch_norm<B>(d) within 2e-5 {
        let x = floats::<B>(&[4, 3, 5, 2], 1, d);
        let (gamma, beta) = (floats::<B>(&[3], 2, d), floats::<B>(&[3], 3, d));
        let (mean, variance) = (floats::<B>(&[3], 4, d), B::float_abs(floats::<B>(&[3], 5, d)));
        let train = B::batch_norm_train(x.clone(), gamma.clone(), beta.clone(), 1e-5);
        let g = B::float_sin(train.output.clone());
        let back = B::batch_norm_train_backward(
            x.clone(), gamma.clone(), train.mean.clone(), train.variance.clone(), 1e-5, g,
        );
        [
            B::batch_norm(x, gamma, beta, mean, variance, 1e-3), train.output, train.mean, train.variance, back.x_grad,
            back.gamma_grad, back.beta_grad,
        ]
        .into_iter().map(read_float::<B>).collect()
    }

    fn layer_norm<B>(d) within 2e-5 {
        let x = floats::<B>(&[2, 3, 33], 1, d);
        let (gamma, beta) = (floats::<B>(&[33], 2, d), floats::<B>(&[33], 3, d));
        [B::layer_norm(x.clone(), gamma.clone(), Some(beta), 1e-5), B::layer_norm(x, gamma, None, 1e-5)]
            .into_iter().map(read_float::<B>).collect()
    }

    fn attention<B>(d) within 1e-5 {
        let (q, k, v) = (floats::<B>(&[2, 3, 5, 4], 1, d), floats::<B>(&[2, 3, 7, 4], 2, d), floats::<B>(&[2, 3, 7, 6], 3, d));
        let mask = bools::<B>(&[2, 3, 5, 7], 4, d);
        let bias = floats::<B>(&[2, 3, 5, 7], 5, d);
        let plain = AttentionModuleOptions::default();
        let causal = AttentionModuleOptions { is_causal: true, ..plain };
        let capped = AttentionModuleOptions { softcap: Some(2.0), scale: Some(0.3), is_causal: true };
        let all = B::bool_ones(burn_backend::Shape::new([2, 3, 5, 7]), d, burn_backend::BoolStore::Native);
        [
            B::attention(q.clone(), k.clone(), v.clone(), None, None, plain),
            B::attention(q.clone(), k.clone(), v.clone(), None, None, causal),
            B::attention(q.clone(), k.clone(), v.clone(), Some(mask.clone()), None, plain),
            B::attention(q.clone(), k.clone(), v.clone(), Some(mask), Some(bias.clone()), capped),
            B::attention(q.clone(), k.clone(), v.clone(), None, Some(bias), plain),
            B::attention(q, k, v, Some(all), None, plain),
        ]
        .into_iter().map(read_float::<B>).collect()
    }
}
