//! What holds for every plan, on random small networks, jobs, devices and limits.

use brimful_core::bytes::MIB;
use brimful_core::device::Device;
use brimful_core::framework::Framework;
use brimful_core::model::*;
use brimful_core::plan::{ModelChange, ModelSource, PlanError, Request, plan};
use brimful_core::predict::{Orders, Runs};
use brimful_core::report::{RemedyReport, Report, Verdict};
use brimful_core::step::{Job, Mode, Processor};
use proptest::prelude::*;

/// A layer of a random network.
#[derive(Clone, Copy, Debug)]
enum LayerSpec {
    Conv { filters: u64, kernel: u64, stride: u64 },
    Pool,
    BatchNorm,
    Relu,
    Dropout,
    Dense { units: u64 },
}

/// A chain of layers on images or vectors, which can be built again with other settings.
#[derive(Clone, Debug)]
struct Chain {
    image: [u64; 3],
    spatial: Vec<LayerSpec>,
    dense: Vec<LayerSpec>,
    classes: u64,
}

/// The model while it is built.
struct Building {
    model: Model,
    last: TensorId,
    compute: DType,
    store: DType,
}

impl Building {
    fn op(&mut self, name: &str, class: &str, kind: OpKind, sample: &[u64], weights: &[(&str, Vec<u64>, bool)]) {
        let layer = LayerId(self.model.layers.len() as u32);
        self.model.layers.push(Layer { path: name.to_owned(), class: class.to_owned() });
        let weights = weights
            .iter()
            .map(|(name, dims, trainable)| {
                let (name, dims) = ((*name).to_owned(), dims.clone());
                let (dtype, trainable) = (self.store, *trainable);
                // Some are held by a constraint.
                let constrained = trainable && layer.0 % 2 == 1;
                let created = self.model.weights.len() as u32;
                let weight = Weight { layer, name, dims, dtype, trainable, penalty: None, constrained, created };
                self.model.weights.push(weight);
                WeightId(self.model.weights.len() as u32 - 1)
            })
            .collect();
        let output = TensorId(self.model.tensors.len() as u32);
        self.model.tensors.push(Tensor { shape: Shape::batched(sample), dtype: self.compute });
        let (inputs, outputs) = (vec![self.last], vec![output]);
        self.model.ops.push(Op { layer, kind, inputs, outputs, weights, compute: self.compute });
        self.last = output;
    }
}

