//! Everything that can be wrong with a model file, each as one sentence: what happened, where, what to do.

use thiserror::Error;

/// Why a file could not be imported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// The bytes are a known kind of file, but not one this importer reads.
    #[error("this is {kind}, not a Keras 3 model: {advice}")]
    Foreign {
        /// What the file is, with its article.
        kind: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// The bytes are no kind of file that is known.
    #[error(
        "this is not a model file: expected a .keras archive or the text of model.to_json(), found {found}; \
         save the model with model.save('model.keras')"
    )]
    Unrecognised {
        /// What was found.
        found: String,
    },
    /// The archive cannot be read.
    #[error("{entry} cannot be read: {reason}; the file is damaged or was cut short, save the model again")]
    Archive {
        /// The archive or its entry.
        entry: String,
        /// Why.
        reason: String,
    },
    /// A part of the file is larger than any real model's.
    #[error("{what} is larger than {limit}, the most this importer reads; no known model comes near it")]
    TooLarge {
        /// Which part.
        what: String,
        /// The limit, for people.
        limit: String,
    },
    /// The text is not JSON.
    #[error("{entry} is not valid JSON at line {line}, column {column} ({place}): {reason}; save the model again")]
    Json {
        /// The file's entry.
        entry: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The way to the value, such as `config.layers[3]`.
        place: String,
        /// Why.
        reason: String,
    },
    /// The JSON is not laid out as Keras lays out a model.
    #[error("{place} is not what Keras writes: {reason}; save the model again with Keras 3")]
    Layout {
        /// The way to the value, such as `config.layers[3]`.
        place: String,
        /// Why.
        reason: String,
    },
    /// A subclassed model: its graph is in Python code, not in the file.
    #[error(
        "the model '{name}' of class {class} is subclassed, so the file does not hold its graph: build it with the \
         functional API, keras.Model(inputs, outputs), and save that"
    )]
    Subclassed {
        /// The model's name.
        name: String,
        /// Its class.
        class: String,
    },
    /// The graph has a cycle.
    #[error("the graph of '{model}' has a cycle through layer '{layer}': a model must be acyclic, save it again")]
    Cycle {
        /// The model's name.
        model: String,
        /// A layer on the cycle.
        layer: String,
    },
    /// A reference to a tensor that nothing computes.
    #[error("layer '{layer}' reads {what}, which the file does not define: save the model again")]
    Dangling {
        /// The reading layer.
        layer: String,
        /// What it reads.
        what: String,
    },
    /// A layer that Keras itself would reject.
    #[error("layer '{layer}' ({class}): {reason}")]
    Layer {
        /// The layer's path.
        layer: String,
        /// Its class.
        class: String,
        /// Why, with what to do where that is not obvious.
        reason: String,
    },
    /// The model does not say what it is fed.
    #[error(
        "the model '{model}' was saved before it was built, so its input shape is unknown: add an Input layer, or give \
         it with --set input.shape=…"
    )]
    NoInputShape {
        /// The model's name.
        model: String,
    },
    /// An override of a layer that does not exist.
    #[error("there is no layer '{layer}' to set '{attr}' on; {near}")]
    UnknownLayer {
        /// The layer that was asked for.
        layer: String,
        /// The attribute.
        attr: String,
        /// Close matches.
        near: String,
    },
    /// An override of an attribute that does not exist.
    #[error("layer '{layer}' ({class}) has no setting '{attr}'; {near}")]
    UnknownAttribute {
        /// The layer's path.
        layer: String,
        /// Its class.
        class: String,
        /// The attribute.
        attr: String,
        /// Close matches.
        near: String,
    },
    /// A dtype policy that Keras does not have.
    #[error(
        "'{policy}' is not a dtype policy: use float32, float16, bfloat16, float64, mixed_float16 or mixed_bfloat16"
    )]
    UnknownPolicy {
        /// The policy that was asked for.
        policy: String,
    },
    /// More ops than any real model has.
    #[error("the model has more than {limit} {what} at layer '{layer}': it is too large to plan")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// Where the count ran over.
        layer: String,
    },
    /// A file that was given as a memory snapshot and is none.
    #[error(
        "this is not a PyTorch memory snapshot: expected the pickle that torch.cuda.memory._dump_snapshot('snapshot.pickle') \
         writes, found {found}"
    )]
    NotASnapshot {
        /// What was found.
        found: String,
    },
    /// A pickle that imports, calls or builds something.
    #[error(
        "the pickle asks Python to run code ({opcode} at byte {offset}), which no memory snapshot does: nothing was run, and \
         the file was not read; do not load it in Python either unless you trust its origin"
    )]
    PickleRunsCode {
        /// The instruction, as `pickletools` names it.
        opcode: &'static str,
        /// Where it stands.
        offset: usize,
    },
    /// A pickle that is broken.
    #[error(
        "the pickle cannot be read at byte {offset}: {reason}; the file is damaged or was cut short, write it again with \
         torch.cuda.memory._dump_snapshot('snapshot.pickle')"
    )]
    Pickle {
        /// Where reading stopped.
        offset: usize,
        /// Why.
        reason: String,
    },
    /// A pickle that is not laid out as PyTorch lays out a snapshot.
    #[error("{place} is not what PyTorch writes into a memory snapshot: {reason}; write the snapshot again")]
    SnapshotLayout {
        /// The part of the snapshot, such as `segments[3]`.
        place: String,
        /// Why.
        reason: String,
    },
}

/// What every part of the importer returns.
pub(crate) type Result<T> = std::result::Result<T, ImportError>;
