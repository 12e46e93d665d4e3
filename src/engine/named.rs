// SPDX-License-Identifier: GPL-2.0

//! Enums whose values have names.

/// Declares an enum from a table with one row per value: `Value => "name";`, or with help texts
/// `Value => "name", "help";`.
///
/// Values are numbered from 0 in the order of the rows. `scripts/tracegen` also reads the tables,
/// for the trace events: it looks for the lines `named! {` and `}`.
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
            /// Returns the help text: one line without backslashes or quotation marks.
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

            /// All values, in the order in which the files show them.
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
