// SPDX-License-Identifier: GPL-2.0

//! What processes that were killed have left: settings, rules, instances of ftrace.

use crate::{
    outliers::stacks,
    output::note,
    setting::{self, grouping},
    source::Source,
    sys,
};

/// Finds all that was left, in words, and restores it if `restores` is true.
pub fn find(source: &Source, restores: bool) -> Vec<String> {
    if !source.is_live() || sys::euid() != 0 {
        return Vec::new();
    }
    // Rules first: a list that has none is not needed.
    let mut all = grouping::left(source, restores);
    all.extend(setting::left(source, restores));
    all.extend(stacks::left(restores));
    all
}

/// Restores what was left if `restores` is true, or else notes it.
pub fn tell(source: &Source, restores: bool) {
    let what = match restores {
        true => "restored",
        false => "schedhist ctl restores it",
    };
    for one in find(source, restores) {
        note(format!("{one}: {what}"));
    }
}
