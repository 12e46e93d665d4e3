// SPDX-License-Identifier: GPL-2.0

//! A screen of cells, and the least output that shows it.

use std::fmt::Write;

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As the terminal has it.
    #[default]
    Plain,
    /// What matters.
    Bold,
    /// What explains.
    Dim,
    /// A bar at the top, or what is selected.
    Reverse,
    /// Something is wrong.
    Warn,
    /// A class of tasks: own, other, kernel, idle.
    Class(u8),
    /// A level of a heat map, from 1 to [`LEVELS`].
    Level(u8),
}

/// The number of levels of a heat map.
pub const LEVELS: u8 = 8;

/// The colours of the levels, from few samples to many, in the palette of 256 colours. They grow
/// lighter from one to the next, so that colour-blind people see the same order.
const RAMP: [u8; LEVELS as usize] = [25, 31, 37, 42, 78, 149, 191, 229];

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether there are 256 colours.
    pub colours: bool,
    /// Whether there are characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    /// Returns the character of a level of a heat map; 0 is empty.
    pub fn shade(self, level: u8) -> char {
        let all = match self {
            Self { unicode: false, .. } => " .:-=+*#@",
            Self { colours: true, .. } => " ████████",
            _ => " ░░▒▒▒▓▓█",
        };
        all.chars().nth(usize::from(level)).unwrap_or(' ')
    }

    /// Returns the character of a height, from 0 to 8.
    pub fn height(self, height: usize) -> char {
        let all = if self.unicode {
            " ▁▂▃▄▅▆▇█"
        } else {
            " .,-~=+*#"
        };
        all.chars().nth(height.min(8)).unwrap_or(' ')
    }
}

/// A screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// The number of columns.
    pub width: usize,
    /// The number of lines.
    pub height: usize,
    cells: Vec<(char, Style)>,
}

impl Screen {
    /// Creates an empty screen.
    pub fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            cells: vec![(' ', Style::Plain); width * height],
        }
    }

    /// Writes text; cuts what does not fit. Returns the column after it. Characters that may not be
    /// one column wide, and all that are no ASCII in names, become `?`.
    pub fn text(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        let mut x = x;
        for c in text.chars() {
            let c = if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            };
            x = self.put(x, y, c, style);
        }
        x
    }

    /// Writes a character that is one column wide. Returns the column after it.
    pub fn put(&mut self, x: usize, y: usize, c: char, style: Style) -> usize {
        if x < self.width && y < self.height {
            self.cells[y * self.width + x] = (c, style);
        }
        x + 1
    }

    /// Gives a whole line a style.
    pub fn line(&mut self, y: usize, style: Style) {
        if y < self.height {
            let cells = &mut self.cells[y * self.width..(y + 1) * self.width];
            cells.iter_mut().for_each(|cell| cell.1 = style);
        }
    }

    fn row(&self, y: usize) -> &[(char, Style)] {
        &self.cells[y * self.width..(y + 1) * self.width]
    }

    /// Returns the text without styles, a line each.
    pub fn plain(&self) -> String {
        let mut out = String::new();
        for y in 0..self.height {
            let line: String = self.row(y).iter().map(|(c, _)| *c).collect();
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// Returns the output that changes `old` into this screen; all of it, if there is none.
    pub fn update(&self, old: Option<&Self>, look: Look) -> String {
        let mut out = String::new();
        let old = old.filter(|old| old.width == self.width && old.height == self.height);
        if old.is_none() {
            out.push_str("\x1b[0m\x1b[2J");
        }
        for y in 0..self.height {
            let row = self.row(y);
            if old.is_some_and(|old| old.row(y) == row) {
                continue;
            }
            let _ = write!(out, "\x1b[{};1H", y + 1);
            let mut last = None;
            for (c, style) in row {
                if last != Some(*style) {
                    out.push_str("\x1b[0");
                    codes(&mut out, *style, look);
                    out.push('m');
                    last = Some(*style);
                }
                out.push(*c);
            }
            out.push_str("\x1b[0m");
        }
        out
    }
}

/// Appends the parameters of a style, each after a semicolon.
fn codes(out: &mut String, style: Style, look: Look) {
    let colour = |out: &mut String, number: u8| {
        if look.colours {
            let _ = write!(out, ";38;5;{number}");
        }
    };
    match style {
        Style::Plain => {}
        Style::Bold => out.push_str(";1"),
        // Faint text is hard to read on many terminals.
        Style::Dim => colour(out, 245),
        Style::Reverse => out.push_str(";7"),
        Style::Warn => {
            out.push_str(";1");
            colour(out, 208);
        }
        // Blue, orange, yellow, grey: distinct to colour-blind people; letters say the same.
        Style::Class(class) => colour(out, [33, 208, 220, 245][usize::from(class).min(3)]),
        Style::Level(level) => colour(out, RAMP[usize::from(level.clamp(1, LEVELS)) - 1]),
    }
}
