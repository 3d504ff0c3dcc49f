//! Judgements on what a job's memory does over time.
//!
//! In: a [`Series`] of sizes over steps or minutes, or two samples. Out: a leak with its rate, a forecast, a plateau, pressure; none where
//! there is nothing to say. Pure: the same series gives the same judgement; only [`Watch`] remembers what it has said. Not here: words for people.

pub mod series;
pub mod trend;
mod ending;
pub mod leak;
pub mod watch;
pub mod forecast;
pub mod plateau;
pub mod pressure;

pub use forecast::{Forecast, forecast};
pub use leak::{Leak, Rule, leak};
pub use plateau::{Plateau, plateau};
pub use pressure::{Level, Strain, strain, strains};
pub use series::Series;
pub use watch::{Found, Watch};
