//! `brimful data plan`: how much memory reading takes. In: a source, settings. Out: text or JSON with `"schema": 1`.

use std::fmt::Write as _;

use brimful_core::bytes::human;
use brimful_data::plan::Plan;
use brimful_data::source::Source;
use serde_json::json;

use super::args::PlanArgs;
use crate::args::Format;
use crate::output::Output;

/// Writes the plan; a budget that is too small is an error.
pub fn run(args: &PlanArgs, output: &Output) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let layout = args.source.layout(&*source, false)?;
    let plan = Plan::new(&*source, &layout, &args.source.options(&args.order)?)?;
    let reason = args.source.memory()?.1;
    if args.format == Format::Json {
        let fields: Vec<_> = layout
            .fields
            .iter()
            .map(|field| json!({"name": field.name, "dtype": field.dtype.name(), "shape": field.shape}))
            .collect();
        let mut value = serde_json::to_value(&plan)?;
        value["schema"] = json!(1);
        value["format"] = json!(source.format());
        value["file_bytes"] = json!(source.file_bytes());
        value["fields"] = json!(fields);
        value["memory_from"] = json!(reason);
        return output.write(&(serde_json::to_string_pretty(&value)? + "\n"));
    }
    output.write(&text(&plan, &*source, args, reason.as_deref()))
}

fn text(plan: &Plan, source: &dyn Source, args: &PlanArgs, reason: Option<&str>) -> String {
    let mut text = String::new();
    let from = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let _ = writeln!(text, "It fits: at most {} of {}{from}.", human(plan.expected_bytes), human(plan.memory_bytes));
    let _ = writeln!(text, "The least with which it runs is {}.\n", human(plan.floor_bytes));
    let parts = [
        ("index of the files", plan.index_bytes),
        ("reading and decoding", plan.reading_bytes),
        ("rows mixed and read ahead", plan.window_bytes),
        ("batches", plan.batch_bytes),
    ];
    for (name, bytes) in parts {
        let _ = writeln!(text, "  {:>9}  {name}", human(bytes));
    }
    let order = args.order.shuffle;
    let _ = writeln!(
        text,
        "\n{} rows of {} in {} of {}; {} {} of {} {}, {} {}",
        plan.rows,
        human(plan.row_bytes),
        human(source.file_bytes()),
        source.format(),
        plan.batches,
        if plan.batches == 1 { "batch" } else { "batches" },
        plan.batch_rows,
        if plan.batch_rows == 1 { "row" } else { "rows" },
        plan.threads,
        if plan.threads == 1 { "thread" } else { "threads" },
    );
    let mixed = match order {
        super::args::ShuffleHow::None => "rows come in the order of the files".to_owned(),
        super::args::ShuffleHow::Global => "every order of all rows is as likely as every other".to_owned(),
        super::args::ShuffleHow::Window => format!("rows are mixed within windows of {}", plan.window_rows()),
        super::args::ShuffleHow::Block => {
            format!("pieces of the files come in random order, and {} rows are mixed at a time", plan.window_rows())
        }
    };
    let _ = writeln!(text, "{mixed}");
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}
