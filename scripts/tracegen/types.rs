// SPDX-License-Identifier: GPL-2.0

//! The types a field can have, and how C and Rust write them.

use crate::model::Enum;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// `i8` to `i64`, `u8` to `u64`.
    Int {
        /// Whether it can be negative.
        signed: bool,
        /// Its width.
        bits: u32,
    },
    /// `bool`
    Bool,
    /// `Ns`, a duration or a time in nanoseconds.
    Ns,
    /// `Pid`, a thread id.
    Pid,
    /// `Cpu`, the number of a CPU.
    Cpu,
    /// `Comm`, the name of a task.
    Comm,
    /// The enum with this index in the model.
    Enum(usize),
}

impl Type {
    /// The types that are not declared, for messages.
    pub(crate) const BUILT_IN: &'static str =
        "`i8` to `i64`, `u8` to `u64`, `bool`, `Ns`, `Pid`, `Cpu`, `Comm`";

    /// The type called `name` in a declaration, unless that is an enum.
    pub(crate) fn built_in(name: &str) -> Option<Self> {
        let int = |signed, bits| Some(Self::Int { signed, bits });
        match name {
            "i8" => int(true, 8),
            "i16" => int(true, 16),
            "i32" => int(true, 32),
            "i64" => int(true, 64),
            "u8" => int(false, 8),
            "u16" => int(false, 16),
            "u32" => int(false, 32),
            "u64" => int(false, 64),
            "bool" => Some(Self::Bool),
            "Ns" => Some(Self::Ns),
            "Pid" => Some(Self::Pid),
            "Cpu" => Some(Self::Cpu),
            "Comm" => Some(Self::Comm),
            _ => None,
        }
    }

    /// What the field is aligned to in a record, in bytes.
    pub(crate) fn align(self) -> u32 {
        match self {
            Self::Int { bits, .. } => bits / 8,
            Self::Ns => 8,
            Self::Pid | Self::Cpu => 4,
            Self::Bool | Self::Comm | Self::Enum(_) => 1,
        }
    }

    /// The type in C, as a field of a record.
    fn c_type(self) -> &'static str {
        match self {
            Self::Int { signed: true, bits } => match bits {
                8 => "s8",
                16 => "s16",
                32 => "int",
                _ => "s64",
            },
            Self::Int {
                signed: false,
                bits,
            } => match bits {
                8 => "u8",
                16 => "u16",
                32 => "unsigned int",
                _ => "u64",
            },
            Self::Bool => "bool",
            Self::Ns => "u64",
            Self::Pid => "pid_t",
            Self::Cpu => "unsigned int",
            Self::Comm => "char",
            Self::Enum(_) => "u8",
        }
    }

    /// The declaration of an argument called `name` in C.
    pub(crate) fn c_parameter(self, name: &str, enums: &[Enum]) -> String {
        match self {
            Self::Comm => format!("const char *{name}"),
            Self::Enum(index) => format!("enum {} {name}", enums[index].c_name),
            _ => format!("{} {name}", self.c_type()),
        }
    }

    /// The field of a record in C.
    pub(crate) fn c_field(self, name: &str) -> String {
        match self {
            Self::Comm => format!("__array(char, {name}, TASK_COMM_LEN)"),
            _ => format!("__field({}, {name})", self.c_type()),
        }
    }

    /// The size that the field of a record must have in C.
    pub(crate) fn c_size(self) -> String {
        match self {
            Self::Comm => "TASK_COMM_LEN".into(),
            // A number is aligned to its size.
            _ => self.align().to_string(),
        }
    }

    /// The statements that fill the field of a record in C.
    pub(crate) fn c_assign(self, name: &str) -> Vec<String> {
        match self {
            Self::Comm => vec![
                format!("memcpy(__entry->{name}, {name}, TASK_COMM_LEN);"),
                // The emitters are safe to call with any bytes, so do not rely on the last one.
                format!("__entry->{name}[TASK_COMM_LEN - 1] = '\\0';"),
            ],
            _ => vec![format!("__entry->{name} = {name};")],
        }
    }

    /// What `printk` is to do with the field.
    pub(crate) fn c_conversion(self) -> &'static str {
        match self {
            Self::Int {
                signed: true,
                bits: 64,
            } => "%lld",
            Self::Int {
                signed: false,
                bits: 64,
            }
            | Self::Ns => "%llu",
            Self::Int { signed: true, .. } | Self::Bool | Self::Pid => "%d",
            Self::Int { signed: false, .. } | Self::Cpu => "%u",
            Self::Comm | Self::Enum(_) => "%s",
        }
    }

    /// The field of a record as an argument of `printk`.
    pub(crate) fn c_print(self, name: &str, enums: &[Enum]) -> String {
        match self {
            Self::Int {
                signed: true,
                bits: 64,
            } => format!("(long long)__entry->{name}"),
            Self::Int {
                signed: false,
                bits: 64,
            }
            | Self::Ns => format!("(unsigned long long)__entry->{name}"),
            Self::Enum(index) => format!("show_{}(__entry->{name})", enums[index].c_name),
            _ => format!("__entry->{name}"),
        }
    }

    /// The type of an emitter's argument in Rust.
    pub(crate) fn rust_parameter(self, enums: &[Enum]) -> String {
        match self {
            Self::Comm => "&[kernel::ffi::c_char; TASK_COMM_LEN]".into(),
            Self::Enum(index) => enums[index].name.clone(),
            _ => self.rust_ffi(),
        }
    }

    /// The type of the C function's argument in Rust.
    pub(crate) fn rust_ffi(self) -> String {
        match self {
            Self::Int { signed, bits } => format!("{}{bits}", if signed { 'i' } else { 'u' }),
            Self::Bool => "bool".into(),
            Self::Ns => "u64".into(),
            Self::Pid => "kernel::task::Pid".into(),
            Self::Cpu | Self::Enum(_) => "u32".into(),
            Self::Comm => "*const kernel::ffi::c_char".into(),
        }
    }

    /// The C function's argument in Rust, made from the emitter's.
    pub(crate) fn rust_argument(self, name: &str) -> String {
        match self {
            Self::Comm => format!("{name}.as_ptr()"),
            Self::Enum(_) => format!("{name} as u32"),
            _ => name.into(),
        }
    }
}
