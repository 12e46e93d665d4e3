// SPDX-License-Identifier: GPL-2.0

//! Numbers of variable length: seven bits to a byte, the lowest first, as in LEB128 and protobuf.

pub fn write(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps numbers of small magnitude to small ones without a sign.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}
