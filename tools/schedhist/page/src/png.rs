// SPDX-License-Identifier: GPL-2.0

//! PNG images with sixteen colours, of which the first one is transparent.

use std::io::Write;

use base64::{engine::general_purpose::STANDARD, Engine};
use flate2::{write::ZlibEncoder, Compression, Crc};

/// A palette: the colours 1 to 15, each red, green and blue.
pub type Palette = [[u8; 3]; 15];

/// Colours for a light background: a few samples are pale, many are dark. Lightness alone tells
/// them apart, so that colour-blind people and printers see the same.
pub const LIGHT: Palette = ramp([
    [0xbd, 0xd7, 0xee],
    [0x7f, 0xb6, 0xdd],
    [0x3f, 0x8f, 0xc4],
    [0x0f, 0x52, 0x9a],
    [0x2a, 0x0a, 0x4a],
]);

/// Colours for a dark background: a few samples are dark, many are light.
pub const DARK: Palette = ramp([
    [0x2a, 0x3f, 0x7c],
    [0x1c, 0x5d, 0x99],
    [0x2f, 0x9d, 0xb0],
    [0xb9, 0xd7, 0x6a],
    [0xff, 0xf6, 0xc4],
]);

/// Returns fifteen colours along a line through five of them.
const fn ramp(stops: [[u8; 3]; 5]) -> Palette {
    let mut palette = [[0; 3]; 15];
    let mut i = 0;
    while i < 15 {
        // In units of 1/14 of a quarter.
        let at = i * 4;
        let (stop, rest) = if at >= 56 {
            (3, 14)
        } else {
            (at / 14, at % 14)
        };
        let mut channel = 0;
        while channel < 3 {
            let from = stops[stop][channel] as usize * (14 - rest);
            let to = stops[stop + 1][channel] as usize * rest;
            palette[i][channel] = ((from + to) / 14) as u8;
            channel += 1;
        }
        i += 1;
    }
    palette
}

/// Returns the colour of a value from 0 to 1.
pub fn level(share: f64) -> u8 {
    // Saturates.
    1 + (share.clamp(0.0, 1.0) * 14.0).round() as u8
}

/// Returns an image as the URL that holds it. `pixels` has the colours row by row, from 0 to 15.
pub fn data_url(width: usize, pixels: &[u8], palette: &Palette) -> String {
    let width = width.max(1);
    let height = pixels.len() / width;
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = Vec::new();
    header.extend((width as u32).to_be_bytes());
    header.extend((height as u32).to_be_bytes());
    // Four bits a pixel, with a palette.
    header.extend([4, 3, 0, 0, 0]);
    chunk(&mut png, b"IHDR", &header);
    let mut colours = vec![0; 3];
    colours.extend(palette.iter().flatten());
    chunk(&mut png, b"PLTE", &colours);
    chunk(&mut png, b"tRNS", &[0]);
    let mut lines = ZlibEncoder::new(Vec::new(), Compression::default());
    for line in pixels.chunks_exact(width) {
        // No filter.
        let pairs = line.chunks(2);
        let pairs = pairs.map(|two| (two[0] << 4) | two.get(1).copied().unwrap_or_default());
        let line: Vec<_> = [0].into_iter().chain(pairs).collect();
        // Writing to a Vec does not fail.
        let _ = lines.write_all(&line);
    }
    chunk(&mut png, b"IDAT", &lines.finish().unwrap_or_default());
    chunk(&mut png, b"IEND", &[]);
    format!("data:image/png;base64,{}", STANDARD.encode(&png))
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    png.extend((data.len() as u32).to_be_bytes());
    let begin = png.len();
    png.extend(kind);
    png.extend(data);
    let mut crc = Crc::new();
    crc.update(&png[begin..]);
    png.extend(crc.sum().to_be_bytes());
}
