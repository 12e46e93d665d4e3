// SPDX-License-Identifier: GPL-2.0

//! A hash of what users choose, such as the names of threads and the paths of cgroups.

// Deprecated only in favour of one that `core` lacks.
#[allow(deprecated)]
use core::hash::{
    Hasher,
    SipHasher, //
};

/// The secret of a hash table. Without it nobody can find keys that collide.
///
/// The hash is SipHash-2-4. A secret alone would not do: of an arithmetic hash, such as a
/// multiplication, there are keys that collide with most secrets.
#[derive(Clone, Copy, Debug)]
pub struct Secret([u64; 2]);

impl Secret {
    /// Creates a secret from random numbers.
    pub const fn new(random: [u64; 2]) -> Self {
        Self(random)
    }

    /// Returns the hash of `bytes`.
    #[inline]
    #[allow(deprecated)]
    pub fn hash(self, bytes: &[u8]) -> u64 {
        let Self([first, second]) = self;
        let mut hasher = SipHasher::new_with_keys(first, second);
        hasher.write(bytes);
        hasher.finish()
    }
}
