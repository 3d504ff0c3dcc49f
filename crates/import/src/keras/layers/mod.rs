//! Every layer of `keras.layers`: one line in the registry, one function in a file of its family.
//!
//! In: a call ([`Cx`]). Out: the ops of one call and the layer's weights. A function does what the layer's `build` and
//! `call` do in Keras 3, as far as memory depends on it.

mod applications;
mod attention;
mod conv;
mod core;
mod merge;
mod norm;
mod pool;
mod preprocess;
mod regularize;
mod reshape;
mod rnn;
mod wrappers;

pub(super) use self::conv::patches;
pub(super) use self::core::einsum_dense;
pub(super) use self::merge::{broadcast, concatenated};
pub(super) use self::reshape::{interpolation, resolve_target};

use super::build::Hints;
use super::cx::Cx;
use super::value::Value;
use crate::error::Result;

/// What a layer's call does.
pub(super) type Translate = for<'b, 'd> fn(&mut Cx<'b, 'd>, Hints<'d>) -> Result<Value<'d>>;

/// A registered layer.
pub(super) struct Entry {
    /// The class.
    pub(super) class: &'static str,
    /// What its call does.
    pub(super) translate: Translate,
    /// Float inputs are cast to the compute type before the call.
    pub(super) autocast: bool,
    /// A mask of the input goes on to the output.
    pub(super) masks: bool,
}

const fn layer(class: &'static str, translate: Translate) -> Entry {
    Entry { class, translate, autocast: true, masks: false }
}

impl Entry {
    const fn masks(self) -> Entry {
        Entry { masks: true, ..self }
    }

    const fn no_cast(self) -> Entry {
        Entry { autocast: false, ..self }
    }
}

/// The layer of a class.
pub(super) fn find(class: &str) -> Option<&'static Entry> {
    LAYERS.iter().find(|entry| entry.class == class)
}

/// Classes of `keras.layers` that hold nothing worth counting, or are never in a file.
#[cfg(test)]
const NOT_LAYERS: &[&str] = &[
    // Base classes, without a call of their own.
    "Layer", "Wrapper", "InputSpec", // A function that makes an InputLayer.
    "Input",     // Foreign code inside a layer: imported as custom layers, with a note.
    "FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper",
];

