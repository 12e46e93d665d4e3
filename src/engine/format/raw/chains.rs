// SPDX-License-Identifier: GPL-2.0

//! The records of chains, and the file `slices`.

use super::{
    layout::*,
    record,
    Fields,
    Sink, //
};
use crate::engine::chain::{
    Chain,
    Hop,
    KeptSlice, //
};

/// Writes the chain of an outlier of `cpu`, and its hops.
pub fn chain(out: &mut impl Sink, cpu: u32, chain: &Chain, hops: &[Hop]) {
    record::<CHAIN_LEN>(out, types::CHAIN, CHAIN_LEN, |fields| {
        fields.u64(chain.id);
        fields.u32(cpu);
        fields.u32(chain.sample.metric as u32);
        fields.u64(chain.sample.value);
        fields.u64(chain.sample.end);
        fields.u64(chain.walked.blocked);
        fields.u64(chain.walked.missing);
        fields.u32(chain.walked.end as u32);
        fields.u32(hops.len() as u32);
    });
    for (number, hop) in (0..).zip(hops) {
        record::<HOP_LEN>(out, types::HOP, HOP_LEN, |fields| {
            fields.u64(chain.id);
            fields.u32(number);
            fields.u32(hop.via as u32);
            fields.u32(hop.pid as u32);
            fields.u32(hop.slices);
            fields.u64(hop.ran);
            fields.u64(hop.waited);
            fields.u64(hop.preempted);
            fields.u64(hop.throttled);
            fields.bytes(hop.comm);
            fields.u32(hop.cpu);
            fields.u32(hop.group.number());
        });
    }
}

/// Returns the length of the file `slices` with so many of them of each CPU, in bytes.
pub fn kept_slices_len(slices: impl Iterator<Item = usize>) -> usize {
    let of_cpus = slices.map(|slices| KEPT_CPU_LEN + slices * KEPT_SLICE_LEN);
    SLICES_HEADER_LEN + of_cpus.sum::<usize>() + RECORD_LEN
}

/// Begins the file `slices`, of the time `now`. Slices are counted since `since`; 0 if none are
/// kept.
pub fn kept_slices(out: &mut impl Sink, now: u64, since: u64) {
    let mut fields = Fields::<SLICES_HEADER_LEN>::new();
    fields.bytes(SLICES_MAGIC);
    fields.u32(SLICES_VERSION);
    fields.u32(SLICES_HEADER_LEN as u32);
    fields.u64(now);
    fields.u64(since);
    out.write(&fields.bytes);
}

/// Writes that `cpu` keeps slices, from the number `first` on. Its slices follow.
pub fn kept_cpu(out: &mut impl Sink, cpu: u32, first: u64) {
    record::<KEPT_CPU_LEN>(out, types::KEPT_CPU, KEPT_CPU_LEN, |fields| {
        fields.u32(cpu);
        fields.u32(0);
        fields.u64(first);
    });
}

/// Writes a slice that `cpu` keeps for chains: of the file `slices`, which then has an
/// [`end`](super::end).
pub fn kept_slice(out: &mut impl Sink, cpu: u32, kept: &KeptSlice) {
    let slice = &kept.slice;
    record::<KEPT_SLICE_LEN>(out, types::KEPT_SLICE, KEPT_SLICE_LEN, |fields| {
        fields.u32(cpu);
        fields.u32(slice.pid as u32);
        fields.u64(kept.number);
        fields.u64(slice.since);
        fields.u64(kept.idle);
        fields.u64(slice.waiting);
        fields.u64(slice.link.number());
        fields.u32(slice.link.cpu());
        fields.u32(slice.link.context() as u32);
        fields.u32(slice.start as u32);
        fields.u32(slice.group.number());
        fields.bytes(slice.comm);
    });
}
