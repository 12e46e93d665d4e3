// SPDX-License-Identifier: GPL-2.0

//! `chain`, `chains` and `slices`.

use core::fmt;

use kernel::prelude::*;

use super::{
    Control,
    Setting,
    View, //
};
use crate::{
    boundary::abstractions::{
        context::cond_resched,
        local_clock,
        Text, //
    },
    chains::AllChains,
    engine::format::{
        raw,
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
        reading.setup.chain
    }
}

/// The chains of the outliers that are kept.
pub(super) struct KeptChains;

impl View for KeptChains {
    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        text::chains_head(out, reading.setup.chain)?;
        match &reading.setup.chains {
            Some(chains) => {
                chains.for_each(|cpu, chain, hops| Ok(text::chain(out, cpu, chain, hops)?))
            }
            None => Ok(()),
        }
    }
}

/// The slices that are kept, for programs: a header, and records as in `raw`.
pub(super) struct KeptSlices;

impl View for KeptSlices {
    fn size_hint(&self, monitor: &Monitor, _last_len: usize) -> usize {
        let chains = monitor.read().setup.chains;
        let rings = chains.iter().flat_map(|chains| chains.rings());
        let length = raw::kept_slices_len(rings.map(|(_, ring)| ring.count()));
        // They may become more before they are read.
        length + length / 4 + 32768
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let chains = reading.setup.chains.as_deref();
        let since = chains.map_or(0, AllChains::since);
        raw::kept_slices(out, local_clock(), since);
        if let Some(chains) = chains {
            for (cpu, ring) in chains.rings() {
                raw::kept_cpu(out, cpu, ring.first());
                for kept in ring.kept() {
                    // There may be 65536 of them.
                    if kept.number % 1024 == 0 {
                        cond_resched();
                    }
                    raw::kept_slice(out, cpu, &kept);
                }
            }
        }
        raw::end(out);
        Ok(())
    }
}
