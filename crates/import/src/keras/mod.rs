//! Keras 3 models: `.keras` archives and the text of `model.to_json()`.
//!
//! In: bytes. Out: [`Document`] (read once), then a [`Model`] for each set of [`Options`]. Weights' shapes follow from the
//! layers' settings, as in Keras; the archive's weights are not read. Not counted: the states of stateful recurrent layers,
//! vocabularies of look-up layers (host tables), and anything that a custom layer creates.

mod activation;
mod archive;
mod build;
mod compile;
mod config;
mod custom;
mod cx;
mod einsum;
mod graph;
mod hdf5;
mod json;
mod layers;
mod listing;
mod ops;
mod order;
mod overrides;
mod pairs;
mod policy;
mod value;

use brimful_core::model::{Compiled, Model, Note};
use brimful_core::plan::{ModelChange, ModelSource};

use self::build::Builder;
use self::config::Net;
use self::overrides::Overrides;
use self::policy::Policy;
pub use crate::error::ImportError;

/// One setting of one layer, changed before the model is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The layer's name or path, or `input` for the only input.
    pub layer: String,
    /// The setting, such as `units`; inputs have `shape` and `batch_shape`.
    pub attr: String,
    /// The new value, as JSON or as a bare word or list: `64`, `[3, 3]`, `128,128,3`, `same`.
    pub value: String,
}

/// How a document becomes a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Settings to change.
    pub overrides: Vec<Override>,
    /// A dtype policy, such as `mixed_bfloat16`, for all layers that have the model-wide one.
    pub policy: Option<String>,
    /// The size of dimensions that vary, other than the batch's. A note says where it was used.
    pub unknown_dim: u64,
    /// The batch, where a tensor has it twice. A note says where it was used.
    pub batch: u64,
}

impl Default for Options {
    fn default() -> Options {
        // 128: a usual length of a sequence. An image of unknown size is rarer.
        Options { overrides: Vec::new(), policy: None, unknown_dim: 128, batch: 32 }
    }
}

/// A parsed file.
pub struct Document {
    net: Net,
    compiled: Compiled,
    /// The policy that most layers have.
    policy: String,
    keras_version: Option<String>,
    notes: Vec<Note>,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document")
            .field("name", &self.net.name)
            .field("class", &self.net.class)
            .field("policy", &self.policy)
            .field("keras_version", &self.keras_version)
            .finish_non_exhaustive()
    }
}

/// Reads a `.keras` archive or the text of `model.to_json()`.
pub fn read(bytes: &[u8]) -> Result<Document, ImportError> {
    let texts = archive::read(bytes)?;
    let mut notes = Vec::new();
    if texts.keras_version.as_deref().is_some_and(|version| version.starts_with(['1', '2'])) {
        let text = "The file was written by Keras 2; its layers are read as Keras 3 would build them.";
        notes.push(Note { code: "keras2", layer: None, text: text.to_owned() });
    }
    if texts.config.get("class_name").is_none() {
        let found = "JSON without a class_name".to_owned();
        return Err(ImportError::Unrecognised { found });
    }
    let (net, compile) = config::root(texts.config, texts.entry)?;
    let outputs = net.output_names();
    let compiled = compile::read(&compile, &outputs);
    let policy = policy::model_wide(&net);
    Ok(Document { net, compiled, policy, keras_version: texts.keras_version, notes })
}

impl Document {
    /// Translates the document. Fast enough to be called for every remedy that changes a setting.
    pub fn model(&self, options: &Options) -> Result<Model, ImportError> {
        let forced = match &options.policy {
            None => None,
            Some(name) => {
                let unknown = || ImportError::UnknownPolicy { policy: name.clone() };
                let policy = Policy::named(name).filter(|policy| policy.compute.is_float() && !policy.quantized);
                Some((policy.ok_or_else(unknown)?, self.policy.as_str()))
            }
        };
        let overrides = Overrides::resolve(&options.overrides, &self.net)?;
        let mut builder = Builder::new(options, &overrides, forced);
        builder.model.notes = self.notes.clone();
        builder.run_root(&self.net)?;
        let mut model = builder.model;
        model.compiled = self.compiled.clone();
        Ok(model)
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.net.name
    }

    /// The version of Keras that wrote the file, if it says.
    pub fn keras_version(&self) -> Option<&str> {
        self.keras_version.as_deref()
    }

    /// How the file says the model was compiled.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The same, to be corrected by those who hold the model and know better.
    pub fn compiled_mut(&mut self) -> &mut Compiled {
        &mut self.compiled
    }

    /// The dtype policy that most layers have, such as `float32`.
    pub fn policy(&self) -> &str {
        &self.policy
    }
}

/// A file that was read once is built as often as a plan asks.
impl ModelSource for Document {
    fn model(&self, change: &ModelChange) -> Result<Model, String> {
        let overrides = change
            .overrides
            .iter()
            .map(|(layer, attr, value)| Override { layer: layer.clone(), attr: attr.clone(), value: value.clone() })
            .collect();
        let mut options = Options { overrides, policy: change.policy.clone(), ..Options::default() };
        options.batch = change.batch.unwrap_or(options.batch);
        self.model(&options).map_err(|error| error.to_string())
    }
}
