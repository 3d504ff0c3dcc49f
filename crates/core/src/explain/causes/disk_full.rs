//! A disk or a quota is full.

use super::super::case::Case;
use super::super::sign::Resource;
use super::{Cause, Claim, Code, said};

pub(super) const CAUSE: Cause = Cause {
    code: Code::DiskFull,
    name: "disk_full",
    title: "A disk or a quota is full",
    remedies: &["free_disk", "other_folder", "fewer_checkpoints"],
    page: include_str!("../../../../../docs/causes/disk_full.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    let claim = said(case, Code::DiskFull, "the system refused to write: no space, or a quota");
    claim.filter(|_| case.of(Resource::Disk))
}
