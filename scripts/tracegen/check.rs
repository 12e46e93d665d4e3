// SPDX-License-Identifier: GPL-2.0

//! Checks what a declaration means, and makes the model of it.

use std::collections::{HashMap, HashSet};

use crate::model::{Class, Docs, Enum, Event, Field, Piece, System, Variant};
use crate::names::{self, snake_case, upper_case};
use crate::print_form;
use crate::source::{Diagnostic, Span, Spanned};
use crate::syntax::{Body, ClassDecl, Declaration, EnumDecl, EventDecl, FieldDecl, Name, Shape};
use crate::types::Type;

/// How many arguments a tracepoint can have: BPF programs on raw tracepoints get no more, and
/// `include/trace/bpf_probe.h` does not compile with more.
const MAX_FIELDS: usize = 12;

/// Checks `declaration`, and gives its model or all that is wrong with it.
pub(crate) fn check(declaration: &Declaration) -> Result<System, Vec<Diagnostic>> {
    let mut checker = Checker::default();
    let system = checker.system(declaration);
    if checker.diagnostics.is_empty() {
        return Ok(system);
    }
    checker.diagnostics.sort_by_key(Diagnostic::position);
    Err(checker.diagnostics)
}

/// What has been found wrong so far.
#[derive(Default)]
struct Checker {
    /// In the order of the checks.
    diagnostics: Vec<Diagnostic>,
}

