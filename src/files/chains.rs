// SPDX-License-Identifier: GPL-2.0

//! `chain` and `chains`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Control,
    Setting,
    View, //
};
use crate::{
    boundary::abstractions::Text,
    engine::format::{
        text,
        Slices, //
    },
    monitor::Monitor,
    reading::Reading, //
};

/// How many slices are kept of each CPU.
pub(super) struct Chain;

impl Control for Chain {
    const EXPECTED: &'static str = Slices::EXPECTED;
    type Value<'a> = Slices;

    fn parse(&self, input: &[u8]) -> Option<Slices> {
        Slices::parse(input)
    }

    fn set(&self, monitor: &Monitor, slices: Slices) -> Result {
        monitor.set_chain(slices)
    }
}

impl Setting for Chain {
    fn get(&self, reading: &Reading) -> impl fmt::Display {
        reading.chain
    }
}

/// The chains of the outliers that are kept.
pub(super) struct Chains;

impl View for Chains {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        text::chains_head(out, reading.chain)?;
        match &reading.chains {
            Some(chains) => {
                chains.for_each(|cpu, chain, hops| Ok(text::chain(out, cpu, chain, hops)?))
            }
            None => Ok(()),
        }
    }
}
