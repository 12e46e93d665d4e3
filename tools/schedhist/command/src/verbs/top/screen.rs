// SPDX-License-Identifier: GPL-2.0

//! What a terminal can show: styles and characters.

use ratatui::{
    buffer::Buffer,
    style::{Color, Style, Stylize},
    text::Span,
};

/// The number of levels of a heat map.
pub const LEVELS: u8 = 8;

/// The colours of the levels, from few samples to many, in the palette of 256 colours. They grow
/// lighter from one to the next, so that colour-blind people see the same order.
const RAMP: [u8; LEVELS as usize] = [25, 31, 37, 42, 78, 149, 191, 229];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether there are 256 colours.
    pub colours: bool,
    /// Whether there are characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    fn colour(self, number: u8) -> Style {
        match self.colours {
            true => Style::new().fg(Color::Indexed(number)),
            false => Style::new(),
        }
    }

    /// What explains. Faint text is hard to read on many terminals.
    pub fn dim(self) -> Style {
        self.colour(245)
    }

    pub fn warn(self) -> Style {
        self.colour(208).bold()
    }

    /// A class of tasks: own, other, kernel, idle. Blue, orange, yellow, grey: distinct to
    /// colour-blind people; headings say the same.
    pub fn class(self, class: usize) -> Style {
        self.colour([33, 208, 220, 245][class.min(3)])
    }

    /// Returns the character and the style of a level of a heat map, from 0, which is empty, to
    /// [`LEVELS`].
    pub fn level(self, level: u8) -> (char, Style) {
        let all = match self {
            Self { unicode: false, .. } => " .:-=+*#@",
            Self { colours: true, .. } => " ████████",
            _ => " ░░▒▒▒▓▓█",
        };
        let level = usize::from(level.min(LEVELS));
        let shade = all.chars().nth(level).unwrap_or(' ');
        (shade, self.colour(RAMP[level.saturating_sub(1)]))
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

/// Returns a text in a style. Characters that may not be one column wide, and all that are no ASCII
/// in names, become `?`.
pub fn span(text: &str, style: Style) -> Span<'static> {
    let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
    Span::styled(text.replace(|c| !is_plain(c), "?"), style)
}

/// Returns the text of a screen without styles, a line each.
pub fn plain(screen: &Buffer) -> String {
    let lines = screen.content.chunks(usize::from(screen.area.width).max(1));
    lines.fold(String::new(), |mut out, line| {
        out.extend(line.iter().map(|cell| cell.symbol()));
        out.truncate(out.trim_end_matches(' ').len());
        out + "\n"
    })
}
