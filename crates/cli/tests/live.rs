//! The live screen, drawn into cells: what is on it, and that nothing makes it panic.

#[path = "support/runs.rs"]
mod runs;

use brimful_cli::live::screen::{Look, draw};
use brimful_cli::live::{State, panel_size};
use brimful_monitor::gpu::GpuSample;
use brimful_monitor::recording::{End, Finding, Frame, FrameworkMemory, Start, StepMark};
use brimful_monitor::sample::Sample;
use proptest::prelude::*;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Rect, Size};
use ratatui_core::style::Color;

/// Draws it, with a panel as large as the screen says.
fn cells(state: &State, output: &[u8], columns: u16, rows: u16, colour: bool) -> Buffer {
    let (panel_rows, panel_columns) = panel_size(Size::new(columns, rows));
    let mut job = vt100::Parser::new(panel_rows, panel_columns, 100);
    job.process(output);
    let mut cells = Buffer::empty(Rect::new(0, 0, columns, rows));
    draw(state, job.screen(), Look { colour }, &mut cells);
    cells
}

fn state(name: &str) -> State {
    let mut state = State::new(Some(4.0));
    runs::frames(name).iter().for_each(|frame| state.take(frame));
    state
}

fn text(cells: &Buffer) -> String {
    let width = usize::from(cells.area.width);
    let line = |line: &[ratatui_core::buffer::Cell]| {
        let text: String = line.iter().map(ratatui_core::buffer::Cell::symbol).collect();
        text.trim_end().to_owned()
    };
    cells.content().chunks(width).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn jobs_look_like_this() {
    for name in runs::NAMES {
        let state = state(name);
        for (columns, rows) in [(80, 24), (200, 50)] {
            let cells = cells(&state, &runs::output(name), columns, rows, true);
            insta::assert_snapshot!(format!("{name}_{columns}"), text(&cells));
        }
    }
}

#[test]
fn small_terminals_keep_what_matters() {
    let small = text(&cells(&state("gpus"), b"hello", 40, 10, true));
    for wanted in ["python train", "step 3,760", "2.9 of 8.0 GiB", "GPU 0", "hello"] {
        assert!(small.contains(wanted), "{wanted}\n{small}");
    }
}

#[test]
fn without_colours_only_those_of_the_job_remain() {
    let with = |colour| cells(&state("leak"), b"\x1b[31mred", 80, 24, colour);
    let colours = |cells: &Buffer| cells.content().iter().filter(|cell| cell.fg != Color::Reset).count();
    assert_eq!(colours(&with(false)), 3);
    assert!(colours(&with(true)) > 100);
    assert_eq!(text(&with(false)), text(&with(true)));
}

#[test]
fn the_output_of_the_job_keeps_its_colours_and_its_cursor() {
    let mut job = vt100::Parser::new(11.try_into().unwrap(), 80.try_into().unwrap(), 0);
    job.process("plain \x1b[1;38;5;208mloud\x1b[0m 漢字\r\n>>> ".as_bytes());
    let mut cells = Buffer::empty(Rect::new(0, 0, 80, 24));
    let cursor = draw(&State::default(), job.screen(), Look { colour: true }, &mut cells).unwrap();
    assert_eq!((cursor.x, cursor.y), (4, 14));
    assert_eq!(cells[(6, 13)].fg, Color::Indexed(208));
    assert_eq!((cells[(11, 13)].symbol(), cells[(13, 13)].symbol()), ("漢", "字"));
    job.process(b"\x1b[?25l");
    assert_eq!(draw(&State::default(), job.screen(), Look { colour: true }, &mut cells), None);
}

/// Some number, often one that is too large, or none.
fn figure() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        Just(None),
        Just(Some(0)),
        Just(Some(u64::MAX)),
        any::<u64>().prop_map(Some),
        (0_u64..1 << 36).prop_map(Some)
    ]
}

fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..1_000_000, any::<u64>(), Just(u64::MAX)]
}

fn frame() -> impl Strategy<Value = Frame> {
    let names = prop_oneof!["[a-z]{0,9}", ".{0,40}", Just("leak_host".to_owned()), Just("plateau".to_owned())];
    let rates = prop_oneof![any::<f64>(), 0.0..1e9];
    let row = |length| prop::collection::vec(figure(), length);
    prop_oneof![
        8 => (moment(), row(Sample::NAMES.len()))
            .prop_map(|(at_ms, row)| Frame::Sample(Sample::from_row(at_ms, row.try_into().unwrap()))),
        3 => (moment(), 0_u32..99, row(GpuSample::NAMES.len()))
            .prop_map(|(at_ms, index, row)| Frame::Gpu(GpuSample::from_row(at_ms, index, row.try_into().unwrap()))),
        3 => (moment(), any::<u64>(), figure(), any::<f64>(), figure()).prop_map(|(at_ms, step, epoch, loss, waited_us)| {
            Frame::Step(StepMark { at_ms, step, epoch, loss: Some(loss), waited_us })
        }),
        1 => (moment(), ".{0,40}", row(4)).prop_map(|(at_ms, name, row)| {
            let (framework, device) = (name.clone(), name);
            let [allocated_bytes, reserved_bytes, peak_allocated_bytes, limit_bytes] = row.try_into().unwrap();
            let figures = (allocated_bytes, reserved_bytes, peak_allocated_bytes, limit_bytes);
            let (allocated_bytes, reserved_bytes, peak_allocated_bytes, limit_bytes) = figures;
            let pid = 1;
            Frame::Framework(FrameworkMemory {
                at_ms, pid, framework, device, allocated_bytes, reserved_bytes, peak_allocated_bytes, limit_bytes,
            })
        }),
        2 => (moment(), names, ".{0,200}", rates).prop_map(|(at_ms, code, text, rate)| {
            let figures = [("bytes_per_step".to_owned(), rate), ("bytes_per_minute".to_owned(), rate)].into();
            Frame::Finding(Finding { at_ms, code, text, figures })
        }),
        1 => prop::collection::vec(".{0,40}", 0..9).prop_map(|command| Frame::Start(Start { command, ..Start::default() })),
        1 => (moment(), any::<Option<i32>>()).prop_map(|(at_ms, signal)| Frame::End(End { at_ms, signal, ..End::default() })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nothing_makes_it_panic(
        frames in prop::collection::vec(frame(), 0..60),
        output in prop::collection::vec(any::<u8>(), 0..3000),
        (columns, rows) in prop_oneof![(0_u16..301, 0_u16..101), (0_u16..50, 0_u16..12), Just((300, 100))],
        width in 0_usize..200,
    ) {
        let mut state = State::new(Some(2.0));
        for (place, frame) in frames.iter().enumerate() {
            state.take(frame);
            if place % 16 == 0 {
                cells(&state, b"", columns, rows, true);
            }
        }
        let drawn = cells(&state, &output, columns, rows, false);
        prop_assert!(drawn.content().iter().all(|cell| !cell.symbol().chars().any(char::is_control)));
        prop_assert!(state.line(width).len() <= width);
        prop_assert!(!state.line(200).contains('\n'));
    }
}
