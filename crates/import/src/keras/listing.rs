//! The order in which Keras lists a model's weights, and in which they were created.
//!
//! In: a model whose weights stand in running order, and where each layer stands. Out: the same model with its weights in the order of
//! `model.trainable_weights`, which is that of the updates; each knows when it was created, which is how memory is laid out.

use brimful_core::model::{Model, Weight, WeightId};

/// Where a layer stands in the model around it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// In the file's list.
    pub(super) listed: u32,
    /// In the order of the first calls.
    pub(super) created: u32,
}

/// Lists the weights; `places` are those of each layer, after those of the models around it.
pub(super) fn list(model: &mut Model, places: &[Vec<Place>]) {
    let weights = &mut model.weights;
    let by = |part: fn(&Place) -> u32| {
        move |a: &Weight, b: &Weight| {
            let [a, b] = [a, b].map(|weight| places[weight.layer.0 as usize].iter().map(part));
            a.cmp(b)
        }
    };
    let (listed, created) = (by(|place| place.listed), by(|place| place.created));
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| created(&weights[a], &weights[b]));
    for (place, &at) in (0..).zip(&order) {
        weights[at].created = place;
    }
    order.sort_unstable();
    order.sort_by(|&a, &b| listed(&weights[a], &weights[b]));
    let mut renamed = vec![WeightId(0); weights.len()];
    for (id, &at) in (0..).zip(&order) {
        renamed[at] = WeightId(id);
    }
    weights.sort_by(listed);
    for id in model.ops.iter_mut().flat_map(|op| &mut op.weights) {
        *id = renamed[id.0 as usize];
    }
}
