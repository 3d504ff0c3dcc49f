//! How a file says the model was compiled.
//!
//! In: `compile_config`. Out: [`Compiled`]. Learning rates, schedules and loss weights take no memory and are passed over.

use brimful_core::model::{Compiled, Loss, OptimizerConfig};

use super::json::Json;

pub(super) fn read(json: &Json) -> Compiled {
    let mut compiled = Compiled::default();
    if let Some(optimizer) = json.get("optimizer") {
        compiled.optimizer = optimizer_config(optimizer);
    }
    if let Some(loss) = json.get("loss") {
        losses(loss, &mut compiled.losses);
    }
    for key in ["metrics", "weighted_metrics"] {
        if let Some(metrics) = json.get(key) {
            names(metrics, &mut compiled.metrics);
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

/// Losses: names, or serialized objects with their settings.
fn losses(json: &Json, found: &mut Vec<Loss>) {
    let from_logits = |json: &Json| {
        json.get("config").and_then(|config| config.get("from_logits")).and_then(Json::as_bool).unwrap_or(false)
    };
    match json {
        Json::Array(items) => items.iter().for_each(|item| losses(item, found)),
        Json::Object(entries) if json.get("class_name").is_none() => {
            entries.iter().for_each(|(_, item)| losses(item, found));
        }
        _ => {
            let mut named = Vec::new();
            names(json, &mut named);
            found.extend(named.into_iter().map(|name| Loss { name, from_logits: from_logits(json) }));
        }
    }
}

/// Names of losses or metrics: text, serialized objects, or lists and dictionaries of either.
fn names(json: &Json, found: &mut Vec<String>) {
    match json {
        Json::Str(name) => found.push(name.to_string()),
        Json::Array(items) => items.iter().for_each(|item| names(item, found)),
        Json::Object(entries) => {
            let Some(class) = json.get("class_name").and_then(Json::as_str) else {
                return entries.iter().for_each(|(_, item)| names(item, found));
            };
            let config = json.get("config");
            // A function is written with its name as the config.
            let name = config.and_then(Json::as_str).or_else(|| config?.get("name")?.as_str());
            found.push(name.unwrap_or(class).to_owned());
        }
        _ => {}
    }
}
