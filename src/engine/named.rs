// SPDX-License-Identifier: GPL-2.0

//! Enums whose values have names.

/// Declares an enum by a table, which has a row for each value: `Value => "name";`, or with help
/// texts `Value => "name", "help";`.
///
/// The values count from 0 in the order of the rows. `scripts/tracegen` reads the tables, too, for
/// the trace events: it looks for the lines `named! {` and `}`.
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident {
            $($(#[$doc:meta])* $Value:ident => $name:literal, $help:literal;)*
        }
    ) => {
        $crate::engine::named::named! {
            $(#[$meta])*
            pub enum $Name {
                $($(#[$doc])* $Value => $name;)*
            }
        }

        impl $Name {
            /// Returns what is shown as help: one line without backslash and quotation mark.
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$Value => $help,)*
                }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $Name:ident {
            $($(#[$doc:meta])* $Value:ident => $name:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Name {
            $($(#[$doc])* $Value,)*
        }

        impl $Name {
            /// The number of values.
            pub const COUNT: usize = Self::ALL.len();

            /// All values, in the order in which they are shown.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$Value),*];

            /// Returns the name that the files and the trace events use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)*
                }
            }
        }
    };
}

pub(in crate::engine) use named;
