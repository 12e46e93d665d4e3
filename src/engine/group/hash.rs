// SPDX-License-Identifier: GPL-2.0

//! A hash of what users choose, such as the names of threads and the paths of cgroups.

/// The secret of a hash table. Without it nobody can find keys that collide.
///
/// The hash is SipHash-1-3, as in the kernel's `hsiphash()` on 64-bit machines, which is meant for
/// hash tables. A secret alone would not do: of an arithmetic hash, such as a multiplication, there
/// are keys that collide with most secrets.
#[derive(Clone, Copy, Debug)]
pub struct Secret([u64; 2]);

impl Secret {
    /// Creates a secret from random numbers.
    pub const fn new(random: [u64; 2]) -> Self {
        Self(random)
    }

    /// Returns the hash of `bytes`.
    #[inline]
    pub fn hash(self, bytes: &[u8]) -> u64 {
        let Self([first, second]) = self;
        let mut state = State([
            first ^ 0x736f_6d65_7073_6575,
            second ^ 0x646f_7261_6e64_6f6d,
            first ^ 0x6c79_6765_6e65_7261,
            second ^ 0x7465_6462_7974_6573,
        ]);
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            // Cannot fail: there are 8 bytes.
            state.absorb(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(words.remainder()) {
            *to = *from;
        }
        last[7] = bytes.len() as u8;
        state.absorb(u64::from_le_bytes(last));
        state.finish()
    }
}

struct State([u64; 4]);

impl State {
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        for _ in 0..3 {
            self.round();
        }
        let Self([a, b, c, d]) = self;
        a ^ b ^ c ^ d
    }

    #[inline(always)]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.0;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.0 = [a, b, c, d];
    }
}
