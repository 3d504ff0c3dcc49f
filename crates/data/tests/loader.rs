//! What holds for every source: each row once, the same order on any number of threads and from any position, never more than the
//! budget, an error instead of a wait without end. The source here makes its rows up; files are tested with their formats.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use brimful_data::DataError;
use brimful_data::layout::{Column, DType, Kind, Layout, Request, Rows};
use brimful_data::loader::{Batch, Loader, Position};
use brimful_data::order::{Shard, Shuffle};
use brimful_data::plan::{BatchOptions, Plan};
use brimful_data::source::{Access, BadRow, BadRows, ReadReport, Reader, Source};
use proptest::prelude::*;

/// Units of rows whose numbers count up; every `bad`-th row is bad.
#[derive(Clone, Debug)]
struct Counted {
    units: Vec<u64>,
    bad: u64,
    access: Access,
    panics: bool,
    columns: Vec<Column>,
}

impl Counted {
    fn new(units: Vec<u64>) -> Counted {
        let column = |name: &str, dtype, shape| Column { name: String::from(name), kind: Kind::Number(dtype), shape };
        let columns = vec![column("number", DType::I64, vec![]), column("more", DType::F32, vec![3])];
        Counted { units, bad: u64::MAX, access: Access::Units, panics: false, columns }
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.columns, &Request { separate: true, ..Request::default() }).unwrap()
    }
}

impl Source for Counted {
    fn format(&self) -> &'static str {
        "counted"
    }
    fn columns(&self) -> &[Column] {
        &self.columns
    }
    fn units(&self) -> usize {
        self.units.len()
    }
    fn unit_rows(&self, unit: usize) -> u64 {
        self.units[unit]
    }
    fn access(&self) -> Access {
        self.access
    }
    fn file_bytes(&self) -> u64 {
        0
    }
    fn index_bytes(&self) -> u64 {
        8 * self.units.len() as u64
    }
    fn reader_bytes(&self, _: &Layout) -> (u64, String) {
        (1000, "nothing but a counter".to_owned())
    }
    fn fingerprint(&self) -> u64 {
        self.rows()
    }
    fn reader(&self, _: &Arc<Layout>, policy: BadRows) -> Result<Box<dyn Reader>, DataError> {
        Ok(Box::new(CountedReader { source: self.clone(), policy }))
    }
}

struct CountedReader {
    source: Counted,
    policy: BadRows,
}

fn put(into: &mut Rows, to: usize, number: u64) {
    into.put_i64(0, to, number as i64);
    for element in 0..3 {
        into.put_f64(1, to * 3 + element, (number * 3 + element as u64) as f64);
    }
}

impl Reader for CountedReader {
    fn read(&mut self, unit: usize, rows: Range<u64>, into: &mut Rows) -> Result<ReadReport, DataError> {
        assert!(!self.source.panics, "the reader's own mistake");
        let before: u64 = self.source.units[..unit].iter().sum();
        let mut report = ReadReport::default();
        let mut filled = 0;
        for row in rows {
            let number = before + row;
            if number % self.source.bad == self.source.bad - 1 {
                let bad = BadRow { file: "made up".into(), place: format!("row {number}"), reason: "bad".to_owned() };
                if self.policy == BadRows::Fail {
                    return Err(DataError::corrupt(&PathBuf::from("made up"), format!(", {}", bad.place), bad.reason));
                }
                report.add(bad);
                continue;
            }
            put(into, filled, number);
            filled += 1;
        }
        into.set_len(filled);
        Ok(report)
    }

    fn read_rows(&mut self, rows: &[(u64, u32)], into: &mut Rows) -> Result<ReadReport, DataError> {
        assert!(rows.is_sorted());
        rows.iter().for_each(|(number, to)| put(into, *to as usize, *number));
        into.set_len(rows.len());
        Ok(ReadReport::default())
    }
}

fn numbers(batch: &Batch) -> Vec<u64> {
    let numbers: &[i64] = bytemuck::cast_slice(batch.field(0));
    let more: &[f32] = bytemuck::cast_slice(batch.field(1));
    let whole = |(row, number): (usize, &i64)| {
        let expected = [0, 1, 2].map(|element| (*number * 3 + element) as f32);
        assert_eq!(more[row * 3..row * 3 + 3], expected, "all fields of a row stay together");
        *number as u64
    };
    numbers.iter().enumerate().map(whole).collect()
}

