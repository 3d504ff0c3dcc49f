//! How a file says the model was compiled.
//!
//! In: `compile_config`. Out: [`Compiled`]. Learning rates, schedules and loss weights take no memory and are passed over.

use brimful_core::model::{Compiled, Loss, Metric, OptimizerConfig};

use super::json::Json;

/// `outputs` are the names of the model's outputs.
pub(super) fn read(json: &Json, outputs: &[&str]) -> Compiled {
    let mut compiled = Compiled::default();
    if let Some(optimizer) = json.get("optimizer") {
        compiled.optimizer = optimizer_config(optimizer);
    }
    if let Some(loss) = json.get("loss") {
        compiled.losses = losses(loss, outputs);
    }
    for key in ["metrics", "weighted_metrics"] {
        let Some(json) = json.get(key) else { continue };
        for (output, found) in metrics(json, outputs).into_iter().enumerate() {
            compiled.metrics.resize(compiled.metrics.len().max(output + 1), Vec::new());
            compiled.metrics[output].extend(found);
        }
    }
    // "auto" leaves it to the framework.
    compiled.jit = json.get("jit_compile").and_then(Json::as_bool);
    compiled
}

fn optimizer_config(json: &Json) -> Option<OptimizerConfig> {
    if let Json::Str(name) = json {
        return Some(OptimizerConfig::named(name));
    }
    // Keras 2 puts the name of a package in front: Custom>Adam.
    let class = json.get("class_name")?.as_str()?.rsplit('>').next()?;
    let empty = Json::Null;
    let config = json.get("config").unwrap_or(&empty);
    if class == "LossScaleOptimizer" {
        let inner = config.get("inner_optimizer").or_else(|| config.get("optimizer"));
        let mut optimizer = inner.and_then(optimizer_config)?;
        optimizer.loss_scaling = true;
        return Some(optimizer);
    }
    let set = |key: &str| config.get(key).is_some_and(|value| !value.is_null() && value.as_bool() != Some(false));
    let above_zero = |key: &str| config.get(key).and_then(Json::as_float).is_some_and(|value| value > 0.0);
    let mut optimizer = OptimizerConfig::named(class);
    optimizer.momentum = above_zero("momentum");
    optimizer.nesterov = set("nesterov");
    optimizer.centered = set("centered");
    optimizer.amsgrad = set("amsgrad");
    optimizer.weight_decay = above_zero("weight_decay");
    optimizer.clip_each = set("clipnorm") || set("clipvalue");
    optimizer.clip_global = set("global_clipnorm");
    optimizer.ema = set("use_ema");
    let steps = config.get("gradient_accumulation_steps").and_then(Json::as_int);
    optimizer.accumulate_steps = steps.and_then(|steps| u32::try_from(steps).ok()).map_or(1, |steps| steps.max(1));
    Some(optimizer)
}

/// What is said for each output: one for all, one by one, or by the outputs' names. What is missing is null.
fn by_output<'j>(json: &'j Json, outputs: &[&str]) -> Vec<&'j Json> {
    match json {
        Json::Array(items) => items.iter().collect(),
        Json::Object(entries) if json.get("class_name").is_none() => {
            if !outputs.iter().any(|output| json.get(output).is_some()) {
                return entries.iter().map(|(_, item)| item).collect();
            }
            outputs.iter().map(|&output| json.get(output).unwrap_or(&Json::Null)).collect()
        }
        _ => vec![json],
    }
}

fn losses(json: &Json, outputs: &[&str]) -> Vec<Loss> {
    let read = |json: &Json| match name(json) {
        None => Loss::default(),
        Some(name) => {
            let smoothing = setting(json, "label_smoothing").and_then(Json::as_float);
            let loss = Loss::named(name);
            Loss {
                from_logits: loss.from_logits || is_set(json, "from_logits"),
                smooths: smoothing.is_some_and(|by| by > 0.0),
                ..loss
            }
        }
    };
    by_output(json, outputs).into_iter().map(read).collect()
}

/// A list of metrics is for the only output, or has an entry for each of several.
fn metrics(json: &Json, outputs: &[&str]) -> Vec<Vec<Metric>> {
    let all = |json: &Json| {
        let mut found = Vec::new();
        flatten(json, &mut found);
        found
    };
    if outputs.len() <= 1 { vec![all(json)] } else { by_output(json, outputs).into_iter().map(all).collect() }
}

/// More than this for one output nobody measures: a file that says so is not believed.
const MOST_METRICS: usize = 256;

fn flatten(json: &Json, found: &mut Vec<Metric>) {
    match json {
        _ if found.len() >= MOST_METRICS => {}
        Json::Array(items) => items.iter().for_each(|item| flatten(item, found)),
        Json::Object(entries) if json.get("class_name").is_none() => {
            entries.iter().for_each(|(_, item)| flatten(item, found));
        }
        _ => found.extend(metric(json)),
    }
}

fn metric(json: &Json) -> Option<Metric> {
    let thresholds = match setting(json, "thresholds") {
        Some(Json::Array(items)) => Some(items.len()),
        _ => setting(json, "num_thresholds").and_then(Json::as_int).and_then(|count| usize::try_from(count).ok()),
    };
    Some(Metric {
        from_logits: is_set(json, "from_logits"),
        thresholds: thresholds.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        chosen: ["thresholds", "threshold"].iter().any(|key| setting(json, key).is_some()),
        by_class: is_set(json, "multi_label"),
        ..Metric::named(name(json)?)
    })
}

fn setting<'j>(json: &'j Json, key: &str) -> Option<&'j Json> {
    json.get("config")?.get(key).filter(|value| !value.is_null())
}

fn is_set(json: &Json, key: &str) -> bool {
    setting(json, key).and_then(Json::as_bool).unwrap_or(false)
}

/// The name of a loss or metric: text, or that of a serialized function or class.
fn name(json: &Json) -> Option<&str> {
    let class = json.as_str().or_else(|| json.get("class_name")?.as_str())?;
    match class {
        // A function is written with its name as the config.
        "function" => json.get("config")?.as_str(),
        "MeanMetricWrapper" | "LossFunctionWrapper" => setting(json, "fn").and_then(name).or(Some(class)),
        _ => Some(class),
    }
}
