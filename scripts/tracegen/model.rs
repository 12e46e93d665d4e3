// SPDX-License-Identifier: GPL-2.0

//! A declaration that has been checked: what the printers print.

use crate::types::Type;

/// The lines of a doc comment.
pub(crate) type Docs = Vec<String>;

/// A trace system.
#[derive(Debug)]
pub(crate) struct System {
    /// Its name, the folder below `events/` in tracefs.
    pub(crate) name: String,
    /// Its enums.
    pub(crate) enums: Vec<Enum>,
    /// Its event classes, those with a single event as well.
    pub(crate) classes: Vec<Class>,
}

impl System {
    /// The name of the header, without the `.h`.
    pub(crate) fn header_stem(&self) -> String {
        format!("{}_trace", self.name)
    }

    /// The C functions that the kernel calls before an event gets its first listener, and when it
    /// has lost its last.
    pub(crate) fn hooks(&self) -> [String; 2] {
        ["reg", "unreg"].map(|hook| format!("{}_trace_{hook}", self.name))
    }

    /// The C variable with the static key that is on while any event is in use.
    pub(crate) fn any(&self) -> String {
        format!("{}_trace_any", self.name)
    }

    /// The struct of that variable.
    pub(crate) fn any_key(&self) -> String {
        self.any() + "_key"
    }

    /// All events with their classes, in the order the header has them.
    pub(crate) fn events(&self) -> impl Iterator<Item = (&Class, &Event)> {
        self.classes
            .iter()
            .flat_map(|class| class.events.iter().map(move |event| (class, event)))
    }

    /// Whether a field of an event has this type.
    pub(crate) fn uses(&self, ty: Type) -> bool {
        let mut fields = self.classes.iter().flat_map(|class| &class.fields);
        fields.any(|field| field.ty == ty)
    }
}

/// A set of named values.
#[derive(Debug)]
pub(crate) struct Enum {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name in Rust.
    pub(crate) name: String,
    /// Its name in C.
    pub(crate) c_name: String,
    /// Its values.
    pub(crate) variants: Vec<Variant>,
}

/// One of the values of an enum.
#[derive(Debug)]
pub(crate) struct Variant {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name in Rust.
    pub(crate) name: String,
    /// Its name in C.
    pub(crate) c_name: String,
    /// Its number in a record.
    pub(crate) value: u8,
    /// Its printed form.
    pub(crate) text: String,
}

/// What the records of one or more events look like.
#[derive(Debug)]
pub(crate) struct Class {
    /// What its events have in common.
    pub(crate) docs: Docs,
    /// Its name, that of the event if it is the event's own.
    pub(crate) name: String,
    /// Its name in C.
    pub(crate) c_name: String,
    /// Whether it was declared as a class, to be shared.
    pub(crate) shared: bool,
    /// The fields, in the order of the arguments.
    pub(crate) fields: Vec<Field>,
    /// The printed form.
    pub(crate) print: Vec<Piece>,
    /// The events of this class; at least one.
    pub(crate) events: Vec<Event>,
}

impl Class {
    /// The fields in the order of a record, in which no two have a hole between them.
    pub(crate) fn record(&self) -> Vec<&Field> {
        let mut fields: Vec<_> = self.fields.iter().collect();
        // The sort is stable, so fields of the same alignment stay as declared.
        fields.sort_by_key(|field| std::cmp::Reverse(field.ty.align()));
        fields
    }
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: String,
}

/// A field of an event.
#[derive(Debug)]
pub(crate) struct Field {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    pub(crate) ty: Type,
}

/// A piece of a printed form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text, printed as it is.
    Text(String),
    /// The field with this index in its class.
    Field(usize),
}