impl ModelSource for Chain {
    fn model(&self, change: &ModelChange) -> Result<Model, String> {
        let (compute, store) = match change.policy.as_deref() {
            None | Some("float32") => (DType::Float32, DType::Float32),
            Some("mixed_float16") => (DType::Float16, DType::Float32),
            Some("mixed_bfloat16") => (DType::BFloat16, DType::Float32),
            Some("bfloat16") => (DType::BFloat16, DType::BFloat16),
            Some(other) => return Err(format!("no policy {other}")),
        };
        let set = |layer: &str, attr: &str| {
            let found = change.overrides.iter().rev().find(|(name, key, _)| name == layer && key == attr);
            found.map(|(_, _, value)| value.clone())
        };
        let number = |layer: &str, attr: &str, value: u64| set(layer, attr).map_or(value, |text| text.parse().unwrap());
        let mut image = self.image.to_vec();
        if let Some(text) = set("input", "shape") {
            image = text.split(',').map(|dim| dim.parse().unwrap()).collect();
        }
        let input = Tensor { shape: Shape::batched(&image), dtype: DType::Float32 };
        let model =
            Model { name: "chain".to_owned(), tensors: vec![input], inputs: vec![TensorId(0)], ..Model::default() };
        let mut building = Building { model, last: TensorId(0), compute, store };
        for (index, layer) in self.spatial.iter().enumerate() {
            let channels = image[2];
            let name = format!("spatial_{index}");
            match *layer {
                LayerSpec::Conv { filters, kernel, stride } => {
                    let filters = number(&name, "filters", filters);
                    image = vec![image[0].div_ceil(stride), image[1].div_ceil(stride), filters];
                    let conv = Conv {
                        kernel: vec![kernel; 2],
                        strides: vec![stride; 2],
                        dilation: vec![1; 2],
                        padding: Padding::Same,
                        groups: 1,
                        depthwise: false,
                        transposed: false,
                        channels_first: false,
                    };
                    let kernel = vec![kernel, kernel, channels, filters];
                    let weights = [("kernel", kernel, true), ("bias", vec![filters], true)];
                    building.op(&name, "Conv2D", OpKind::Conv(conv), &image, &weights);
                }
                LayerSpec::Pool => {
                    image = vec![image[0].div_ceil(2), image[1].div_ceil(2), channels];
                    let (window, strides) = (vec![2; 2], vec![2; 2]);
                    let (kind, padding) = (PoolKind::Max, Padding::Same);
                    let pool = Pool { kind, window, strides, padding, channels_first: false };
                    building.op(&name, "MaxPooling2D", OpKind::Pool(pool), &image, &[]);
                }
                LayerSpec::BatchNorm => {
                    let (kind, axis) = (NormKind::Batch, 3);
                    let norm = Norm { kind, scale: true, center: true, axis, trainable: true };
                    let weight = |name, trainable| (name, vec![channels], trainable);
                    let weights =
                        [weight("gamma", true), weight("beta", true), weight("mean", false), weight("variance", false)];
                    building.op(&name, "BatchNormalization", OpKind::Norm(norm), &image, &weights);
                }
                _ => building.op(&name, "ReLU", OpKind::Activation(Activation::Relu), &image, &[]),
            }
        }
        let mut features = product(&image);
        building.op("flatten", "Flatten", OpKind::Reshape, &[features], &[]);
        let last = LayerSpec::Dense { units: self.classes };
        for (index, layer) in self.dense.iter().chain([&last]).enumerate() {
            let name = format!("dense_{index}");
            match *layer {
                LayerSpec::Dense { units } => {
                    let units = number(&name, "units", units);
                    let weights = [("kernel", vec![features, units], true), ("bias", vec![units], true)];
                    building.op(&name, "Dense", OpKind::Dense, &[units], &weights);
                    features = units;
                }
                LayerSpec::Dropout => {
                    let kind = OpKind::Dropout { rate: 0.5, mask_elements: None };
                    building.op(&name, "Dropout", kind, &[features], &[]);
                }
                _ => building.op(&name, "ReLU", OpKind::Activation(Activation::Relu), &[features], &[]),
            }
        }
        building.op("softmax", "Softmax", OpKind::Activation(Activation::Softmax), &[features], &[]);
        building.model.outputs = vec![building.last];
        Ok(building.model)
    }
}

fn chains() -> impl Strategy<Value = Chain> {
    let spatial = prop_oneof![
        3 => (1..24u64, prop_oneof![Just(1u64), Just(3)], 1..3u64)
            .prop_map(|(filters, kernel, stride)| LayerSpec::Conv { filters, kernel, stride }),
        1 => Just(LayerSpec::Pool),
        1 => Just(LayerSpec::BatchNorm),
        1 => Just(LayerSpec::Relu),
    ];
    let dense = prop_oneof![
        (1..200u64).prop_map(|units| LayerSpec::Dense { units }),
        Just(LayerSpec::Dropout),
        Just(LayerSpec::Relu),
    ];
    let layers = (prop::collection::vec(spatial, 0..6), prop::collection::vec(dense, 0..4));
    ((1..40u64, 1..40u64, 1..4u64), layers, 2..20u64).prop_map(
        |((height, width, channels), (spatial, dense), classes)| Chain {
            image: [height, width, channels],
            spatial,
            dense,
            classes,
        },
    )
}

