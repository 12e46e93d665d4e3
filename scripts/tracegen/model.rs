// SPDX-License-Identifier: GPL-2.0

//! The model of a declaration.

use std::rc::Rc;

/// The lines of a doc comment.
pub(crate) type Docs = Vec<String>;

/// A trace system.
pub(crate) struct System {
    /// The folder below `events/` in tracefs.
    pub(crate) name: String,
    /// Whether the module wants to know about listeners before an event can be emitted.
    pub(crate) is_hooked: bool,
    /// The enums that fields have as their types.
    pub(crate) enums: Vec<Rc<Enum>>,
    pub(crate) classes: Vec<Class>,
}

/// A set of named values, which count from 0.
#[derive(PartialEq)]
pub(crate) struct Enum {
    /// In the form `LikeThis`.
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
}

impl Enum {
    /// Returns its name in C.
    pub(crate) fn c_name(&self, system: &System) -> String {
        format!("{}{}", system.name, snake_case(&self.name))
    }
}

/// A value of an enum.
#[derive(PartialEq)]
pub(crate) struct Value {
    /// In the form `LikeThis`.
    pub(crate) name: String,
    /// The text that is printed for it.
    pub(crate) text: String,
}

impl Value {
    /// Returns its name in C; `of` is the C name of its enum.
    pub(crate) fn c_name(&self, of: &str) -> String {
        format!("{of}{}", snake_case(&self.name)).to_uppercase()
    }
}

/// Returns `LikeThis` as `_like_this`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// The fields and the format of one or more events.
pub(crate) struct Class {
    pub(crate) docs: Docs,
    /// Its own name if it is shared, or else that of its event.
    pub(crate) name: String,
    /// Whether it was declared as a class.
    pub(crate) is_shared: bool,
    /// In the order of the declaration.
    pub(crate) fields: Vec<Field>,
    /// The format of `printk()`.
    pub(crate) format: String,
    /// The arguments of the format, as indices of fields.
    pub(crate) printed: Vec<usize>,
    pub(crate) events: Vec<Event>,
}

impl Class {
    /// Returns its name in C.
    pub(crate) fn c_name(&self, system: &System) -> String {
        match self.is_shared {
            // The prefix allows an event to have the same name as its class.
            true => format!("{}_{}", system.name, self.name),
            false => self.name.clone(),
        }
    }

    /// Returns the field that perf takes as the weight of an event.
    pub(crate) fn weight(&self) -> Option<&Field> {
        self.fields.iter().find(|field| field.is_weight)
    }

    /// Returns the fields that are arguments, in their order.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.computed.is_none())
    }

    /// Returns the fields in the order of a record: by alignment, so that there are no holes.
    pub(crate) fn record(&self) -> Vec<&Field> {
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by_key(|field| std::cmp::Reverse(field.ty.align()));
        fields
    }
}

/// An event.
pub(crate) struct Event {
    pub(crate) docs: Docs,
    pub(crate) name: String,
}

/// A field of an event.
pub(crate) struct Field {
    pub(crate) docs: Docs,
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Whether perf takes the value as the weight of the event.
    pub(crate) is_weight: bool,
    /// What it is computed from, if it is no argument.
    pub(crate) computed: Option<Computed>,
}

/// What a field is computed from.
pub(crate) enum Computed {
    /// The difference of two arguments.
    Difference(String, String),
    /// The CPU that writes the record.
    ThisCpu,
}

/// The type of a field.
pub(crate) enum Type {
    /// A number.
    Number(&'static Number),
    /// `Comm`, the name of a task.
    Comm,
    /// An enum, which is stored in one byte.
    Enum(Rc<Enum>),
}

/// A type of numbers.
#[derive(PartialEq)]
pub(crate) struct Number {
    /// Its name in a declaration.
    pub(crate) name: &'static str,
    /// Its size and alignment.
    pub(crate) size: usize,
    pub(crate) c: &'static str,
    pub(crate) rust: &'static str,
    /// How `printk()` prints it.
    pub(crate) conversion: &'static str,
}

#[rustfmt::skip]
const NUMBERS: &[Number] = &[
    Number { name: "bool", size: 1, c: "bool", rust: "bool", conversion: "%d" },
    Number { name: "i32", size: 4, c: "int", rust: "i32", conversion: "%d" },
    Number { name: "i64", size: 8, c: "s64", rust: "i64", conversion: "%lld" },
    Number { name: "u32", size: 4, c: "unsigned int", rust: "u32", conversion: "%u" },
    Number { name: "u64", size: 8, c: "u64", rust: "u64", conversion: "%llu" },
    Number { name: "Cpu", size: 4, c: "unsigned int", rust: "u32", conversion: "%u" },
    Number { name: "Ns", size: 8, c: "u64", rust: "u64", conversion: "%llu" },
    Number { name: "Pid", size: 4, c: "pid_t", rust: "kernel::task::Pid", conversion: "%d" },
];

impl Type {
    /// Returns the type called `name` in a declaration.
    pub(crate) fn new(name: &str, enums: &[Rc<Enum>]) -> Option<Self> {
        if name == "Comm" {
            return Some(Self::Comm);
        }
        let number = NUMBERS.iter().find(|number| number.name == name);
        let declared = || enums.iter().find(|it| it.name == name).cloned();
        number
            .map(Self::Number)
            .or_else(|| declared().map(Self::Enum))
    }

    /// Returns its alignment in a record.
    pub(crate) fn align(&self) -> usize {
        match self {
            Self::Number(number) => number.size,
            Self::Comm | Self::Enum(_) => 1,
        }
    }
}
