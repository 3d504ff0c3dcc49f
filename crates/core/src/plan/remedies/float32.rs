//! Compute and store in float32 where the model uses float64.
//!
//! Time: by the smaller memory traffic alone.

use super::{Change, Context, Effect, Remedy};
use crate::model::DType;
use crate::plan::setup::Setup;

/// `float32`.
pub struct Float32;

impl Remedy for Float32 {
    fn id(&self) -> &'static str {
        "float32"
    }

    fn options(&self, context: &Context<'_>, setup: &Setup) -> Vec<Change> {
        let model = &context.base.model;
        let wide = model.ops.iter().any(|op| op.compute == DType::Float64)
            || model.weights.iter().any(|weight| weight.dtype == DType::Float64);
        if !wide || context.policy_chosen(setup) {
            return Vec::new();
        }
        let changed = Setup { change: setup.change.with_policy("float32"), ..setup.clone() };
        let code = "keras.config.set_floatx(\"float32\")  # before the model is built\nx = x.astype(\"float32\")";
        let title = "Use float32 in place of float64".to_owned();
        vec![Change::new(title, changed, Effect::Numerics, code.to_owned(), Some("model.float(); x = x.float()"))]
    }
}