fn jobs() -> impl Strategy<Value = (Job, &'static str)> {
    let optimizer = prop_oneof![Just("adam"), Just("sgd"), Just("rmsprop"), Just("lion"), Just("adafactor")];
    (1..70u64, optimizer, any::<bool>(), prop_oneof![Just("cpu"), Just("t4"), Just("a100-40gb"), Just("p100")])
        .prop_map(|(batch, optimizer, training, device)| {
            let processor =
                if device == "cpu" { Processor::Cpu { threads: 2, cache_bytes: 320 << 20 } } else { Processor::Gpu };
            let mode = if training { Mode::Training } else { Mode::Inference };
            let optimizer = OptimizerConfig::named(optimizer);
            (
                Job { batch, optimizer, losses: Vec::new(), metrics: Vec::new(), mode, processor, micro_batches: 1 },
                device,
            )
        })
}

fn request<'a>(chain: &'a Chain, job: &Job, device: &str, limit_bytes: Option<u64>) -> Request<'a> {
    Request {
        source: chain,
        base: ModelChange::default(),
        job: job.clone(),
        framework: Framework::TensorFlow,
        device: Device::find(device).unwrap().clone(),
        limit_bytes,
        held_by_others_bytes: 0,
        precision: "float32".to_owned(),
    }
}

fn context_bytes(device: &str) -> u64 {
    Device::find(device).unwrap().context_bytes(Framework::TensorFlow)
}

/// Limits around what the job needs: from a quarter to four times, or none.
fn limit(chain: &Chain, job: &Job, quarters: u64) -> Option<u64> {
    let model = chain.model(&ModelChange::default()).unwrap();
    let need = Runs::new(&model, job, Orders::One).predict(job.batch).high_bytes;
    (quarters > 0).then_some(need / 4 * quarters)
}