fn options(memory_bytes: u64, shuffle: Shuffle) -> BatchOptions {
    let patience = Duration::from_millis(1);
    BatchOptions {
        batch_rows: 7,
        memory_bytes,
        shuffle,
        seed: 3,
        threads: Some(2),
        patience,
        ..BatchOptions::default()
    }
}

fn all(loader: &Loader, epoch: u64) -> Vec<Vec<u64>> {
    let mut batches = loader.epoch(epoch).unwrap();
    std::iter::from_fn(|| batches.next(&|| false).unwrap().map(|batch| numbers(&batch))).collect()
}

fn arbitrary() -> impl Strategy<Value = (Counted, BatchOptions)> {
    let units = prop::collection::vec(0u64..60, 0..20);
    let shuffle = prop::sample::select(Shuffle::ALL.to_vec());
    let memory = 700_000u64..3_000_000;
    (units, shuffle, memory, 1usize..40, any::<u64>(), any::<bool>(), 1usize..8).prop_map(
        |(units, shuffle, memory, batch_rows, seed, rows, threads)| {
            let access = if rows { Access::Rows } else { Access::Units };
            let options = BatchOptions { batch_rows, seed, threads: Some(threads), ..options(memory, shuffle) };
            (Counted { access, ..Counted::new(units) }, options)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_row_comes_once_and_the_budget_holds((source, options) in arbitrary(), epoch in 0u64..3) {
        let total = source.rows();
        let loader = Loader::new(Arc::new(source.clone()), source.layout(), options.clone()).unwrap();
        let batches = all(&loader, epoch);
        prop_assert_eq!(batches.len() as u64, loader.plan().batches);
        let mut seen: Vec<u64> = batches.concat();
        if options.shuffle == Shuffle::None {
            prop_assert!(seen.is_sorted());
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..total).collect::<Vec<_>>());
        let figures = loader.figures();
        prop_assert!(figures.ledger.peak_bytes <= loader.plan().expected_bytes);
        prop_assert!(loader.plan().expected_bytes <= options.memory_bytes);
        prop_assert_eq!(figures.rows, total);
    }

    #[test]
    fn the_order_is_the_same_on_any_number_of_threads((source, options) in arbitrary()) {
        let with = |threads| {
            let options = BatchOptions { threads: Some(threads), ..options.clone() };
            let loader = Loader::new(Arc::new(source.clone()), source.layout(), options).unwrap();
            all(&loader, 1)
        };
        prop_assert_eq!(with(1), with(8));
    }

    #[test]
    fn what_follows_a_position_is_what_would_have_followed((source, options) in arbitrary(), at in any::<prop::sample::Index>()) {
        let loader = Loader::new(Arc::new(source.clone()), source.layout(), options.clone()).unwrap();
        let expected = all(&loader, 2);
        let stop = at.index(expected.len() + 1);
        let mut batches = loader.epoch(2).unwrap();
        for batch in &expected[..stop] {
            prop_assert_eq!(&numbers(&batches.next(&|| false).unwrap().unwrap()), batch);
        }
        let kept = serde_json::to_string(&batches.position()).unwrap();
        drop(batches);
        let again = Loader::new(Arc::new(source.clone()), source.layout(), options).unwrap();
        let mut batches = again.resume(&serde_json::from_str::<Position>(&kept).unwrap()).unwrap();
        for batch in &expected[stop..] {
            prop_assert_eq!(&numbers(&batches.next(&|| false).unwrap().unwrap()), batch);
        }
        prop_assert!(batches.next(&|| false).unwrap().is_none());
    }

    #[test]
    fn ranks_share_the_rows((source, options) in arbitrary(), world in 1u64..6, keep in any::<bool>()) {
        let share = |rank| {
            let options = BatchOptions { shard: Shard { rank, world, keep_remainder: keep }, ..options.clone() };
            let loader = Loader::new(Arc::new(source.clone()), source.layout(), options).unwrap();
            all(&loader, 0).concat()
        };
        let shares: Vec<Vec<u64>> = (0..world).map(share).collect();
        let seen: BTreeSet<u64> = shares.iter().flatten().copied().collect();
        let total = source.rows();
        prop_assert_eq!(seen.len(), shares.iter().map(Vec::len).sum::<usize>(), "no row twice");
        prop_assert_eq!(seen.len() as u64, if keep { total } else { total - total % world });
        let most = shares.iter().map(Vec::len).max().unwrap();
        prop_assert!(shares.iter().all(|share| most - share.len() <= usize::from(keep)));
    }

    #[test]
    fn bad_rows_are_left_out_and_counted((mut source, mut options) in arbitrary(), bad in 2u64..30) {
        source.access = Access::Units;
        source.bad = bad;
        options.bad_rows = BadRows::Skip;
        let total = source.rows();
        let loader = Loader::new(Arc::new(source.clone()), source.layout(), options.clone()).unwrap();
        let mut seen = all(&loader, 0).concat();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..total).filter(|number| number % bad != bad - 1).collect::<Vec<_>>());
        prop_assert_eq!(loader.figures().bad_rows, total / bad);
    }
}