impl Checker {
    /// Notes that something is wrong.
    fn complain(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(span, message));
    }

    /// Notes that something is wrong, and what to do about it.
    fn complain_with_help(&mut self, span: Span, message: String, help: impl Into<String>) {
        let diagnostic = Diagnostic::new(span, message).with_help(help);
        self.diagnostics.push(diagnostic);
    }

    /// Checks a whole trace system.
    fn system(&mut self, declaration: &Declaration) -> System {
        self.c_name("trace system", &declaration.system);
        let system = declaration.system.value.clone();

        self.unique("enums", declaration.enums.iter().map(|it| &it.name));
        let enums: Vec<_> = declaration
            .enums
            .iter()
            .map(|decl| self.enumeration(decl, &system))
            .collect();
        self.unique_constants(&declaration.enums, &enums);

        self.unique("classes", declaration.classes.iter().map(|it| &it.name));
        self.unique("events", declaration.events.iter().map(|it| &it.name));
        self.no_query_clash(&declaration.events);

        let mut classes: Vec<_> = declaration
            .classes
            .iter()
            .map(|decl| self.class(decl, &enums, &system))
            .collect();
        for event in &declaration.events {
            self.event(event, &enums, &mut classes);
        }
        for decl in &declaration.classes {
            let name = &decl.name.value;
            let mut shared = classes.iter().filter(|class| class.shared);
            if !shared.any(|class| class.name == *name && !class.events.is_empty()) {
                let message = format!("class `{name}` has no events");
                let help = format!("declare one: `event name: {name};`");
                self.complain_with_help(decl.name.span, message, help);
            }
        }
        if declaration.events.is_empty() {
            let message = format!("trace system `{system}` has no events");
            self.complain(declaration.system.span, message);
        }
        let system = System {
            name: system,
            enums,
            classes,
        };
        self.no_key_clash(&declaration.enums, &system);
        system
    }

    /// Checks an enum.
    fn enumeration(&mut self, decl: &EnumDecl, system: &str) -> Enum {
        let name = &decl.name;
        self.docs("enum", name, &decl.docs);
        if !names::is_type_name(&name.value) || Type::built_in(&name.value).is_some() {
            let message = format!("`{}` cannot be the name of an enum", name.value);
            self.complain_with_help(name.span, message, "enums are named LikeThis");
        }
        if decl.variants.is_empty() {
            self.complain(name.span, format!("enum `{}` has no values", name.value));
        }
        self.unique("values", decl.variants.iter().map(|it| &it.name));

        let c_name = format!("{system}_{}", snake_case(&name.value));
        let mut numbers = HashMap::new();
        let mut texts = HashMap::new();
        let mut variants = Vec::new();
        for variant in &decl.variants {
            let name = &variant.name;
            self.docs("value", name, &variant.docs);
            if !names::is_type_name(&name.value) {
                let message = format!("`{}` cannot be the name of a value", name.value);
                self.complain_with_help(name.span, message, "values are named LikeThis");
            }
            let number = variant.value.value;
            if let Some(other) = numbers.insert(number, &name.value) {
                let message = format!("`{other}` and `{}` are both {number}", name.value);
                self.complain(variant.value.span, message);
            }
            let text = &variant.text;
            self.plain_text(text);
            if text.value.is_empty() {
                self.complain(text.span, "a value needs a printed form");
            } else if let Some(other) = texts.insert(&text.value, &name.value) {
                let message = format!(
                    "`{other}` and `{}` are both printed as \"{}\"",
                    name.value, text.value
                );
                self.complain(text.span, message);
            }
            let value = u8::try_from(number).unwrap_or_else(|_| {
                let message = format!("{number} is too large: an enum is stored in one byte");
                self.complain(variant.value.span, message);
                u8::MAX
            });
            variants.push(Variant {
                docs: variant.docs.clone(),
                name: name.value.clone(),
                c_name: upper_case(&format!("{c_name}_{}", snake_case(&name.value))),
                value,
                text: text.value.clone(),
            });
        }
        Enum {
            docs: decl.docs.clone(),
            name: name.value.clone(),
            c_name,
            variants,
        }
    }

    /// Checks a class.
    fn class(&mut self, decl: &ClassDecl, enums: &[Enum], system: &str) -> Class {
        self.docs("class", &decl.name, &decl.docs);
        self.c_name("class", &decl.name);
        let (fields, print) = self.body(&decl.name, &decl.body, enums);
        Class {
            docs: decl.docs.clone(),
            name: decl.name.value.clone(),
            // Plain names could be taken in the kernel's headers.
            c_name: format!("{system}_{}", decl.name.value),
            shared: true,
            fields,
            print,
            events: Vec::new(),
        }
    }

    /// Checks an event and puts it into its class, an existing or a new one.
    fn event(&mut self, decl: &EventDecl, enums: &[Enum], classes: &mut Vec<Class>) {
        self.docs("event", &decl.name, &decl.docs);
        self.c_name("event", &decl.name);
        let event = Event {
            docs: decl.docs.clone(),
            name: decl.name.value.clone(),
        };
        match &decl.shape {
            Shape::Own(body) => {
                let (fields, print) = self.body(&decl.name, body, enums);
                // In C such an event is a class as well.
                let mut shared = classes.iter().filter(|class| class.shared);
                if let Some(class) = shared.find(|class| class.c_name == event.name) {
                    let message = format!("class `{}` is `{}` in C, too", class.name, event.name);
                    self.complain(decl.name.span, message);
                }
                classes.push(Class {
                    docs: Docs::new(),
                    name: event.name.clone(),
                    c_name: event.name.clone(),
                    shared: false,
                    fields,
                    print,
                    events: vec![event],
                });
            }
            Shape::Class(name) => {
                let mut shared = classes.iter_mut().filter(|class| class.shared);
                match shared.find(|class| class.name == name.value) {
                    Some(class) => class.events.push(event),
                    None => {
                        let message = format!("there is no class `{}`", name.value);
                        self.complain(name.span, message);
                    }
                }
            }
        }
    }

    /// Checks the fields and the printed form of the class or event `owner`.
    fn body(&mut self, owner: &Name, body: &Body, enums: &[Enum]) -> (Vec<Field>, Vec<Piece>) {
        self.unique("fields", body.fields.iter().map(|it| &it.name));
        if body.fields.is_empty() {
            // The macros that define a tracepoint cannot do without an argument.
            let message = format!("`{}` has no fields, it needs at least one", owner.value);
            self.complain(owner.span, message);
        }
        if let Some(first_excess) = body.fields.get(MAX_FIELDS) {
            let message = format!(
                "`{}` has {} fields, a tracepoint has at most {MAX_FIELDS}",
                owner.value,
                body.fields.len()
            );
            let help = "BPF programs on raw tracepoints get no more arguments";
            self.complain_with_help(first_excess.name.span, message, help);
        }
        let fields: Vec<_> = body
            .fields
            .iter()
            .map(|decl| self.field(decl, enums))
            .collect();

        self.plain_text(&body.print);
        let known: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        let print = print_form::parse(&body.print, &known, &mut self.diagnostics);
        for (index, decl) in body.fields.iter().enumerate() {
            let name = &decl.name.value;
            // Of two fields with one name, which is wrong anyway, the first is printed.
            let printed = known
                .iter()
                .position(|other| other == name)
                .unwrap_or(index);
            if !print.contains(&Piece::Field(printed)) {
                let message = format!("field `{name}` is missing from the printed form");
                let help = format!("add `{name}={{{name}}}` to it");
                self.complain_with_help(decl.name.span, message, help);
            }
        }
        (fields, print)
    }

    /// Checks a field.
    fn field(&mut self, decl: &FieldDecl, enums: &[Enum]) -> Field {
        let name = &decl.name;
        self.docs("field", name, &decl.docs);
        self.c_name("field", name);
        if names::is_taken_field(&name.value) {
            let message = format!("a field cannot be called `{}`", name.value);
            let help = "the kernel's tracing uses the name itself";
            self.complain_with_help(name.span, message, help);
        }
        let declared = || enums.iter().position(|it| it.name == decl.ty.value);
        let ty = Type::built_in(&decl.ty.value).or_else(|| declared().map(Type::Enum));
        if ty.is_none() {
            let message = format!("unknown type `{}`", decl.ty.value);
            let mut help = format!("there are {}", Type::BUILT_IN);
            for it in enums {
                help += &format!(", `{}`", it.name);
            }
            self.complain_with_help(decl.ty.span, message, help);
        }
        self.unit(decl, ty);
        Field {
            docs: decl.docs.clone(),
            name: name.value.clone(),
            // No output is written after a complaint, so any type will do.
            ty: ty.unwrap_or(Type::Bool),
        }
    }

    /// Checks that a field's name says nanoseconds when its type does, and the other way round.
    fn unit(&mut self, decl: &FieldDecl, ty: Option<Type>) {
        let (name, ty_name) = (&decl.name.value, &decl.ty.value);
        match (ty, name.ends_with("_ns")) {
            (Some(Type::Ns), false) => {
                let message = format!("`{name}` is an `Ns`, so its name has to end in `_ns`");
                let help = format!("the unit belongs in the name: `{name}_ns`");
                self.complain_with_help(decl.name.span, message, help);
            }
            (Some(Type::Int { .. }), true) => {
                let message =
                    format!("`{name}` is in nanoseconds, but `{ty_name}` does not say so");
                self.complain_with_help(decl.ty.span, message, "use `Ns`");
            }
            _ => {}
        }
    }

    /// Checks that an item is documented.
    fn docs(&mut self, what: &str, name: &Name, docs: &Docs) {
        if docs.iter().all(|line| line.is_empty()) {
            let message = format!("{what} `{}` has no doc comment", name.value);
            self.complain_with_help(name.span, message, "say what it means, with `///`");
        }
        if docs.iter().any(|line| line.contains("*/")) {
            let message = format!("the doc comment of `{}` would end a C comment", name.value);
            self.complain_with_help(name.span, message, "take out the `*/`");
        }
    }

    /// Checks that a name can be one in C and in Rust.
    fn c_name(&mut self, what: &str, name: &Name) {
        if !names::is_c_name(&name.value) {
            let message = format!("`{}` cannot be the name of this {what}", name.value);
            let help = "it is a name in C and in Rust: lower case, like_this, and no keyword";
            self.complain_with_help(name.span, message, help);
        }
    }

    /// Checks that no two names are the same.
    fn unique<'a>(&mut self, what: &str, names: impl Iterator<Item = &'a Name>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(&name.value) {
                let message = format!("there are two {what} called `{}`", name.value);
                self.complain(name.span, message);
            }
        }
    }

    /// Checks that values of different enums have different names in C.
    fn unique_constants(&mut self, declarations: &[EnumDecl], enums: &[Enum]) {
        let mut seen = HashMap::new();
        for (decl, it) in declarations.iter().zip(enums) {
            for (variant_decl, variant) in decl.variants.iter().zip(&it.variants) {
                let other = seen.insert(&variant.c_name, &it.name);
                if let Some(other) = other.filter(|other| **other != it.name) {
                    let message = format!("enum `{other}` has a `{}` in C, too", variant.c_name);
                    self.complain(variant_decl.name.span, message);
                }
            }
        }
    }

    /// Checks that no enum is called like the struct with the static key in C, where both are tags.
    fn no_key_clash(&mut self, declarations: &[EnumDecl], system: &System) {
        for (decl, it) in declarations.iter().zip(&system.enums) {
            if it.c_name == system.any_key() {
                let message = format!("there is a `struct {}` in C, too", it.c_name);
                self.complain(decl.name.span, message);
            }
        }
    }

    /// Checks that no event is called like the function that asks whether another is enabled.
    fn no_query_clash(&mut self, events: &[EventDecl]) {
        for event in events {
            let queried = event.name.value.strip_suffix("_enabled");
            if events
                .iter()
                .any(|other| Some(other.name.value.as_str()) == queried)
            {
                let message = format!(
                    "`trace_{}()` already asks whether another event is enabled",
                    event.name.value
                );
                self.complain(event.name.span, message);
            }
        }
    }

    /// Checks that a string means the same in Rust, in C and to those who parse `format` files.
    fn plain_text(&mut self, text: &Spanned<String>) {
        let plain = |c: char| c == ' ' || c.is_ascii_graphic() && c != '\\';
        if let Some((at, odd)) = text.value.char_indices().find(|&(_, c)| !plain(c)) {
            // The text starts after the opening quote.
            let start = text.span.start + 1 + at;
            let span = Span {
                start,
                end: start + odd.len_utf8(),
            };
            let message = "only printable ASCII is allowed here, and no backslash";
            self.complain(span, message);
        }
    }
}
