//! Every wording that is known: one file for each program, one line here.

pub mod anybody;
pub mod brimful;
pub mod clouds;
pub mod clusters;
pub mod cuda;
pub mod documents;
pub mod endings;
pub mod engines;
pub mod jax;
pub mod kernel;
pub mod lookalikes;
pub mod notebooks;
pub mod numpy;
pub mod programs;
pub mod quoted;
pub mod system;
pub mod talk;
pub mod tensorflow;
pub mod tensorrt;
pub mod told;
pub mod torch;

use super::sign::Sign;

/// All signs, by program.
pub const REGISTRY: [&[Sign]; 19] = [
    torch::SIGNS,
    tensorflow::SIGNS,
    jax::SIGNS,
    cuda::SIGNS,
    tensorrt::SIGNS,
    engines::SIGNS,
    numpy::SIGNS,
    programs::SIGNS,
    kernel::SIGNS,
    brimful::SIGNS,
    clusters::SIGNS,
    clouds::SIGNS,
    notebooks::SIGNS,
    system::SIGNS,
    endings::SIGNS,
    lookalikes::SIGNS,
    documents::SIGNS,
    told::SIGNS,
    anybody::SIGNS,
];

/// All signs, in the registry's order.
pub fn all() -> impl Iterator<Item = &'static Sign> {
    REGISTRY.iter().flat_map(|signs| signs.iter())
}