/// The registry.
static LAYERS: &[Entry] = &[
    // core
    layer("InputLayer", core::input),
    layer("Dense", core::dense).masks(),
    layer("EinsumDense", core::einsum_dense_layer),
    layer("Embedding", core::embedding).no_cast(),
    layer("Identity", core::identity).masks(),
    layer("Lambda", core::lambda),
    layer("Masking", core::masking),
    layer("ReversibleEmbedding", core::reversible_embedding).no_cast(),
    layer("Activation", core::activation).masks(),
    layer("ReLU", core::relu).masks(),
    layer("LeakyReLU", core::leaky_relu).masks(),
    layer("PReLU", core::prelu).masks(),
    layer("ELU", core::elu).masks(),
    layer("Softmax", core::softmax).masks(),
    // convolutions
    layer("Conv1D", conv::conv),
    layer("Conv2D", conv::conv),
    layer("Conv3D", conv::conv),
    layer("Convolution1D", conv::conv),
    layer("Convolution2D", conv::conv),
    layer("Convolution3D", conv::conv),
    layer("Conv1DTranspose", conv::transposed),
    layer("Conv2DTranspose", conv::transposed),
    layer("Conv3DTranspose", conv::transposed),
    layer("Convolution1DTranspose", conv::transposed),
    layer("Convolution2DTranspose", conv::transposed),
    layer("Convolution3DTranspose", conv::transposed),
    layer("DepthwiseConv1D", conv::depthwise),
    layer("DepthwiseConv2D", conv::depthwise),
    layer("SeparableConv1D", conv::separable),
    layer("SeparableConv2D", conv::separable),
    layer("SeparableConvolution1D", conv::separable),
    layer("SeparableConvolution2D", conv::separable),
    // normalization
    layer("BatchNormalization", norm::batch).masks(),
    layer("LayerNormalization", norm::layer).no_cast().masks(),
    layer("GroupNormalization", norm::group).no_cast().masks(),
    layer("RMSNormalization", norm::rms),
    layer("UnitNormalization", norm::unit).masks(),
    layer("SpectralNormalization", norm::spectral),
    // pooling
    layer("MaxPooling1D", pool::max),
    layer("MaxPooling2D", pool::max),
    layer("MaxPooling3D", pool::max),
    layer("MaxPool1D", pool::max),
    layer("MaxPool2D", pool::max),
    layer("MaxPool3D", pool::max),
    layer("AveragePooling1D", pool::average),
    layer("AveragePooling2D", pool::average),
    layer("AveragePooling3D", pool::average),
    layer("AvgPool1D", pool::average),
    layer("AvgPool2D", pool::average),
    layer("AvgPool3D", pool::average),
    layer("GlobalMaxPooling1D", pool::global_max),
    layer("GlobalMaxPooling2D", pool::global_max),
    layer("GlobalMaxPooling3D", pool::global_max),
    layer("GlobalMaxPool1D", pool::global_max),
    layer("GlobalMaxPool2D", pool::global_max),
    layer("GlobalMaxPool3D", pool::global_max),
    layer("GlobalAveragePooling1D", pool::global_average),
    layer("GlobalAveragePooling2D", pool::global_average),
    layer("GlobalAveragePooling3D", pool::global_average),
    layer("GlobalAvgPool1D", pool::global_average),
    layer("GlobalAvgPool2D", pool::global_average),
    layer("GlobalAvgPool3D", pool::global_average),
    layer("AdaptiveMaxPooling1D", pool::adaptive),
    layer("AdaptiveMaxPooling2D", pool::adaptive),
    layer("AdaptiveMaxPooling3D", pool::adaptive),
    layer("AdaptiveAveragePooling1D", pool::adaptive),
    layer("AdaptiveAveragePooling2D", pool::adaptive),
    layer("AdaptiveAveragePooling3D", pool::adaptive),
    // merging
    layer("Add", merge::add).masks(),
    layer("Subtract", merge::subtract).masks(),
    layer("Multiply", merge::multiply).masks(),
    layer("Average", merge::average).masks(),
    layer("Maximum", merge::maximum).masks(),
    layer("Minimum", merge::minimum).masks(),
    layer("Concatenate", merge::concatenate).masks(),
    layer("Dot", merge::dot),
    // reshaping
    layer("Flatten", reshape::flatten),
    layer("Reshape", reshape::reshape),
    layer("Permute", reshape::permute),
    layer("RepeatVector", reshape::repeat_vector),
    layer("Cropping1D", reshape::cropping),
    layer("Cropping2D", reshape::cropping),
    layer("Cropping3D", reshape::cropping),
    layer("ZeroPadding1D", reshape::zero_padding),
    layer("ZeroPadding2D", reshape::zero_padding),
    layer("ZeroPadding3D", reshape::zero_padding),
    layer("UpSampling1D", reshape::up_sampling),
    layer("UpSampling2D", reshape::up_sampling),
    layer("UpSampling3D", reshape::up_sampling),
    // regularization
    layer("Dropout", regularize::dropout).masks(),
    layer("SpatialDropout1D", regularize::spatial_dropout).masks(),
    layer("SpatialDropout2D", regularize::spatial_dropout).masks(),
    layer("SpatialDropout3D", regularize::spatial_dropout).masks(),
    layer("AlphaDropout", regularize::alpha_dropout).masks(),
    layer("GaussianDropout", regularize::gaussian_dropout).masks(),
    layer("GaussianNoise", regularize::gaussian_noise).masks(),
    layer("ActivityRegularization", regularize::activity).masks(),
    // attention
    layer("MultiHeadAttention", attention::multi_head).masks(),
    layer("GroupQueryAttention", attention::group_query).masks(),
    layer("GroupedQueryAttention", attention::group_query).masks(),
    layer("Attention", attention::dot_product),
    layer("AdditiveAttention", attention::additive),
    // recurrent
    layer("LSTM", rnn::lstm),
    layer("GRU", rnn::gru),
    layer("SimpleRNN", rnn::simple),
    layer("RNN", rnn::rnn),
    layer("LSTMCell", rnn::cell_alone),
    layer("GRUCell", rnn::cell_alone),
    layer("SimpleRNNCell", rnn::cell_alone),
    layer("StackedRNNCells", rnn::cell_alone),
    layer("ConvLSTM1D", rnn::conv_lstm),
    layer("ConvLSTM2D", rnn::conv_lstm),
    layer("ConvLSTM3D", rnn::conv_lstm),
    // wrappers
    layer("Bidirectional", wrappers::bidirectional),
    layer("TimeDistributed", wrappers::time_distributed).masks(),
    // keras.applications
    layer("LayerScale", applications::layer_scale),
    layer("StochasticDepth", applications::stochastic_depth),
    layer("CustomScaleLayer", applications::custom_scale),
    // preprocessing
    layer("Rescaling", preprocess::rescaling).masks(),
    layer("Normalization", preprocess::normalization).masks(),
    layer("Resizing", preprocess::resizing).no_cast(),
    layer("CenterCrop", preprocess::center_crop).no_cast(),
    layer("RandomCrop", preprocess::center_crop).no_cast(),
    layer("CategoryEncoding", preprocess::category_encoding).no_cast(),
    layer("Discretization", preprocess::discretization),
    layer("Hashing", preprocess::lookup).no_cast(),
    layer("HashedCrossing", preprocess::hashed_crossing).no_cast(),
    layer("IntegerLookup", preprocess::lookup).no_cast(),
    layer("StringLookup", preprocess::lookup).no_cast(),
    layer("TextVectorization", preprocess::text_vectorization).no_cast(),
    layer("STFTSpectrogram", preprocess::stft),
    layer("MelSpectrogram", preprocess::mel),
    layer("Pipeline", preprocess::pipeline).no_cast(),
    layer("MaxNumBoundingBoxes", preprocess::pass_through).no_cast(),
    layer("AugMix", preprocess::augment),
    layer("AutoContrast", preprocess::augment),
    layer("ContrastLimitedAdaptiveHistogramEqualization", preprocess::augment),
    layer("CutMix", preprocess::augment),
    layer("Equalization", preprocess::augment),
    layer("MixUp", preprocess::augment),
    layer("RandAugment", preprocess::augment),
    layer("RandomBrightness", preprocess::augment),
    layer("RandomColorDegeneration", preprocess::augment),
    layer("RandomColorJitter", preprocess::augment),
    layer("RandomContrast", preprocess::augment),
    layer("RandomElasticTransform", preprocess::augment),
    layer("RandomErasing", preprocess::augment),
    layer("RandomFlip", preprocess::augment).no_cast(),
    layer("RandomGaussianBlur", preprocess::augment),
    layer("RandomGrayscale", preprocess::augment),
    layer("RandomHue", preprocess::augment),
    layer("RandomInvert", preprocess::augment),
    layer("RandomPerspective", preprocess::augment),
    layer("RandomPosterization", preprocess::augment),
    layer("RandomRotation", preprocess::augment),
    layer("RandomSaturation", preprocess::augment),
    layer("RandomSharpness", preprocess::augment),
    layer("RandomShear", preprocess::augment),
    layer("RandomTranslation", preprocess::augment),
    layer("RandomZoom", preprocess::augment),
    layer("Solarization", preprocess::augment),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A class that Keras adds must be modelled, or named among those that hold nothing.
    #[test]
    fn every_class_of_keras_layers_is_known() {
        let names = include_str!("../../../../../fixtures/models/keras_layers_3.15.txt");
        let names: Vec<&str> = names.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(names.len() > 150);
        let missing: Vec<&&str> =
            names.iter().filter(|name| find(name).is_none() && !NOT_LAYERS.contains(name)).collect();
        assert!(missing.is_empty(), "not in the registry: {missing:?}");
        let twice = NOT_LAYERS.iter().find(|name| find(name).is_some());
        assert_eq!(twice, None, "both modelled and passed over");
    }

    #[test]
    fn no_class_is_registered_twice() {
        for (at, entry) in LAYERS.iter().enumerate() {
            assert!(!LAYERS[..at].iter().any(|other| other.class == entry.class), "{}", entry.class);
        }
    }
}
