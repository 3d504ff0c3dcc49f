//! Activations: by name, as serialized functions, or as layers inside other layers.
//!
//! In: a setting such as `"relu"` or `{"class_name": "ReLU", …}`. Out: [`Activation`]. An unknown one is bounded and noted.

use brimful_core::model::{Activation, OpKind, TensorId};

use super::cx::Cx;
use super::json::Json;
use crate::error::Result;

/// An activation by Keras's name for the function.
pub(super) fn named(name: &str) -> Option<Activation> {
    Some(match name {
        "linear" => Activation::Linear,
        "relu" => Activation::Relu,
        "relu6" => Activation::Relu6,
        "leaky_relu" => Activation::LeakyRelu,
        "elu" => Activation::Elu,
        "selu" => Activation::Selu,
        "celu" => Activation::Celu,
        // Keras's default is the exact form.
        "gelu" => Activation::Gelu,
        "silu" | "swish" => Activation::Silu,
        "mish" => Activation::Mish,
        "sigmoid" => Activation::Sigmoid,
        "hard_sigmoid" => Activation::HardSigmoid,
        "hard_silu" | "hard_swish" => Activation::HardSilu,
        "hard_tanh" => Activation::HardTanh,
        "tanh" => Activation::Tanh,
        "softplus" => Activation::Softplus,
        "softsign" => Activation::Softsign,
        "softmax" => Activation::Softmax,
        "log_softmax" => Activation::LogSoftmax,
        "exponential" | "exp" => Activation::Exponential,
        "log_sigmoid" => Activation::LogSigmoid,
        "squareplus" | "glu" | "hard_shrink" | "soft_shrink" | "tanh_shrink" | "threshold" | "sparse_plus"
        | "sparse_sigmoid" | "sparsemax" => Activation::Other,
        _ => return None,
    })
}

/// `relu` with its settings.
pub(super) fn relu(max_value: Option<f64>, slope: f64, threshold: f64) -> Activation {
    match (max_value, slope == 0.0, threshold == 0.0) {
        (None, true, true) => Activation::Relu,
        (Some(6.0), true, true) => Activation::Relu6,
        (None, false, true) => Activation::LeakyRelu,
        _ => Activation::ReluGeneral,
    }
}

/// What a serialized activation is; `None` if it is not known.
fn read(json: &Json) -> Option<Activation> {
    match json {
        Json::Str(name) => named(name),
        Json::Object(_) => {
            let class = json.get("class_name")?.as_str()?;
            let config = json.get("config");
            if class == "function" || class == "builtin_function_or_method" {
                return named(config?.as_str()?);
            }
            let number = |key: &str| config.and_then(|config| config.get(key)).and_then(Json::as_float);
            Some(match class {
                "ReLU" => relu(
                    number("max_value"),
                    number("negative_slope").unwrap_or(0.0),
                    number("threshold").unwrap_or(0.0),
                ),
                "LeakyReLU" => Activation::LeakyRelu,
                "ELU" => Activation::Elu,
                "Softmax" => Activation::Softmax,
                "Activation" => return read(config?.get("activation")?),
                _ => return named(&snake(class)),
            })
        }
        _ => None,
    }
}

/// `HardSigmoid` to `hard_sigmoid`.
fn snake(class: &str) -> String {
    let mut name = String::with_capacity(class.len() + 4);
    for (at, letter) in class.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

impl Cx<'_, '_> {
    /// The activation that a setting asks for.
    pub(super) fn activation_of(&mut self, key: &str) -> Activation {
        let Some(json) = self.get(key) else { return Activation::Linear };
        read(json).unwrap_or_else(|| {
            let name =
                json.as_str().or_else(|| json.get("config")?.as_str()).or_else(|| json.get("class_name")?.as_str());
            let name: String = name.unwrap_or("unnamed").chars().take(60).collect();
            let text = format!("The activation '{name}' is not known; two results of its size are assumed to be kept.");
            self.note("custom_activation", text);
            Activation::Other
        })
    }

    /// Applies the activation that a setting asks for; a linear one is no op.
    pub(super) fn activate(&mut self, key: &str, tensor: TensorId) -> Result<TensorId> {
        let activation = self.activation_of(key);
        self.apply(activation, tensor)
    }

    pub(super) fn apply(&mut self, activation: Activation, tensor: TensorId) -> Result<TensorId> {
        if activation == Activation::Linear {
            return Ok(tensor);
        }
        self.same(OpKind::Activation(activation), tensor)
    }
}