#[test]
fn a_strong_shuffle_is_strong_and_other_in_every_epoch() {
    let source = Counted::new(vec![50; 40]);
    for shuffle in [Shuffle::Block, Shuffle::Global] {
        let loader = Loader::new(Arc::new(source.clone()), source.layout(), options(1 << 20, shuffle)).unwrap();
        let (first, second) = (all(&loader, 0).concat(), all(&loader, 1).concat());
        assert_ne!(first, second);
        assert_eq!(first, all(&loader, 0).concat());
        let neighbours = first.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        assert!(neighbours < 20, "{shuffle:?}: {neighbours} of 2000 rows follow the one before them in the file");
    }
}

#[test]
fn a_caller_who_keeps_everything_is_told_and_loses_nothing() {
    let source = Counted::new(vec![50; 400]);
    let loader = Loader::new(Arc::new(source.clone()), source.layout(), options(400_000, Shuffle::Block)).unwrap();
    let mut batches = loader.epoch(0).unwrap();
    let mut kept = Vec::new();
    let error = loop {
        match batches.next(&|| false) {
            Ok(Some(batch)) => kept.push(batch),
            Ok(None) => panic!("20,000 rows of 20 bytes were held in 400,000"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, DataError::HeldByCaller { batches, .. } if *batches == kept.len()), "{error}");
    assert!(loader.figures().ledger.peak_bytes <= 400_000);
    let before: Vec<u64> = kept.drain(..).flat_map(|batch| numbers(&batch)).collect();
    let after = std::iter::from_fn(|| batches.next(&|| false).unwrap().map(|batch| numbers(&batch))).flatten();
    let seen: BTreeSet<u64> = before.into_iter().chain(after).collect();
    assert_eq!(seen.len(), 20_000);
}

#[test]
fn an_interruption_loses_nothing() {
    let source = Counted::new(vec![50; 400]);
    let loader = Loader::new(Arc::new(source.clone()), source.layout(), options(400_000, Shuffle::Window)).unwrap();
    let expected = all(&loader, 0);
    let mut batches = loader.epoch(0).unwrap();
    let mut seen = Vec::new();
    let mut interruptions = 0;
    loop {
        let position = batches.position();
        match batches.next(&|| true) {
            Ok(Some(batch)) => seen.push(numbers(&batch)),
            Ok(None) => break,
            Err(DataError::Interrupted) => {
                interruptions += 1;
                assert_eq!(position, batches.position());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(seen, expected, "{interruptions} interruptions");
}

#[test]
fn errors_of_readers_come_through() {
    let bad = Counted { bad: 1000, ..Counted::new(vec![50; 40]) };
    let loader = Loader::new(Arc::new(bad.clone()), bad.layout(), options(1 << 20, Shuffle::None)).unwrap();
    let mut batches = loader.epoch(0).unwrap();
    let error = loop {
        match batches.next(&|| false) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("row 999 is bad"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "made up, row 999: bad");
    assert_eq!(batches.next(&|| false).err().unwrap().to_string(), error.to_string(), "and again when asked again");

    let broken = Counted { panics: true, ..Counted::new(vec![50; 40]) };
    let loader = Loader::new(Arc::new(broken.clone()), broken.layout(), options(1 << 20, Shuffle::None)).unwrap();
    let error = loader.epoch(0).unwrap().next(&|| false).err().unwrap();
    assert!(matches!(&error, DataError::WorkerDied(said) if said == "the reader's own mistake"), "{error}");
}

#[test]
fn too_little_memory_is_refused_with_the_number() {
    let source = Counted::new(vec![2500; 40]);
    let small = |memory_bytes, batch_rows| BatchOptions { batch_rows, ..options(memory_bytes, Shuffle::Block) };
    let error = Plan::new(&source, &source.layout(), &small(1 << 20, 100_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1.00 MiB is less than the 3.95 MiB that this needs at least: 3.82 MiB for two batches of 100000 rows; give at least that \
         much memory, or take smaller batches or fewer columns"
    );
    let DataError::BelowFloor { floor_bytes, .. } = error else { panic!() };
    let plan = Plan::new(&source, &source.layout(), &small(floor_bytes, 100_000)).unwrap();
    assert_eq!((plan.threads, plan.batch_slots), (1, 2));
    assert!(Plan::new(&source, &source.layout(), &small(floor_bytes - 1, 100_000)).is_err());
    let source = Counted::new(vec![50; 40]);
    let window = BatchOptions { window_rows: Some(1_000_000), ..small(1 << 20, 10) };
    assert!(Plan::new(&source, &source.layout(), &window).is_ok(), "all rows are in it");
    let window = BatchOptions { window_rows: Some(1_900), ..small(200_000, 10) };
    let error = Plan::new(&source, &source.layout(), &window).unwrap_err().to_string();
    assert!(error.starts_with("a window of 1900 rows does not fit into 195 KiB: at most"), "{error}");
}

#[test]
fn a_batch_takes_no_more_memory_than_all_rows() {
    let source = Counted::new(vec![50; 4]);
    let large = |drop_last| BatchOptions { batch_rows: 1_000_000, drop_last, ..options(700_000, Shuffle::None) };
    let load = |options| Loader::new(Arc::new(source.clone()), source.layout(), options);
    let loader = load(large(false)).unwrap();
    assert_eq!((loader.plan().batch_rows, loader.plan().batches), (200, 1));
    assert_eq!(all(&loader, 0), [(0..200).collect::<Vec<_>>()]);
    assert!(loader.figures().ledger.peak_bytes <= 700_000);
    let position = loader.epoch(0).unwrap().position();
    assert_eq!(position.batch_rows, 1_000_000, "as it was asked for");
    // A last batch that is not full is left out all the same.
    let dropping = load(large(true)).unwrap();
    assert_eq!((dropping.plan().batches, all(&dropping, 0).len()), (0, 0));
    let none = Counted::new(Vec::new());
    let plan = Plan::new(&none, &none.layout(), &large(false)).unwrap();
    assert_eq!((plan.batch_rows, plan.batches), (1, 0));
}

#[test]
fn batches_of_any_size_are_made_to_fit() {
    let source = Counted::new(vec![2500; 40]);
    let layout = source.layout();
    let asked = BatchOptions { batch_rows: 65_536, ..options(400_000, Shuffle::None) };
    assert!(matches!(Plan::new(&source, &layout, &asked), Err(DataError::BelowFloor { .. })));
    let fitting = asked.clone().fitting(&source, &layout);
    assert_eq!(fitting.batch_rows, 4096);
    assert!(Plan::new(&source, &layout, &fitting).is_ok());
    let tiny = BatchOptions { memory_bytes: 1000, ..asked }.fitting(&source, &layout);
    let error = Plan::new(&source, &layout, &tiny).unwrap_err().to_string();
    assert!(tiny.batch_rows == 1 && !error.contains("smaller batches"), "{error}");
}

#[test]
fn another_job_does_not_go_on_from_a_position() {
    let source = Counted::new(vec![50; 40]);
    let loader = Loader::new(Arc::new(source.clone()), source.layout(), options(1 << 20, Shuffle::Block)).unwrap();
    let position = loader.epoch(4).unwrap().position();
    let refused = |change: &dyn Fn(&mut Position)| {
        let mut other = position.clone();
        change(&mut other);
        loader.resume(&other).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(&|other| other.seed += 1).contains("the seed, the shuffle or the rank is another one"));
    assert!(refused(&|other| other.fingerprint += 1).contains("the files have changed since"));
    assert!(refused(&|other| other.group_blocks += 1).contains("the window is another one"));
    assert!(refused(&|other| other.group = u64::MAX).is_empty(), "beyond the end there are no batches, and no panic");
}
