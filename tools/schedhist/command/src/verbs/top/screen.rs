// SPDX-License-Identifier: GPL-2.0

//! What a terminal can show: styles and characters.

use ratatui::{
    buffer::Buffer,
    style::{Color, Style, Stylize},
    text::Span,
};

/// The number of levels of a heat map.
pub const LEVELS: u8 = 8;

/// How many colours a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    None,
    /// Those of a text console.
    Eight,
    /// The palette of 256.
    Many,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub colours: Colours,
    /// Whether there are characters beyond ASCII.
    pub unicode: bool,
}

impl Look {
    /// Returns a colour: of the palette, or of eight. Each is of middle lightness, and so can be
    /// read on white and on black.
    fn colour(self, number: u8, of_eight: Color) -> Style {
        match self.colours {
            Colours::Many => Style::new().fg(Color::Indexed(number)),
            Colours::Eight => Style::new().fg(of_eight),
            Colours::None => Style::new(),
        }
    }

    /// What explains. Faint text is hard to read on many terminals.
    pub fn dim(self) -> Style {
        self.colour(244, Color::Reset)
    }

    pub fn warn(self) -> Style {
        self.colour(166, Color::Red).bold()
    }

    pub fn good(self) -> Style {
        self.colour(29, Color::Green).bold()
    }

    /// A class of tasks: own, other, kernel, idle. Blue, orange, olive, grey: distinct to
    /// colour-blind people; headings say the same.
    pub fn class(self, class: usize) -> Style {
        let class = class.min(3);
        let eight = [Color::Blue, Color::Red, Color::Magenta, Color::Reset];
        self.colour([32, 166, 136, 244][class], eight[class])
    }

    /// Returns the character and the style of a level of a heat map, from 0, which is empty, to
    /// [`LEVELS`]. The tail stands out.
    pub fn level(self, level: u8, is_tail: bool) -> (char, Style) {
        let all = match self.unicode {
            false => " .:-=+*#@",
            true => " ░░▒▒▓▓██",
        };
        let level = level.min(LEVELS);
        let shade = all.chars().nth(level.into()).unwrap_or(' ');
        let style = match is_tail {
            true => self.colour(202, Color::Red).bold(),
            // Two colours to a shade, the lighter one for more, and so alike that white suits, too.
            false => self.colour(if level % 2 == 0 { 33 } else { 32 }, Color::Blue),
        };
        // A single sample of the tail is what one looks for.
        match (is_tail && level > 0, self.unicode) {
            (true, true) if level < 5 => ('▓', style),
            _ => (shade, style),
        }
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
