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
/// that differ tell what two CPUs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// The number of bits of each number.
    const BITS: u32 = 21;
    const NODE: u32 = Self::BITS;
    const LLC: u32 = 2 * Self::BITS;
    const MASK: u64 = (1 << Self::BITS) - 1;
    /// Unless this is set, only the node is known.
    const KNOWN: u64 = 1 << (3 * Self::BITS);

    fn new(core: u64, llc: u64, node: u64) -> Self {
        Self(core | (node << Self::NODE) | (llc << Self::LLC))
    }

    /// Returns the place of a CPU of which only the node is known: it shares no more than that with
    /// any other. Both numbers are below 2^21.
    pub fn of_unknown(cpu: u32, node: u32) -> Self {
        let cpu = u64::from(cpu);
        Self::new(cpu, cpu, u64::from(node))
    }

    /// Returns the place of a CPU that is online, from its place so far and from those of `others`,
    /// for each of which `share` returns whether they share a core, or else, a last-level cache.
    ///
    /// Once it is known it stays, so that it is right while the CPU is offline, too.
    pub fn learned<C>(
        self,
        others: impl Iterator<Item = (C, Self)>,
        share: impl Fn(C) -> Option<Distance>,
    ) -> Self {
        if self.is_known() {
            return self;
        }
        let (mut core, mut llc) = (self.core(), self.llc());
        for (other, place) in others.filter(|(_, place)| place.is_known()) {
            match share(other) {
                Some(Distance::Core) => {
                    (core, llc) = (place.core(), place.llc());
                    break;
                }
                Some(_) => llc = place.llc(),
                None => {}
            }
        }
        Self(Self::new(core, llc, self.node()).0 | Self::KNOWN)
    }

    fn is_known(self) -> bool {
        self.0 & Self::KNOWN != 0
    }

    fn core(self) -> u64 {
        self.0 & Self::MASK
    }

    fn node(self) -> u64 {
        (self.0 >> Self::NODE) & Self::MASK
    }

    fn llc(self) -> u64 {
        (self.0 >> Self::LLC) & Self::MASK
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

    /// Returns the place as a number, for [`Place::from_bits`].
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Creates a place from what [`Place::bits`] returned.
    #[inline(always)]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}
