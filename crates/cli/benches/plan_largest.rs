//! How long a whole plan takes on the largest Keras Applications models: read, predict, largest batch, remedies, search.
//!
//! `cargo bench -p brimful --bench plan_largest`. Prints the median over the runs, the time of the parts, and the process's
//! peak memory. The bar: 100 ms and 64 MiB on two cores.

#![allow(clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::time::{Duration, Instant};

use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::model::{Model, OptimizerConfig};
use brimful_core::plan::{ModelChange, ModelSource, Request, plan};
use brimful_core::predict::{Lowered, Orders, Runs};
use brimful_core::step::{Job, Mode, Processor};
use brimful_import::{Document, Options};

const RUNS: usize = 15;

struct Source(Document);

impl ModelSource for Source {
    fn model(&self, change: &ModelChange) -> Result<Model, String> {
        let overrides = change
            .overrides
            .iter()
            .map(|(layer, attr, value)| brimful_import::Override {
                layer: layer.clone(),
                attr: attr.clone(),
                value: value.clone(),
            })
            .collect();
        let options = Options { overrides, policy: change.policy.clone(), ..Options::default() };
        self.0.model(&options).map_err(|error| error.to_string())
    }
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/keras_large");
    for name in ["NASNetLarge", "EfficientNetV2L"] {
        let bytes = std::fs::read(folder.join(format!("{name}.keras"))).expect("the fixture is there");
        let mut whole = Vec::new();
        for _ in 0..RUNS {
            let start = Instant::now();
            let report = one_plan(&bytes);
            whole.push(start.elapsed());
            assert!(report.max_batch.is_some());
        }
        whole.sort();
        println!("{name}: whole plan {:.1} ms (median of {RUNS}), fastest {:.1} ms", ms(whole[RUNS / 2]), ms(whole[0]));
        parts(&bytes);
    }
    println!("peak memory of this process: {} MiB", peak_mib().map_or("unknown".to_owned(), |mib| mib.to_string()));
}

fn job() -> Job {
    Job {
        batch: 32,
        optimizer: OptimizerConfig::named("adam"),
        losses: Vec::new(),
        metrics: Vec::new(),
        mode: Mode::Training,
        processor: Processor::Gpu,
        micro_batches: 1,
    }
}

fn one_plan(bytes: &[u8]) -> brimful_core::report::Report {
    let source = Source(brimful_import::read(bytes).expect("the fixture is readable"));
    let device = Device::find("t4").expect("a known device").clone();
    let limit_bytes = device.usable_bytes(Framework::TensorFlow);
    let request = Request {
        source: &source,
        base: ModelChange::default(),
        job: job(),
        framework: Framework::TensorFlow,
        device,
        limit_bytes,
        held_by_others_bytes: 0,
        precision: "float32".to_owned(),
    };
    plan(&request).expect("a plan")
}

fn parts(bytes: &[u8]) {
    let mut times = [(); 5].map(|()| Vec::new());
    for _ in 0..RUNS {
        let mut lap = Instant::now();
        let mut take = |part: usize, times: &mut [Vec<Duration>; 5]| {
            times[part].push(lap.elapsed());
            lap = Instant::now();
        };
        let document = brimful_import::read(bytes).expect("the fixture is readable");
        take(0, &mut times);
        let model = document.model(&Options::default()).expect("a model");
        take(1, &mut times);
        let lowered = Lowered::new(&model, &job());
        take(2, &mut times);
        let runs = Runs::of(&lowered, &job(), Orders::One, None);
        take(3, &mut times);
        std::hint::black_box(runs.predict(32));
        take(4, &mut times);
    }
    let median = |part: &mut Vec<Duration>| {
        part.sort();
        ms(part[RUNS / 2])
    };
    let [read, model, lower, order, place] = &mut times;
    println!(
        "  read {:.1}, model {:.1}, lower {:.1}, one order {:.1}, one placement {:.1} ms",
        median(read),
        median(model),
        median(lower),
        median(order),
        median(place)
    );
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The kernel's high-water mark of this process.
fn peak_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}