/// The number after a word of a title.
fn number_after(title: &str, word: &str) -> u64 {
    let rest = &title[title.find(word).unwrap() + word.len()..];
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// The job that a remedy's title describes, where only the job changes.
fn job_of(id: &str, title: &str, job: &Job) -> Option<Job> {
    let mut changed = job.clone();
    match id {
        "smaller_batch" => changed.batch = number_after(title, "batches of "),
        "micro_batches" => {
            changed.micro_batches = number_after(title, "batch as ");
            changed.optimizer.accumulate_steps = changed.micro_batches as u32;
        }
        "lighter_optimizer" => {
            let name = if title.contains("with Lion") { "lion" } else { "sgd" };
            changed.optimizer = OptimizerConfig::named(name);
        }
        _ => return None,
    }
    Some(changed)
}

/// The remedy that is the cheapest way by itself.
fn chosen_alone(report: &Report) -> Option<&RemedyReport> {
    let [id] = &report.cheapest_fit.as_ref()?.remedies[..] else { return None };
    report.remedies.iter().find(|remedy| remedy.id == *id)
}

fn checked(report: &Report) {
    assert_eq!(report.breakdown.total(), report.peak.device_bytes);
    let peak = &report.peak;
    assert!(peak.floor_bytes <= peak.allocated_bytes && peak.allocated_bytes <= peak.device_bytes);
    assert!(peak.low_bytes <= peak.device_bytes && peak.device_bytes <= peak.high_bytes);
    let usable = report.device.usable_bytes;
    match report.verdict {
        Verdict::Fits => assert!(usable.is_none_or(|usable| peak.high_bytes <= usable)),
        Verdict::Tight => assert!(usable.is_some_and(|usable| peak.device_bytes <= usable)),
        Verdict::DoesNotFit => assert!(usable.is_some()),
    }
    assert!(report.safe_batches.is_sorted());
    assert_eq!(report.safe_batches.last().copied(), report.max_batch);
    for remedy in &report.remedies {
        assert!(remedy.time_cost.is_finite() && remedy.time_cost > 0.0, "{remedy:?}");
        assert!(usable.is_none_or(|usable| !remedy.fits || remedy.peak_bytes <= usable), "{remedy:?}");
        assert!(remedy.apply.keras.is_some());
    }
    let order: Vec<_> = report.remedies.iter().map(|remedy| (!remedy.fits, remedy.same_result)).collect();
    assert!(order.is_sorted(), "{order:?}");
    if let Some(set) = &report.cheapest_fit {
        assert_eq!(report.verdict, Verdict::DoesNotFit);
        assert!(!set.remedies.is_empty() && set.peak_bytes <= usable.unwrap());
        assert_eq!(set.remedies.len(), set.changes.len());
        if let Some(alone) = chosen_alone(report) {
            assert_eq!((alone.peak_bytes, alone.time_cost), (set.peak_bytes, set.time_cost), "{alone:?}");
            assert_eq!(alone.title, set.changes[0].title);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_adds_up((chain, (job, device)) in (chains(), jobs()), quarters in 0..17u64) {
        let limit = limit(&chain, &job, quarters);
        let report = plan(&request(&chain, &job, device, limit)).unwrap();
        checked(&report);
        prop_assert_eq!(limit.is_none(), report.device.usable_bytes.is_none());
        // What a remedy says is what its job gives when it is simulated by itself.
        let model = chain.model(&ModelChange::default()).unwrap();
        for remedy in &report.remedies {
            if let Some(changed) = job_of(&remedy.id, &remedy.title, &job) {
                // The one that is proposed is simulated in several orders.
                let proposed = chosen_alone(&report).is_some_and(|chosen| chosen.id == remedy.id);
                let orders = if proposed { Orders::Several } else { Orders::One };
                let high = Runs::new(&model, &changed, orders).predict(changed.micro_batch()).high_bytes;
                prop_assert_eq!(remedy.peak_bytes, high + context_bytes(device), "{:?}", remedy);
            }
        }
        // And what the cheapest set says of its members, of which some are gentler there than alone.
        if let Some(set) = &report.cheapest_fit {
            let members = set.remedies.iter().zip(&set.changes);
            if let Some(changed) = members.clone().try_fold(job, |job, (id, change)| job_of(id, &change.title, &job)) {
                let high = Runs::new(&model, &changed, Orders::Several).predict(changed.micro_batch()).high_bytes;
                prop_assert_eq!(set.peak_bytes, high + context_bytes(device), "{:?}", set);
            }
        }
    }

    #[test]
    fn the_largest_batch_fits((chain, (job, device)) in (chains(), jobs()), quarters in 1..17u64) {
        let limit = limit(&chain, &job, quarters);
        let report = plan(&request(&chain, &job, device, limit)).unwrap();
        let verdict = |batch| plan(&request(&chain, &Job { batch, ..job.clone() }, device, limit)).unwrap().verdict;
        let verdicts: Vec<Verdict> = report.safe_batches.iter().map(|&batch| verdict(batch)).collect();
        prop_assert!(!verdicts.contains(&Verdict::DoesNotFit), "{:?} of {:?}", verdicts, report.safe_batches);
        // What leaves room is proposed before what does not.
        let proposes_room = verdicts.last() == Some(&Verdict::Fits);
        prop_assert!(proposes_room || report.verdict != Verdict::Fits);
        prop_assert!(!proposes_room || verdicts.iter().all(|known| *known == Verdict::Fits), "{:?}", verdicts);
        if let Some(batch) = report.max_batch {
            // No batch whose bare requests exceed the limit can be the answer.
            let model = chain.model(&ModelChange::default()).unwrap();
            let runs = Runs::new(&model, &Job { batch, ..job.clone() }, Orders::One);
            prop_assert!(runs.predict(batch).floor_bytes <= limit.unwrap());
        }
    }

    #[test]
    fn at_the_floor_a_larger_batch_never_needs_less((chain, (job, _)) in (chains(), jobs()), more in 1..50u64) {
        let model = chain.model(&ModelChange::default()).unwrap();
        let runs = Runs::new(&model, &job, Orders::Several);
        for order in &runs.orders {
            let floor = |batch| {
                let mut allocator = brimful_core::allocator::floor::Floor::new();
                brimful_core::allocator::place(&order.trace, batch, &mut allocator).floor_peak_bytes
            };
            prop_assert!(floor(job.batch) <= floor(job.batch + more));
            prop_assert_eq!(order.floor.at(job.batch).bytes, floor(job.batch));
        }
    }
}

fn small_chain() -> Chain {
    let conv = LayerSpec::Conv { filters: 16, kernel: 3, stride: 1 };
    Chain {
        image: [32, 32, 3],
        spatial: vec![conv, LayerSpec::Relu, LayerSpec::Pool, conv],
        dense: vec![],
        classes: 10,
    }
}

fn training(batch: u64) -> Job {
    Job {
        batch,
        optimizer: OptimizerConfig::named("adam"),
        losses: Vec::new(),
        metrics: Vec::new(),
        mode: Mode::Training,
        processor: Processor::Cpu { threads: 2, cache_bytes: 320 << 20 },
        micro_batches: 1,
    }
}

#[test]
fn without_a_limit_everything_fits() {
    let report = plan(&request(&small_chain(), &training(32), "cpu", None)).unwrap();
    assert_eq!((report.verdict, report.max_batch, report.cheapest_fit.is_none()), (Verdict::Fits, None, true));
}

#[test]
fn micro_batches_are_the_cheapest_exact_remedy() {
    let chain = small_chain();
    let job = Job { processor: Processor::Gpu, ..training(256) };
    let need = plan(&request(&chain, &job, "t4", None)).unwrap().peak.high_bytes - context_bytes("t4");
    let report = plan(&request(&chain, &job, "t4", Some(need / 3))).unwrap();
    assert_eq!(report.verdict, Verdict::DoesNotFit);
    assert_eq!(report.cheapest_fit.unwrap().remedies, ["micro_batches"]);
    assert!(report.max_batch.is_some_and(|batch| (16..256).contains(&batch)), "{:?}", report.max_batch);
}

#[test]
fn what_others_hold_can_be_freed() {
    let chain = small_chain();
    let need = plan(&request(&chain, &training(64), "cpu", None)).unwrap().peak.high_bytes;
    let asked = Request { held_by_others_bytes: need, ..request(&chain, &training(64), "cpu", Some(need / 2)) };
    let report = plan(&asked).unwrap();
    let freed = report.remedies.iter().find(|remedy| remedy.id == "free_memory").unwrap();
    assert!(freed.fits && freed.time_cost == 1.0);
    assert_eq!(report.cheapest_fit.unwrap().remedies, ["free_memory"]);
}

#[test]
fn nothing_fits_a_megabyte() {
    let report = plan(&request(&small_chain(), &training(64), "cpu", Some(MIB / 16))).unwrap();
    assert_eq!((report.verdict, report.max_batch), (Verdict::DoesNotFit, None));
    assert!(report.safe_batches.is_empty() && report.cheapest_fit.is_none());
}

#[test]
fn absurd_numbers_give_an_answer() {
    let chain = small_chain();
    for processor in [Processor::Gpu, Processor::Cpu { threads: 2, cache_bytes: 320 << 20 }] {
        for batch in [1, 7, 1 << 20, 1 << 40] {
            for limit in [Some(0), Some(1), Some(u64::MAX), None] {
                let device = if processor == Processor::Gpu { "t4" } else { "cpu" };
                let job = Job { processor, ..training(batch) };
                let report = plan(&request(&chain, &job, device, limit)).unwrap();
                assert_eq!(report.breakdown.total(), report.peak.device_bytes);
            }
        }
    }
}

#[test]
fn what_cannot_be_planned_says_so() {
    let chain = small_chain();
    let asked = request(&chain, &training(8), "cpu", None);
    assert_eq!(
        plan(&Request { framework: Framework::Torch, ..asked.clone() }).unwrap_err(),
        PlanError::Framework(Framework::Torch)
    );
    assert_eq!(plan(&Request { job: training(0), ..asked.clone() }).unwrap_err(), PlanError::EmptyBatch);
    let base = ModelChange { policy: Some("int3".to_owned()), ..ModelChange::default() };
    assert!(matches!(plan(&Request { base, ..asked }), Err(PlanError::Model(_))));
}
