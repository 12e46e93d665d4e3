// SPDX-License-Identifier: GPL-2.0

//! How far CPUs are from each other.

use crate::engine::named::named;

named! {
    /// How far a CPU is from another one, by what they share.
    #[repr(u8)]
    pub enum Distance {
        /// There is no CPU.
        None => "none";
        /// It is the same CPU.
        Own => "own";
        /// They are threads of one core.
        Core => "core";
        /// They share the last-level cache.
        Llc => "llc";
        /// They are on one NUMA node.
        Node => "node";
        /// They are on different nodes.
        Remote => "remote";
    }
}

impl Distance {
    /// Those of two different CPUs, by which migrations are counted.
    pub const BETWEEN_CPUS: [Self; 4] = [Self::Core, Self::Llc, Self::Node, Self::Remote];
}

/// Where a CPU is: its core, its last-level cache and its NUMA node, in one word, so that the bits
/// that differ tell what two CPUs share. A core and a cache have the number of the first CPU online
/// that shares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTopology(u64);

impl CpuTopology {
    /// The number of bits of each number.
    const BITS: u32 = 21;
    const NODE: u32 = Self::BITS;
    const LLC: u32 = 2 * Self::BITS;
    const MASK: u64 = (1 << Self::BITS) - 1;

    fn new(core: u32, llc: u32, node: u32) -> Self {
        Self(u64::from(core) | (u64::from(node) << Self::NODE) | (u64::from(llc) << Self::LLC))
    }

    /// Returns that of a CPU of which only the node is known: it shares no more than that with any
    /// other. Both numbers are below 2^21.
    pub fn of_unknown(cpu: u32, node: u32) -> Self {
        Self::new(cpu, cpu, node)
    }

    /// Returns that of `cpu`, which is online. `before` are the CPUs online of lower numbers, with
    /// what this has returned for them, in ascending order. `share` returns whether one shares the
    /// core, or else, the last-level cache. It is asked for the first CPU of each cache, until one
    /// shares it, and then for the first of each core of that.
    ///
    /// It depends on nothing else. So those of all CPUs online fit together if all are found
    /// anew whenever one comes online, even if what they share has changed.
    pub fn of_online(
        cpu: u32,
        node: u32,
        before: impl Iterator<Item = (u32, Self)>,
        share: impl Fn(u32) -> Option<Distance>,
    ) -> Self {
        let (mut core, mut llc) = (cpu, cpu);
        for (other, of) in before {
            let is_candidate = match llc == cpu {
                true => of.llc() == other,
                false => of.llc() == llc && of.core() == other,
            };
            let shared = is_candidate.then(|| share(other)).flatten();
            if shared.is_some() && llc == cpu {
                llc = other;
            }
            if shared == Some(Distance::Core) {
                core = other;
                break;
            }
        }
        Self::new(core, llc, node)
    }

    fn core(self) -> u32 {
        (self.0 & Self::MASK) as u32
    }

    fn llc(self) -> u32 {
        (self.0 >> Self::LLC) as u32
    }

    /// Returns how far two different CPUs are from each other.
    #[inline(always)]
    pub fn distance(self, other: Self) -> Distance {
        let differs = self.0 ^ other.0;
        if differs == 0 {
            Distance::Core
        } else if differs >> Self::LLC == 0 {
            Distance::Llc
        } else if (differs >> Self::NODE) & Self::MASK == 0 {
            Distance::Node
        } else {
            Distance::Remote
        }
    }

    /// Returns it as a number, for [`CpuTopology::from_bits`].
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Creates one from what [`CpuTopology::bits`] returned.
    #[inline(always)]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}
